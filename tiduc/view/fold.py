"""fold: simplifies a picture. Repeated sequences of ops (stretches) become one box, and ops that reshape become labels.

    x -> broadcast_in_dim -> multiply     ->     x --(broadcast)--> multiply
    [a b c] [a b c] [a b c]               ->     A -> A -> A,  and a scene A: a b c
    A -> A -> ... -> A                    ->     one box, and a scene with all of them

Folding consecutive ops of the program creates no cycle, because no path can leave such a stretch and enter it again.
"""

import itertools
import string
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from tiduc.view.label import SHAPE_OPS, clipped
from tiduc.view.repeats import RepeatedStretch, find_repeat
from tiduc.view.scene import OPS, Arrow, Box, Picture, Scene, moved

MAP = "map"
SHORTEST = 4  # the fewest boxes in a fold
WORTH = 6  # the fewest boxes that a fold must save
SHARE = 100  # a fold must also save 1/SHARE of the scene's boxes, so that a large scene has few folds
LARGE = 24  # the most boxes of a scene that is not folded
ROW = 16  # the fewest adjacent equal folds that become one box
CROWDED = 60  # the most boxes of a scene in which all inputs have boxes, even those that only one fold reads
_LINE = 600  # characters of a tooltip
_IN_TITLE = 4  # op names in a fold's description
_FREQUENT = {"add", "multiply", "subtract", "divide", "select", "slice", "transpose", "maximum", *SHAPE_OPS}


def fold(picture: Picture, large: int = LARGE) -> None:
    """Folds scenes with more than `large` boxes, in place: reshaping ops become labels, and repeats become folds."""
    names = _names()
    move_onto_arrows(picture, [scene for scene in picture.scenes.values() if len(scene.boxes) > large])
    waiting = list(picture.scenes.values())
    while waiting:
        scene = waiting.pop(0)
        while len(scene.boxes) > large and (folded := _fold_once(picture, scene, names)) is not None:
            waiting.append(folded)
            fold_rows(picture, scene)
    for scene in picture.scenes.values():
        if len(scene.boxes) > CROWDED:
            drop_inputs_of_one_fold(picture, scene)


def add_map(picture: Picture, names: list[str]) -> str:
    """Adds a scene with one box per graph. Arrows count the values that graphs read. Returns the name."""
    scene = Scene(MAP, "map", "all graphs")
    owner = picture.owner()
    for name in names:
        of = picture.scenes[name]
        activity = {box.activity for box in of.boxes.values() if box.kind in OPS}
        most = next((a for a in ("linear", "active") if a in activity), "inactive")
        said = f"{len(of.boxes)} boxes"
        scene.boxes[name] = Box(f"map {name}", "fold", of.title, (), said, most, of.place, opens=(name,))
        read: dict[tuple[str, str], set[tuple[str, int]]] = {}
        for arrow in of.arrows:
            if arrow.source not in of.boxes:
                read.setdefault((owner[arrow.source], arrow.kind), set()).add((arrow.source, arrow.result))
        for (graph, kind), values in read.items():
            label = f"{len(values)} value{'s' * (len(values) > 1)}"
            scene.arrows.append(Arrow(f"map {graph}", f"map {name}", 0, 0, kind, label))
    scene.boxes = {box.id: box for box in scene.boxes.values()}
    scene.arrows = [arrow for arrow in scene.arrows if arrow.source in scene.boxes]
    picture.scenes[MAP] = scene
    return MAP


# ---- shapes onto arrows ------------------------------------------------------------------------------------------


def move_onto_arrows(picture: Picture, scenes: list[Scene]) -> None:
    """Removes ops that only change a value's shape or type, and adds their names to the labels of the arrows."""
    quiet: dict[str, tuple[Arrow, Box]] = {}
    for scene in scenes:
        into = scene.into()
        for box in scene.boxes.values():
            arrows = into.get(box.id, ())
            if box.kind == "op" and box.name in SHAPE_OPS and len(arrows) == 1 and arrows[0].kind == "value":
                quiet[box.id] = arrows[0], box
    read = {arrow.source for scene in picture.scenes.values() for arrow in scene.arrows}
    quiet = {
        id_: label for id_, label in quiet.items() if id_ in read
    }  # an op without readers has no arrow to label
    for scene in picture.scenes.values():
        scene.arrows = [_past(arrow, quiet) for arrow in scene.arrows if arrow.target not in quiet]
        scene.boxes = {id_: box for id_, box in scene.boxes.items() if id_ not in quiet}


