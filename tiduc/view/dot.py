"""dot: writes scenes in Graphviz's language. The output has no coordinates, because Graphviz computes the layout."""

import html
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tiduc.dialect.errors import RequestError
from tiduc.dialect.ops.traits import ASSOCIATIVE
from tiduc.view.label import WIDTH, clipped
from tiduc.view.scene import OPS, Arrow, Box, Picture, Scene

TOGETHER = 90  # several scenes are drawn in one picture only if they have at most this number of boxes
NOTES = (
    80  # if a scene reads more values of other graphs, it has no note for each value: its notes state numbers
)
MOST = 2500  # Graphviz takes many minutes for a scene with more boxes
FONT = "Helvetica,Arial,sans-serif"
COLOURS = {
    "active": ("#b35900", "#fdebd3"),
    "linear": ("#1f5fa8", "#dcebfb"),
    "inactive": ("#8a8a8a", "#f4f4f4"),
}
"""The border and fill colours of a box, by activity. People with red-green colour blindness can tell them apart."""

ALARM = "#c00000"
"""The colour of the border of a box that has a value with a NaN or an infinity."""

_TYPES = 2  # the box of a fold shows at most this number of types
GREY, DARK = "#6b6b6b", "#1d1d1d"
MEANING = {
    "active": "a tangent reaches it",
    "linear": "a tangent or cotangent",
    "inactive": "no tangent reaches it",
}
_SHAPES = {
    "input": "box",
    "output": "box",
    "outer": "plain",
    "fold": "box3d",
    "call": "box",
    "constant": "plain",
}


def dot(
    picture: Picture,
    names: Iterable[str],
    file: str = "",
    legend: bool = True,
    separate: bool = False,
    upward: Collection[str] | None = None,
) -> str:
    """Writes the scenes `names`, side by side, in Graphviz's language.

    An arrow from a scene that is not in `names` starts at a note that names the value. With `separate`, every arrow
    between scenes starts at a note. If `upward` is not None, all scenes begin at the same height, and the scenes in
    `upward` are drawn from bottom to top.
    """
    scenes = [picture.scenes[name] for name in names]
    lines = [
        "digraph tiduc {",
        f'  graph [fontname="{FONT}" fontsize=13 fontcolor="{DARK}" rankdir=TB ranksep=0.35 nodesep=0.2 '
        "splines=true compound=true bgcolor=transparent pad=0.2 newrank=true];",
        f'  node [fontname="{FONT}" fontsize=11 fontcolor="{DARK}" margin="0.09,0.05" height=0.2 style=filled];',
        f'  edge [fontname="{FONT}" fontsize=10 fontcolor="{GREY}" color="#7d7d7d" arrowsize=0.6];',
    ]
    drawn = {box for scene in scenes for box in scene.boxes}
    for number, scene in enumerate(scenes):
        near = set(scene.boxes) if separate else drawn
        upwards = upward is not None and scene.name in upward
        lines += _scene(picture, scene, number, file, near, len(scenes) > 1, upward is not None, upwards)
    if legend:
        lines += _legend(scenes)
    lines.append("}")
    return "\n".join(lines) + "\n"


def is_large(picture: Picture, names: Iterable[str]) -> bool:
    """Returns whether the scenes together have too many boxes for one picture."""
    return sum(len(picture.scenes[name].boxes) for name in names) > TOGETHER


def check_size(picture: Picture, names: Iterable[str]) -> None:
    """Raises `RequestError` if Graphviz would need many minutes to draw one of the scenes."""
    for name in names:
        count = len(picture.scenes[name].boxes)
        if count > MOST:
            raise RequestError(
                f"{picture.scenes[name].title} has {count} boxes after folding, and more than {MOST} take "
                "too long to draw; choose a smaller graph with --graph, or write .txt or .dot"
            )


# ---- scenes ------------------------------------------------------------------------------------------------------


