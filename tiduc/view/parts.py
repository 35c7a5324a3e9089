"""split_into_parts: splits scenes that are too large to be legible in a window into parts of consecutive ops.

    x -> 40 ops -> result     ->     x -> part 1 -> part 2 -> ... -> part 8 -> result

The boundaries between parts are at positions where few values are live. A part that is still too large is split again.
"""

from dataclasses import replace

from tiduc.view.fold import drop_inputs_of_one_fold, fold_stretch
from tiduc.view.label import clipped
from tiduc.view.scene import OPS, Arrow, Box, Picture, Scene

FITS = 24  # a scene is split if it has more boxes
DEEP = 15  # a scene is also split if a path in it has more boxes
PARTS = 8  # the number of parts of a scene
_REACH = 0.4  # a boundary may be this far from where it makes parts equal, relative to the length of a part
_OUTPUTS = 4  # if more outputs are read from parts, they have no boxes
_INPUTS = 4  # if several parts read more inputs, the inputs share boxes


def split_into_parts(picture: Picture, scene: Scene, parts: int = PARTS, fits: int = FITS) -> None:
    """Splits a scene into parts, and the scenes of these parts again, until each scene is small enough. Works in place.

    A scene is small enough if it has at most `fits` boxes and a depth of at most `DEEP`.
    """
    waiting = [scene]
    while waiting:
        at = waiting.pop()
        if len(at.boxes) <= fits and depth(at) <= DEEP:
            continue
        made = _split(picture, at, parts)
        drop_inputs_of_one_fold(picture, at)
        _join_inputs(picture, at)
        _drop_outputs(at)
        waiting += made


def depth(scene: Scene) -> int:
    """Returns the number of boxes on the longest path in a scene."""
    into = scene.into()
    level: dict[str, int] = {}
    for box in scene.boxes.values():
        before = [
            level[a.source]
            for a in into.get(box.id, ())
            if a.source in level and a.kind in ("value", "captured")
        ]
        level[box.id] = 1 + max(before, default=0)
    return max(level.values(), default=0)


def _split(picture: Picture, scene: Scene, parts: int) -> list[Scene]:
    """Replaces the ops of a scene by parts. Returns the scenes of the parts."""
    ids = [box.id for box in scene.boxes.values() if box.kind in OPS or box.kind == "constant"]
    parts = min(parts, len(ids) // 2)
    if parts < 2:
        return []
    bounds = _bounds(scene, ids, parts)
    stretches = [ids[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    made = []
    several = [stretch for stretch in stretches if len(stretch) > 1]  # a single op stays an op
    for i, stretch in enumerate(several, 1):
        label = f"part {i} of {len(several)}"
        title = f"{label} of {scene.title}"
        made.append(fold_stretch(picture, scene, str(i), title, label, stretch))
    return made


def _bounds(scene: Scene, ids: list[str], parts: int) -> list[int]:
    """Returns the positions in `ids` where parts begin, and the position after the last op."""
    live = _live(scene, ids)
    size = len(ids) / parts
    bounds = [0]
    for i in range(1, parts):
        near = range(max(bounds[-1] + 1, int((i - _REACH) * size)), int((i + _REACH) * size) + 1)
        best = min(near, key=lambda at: (live[at], abs(at - i * size)), default=None)
        if best is not None and best < len(ids):
            bounds.append(best)
    return [*bounds, len(ids)]


def _live(scene: Scene, ids: list[str]) -> list[int]:
    """Returns, for each position, the number of values that are defined before it and read at it or later."""
    position = {id_: i for i, id_ in enumerate(ids)}
    last: dict[tuple[str, int], int] = {}
    for arrow in scene.arrows:
        if arrow.source in position:
            key = arrow.source, arrow.result
            last[key] = max(last.get(key, 0), position.get(arrow.target, len(ids)))
    change = [0] * (len(ids) + 2)
    for (source, _), end in last.items():
        change[position[source] + 1] += 1
        change[end + 1] -= 1
    live, now = [], 0
    for step in change:
        now += step
        live.append(now)
    return live


def _join_inputs(picture: Picture, scene: Scene) -> None:
    """If a scene has more than `_INPUTS` inputs, replaces them by one box for each activity.

    Inputs that other scenes read, or that are bound to a value, keep their boxes.
    """
    others = (arrow.source for of in picture.scenes.values() if of is not scene for arrow in of.arrows)
    shown = {*others, *(arrow.target for arrow in scene.arrows if arrow.kind == "bind")}
    inputs = [box for box in scene.boxes.values() if box.kind in ("input", "outer") and box.id not in shown]
    if len(inputs) <= _INPUTS:
        return
    joined: dict[str, list[Box]] = {}
    for box in inputs:
        joined.setdefault(box.activity, []).append(box)
    stands_for = {box.id: f"{scene.name} {of} inputs" for of, boxes in joined.items() for box in boxes}
    boxes = {
        (id_ := f"{scene.name} {of} inputs"): Box(
            id_, "input", f"{len(boxes)} inputs", detail=", ".join(box.name for box in boxes), activity=of
        )
        for of, boxes in joined.items()
    }
    scene.boxes = boxes | {id_: box for id_, box in scene.boxes.items() if id_ not in stands_for}
    arrows = [
        Arrow(stands_for[arrow.source], arrow.target) if arrow.source in stands_for else arrow
        for arrow in scene.arrows
    ]
    scene.arrows = list(dict.fromkeys(arrows))


def _drop_outputs(scene: Scene) -> None:
    """Removes the outputs of parts if there are more than `_OUTPUTS`.

    A part then shows the number of its outputs, and its tooltip lists their names.
    """
    by_part: dict[str, list[str]] = {}
    for arrow in scene.arrows:
        target, source = scene.boxes.get(arrow.target), scene.boxes.get(arrow.source)
        if target is not None and target.kind == "output" and source is not None and source.kind == "fold":
            by_part.setdefault(source.id, []).append(target.id)
    if sum(map(len, by_part.values())) <= _OUTPUTS:
        return
    for part, outputs in by_part.items():
        box = scene.boxes[part]
        names = ", ".join(scene.boxes[id_].name for id_ in outputs)
        count = f"{len(outputs)} output{'s' * (len(outputs) > 1)}"
        text = clipped(f"{box.text} gives {names}".strip(), 600)
        scene.boxes[part] = replace(box, detail=f"{box.detail}; {count}", text=text)
        for id_ in outputs:
            del scene.boxes[id_]
    scene.arrows = [arrow for arrow in scene.arrows if arrow.target in scene.boxes]
