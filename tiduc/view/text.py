"""text: prints scenes as trees, from results to operands. If several ops read a value, its operands are printed once.

    function @main  f.mlir:1:1
      result0 f64
        %2 exponential f64  active  :3:8
          %1 multiply f64  active  :2:8
            a f64
            x f64  active

The traversal is iterative, so that a chain of any length can be printed. Lines below level `DEEPEST` are not indented
further: they begin with the number of their level instead.
"""

from collections.abc import Iterator

from tiduc.view.dot import place
from tiduc.view.label import clipped
from tiduc.view.scene import OPS, Arrow, Box, Picture, Scene

DEEPEST = 40
_ATTRIBUTES = 100  # the length of the text of attributes, in characters


def text(picture: Picture, names: list[str], file: str = "") -> str:
    """Returns the text of the scenes `names` and of all scenes that their boxes open. Each scene occurs once."""
    return "\n".join("\n".join(_lines(picture, scene, file)) + "\n" for scene in picture.opened(names))


def _lines(picture: Picture, scene: Scene, file: str) -> Iterator[str]:
    yield scene.title + (f"  {place(scene.place, file)}" if scene.place else "")
    into = scene.into()
    said = _names(scene)
    foreign = {box.id: box for box in picture.boxes()} if any(_foreign(scene)) else {}
    owner = picture.owner() if foreign else {}
    seen: set[str] = set()
    for root in _roots(scene):
        stack: list[tuple[Box | None, Arrow | None, int]] = [(root, None, 1)]
        while stack:
            box, arrow, depth = stack.pop()
            if box is None:
                assert arrow is not None
                source = foreign[arrow.source]
                name = source.symbol or source.name
                yield f"{_indent(depth)}{owner[source.id]}::@{name}  [{arrow.kind}]"
                continue
            label = said[box.id] + (f" #{arrow.result}" if arrow and len(box.types) > 1 else "")
            then = f"  then {arrow.label}" if arrow and arrow.label else ""
            if box.id in seen:
                yield f"{_indent(depth)}{label}{'  [seen]' if box.kind in OPS else ''}{then}"
                continue
            seen.add(box.id)
            yield f"{_indent(depth)}{label} {_described(box, file)}".rstrip() + then
            for a in reversed(into.get(box.id, ())):
                stack.append((scene.boxes.get(a.source), a, depth + 1))


def _foreign(scene: Scene) -> Iterator[Arrow]:
    return (arrow for arrow in scene.arrows if arrow.source not in scene.boxes)


def _roots(scene: Scene) -> list[Box]:
    """Returns the roots of the trees: outputs, then other boxes without readers, such as ops with side effects.

    Inputs without readers are last.
    """
    read = {arrow.source for arrow in scene.arrows}
    outputs = [box for box in scene.boxes.values() if box.kind == "output"]
    unread = [box for box in scene.boxes.values() if box.kind != "output" and box.id not in read]
    return outputs + sorted(unread, key=lambda box: box.kind == "input")


def _names(scene: Scene) -> dict[str, str]:
    """Maps the id of each box to its name. The name of an op begins with its number in program order."""
    said, number = {}, 0
    for box in scene.boxes.values():
        if box.kind in OPS:
            said[box.id] = f"%{number} {box.name}"
            number += 1
        else:
            said[box.id] = box.name
    return said


def _described(box: Box, file: str) -> str:
    activity = "" if box.activity == "inactive" or box.kind == "output" else box.activity
    outside = "from outside" if box.kind == "outer" else ""
    where = place(box.place, file) if box.kind in OPS else ""
    opened = " ".join(f"-> {name}" for name in box.opens if f"call {name}" != box.name)
    parts = (", ".join(box.types), clipped(box.detail, _ATTRIBUTES), outside, activity, where, opened)
    return "  ".join(part for part in parts if part)


def _indent(depth: int) -> str:
    return "  " * depth if depth <= DEEPEST else "  " * DEEPEST + f"{depth}: "