def _scene(
    picture: Picture,
    scene: Scene,
    number: int,
    file: str,
    drawn: set[str],
    framed: bool,
    level: bool,
    upwards: bool,
) -> Iterator[str]:
    title = scene.title + (f"  {place(scene.place, file)}" if scene.place else "")
    if framed:
        yield f"  subgraph cluster_{number} {{"
        yield f'    label={quoted(title)} labeljust=l style="rounded" color="#b8b8b8" id="cluster_{number}";'
    for box in scene.boxes.values():
        yield f"    {quoted(box.id)} [{_attributes(_box(box, file))}];"
    into = scene.into()
    for target, arrows in into.items():
        slots = _numbered(scene.boxes[target], arrows)
        yield from (f"    {_arrow(a, slots, scene, upwards)}" for a in arrows if a.source in scene.boxes)
    crossing = [arrow for arrow in scene.arrows if arrow.source not in scene.boxes]
    yield from _noted(picture, scene, [arrow for arrow in crossing if arrow.source not in drawn])
    if framed:
        yield "  }"
    free = "[constraint=false]" if level else ""
    for arrow in crossing:
        if arrow.source in drawn:
            yield f"  {_arrow(arrow, set(), scene)}".replace(" [", f" {free}[", 1)


def _noted(picture: Picture, scene: Scene, arrows: list[Arrow]) -> Iterator[str]:
    """Yields notes for values of scenes that are not drawn, and dashed arrows from these notes.

    A note names a value. If there are more than `NOTES` values, it states the number of values of a graph instead.
    """
    owner = picture.owner() if arrows else {}
    if len({arrow.source for arrow in arrows}) > NOTES:
        counts = Counter((owner[arrow.source], arrow.target) for arrow in arrows)
        for (graph, target), count in counts.items():
            note = f"{scene.name} {graph} {target}"
            said = f"{graph}: {count} value{'s' * (count > 1)}"
            yield f'  {quoted(note)} [shape=plain style="" fontsize=10 label={quoted(said)} fontcolor="{GREY}"];'
            yield f"  {quoted(note)} -> {quoted(target)} [style=dashed class={quoted(f'to_{target}')}];"
        return
    noted: set[str] = set()
    for arrow in arrows:
        note = f"{scene.name} {arrow.source}"
        if note not in noted:
            noted.add(note)
            said = _note(picture.scenes[owner[arrow.source]], arrow.source)
            yield f'  {quoted(note)} [shape=plain style="" fontsize=10 label={quoted(said)} fontcolor="{GREY}"];'
        yield f"  {_arrow(replace(arrow, source=note), set(), scene)}"


def _note(scene: Scene, id_: str) -> str:
    """Returns the text of a note.

    It is the scene of a box and its op, or a reference such as `@main::@x` if the box is not an op.
    """
    box = scene.boxes[id_]
    if box.kind in OPS:
        return f"{scene.name}: {box.name}" + (f" @{box.symbol}" if box.symbol else "")
    return f"{scene.name}::@{box.symbol or box.name}"


def _box(box: Box, file: str) -> dict[str, str]:
    border, inside = COLOURS[box.activity]
    said = {
        "label": _label(box, file),
        "id": box.id,
        "class": f"{box.kind} {box.activity}" + (" opens" if box.opens else ""),
        "tooltip": " ".join([box.name, *box.types]),
        "shape": _SHAPES.get(box.kind, "box"),
        "color": border,
        "fillcolor": inside,
        "style": "filled,rounded" if box.kind in ("op", "call") else "filled",
    }
    if box.kind == "input":
        said |= {"style": "filled,bold", "fillcolor": "#ffffff"}
    if box.kind == "output":
        said |= {"style": "filled,bold", "peripheries": "1", "fillcolor": "#ffffff"}
    if box.kind == "call" or (box.kind == "op" and box.opens):
        said["peripheries"] = "2"
    if box.kind in ("outer", "constant"):
        said["style"] = ""
        del said["fillcolor"]
    if box.alarm:
        said |= {"color": ALARM, "penwidth": "2.5"}
    return said


