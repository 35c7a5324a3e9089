"""side_by_side: draws a program and its derivative side by side. Arrows between them are residuals.

    @main                 @T0
    x                     ∂x
    part 1  - - - - - ->  part 2
    part 2  - - - - - ->  part 1
    result                ∂result

Any other graph that the derivative reads is one box. Arrows into this box are not drawn. Arrows out of such boxes are
drawn only if they are few. A transposed graph is drawn from bottom to top, so that each of its ops is near the op of
the program that it differentiates.
"""

from collections import Counter
from dataclasses import dataclass

from tiduc.view.scene import Arrow, Box, Picture, Scene

OTHERS = "other graphs"
_ARROWS = 6  # arrows from other graphs are drawn only if a scene has at most this number of them


@dataclass(frozen=True)
class SideBySide:
    """A picture, and the names of the scenes to draw side by side.

    `upward` has the names of the scenes to draw from bottom to top. It is None if the scenes are not a program and its
    derivative.
    """

    picture: Picture
    names: tuple[str, ...]
    upward: frozenset[str] | None


def side_by_side(picture: Picture, names: list[str]) -> SideBySide | None:
    """Returns a new picture of the first graph in `names` and the last derivative in `names`, side by side.

    Returns None if `names` contains no derivative of another graph.
    """
    linear = [name for name in names if picture.scenes[name].kind in ("linear graph", "batched graph")]
    if not linear or linear[-1] == names[0]:
        return None
    first, last = names[0], linear[-1]
    others = [name for name in names if name not in (first, last)]
    stands_for = {box: f"graph {name}" for name in others for box in picture.scenes[name].boxes}
    stands_for |= _inputs_of_parts(picture.scenes[first])
    made = Picture(picture.title)
    for name in (first, last):
        of = picture.scenes[name]
        kept = {id_: box for id_, box in of.boxes.items() if id_ not in stands_for}
        inside = [arrow for arrow in of.arrows if arrow.source in kept and arrow.target in kept]
        crossing = [arrow for arrow in of.arrows if arrow.source not in of.boxes]
        counted = _merged_arrows(crossing, stands_for)
        made.scenes[name] = Scene(of.name, of.kind, of.title, kept, inside + counted, of.place)
    rest = Scene(OTHERS, "map", OTHERS)
    for name in others:
        of = picture.scenes[name]
        if any(arrow.source in of.boxes for arrow in picture.scenes[last].arrows) and len(of.boxes) > 1:
            box = Box(
                f"graph {name}", "fold", of.title, (), f"{len(of.boxes)} boxes", "linear", opens=(name,)
            )
            rest.boxes[box.id] = box
    if rest.boxes:
        made.scenes[OTHERS] = rest
    drawn = {box for scene in made.scenes.values() for box in scene.boxes}
    for scene in made.scenes.values():
        scene.arrows = [arrow for arrow in scene.arrows if arrow.source in drawn]
        from_others = {arrow for arrow in scene.arrows if arrow.source in rest.boxes}
        if len(from_others) > _ARROWS:
            scene.arrows = [arrow for arrow in scene.arrows if arrow not in from_others]
    upward = {last} if _runs_backward(made.scenes[first], made.scenes[last]) else set()
    order = [first, *([OTHERS] if rest.boxes else []), last]
    return SideBySide(made, tuple(order), frozenset(upward))


def _inputs_of_parts(scene: Scene) -> dict[str, str]:
    """Maps the id of each input that is read only by one part of the program to the id of this part."""
    readers: dict[str, set[str]] = {}
    for arrow in scene.arrows:
        readers.setdefault(arrow.source, set()).add(arrow.target)
    return {
        id_: part
        for id_, into in readers.items()
        if id_ in scene.boxes and scene.boxes[id_].kind == "input" and len(into) == 1
        if scene.boxes[part := next(iter(into))].kind == "fold"
    }


def _merged_arrows(arrows: list[Arrow], sources: dict[str, str]) -> list[Arrow]:
    """Replaces the sources of arrows by `sources`, and merges arrows of the same kind between the same two boxes.

    The label of a merged arrow is the number of values.
    """
    values = {(a.source, a.result, a.target, a.kind) for a in arrows}
    counts = Counter((sources.get(source, source), target, kind) for source, _, target, kind in values)
    return [
        Arrow(source, target, 0, 0, kind, f"{count} values" if count > 1 else "")
        for (source, target, kind), count in sorted(counts.items())
        if source != target
    ]


def _runs_backward(primal: Scene, derivative: Scene) -> bool:
    """Returns whether the derivative reads the values of the program mostly in reverse order.

    This is the case if the correlation of the two orders is negative.
    """
    at = {id_: i for i, id_ in enumerate(primal.boxes)}
    to = {id_: i for i, id_ in enumerate(derivative.boxes)}
    pairs = [(at[a.source], to[a.target]) for a in derivative.arrows if a.source in at and a.target in to]
    if not pairs:
        return False
    x, y = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return bool(sum((a - x) * (b - y) for a, b in pairs) < 0)
