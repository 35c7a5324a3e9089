"""listing: prints scenes as assignments, one line for each op. Values of other graphs are printed as references.

graph @main(a: f64, x: f64)
  v0: f64 = multiply(a, x)
  return v0

linear graph @L0(L0.x: f64)  # L0.x is ∂ @main::@x
  %0: f64 = multiply(@main::@a, L0.x)
  return %0  # ∂ @main::@v0
"""

from collections.abc import Iterator

from tiduc.view.scene import OPS, Arrow, Box, Picture, Scene


def listing(picture: Picture, names: list[str]) -> str:
    """Returns the text of the scenes `names` and of all scenes that their boxes open. Each scene occurs once."""
    owner = picture.owner()
    spelled = {box: text for scene in picture.scenes.values() for box, text in _spelled(scene).items()}
    return "\n".join(
        "\n".join(_lines(picture, scene, spelled, owner)) + "\n" for scene in picture.opened(names)
    )


def _spelled(scene: Scene) -> dict[str, str]:
    """Maps the id of each box of a scene to the text for its value.

    This is the symbol of the value, the name of an argument, or a number such as `%0`.
    """
    said, number = {}, 0
    for box in scene.boxes.values():
        if box.kind in OPS or box.kind == "constant":
            said[box.id] = box.symbol or f"%{number}"
            number += not box.symbol
        else:
            said[box.id] = box.symbol or box.name
    return said


def _lines(picture: Picture, scene: Scene, spelled: dict[str, str], owner: dict[str, str]) -> Iterator[str]:
    into = scene.into()

    def read(arrow: Arrow) -> str:
        name = spelled[arrow.source]
        of = picture.scenes[owner[arrow.source]]
        if arrow.source not in scene.boxes:
            name = f"{of.name}::@{name}"
        return f"{name}#{arrow.result}" if len(of.boxes[arrow.source].types) > 1 else name

    inputs = [box for box in scene.boxes.values() if box.kind == "input"]
    notes = [f"{spelled[box.id]} is {box.detail}" for box in inputs if box.detail]
    bound = [a for box in inputs for a in into.get(box.id, ())]
    notes += [f"{spelled[a.target]} is {read(a)}" for a in bound]
    arguments = ", ".join(f"{spelled[box.id]}: {', '.join(box.types)}" for box in inputs)
    yield f"{scene.title}({arguments})" + (f"  # {'; '.join(notes)}" if notes else "")
    for box in scene.boxes.values():
        if box.kind in OPS or box.kind == "constant":
            operands = [read(arrow) for arrow in into.get(box.id, ()) if arrow.kind != "captured"]
            yield f"  {_assignment(box, spelled[box.id], operands)}"
    results = [box for box in scene.boxes.values() if box.kind == "output"]
    said = [next((read(arrow) for arrow in into.get(box.id, ())), box.detail) for box in results]
    yield f"  return {', '.join(said)}  # {', '.join(box.name for box in results)}"


def _assignment(box: Box, name: str, operands: list[str]) -> str:
    """Returns the line for one op.

    If the detail of the box begins with a parenthesis, it lists the operands: constants are written out, and each
    other operand is a dot. The names of operands then replace the dots.
    """
    listed, rest = f"({', '.join(operands)})", box.detail
    if box.detail.startswith("("):
        within, _, rest = box.detail.partition(")")
        if within.count("·") == len(operands):
            for operand in operands:
                within = within.replace("·", operand, 1)
            listed = f"{within})"
        else:
            rest = box.detail
    opens = " ".join(f"-> {opened}" for opened in box.opens if box.kind != "call")
    types = ", ".join(box.types)
    return "  ".join(part for part in (f"{name}: {types} = {box.name}{listed}", rest.strip(), opens) if part)