def _label(box: Box, file: str) -> str:
    """Returns the label of a box in Graphviz's markup.

    The first line has the name and the types. Lines in a smaller font have constants, attributes, location and note.
    """
    most = _TYPES if box.kind == "fold" else len(box.types)
    shown = [*box.types[:most], *["…"] * (len(box.types) > most)]
    types = clipped(", ".join(shown), WIDTH)
    name = html.escape(clipped(box.name, WIDTH))
    lines = [f"<b>{name}</b>" + (f"  {html.escape(types)}" if types else "")]
    small = [clipped(box.detail, WIDTH)] if box.detail else []
    where = place(box.place, file)
    if where and box.kind in OPS:
        small.append(where)
    if small:
        said = html.escape("  ".join(small))
        lines.append(f'<font point-size="10" color="{GREY}">{said}</font>')
    if box.note:
        colour = ALARM if box.alarm else DARK
        lines.append(f'<font point-size="10" color="{colour}">{html.escape(clipped(box.note, WIDTH))}</font>')
    return f"<{'<br/>'.join(lines)}>"


def _arrow(arrow: Arrow, numbered: set[int], scene: Scene, upwards: bool = False) -> str:
    """Returns the Graphviz statement for an arrow.

    With `upwards`, the ends are exchanged, because Graphviz draws the end of an edge below its start.
    """
    attributes: dict[str, str] = {}
    if arrow.label:
        attributes["label"] = f" {arrow.label}"
    if arrow.kind != "value":
        attributes |= {"style": "dashed" if arrow.kind == "external" else "dotted"}
    if arrow.slot in numbered:
        attributes |= {"headlabel": str(arrow.slot), "labeldistance": "1.2"}
    source = scene.boxes.get(arrow.source)
    if source is not None and len(source.types) > 1 and source.kind not in ("fold",):
        attributes |= {"taillabel": f"#{arrow.result}", "labeldistance": "1.2"}
    if source is not None:
        attributes |= {"color": COLOURS[source.activity][0]}
    attributes["class"] = f"from_{arrow.source} to_{arrow.target}"
    ends = arrow.source, arrow.target
    if upwards:
        ends = arrow.target, arrow.source
        other = {"headlabel": "taillabel", "taillabel": "headlabel"}
        attributes = {other.get(name, name): said for name, said in attributes.items()} | {"dir": "back"}
    return f"{quoted(ends[0])} -> {quoted(ends[1])} [{_attributes(attributes)}];"


def _numbered(box: Box, arrows: list[Arrow]) -> set[int]:
    """Returns the operand numbers that are shown at the arrows into a box.

    They are shown only if the box reads different values and the order of its operands matters.
    """
    arrows = [arrow for arrow in arrows if arrow.kind != "captured"]
    sources = {(arrow.source, arrow.result) for arrow in arrows}
    if len(sources) < 2 or box.kind in ("fold", "output") or f"stablehlo.{box.name}" in ASSOCIATIVE:
        return set()
    return {arrow.slot for arrow in arrows}


def _legend(scenes: list[Scene]) -> Iterator[str]:
    """Yields a table with the meaning of the colours that the scenes use."""
    used = {box.activity for scene in scenes for box in scene.boxes.values()}
    rows = "".join(
        f'<tr><td bgcolor="{inside}" border="1" color="{border}">  </td>'
        f'<td align="left">{MEANING[activity]}</td></tr>'
        for activity, (border, inside) in COLOURS.items()
        if activity in used
    )
    if any(box.kind == "fold" for scene in scenes for box in scene.boxes.values()):
        rows += '<tr><td>3D</td><td align="left">several ops: a fold or a part</td></tr>'
    table = f'<table border="0" cellborder="0" cellspacing="2">{rows}</table>'
    yield f'  legend [shape=plain style="" fontsize=10 fontcolor="{GREY}" label=<{table}>];'


# ---- the language ------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Returns the text as a quoted string of Graphviz."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _attributes(said: Mapping[str, str]) -> str:
    """Returns a list of Graphviz attributes. A label in angle brackets is markup and therefore not quoted."""
    return " ".join(
        f"{name}={value if name == 'label' and value.startswith('<') else quoted(value)}"
        for name, value in said.items()
    )


def place(where: str, file: str) -> str:
    """Returns the location `where`, without the name of the file if the file is `file`."""
    if file and where.startswith(f"{file}:"):
        return where.removeprefix(file)
    return where
