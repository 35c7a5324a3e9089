"""computed_blocks: computes the blocks of a Jacobian by forward mode, by reverse mode, or by both at a bottleneck.

    x (1000) -> h (8) -> y (1000)      forward: 1000 seeds    reverse: 1000 seeds
                                       cut at h: dy/dh by 8 seeds forward, dh/dx by 8 seeds in reverse; their product

The mode with the least estimated time is chosen; `plan` in `passes/cut.py` estimates the times. A bottleneck is a
minimum cut of the linear graph, in which each value is weighted by its number of elements.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.derivatives.blocks import (
    MOST_SEEDS,
    Block,
    blocks_of,
    forward,
    linear_in,
    reverse,
    with_common_input_dimensions,
    with_common_output_dimensions,
)
from tiduc.derivatives.coloured import (
    Coloured,
    KnownEntries,
    coloured,
    forward_coloured,
    reverse_coloured,
)
from tiduc.dialect.control.control import only_reverse
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.facts.costs import size
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.shapes.types import element, is_complex, shape
from tiduc.passes.batch import batch
from tiduc.passes.batching.colouring import Entries
from tiduc.passes.cut import active_ops, cut, plan
from tiduc.passes.diagonal import aligned_share
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Port

_LEAST_SHARE = 0.2
"""The share of the estimated time that must be saved for seeds to be stored as a diagonal."""


def computed_blocks(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    mode: str,
    sparse: bool,
    entries: KnownEntries | None = None,
    symmetric: bool = False,
) -> list[Block]:
    """Computes the blocks of all outputs and inputs, with their values, by `mode`. "auto" chooses the cheapest mode.

    With `sparse`, positions along aligned dimensions share their seeds. With `entries`, columns or rows share seeds by
    colour if that takes fewer seeds. With `symmetric`, the only block is a symmetric matrix.
    """
    blocks = blocks_of(program, inputs, outputs, sparse)
    by_input = [with_common_input_dimensions([block for block in blocks if block.input is x]) for x in inputs]
    by_output = [
        with_common_output_dimensions([block for block in blocks if block.output is y]) for y in outputs
    ]
    columns = [_Group(g, g[0].seeds_of_input) for g in by_input if g]
    rows = [_Group(g, g[0].seeds_of_output) for g in by_output if g]
    if entries is not None:
        columns, rows = _coloured(columns, rows, entries, symmetric, mode)
        if mode != "reverse":
            columns = [_with_diagonal(program, group, "forward") for group in columns]
        if mode != "forward":
            rows = [_with_diagonal(program, group, "reverse") for group in rows]
    if mode == "auto":
        mode, through = _cheapest(program, columns, rows)
        if through is not None:
            try:
                return through(blocks)
            except Unsupported:  # an op has a rule for only one of the two modes
                pass
    groups = columns if mode == "forward" else rows
    return [block for group in groups for block in _computed(program, group, mode)]


def _computed(program: Function, group: "_Group", mode: str) -> list[Block]:
    """Computes the values of the blocks of a group by `mode`."""
    if group.coloured is not None:
        return (forward_coloured if mode == "forward" else reverse_coloured)(program, group.coloured)
    one = forward if mode == "forward" else reverse
    if group.diagonal is not None:
        try:
            return one(program, group.blocks, group.diagonal)
        except Unsupported:  # the blocks are computed without the diagonal below, which supports more ops
            pass
    return one(program, group.blocks)


@dataclass(frozen=True)
class _Group:
    """The blocks of one input or of one output, which are computed together.

    `seeds` is the cost of all blocks together, measured in runs of the whole linear graph. The blocks share seeds by
    colour if `coloured` is set. Seeds along the dimension `diagonal` are stored as a diagonal.
    """

    blocks: Sequence[Block]
    seeds: float
    coloured: Coloured | None = None
    diagonal: int | None = None


def _coloured(
    columns: list[_Group], rows: list[_Group], entries: KnownEntries, symmetric: bool, mode: str
) -> tuple[list[_Group], list[_Group]]:
    """Colours the groups `columns` and `rows` if fewer seeds are then needed. Returns all groups.

    Colours only groups that `mode` may compute and whose patterns are known.
    """
    xs, ys = [g.blocks[0].input for g in columns], [g.blocks[0].output for g in rows]
    if mode != "reverse":
        columns = [
            _with_colours(
                group, [Block(y, x, {}) for y in ys], [entries[y.name, x.name] for y in ys], x, symmetric
            )
            for group, x in zip(columns, xs, strict=True)
        ]
    if mode != "forward":
        rows = [
            _with_colours(
                group, [Block(y, x, {}) for x in xs], [_turned(entries[y.name, x.name]) for x in xs], y, False
            )
            for group, y in zip(rows, ys, strict=True)
        ]
    return columns, rows


def _turned(entries: Entries | None) -> Entries | None:
    return entries and (entries[1], entries[0])


def _with_colours(
    group: _Group, blocks: Sequence[Block], entries: Sequence[Entries | None], port: Port, symmetric: bool
) -> _Group:
    known = [each for each in entries if each is not None]
    if len(known) < len(entries):
        return group
    found = coloured(blocks, known, port, group.seeds, symmetric)
    return group if found is None else replace(group, seeds=found.count, coloured=found)


def _with_diagonal(program: Function, group: _Group, mode: str) -> _Group:
    """Returns the group with the dimension `diagonal` that saves the most time.

    Returns the group unchanged if no dimension saves enough.
    """
    block = group.blocks[0]
    port: Port = block.input if mode == "forward" else block.output
    free = block.free if mode == "forward" else block.free_of_output
    if group.coloured is not None or is_complex(port):
        return group
    if isinstance(port, OutputPort) and isinstance(port.value, Zero):
        return group
    if not (dimensions := [d for d in free if shape(port)[d] > 1]):
        return group
    linear = _linear(program, group, mode)
    if linear is None:
        return group
    ((_, x),), wanted = linear.inputs.items(), [y for y in linear.outputs if y is not None]
    shares = {d: aligned_share(program.view, wanted, x, d) * (1 - 1 / shape(port)[d]) for d in dimensions}
    best = max(shares, key=lambda d: shares[d])
    if shares[best] < _LEAST_SHARE:
        return group
    return replace(group, seeds=group.seeds * (1 - shares[best]), diagonal=best)


def _linear(program: Function, group: _Group, mode: str) -> Graph | None:
    """Returns the linear graph that computes a group.

    Returns None if the output is zero, or if an op has no transpose rule.
    """
    if mode == "forward":
        graph: Graph = linear_in(program, [block.output for block in group.blocks], group.blocks[0].input)[0]
        return graph
    wrt, y = [block.input.key for block in group.blocks], group.blocks[0].output.value
    if isinstance(y, Zero):
        return None
    linear = linearize(program.view, [y], wrt, program.opset)
    try:
        return linear_transpose(program.view, linear, program.opset)
    except Unsupported:
        return None


# ---- costs -------------------------------------------------------------------------------------------------


def _cheapest(
    program: Function, columns: Sequence[_Group], rows: Sequence[_Group]
) -> tuple[str, Callable[[Sequence[Block]], list[Block]] | None]:
    """Returns the cheaper of forward and reverse mode.

    Also returns a function that computes the blocks through a bottleneck, or None if this is not cheaper.
    """
    xs, ys = [g.blocks[0].input for g in columns], [g.blocks[0].output for g in rows]
    if any(is_complex(y) for y in ys):
        return "forward", None
    values = list(dict.fromkeys(y.value for y in ys if not isinstance(y.value, Zero)))
    linear = linearize(program.view, values, [x.key for x in xs], program.opset)
    tangent = dict(zip(values, linear.outputs, strict=True))
    of_x = [(dx, g.seeds) for dx, g in zip(linear.inputs.values(), columns, strict=True)]
    of_y = [(_at(tangent, y), g.seeds) for y, g in zip(ys, rows, strict=True)]
    if only_reverse(
        program.view, active_ops(program.view, linear, [y for y in linear.outputs if y is not None])
    ):
        return "reverse", None
    estimate = plan(program.view, linear, of_x, of_y)
    mode = "forward" if estimate.forward <= estimate.reverse else "reverse"
    if any(g.coloured or any(block.aligned for block in g.blocks) for g in columns):
        return mode, None  # blocks of a sparse Jacobian share seeds; products through a cut cannot
    if estimate.cheapest != "cut" or sum(map(size, estimate.at)) > MOST_SEEDS:
        return mode, None
    at = estimate.at
    return mode, lambda blocks: _through(program, linear, at, xs, blocks)


def _at(values: Mapping[Value, Value | None], y: OutputPort) -> Value | None:
    """Returns the entry for the value of an output, or None if the output is zero or has no entry."""
    return None if isinstance(y.value, Zero) else values.get(y.value)


# ---- through a bottleneck ----------------------------------------------------------------------------------


def _through(
    program: Function, linear: Graph, at: Sequence[Value], xs: Sequence[InputPort], blocks: Sequence[Block]
) -> list[Block]:
    """Computes the blocks as products of two Jacobians, with one seed for each element of the values `at`.

    One factor is the Jacobian of the outputs with respect to the values `at`. The other factor is the Jacobian of these
    values with respect to the inputs.
    """
    view, opset, count = program.view, program.opset, sum(map(size, at))
    first, second = cut(view, linear, at, opset)
    transposed = linear_transpose(view, first, opset)
    s: Any = opset.builder(view, view.fresh("S"))
    seeds = _numbered_basis(s, at)
    s.finish(seeds)
    b: Any = opset.builder(view, view.fresh("J"))
    cotangents = _seeded(program, b, transposed, seeds, count)
    tangents = _seeded(program, b, second, seeds, count)
    of_x = dict(zip([x.name for x in xs], cotangents, strict=True))
    of_y = dict(zip(linear.output_of, tangents, strict=True))
    result = []
    for block in blocks:
        dy, cx = _at(of_y, block.output), of_x[block.input.name]
        result.append(block if dy is None or cx is None else block.with_value(_product(b, dy, cx)))
    b.finish([block.value for block in result if block.value is not None])
    return result


def _numbered_basis(b: StablehloBuilder, values: Sequence[Value]) -> list[Value]:
    """Emits the basis vectors of the concatenation of some values. Returns, for each value, its part of all vectors.

    The parts of the vectors are stacked along a new first dimension.
    """
    sizes = [size(x) for x in values]
    count = sum(sizes)
    parts = []
    for x, own, first in zip(values, sizes, accumulate(sizes, initial=0), strict=False):
        numbers = ir.RankedTensorType.get([count, own], ir.IntegerType.get_signless(32))
        column = b.add(b.iota(1, numbers), b.constant(first, numbers))
        unit = b.convert(b.compare(b.iota(0, numbers), column, "EQ"), element(x))
        parts.append(b.reshape(unit, [*([count] if count > 1 else []), *shape(x)]))
    return parts


def _seeded(
    program: Function, b: StablehloBuilder, graph: Graph, seeds: Sequence[Value], count: int
) -> list[Value | None]:
    """Returns the outputs of a linear graph for all seeds, along a leading dimension. A symbolic zero stays None."""
    view, outputs = program.view, list(dict.fromkeys(y for y in graph.outputs if y is not None))
    keys: Sequence[str] = graph.keys
    of: dict[Any, Any] = dict(zip(outputs, outputs, strict=True))
    if count > 1 and outputs:
        many = batch(view, outputs, keys, count, program.opset)
        keys, of = many.keys, dict(zip(outputs, many.outputs, strict=True))
    for key, seed in zip(keys, seeds, strict=True):
        view.bind(key, seed)
    single = {y: b.reshape(of[y], [1, *shape(of[y])]) for y in outputs} if count == 1 else of
    return [None if y is None else single[y] for y in graph.outputs]


def _product(b: StablehloBuilder, dy: Value, cx: Value) -> Value:
    """Emits J[y..., x...], the sum over all seeds of the products of tangents `dy` and cotangents `cx`."""
    precision = {"precision_config": ir.ArrayAttr.get([hlo.PrecisionAttr.get("HIGHEST")] * 2)}
    return b.dot_general(dy, b.convert(cx, element(dy)), ([], []), ([0], [0]), precision)