def _past(arrow: Arrow, quiet: dict[str, tuple[Arrow, Box]]) -> Arrow:
    """The arrow from the nearest source that is not removed. Its label has the removed ops."""
    passed = []
    while arrow.source in quiet:
        before, box = quiet[arrow.source]
        passed.append(box)
        arrow = replace(arrow, source=before.source, result=before.result)
    return replace(arrow, label=_arrow_label(passed[::-1])) if passed else arrow


def _arrow_label(passed: list[Box]) -> str:
    """The label of an arrow: the removed ops, without those that repeat the previous one, and the final shape."""
    names = [box.name.removesuffix("_in_dim") for box in passed]
    short = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    return f"{', '.join(short)} {passed[-1].types[0]}"


# ---- repeated stretches ------------------------------------------------------------------------------------------


def _fold_once(picture: Picture, scene: Scene, names: Iterator[str]) -> Scene | None:
    """Folds the repeated stretch with the highest worth. Returns the fold's scene, or None if no fold saves enough."""
    boxes = [box for box in scene.boxes.values() if box.kind in OPS or box.kind == "constant"]
    position = {box.id: i for i, box in enumerate(boxes)}
    into = scene.into()

    def cut(start: int, end: int) -> int:
        return _cut(boxes, position, into, start, end)

    letters = [_letter(box) for box in boxes]
    for i, (one, other) in enumerate(itertools.pairwise(boxes)):
        # No stretch may contain a part of a row that `fold_rows` will merge.
        if one.kind == "fold" and _letter(one) == _letter(other):
            letters[i] = one.id
            letters[i + 1] = other.id
    candidate = find_repeat(letters, SHORTEST, cut)
    if candidate is None:
        return None
    stretches = [[box.id for box in boxes[s : s + candidate.length]] for s in candidate.starts]
    alike = _alike(stretches, into)
    repeat = RepeatedStretch(
        candidate.length, tuple(s for s, same in zip(candidate.starts, alike, strict=True) if same)
    )
    if repeat.worth < max(WORTH, len(boxes) // SHARE) or len(repeat.starts) < 2:
        return None
    name = next(names)
    stretches = [ids for ids, same in zip(stretches, alike, strict=True) if same]
    inner = _inner(scene, name, f"{name}, {len(stretches)} times in {scene.title}", stretches)
    picture.scenes[inner.name] = inner
    labels = [f"{name} ({i + 1} of {len(stretches)})" for i in range(len(stretches))]
    _replace(
        picture, scene, inner, labels, stretches, [_operands(scene, inner, ids, into) for ids in stretches]
    )
    return inner


def _operands(
    scene: Scene, inner: Scene, ids: list[str], into: dict[str, list[Arrow]]
) -> tuple[tuple[str, str, str], ...]:
    """The `operands` of a stretch's box: for each value that it reads, the box in `inner`, the name and the type."""
    bodies = [box for box in inner.boxes.values() if box.kind in OPS or box.kind == "constant"]
    of_inner = inner.into()
    named: dict[str, tuple[str, str, str]] = {}
    for body, id_ in zip(bodies, ids, strict=True):
        for first, arrow in zip(of_inner.get(body.id, ()), into.get(id_, ()), strict=False):
            stands_for, read = inner.boxes.get(first.source), scene.boxes.get(arrow.source)
            if stands_for is not None and stands_for.kind == "outer" and read is not None:
                types = read.types[arrow.result : arrow.result + 1]
                named.setdefault(stands_for.id, (stands_for.id, read.symbol or read.name, "".join(types)))
    return tuple(named.values())


def fold_rows(picture: Picture, scene: Scene) -> None:
    """Merges many adjacent folds of one kind into one box, as for a network of a hundred layers."""
    boxes = [box for box in scene.boxes.values() if box.kind in OPS or box.kind == "constant"]
    for opens, group in itertools.groupby(boxes, lambda box: box.opens if box.kind == "fold" else ()):
        ids = [box.id for box in group]
        if not opens or len(ids) < ROW:
            continue
        name = opens[0].rpartition("/")[2]
        inner = _inner(scene, f"{name} from {ids[0]}", f"{name}, {len(ids)} in a row in {scene.title}", [ids])
        picture.scenes[inner.name] = inner
        _replace(picture, scene, inner, [f"{name}, {len(ids)} in a row"], [ids])


def fold_stretch(picture: Picture, scene: Scene, name: str, title: str, label: str, ids: list[str]) -> Scene:
    """Replaces consecutive boxes of a scene by one box with this label. Returns the scene that the box opens."""
    inner = _inner(scene, name, title, [ids])
    picture.scenes[inner.name] = inner
    _replace(picture, scene, inner, [label], [ids])
    return inner


def drop_inputs_of_one_fold(picture: Picture, scene: Scene) -> None:
    """Removes inputs that only one fold reads. The fold shows the number of its inputs, and its tooltip their names."""
    readers: dict[str, list[Arrow]] = {}
    for arrow in (arrow for of in picture.scenes.values() for arrow in of.arrows):
        readers.setdefault(arrow.source, []).append(arrow)
    bound = {arrow.target for arrow in scene.arrows if arrow.kind == "bind"}
    taken: dict[str, list[str]] = {}
    for box in list(scene.boxes.values()):
        into = {arrow.target for arrow in readers.get(box.id, ())}
        target = scene.boxes.get(next(iter(into), ""))
        if box.kind not in ("input", "outer") or len(into) != 1 or box.id in bound:
            continue
        if target is not None and target.kind == "fold":
            taken.setdefault(target.id, []).append(box.name)
            del scene.boxes[box.id]
    scene.arrows = [
        arrow
        for arrow in scene.arrows
        if arrow.source in scene.boxes or arrow.kind not in ("value", "captured")
    ]
    for id_, names in taken.items():
        fold = scene.boxes[id_]
        said = f"{fold.detail}; {len(names)} input{'s' * (len(names) > 1)}"
        scene.boxes[id_] = replace(fold, detail=said, text=clipped(f"reads {', '.join(names)}", _LINE))


def _letter(box: Box) -> Hashable:
    if box.kind == "fold":  # without `detail`, because folds of one kind are equal
        return box.kind, box.types, box.activity, box.opens
    return box.kind, box.name, box.types, box.detail, box.activity, box.opens


def _cut(
    boxes: list[Box], position: dict[str, int], into: dict[str, list[Arrow]], start: int, end: int
) -> int:
    """The number of values that enter a stretch from other ops."""
    sources = {
        (arrow.source, arrow.result)
        for box in boxes[start:end]
        for arrow in into.get(box.id, ())
        if arrow.source in position and not start <= position[arrow.source] < end
    }
    return len(sources)


def _alike(stretches: list[list[str]], into: dict[str, list[Arrow]]) -> list[bool]:
    """For each stretch, whether the arrows inside it are connected as in most stretches."""

    def shape(ids: list[str]) -> Hashable:
        at = {box: i for i, box in enumerate(ids)}
        return tuple(
            tuple(
                (at.get(a.source, -1), a.slot, a.result if a.source in at else 0) for a in into.get(box, ())
            )
            for box in ids
        )

    shapes = [shape(ids) for ids in stretches]
    ((most, _),) = Counter(shapes).most_common(1)
    return [each == most for each in shapes]


def _inner(scene: Scene, name: str, title: str, stretches: list[list[str]]) -> Scene:
    """The scene of the first stretch, with boxes for the values that enter and leave it."""
    first = set(stretches[0])
    inner = Scene(f"{scene.name}/{name}", "fold", title)
    sources: dict[tuple[str, int], str] = {}
    for arrow in scene.arrows:
        if arrow.target in first and arrow.source not in first:
            if arrow.kind == "external":
                inner.arrows.append(arrow)
                continue
            key = arrow.source, arrow.result
            if key not in sources:
                box = scene.boxes[arrow.source]
                id_ = f"{box.id}.{name}.{arrow.result}"
                types = box.types[arrow.result : arrow.result + 1]
                said = box.symbol or box.name
                inner.boxes[id_] = replace(
                    box, id=id_, kind="outer", name=said, detail="", types=types, opens=(), text=""
                )
                sources[key] = id_
            inner.arrows.append(moved(arrow, source=sources[key]))
    inner.boxes |= {box: scene.boxes[box] for box in stretches[0]}
    inner.arrows += [a for a in scene.arrows if a.source in first and a.target in first]
    leaving = {(a.source, a.result): a for a in scene.arrows if a.source in first and a.target not in first}
    for (source, result), arrow in leaving.items():
        box = scene.boxes[source]
        id_ = f"{box.id}.{name}.out{result}"
        types = box.types[result : result + 1]
        inner.boxes[id_] = Box(id_, "output", "out", types, activity=box.activity)
        inner.arrows.append(moved(arrow, target=id_))
    inner.place = scene.boxes[stretches[0][0]].place
    return inner


def _replace(
    picture: Picture,
    scene: Scene,
    inner: Scene,
    labels: list[str],
    stretches: list[list[str]],
    operands: Sequence[tuple[tuple[str, str, str], ...]] = (),
) -> None:
    """Replaces each stretch by one box. Arrows from the stretch to other scenes then start at that box."""
    stands_for: dict[str, str] = {}
    folds: dict[str, Box] = {}
    of = {id_: i for i, ids in enumerate(stretches) for id_ in ids}
    leaving = {a.source for a in scene.arrows if a.source in of and of[a.source] != of.get(a.target)}
    for i, (label, ids) in enumerate(zip(labels, stretches, strict=True)):
        fold = _box([scene.boxes[id_] for id_ in ids], leaving, inner, label)
        fold = replace(fold, operands=operands[i] if operands else ())
        folds[ids[0]] = fold
        stands_for |= dict.fromkeys(ids, fold.id)
    boxes: dict[str, Box] = {}
    for id_, box in scene.boxes.items():
        if id_ in folds:
            boxes[folds[id_].id] = folds[id_]
        elif id_ not in stands_for:
            boxes[id_] = box
    scene.boxes = boxes
    kept: dict[Arrow, None] = {}
    for arrow in scene.arrows:
        source, target = stands_for.get(arrow.source), stands_for.get(arrow.target)
        if source is None or source != target:
            kept.setdefault(_merged(arrow, source, target))
    scene.arrows = list(kept)
    for other in picture.scenes.values():
        if other is not scene and other is not inner:
            other.arrows = [
                _merged(a, stands_for[a.source], None) if a.source in stands_for else a for a in other.arrows
            ]


def _merged(arrow: Arrow, source: str | None, target: str | None) -> Arrow:
    """The arrow with `source` and `target`, where given, as its new ends. These are folds.

    A fold has no numbered results and no slots, so both numbers become 0; an arrow to a fold also loses its label.
    """
    if source is None and target is None:
        return arrow
    return replace(
        moved(arrow, source, target),
        slot=0 if target else arrow.slot,
        result=0 if source else arrow.result,
        label="" if target else arrow.label,
    )


def _box(boxes: list[Box], leaving: set[str], inner: Scene, label: str) -> Box:
    """The box of a fold of these boxes.

    Its types are those of the boxes in `leaving`: these boxes have readers outside the fold.
    """
    types = tuple(t for box in boxes if box.id in leaving for t in box.types)
    said = list(dict.fromkeys(box.name for box in boxes if box.name.split()[0] not in _FREQUENT))
    said = (said or list(dict.fromkeys(box.name for box in boxes)))[:_IN_TITLE]
    kinds = {(box.kind, box.opens) if box.kind == "fold" else box.id for box in boxes}
    activity = {box.activity for box in boxes}
    places = [box.place for box in boxes if box.place]
    return Box(
        f"{boxes[0].id}.{inner.name.rpartition('/')[2].partition(' ')[0]}",
        "fold",
        label,
        types,
        f"{len(boxes)} ops: {', '.join(said)}, …" if len(kinds) > 1 else f"each {boxes[0].detail}",
        next((a for a in ("linear", "active") if a in activity), "inactive"),
        places[0] if places else "",
        "",
        "",
        (inner.name,),
    )


def _names() -> Iterator[str]:
    """The names A to Z, then A1 to Z1, and so on."""
    number = 0
    while True:
        yield from (f"{letter}{number or ''}" for letter in string.ascii_uppercase)
        number += 1
