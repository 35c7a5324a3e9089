"""fold: simplifies a picture. Repeated sequences of ops (stretches) become one box, and ops that reshape become labels.

    x -> broadcast_in_dim -> multiply     ->     x --(broadcast)--> multiply
    [a b c] [a b c] [a b c]               ->     A -> A -> A,  and a scene A with the boxes a b c
    A -> A -> ... -> A                    ->     one box, and a scene with all boxes A

The box of a stretch is called a fold. Folds create no cycle, because a stretch consists of consecutive ops of the
program, so that no path can leave a stretch and enter it again.
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
SHORTEST = 4  # a stretch has at least this number of boxes
WORTH = 6  # folding must save at least this number of boxes
SHARE = 100  # folding must also save 1/SHARE of the scene's boxes, so that a large scene has few folds
LARGE = 24  # a scene is folded only if it has more boxes
ROW = 16  # at least this number of adjacent equal folds become one box
CROWDED = 60  # in a scene with more boxes, inputs that only one fold reads have no boxes
_LINE = 600  # the length of a tooltip, in characters
_IN_TITLE = 4  # the number of op names in the description of a fold
_FREQUENT = {"add", "multiply", "subtract", "divide", "select", "slice", "transpose", "maximum", *SHAPE_OPS}


def fold(picture: Picture, large: int = LARGE) -> None:
    """Simplifies the scenes of the picture that have more than `large` boxes.

    Ops that reshape become labels of arrows, and stretches of ops that occur several times become folds.
    """
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
    """Adds a scene with one box for each graph in `names`, and returns its name.

    The label of an arrow is the number of values that one graph reads from another.
    """
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
    """Removes ops that only change the shape or type of a value. Their names become labels of arrows."""
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
    """Returns the arrow that starts at the nearest op that is not removed. Its label names the removed ops."""
    passed = []
    while arrow.source in quiet:
        before, box = quiet[arrow.source]
        passed.append(box)
        arrow = replace(arrow, source=before.source, result=before.result)
    return replace(arrow, label=_arrow_label(passed[::-1])) if passed else arrow


def _arrow_label(passed: list[Box]) -> str:
    """Returns the label of an arrow: the names of the removed ops, and the last op's type.

    If consecutive ops have equal names, the name is listed once.
    """
    names = [box.name.removesuffix("_in_dim") for box in passed]
    short = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    return f"{', '.join(short)} {passed[-1].types[0]}"


# ---- repeated stretches ------------------------------------------------------------------------------------------


def _fold_once(picture: Picture, scene: Scene, names: Iterator[str]) -> Scene | None:
    """Folds all occurrences of the stretch that saves the most boxes. Returns the scene that the folds open.

    Returns None if no stretch saves enough boxes.
    """
    boxes = [box for box in scene.boxes.values() if box.kind in OPS or box.kind == "constant"]
    position = {box.id: i for i, box in enumerate(boxes)}
    into = scene.into()

    def cut(start: int, end: int) -> int:
        return _cut(boxes, position, into, start, end)

    letters = [_letter(box) for box in boxes]
    for i, (one, other) in enumerate(itertools.pairwise(boxes)):
        # `fold_rows` will merge rows of adjacent equal folds. Distinct letters keep them out of stretches.
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
    """Returns the field `operands` of the fold of the stretch `ids`.

    For each value that the stretch reads, it has the box in the scene `inner` that represents the value, and the
    value's name and type.
    """
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
    """Merges at least `ROW` adjacent equal folds into one box, for example the layers of a very deep network."""
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
    """Replaces the consecutive boxes `ids` of a scene by one box with a label. Returns the scene that the box opens."""
    inner = _inner(scene, name, title, [ids])
    picture.scenes[inner.name] = inner
    _replace(picture, scene, inner, [label], [ids])
    return inner


def drop_inputs_of_one_fold(picture: Picture, scene: Scene) -> None:
    """Removes each input that is read only by one fold.

    The fold shows the number of these inputs, and its tooltip lists their names.
    """
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
    if box.kind == "fold":  # `detail` is ignored, because folds that open the same scene are equal
        return box.kind, box.types, box.activity, box.opens
    return box.kind, box.name, box.types, box.detail, box.activity, box.opens


def _cut(
    boxes: list[Box], position: dict[str, int], into: dict[str, list[Arrow]], start: int, end: int
) -> int:
    """Returns the number of values that a stretch reads from ops outside it."""
    sources = {
        (arrow.source, arrow.result)
        for box in boxes[start:end]
        for arrow in into.get(box.id, ())
        if arrow.source in position and not start <= position[arrow.source] < end
    }
    return len(sources)


def _alike(stretches: list[list[str]], into: dict[str, list[Arrow]]) -> list[bool]:
    """Returns, for each stretch, whether the arrows into its boxes connect it as they connect most of the stretches."""

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
    """Returns a new scene with the boxes of the first stretch, and boxes for its inputs and outputs."""
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
    """Replaces each stretch by one box. Arrows from the stretch to other scenes then start at this box."""
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
    """Returns the arrow with new ends. `source` and `target` are the ids of folds. None leaves an end unchanged.

    The result number of an arrow from a fold is 0. The operand number of an arrow to a fold is 0, and this arrow has no
    label.
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
    """Returns a fold for `boxes`. `leaving` has the ids of boxes that are read outside the fold.

    The types of the fold are the types of these boxes.
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
    """Yields the names A to Z, then A1 to Z1, and so on."""
    number = 0
    while True:
        yield from (f"{letter}{number or ''}" for letter in string.ascii_uppercase)
        number += 1
