"""picture: draws a traced program as SVG or PNG. The boxes show norms. Ops with NaNs or infinities are red."""

from pathlib import PurePath

import numpy as np

from tiduc.activity import find_activity
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.tracing.runs import with_one_graph
from tiduc.tracing.summaries import Summary
from tiduc.tracing.survey import graph_in, survey
from tiduc.tracing.trace import RunTrace, TracedValue
from tiduc.view.dot import check_size, dot
from tiduc.view.draw import fitting
from tiduc.view.png import png_of
from tiduc.view.read import read_picture


@stage
def picture(traced: RunTrace, path: str, title: str = "") -> bytes:
    """Returns the bytes of a PNG file if `path` ends in `.png`, else of an SVG file.

    Loops and branches are drawn separately.

    Raises `RequestError` if the program is too large to draw, or if Graphviz is not installed.
    """
    program = with_one_graph(traced.program)
    module = program.graphs
    graph = graph_in(module, program.name)
    values, inputs = survey(graph).values, list(graph.regions[0].blocks[0].arguments)
    notes: dict[IrValue, tuple[str, bool]] = {}
    for i, row in enumerate(traced.rows):
        notes[inputs[i] if row.site is None else values[row.site.number]] = _note(row, traced.derivative)
    smooth = program.opset.builder.tangent_type
    active = [i for i, x in enumerate(inputs) if smooth(x.type) is not None]
    activity = find_activity(module, {program.name: active}, program.opset)
    drawn = read_picture(module, activity, title, notes)
    names = [scene.name for scene in drawn.opened([f"@{program.name}"])]
    check_size(drawn, names)
    ((source, svg),) = fitting([dot(drawn, names, title)])
    return png_of(source) if PurePath(path).suffix == ".png" else f"{svg}\n".encode()


def _note(row: TracedValue, derivative: str | None) -> tuple[str, bool]:
    """Returns the text in the box of an op or input, and whether the value or its derivative has a NaN or an infinity.

    The text has the norm of the value and of its derivative. In a loop, it has the range of norms of all iterations.
    """
    parts = [_said("norm", row.value)]
    if derivative is not None and row.derivative is not None:
        parts.append(_said("d" if derivative == "jvp" else "ct", row.derivative))
    found = [x for x in (row.value, row.derivative) if x is not None]
    return ", ".join(parts), any(bool(np.any(x.nans) or np.any(x.infinities)) for x in found)


def _said(name: str, x: Summary) -> str:
    norms = x.norm[x.ran] if x.ran.ndim else np.ravel(x.norm)
    if not norms.size:
        return "not computed"
    bad = [f"{n} {kind}" for n, kind in ((x.nans.sum(), "NaN"), (x.infinities.sum(), "inf")) if n]
    low, high = np.min(norms), np.max(norms)
    said = f"{low:.3g}" if low == high or norms.size == 1 else f"{low:.3g} to {high:.3g}"
    return f"{name} {said}" + (f" ({', '.join(bad)})" if bad else "")
