"""Rules of loops. A loop is linearized to a loop over the same iterations, which is transposed to one that runs back.

    while p(x, c): x = f(x, c)     ->   for each x, r of the primal loop:   dx = f_x dx + f_c dc      r: residuals
                                        transposed, from the last to the first:   ct = f_x' ct;  cc = cc + f_c' ct

The linear loop reads sequences: arrays that hold, for each iteration, a value that the linear body needs. Lowering
decides how these values are computed: in the same loop (fused), stored by the primal loop, or from checkpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Loop, emit_loop, loop, needs_static_shapes
from tiduc.dialect.emitters.masks import has_infinite_slope, is_everywhere, mask_with
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.ops.control_ops import LOOP
from tiduc.dialect.shapes.types import with_shape
from tiduc.passes.rules.call import Flags, transpose_graph
from tiduc.passes.rules.lent import Hoisted, LentSplit, Linearizing, Transposing
from tiduc.passes.rules.opset import linearize, transpose
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.sites import at_site


@dataclass(frozen=True)
class LinearizedLoop:
    """The body of a loop, linearized for one choice of active operands.

    - `parts` is the body, split into a primal and a linear graph.
    - `primal` is the body with residuals as further outputs.
    - `linear` is the body of the linear loop, or None if no output is active.
    - `active` and `outputs` flag the active inputs and outputs.
    - `hoisted` are linear ops that run before the loop; `invariants` are primal loop invariants that `linear` reads.
    """

    parts: LentSplit
    primal: Graph
    linear: Graph | None
    active: Flags
    outputs: Flags
    hoisted: Hoisted
    invariants: tuple[Value, ...]


@dataclass(frozen=True)
class TransposedLoop:
    """The body of a transposed loop. `body` is None if no operand gets a cotangent.

    `outputs` flags the outputs of the linear body that have cotangents, and `operands` the operands that get
    cotangents. For a loop invariant whose cotangent has a mask (false where the cotangent is zero), `masks` has the
    operand's index and the mask's type.
    """

    body: Graph | None
    outputs: Flags
    operands: Flags
    masks: tuple[tuple[int, Any], ...] = ()


_LINEARIZED = Cache[tuple[Graph, Flags], LinearizedLoop]()
"""Caches linearized loops by the body and the flags of the active operands."""

_TRANSPOSED = Cache[tuple[Graph, Flags, Flags, Flags, bool], TransposedLoop]()
"""Caches transposed loops by the body, three lists of flags, and whether the loop runs at least once. The lists flag
active operands, outputs with cotangents, and loop invariants from ops that may have an infinite slope (`steep`)."""


@linearize(LOOP)
@linearize("stablehlo.while", captures=True)
def loop_(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    record = loop(b.view, op)
    dy = at_site(b, op, dx, _linearized)
    first = len(record.inits) + len(record.sequences)
    return [dy[i] if i >= 0 else dx[record.arguments[first + ~i]] for i in record.results]


def _linearized(b: StablehloBuilder, record: Loop, dx: Tangents) -> list[Value | None]:
    n, m = len(record.inits), len(record.sequences)
    flags = tuple([t is not None for t in dx])
    linearized = _LINEARIZED.get(b.view, (record.body, flags), lambda: _linearize(b, record, list(flags)))
    linear, active, parts = linearized.linear, linearized.active, linearized.parts
    if linear is None:
        return [None] * len(linearized.outputs)
    more = len(linearized.primal.outputs) - len(record.body.outputs)
    residuals = emit_loop(b, replace(record, body=linearized.primal), record.base)[-more:] if more else ()
    values = dict(zip(record.body.inputs.values(), record.operands, strict=True))
    b.engine.inline(b.view, parts.invariant, values)
    tangents = [
        b.zeros_like(x) if t is None else t
        for x, t, flag in zip(record.operands, dx, active, strict=True)
        if flag
    ]
    k, s = sum(active[:n]), sum(active[: n + m])
    sequences = [record.sequences[i - n] for i in _elements(parts, record)]
    invariants = [values[x] for x in linearized.invariants]
    values |= dict(zip(parts.tangents[s:], tangents[s:], strict=True))
    fixed = _emit_hoisted(b, linearized.hoisted, values)
    linear_loop = Loop(
        tuple(tangents[:k]),
        (*tangents[k:s], *sequences, *residuals),
        (*fixed, *invariants),
        linear,
        None,
        record.reverse,
        None,
        linear.name,
        memory=record.memory,
        bound=_bound(record),
    )
    dy = iter(emit_loop(b, linear_loop))
    return [next(dy) if flag else None for flag in linearized.outputs]


def _emit_hoisted(b: StablehloBuilder, hoisted: Hoisted, values: dict[Value, Value]) -> list[Value]:
    """Emits the hoisted linear ops before the loop, and returns the tangents that the loop reads."""
    read = (x for op in hoisted.ops for x, flag in zip(op.operands, op.active or (), strict=True) if not flag)
    b.engine.inline(b.view, list(dict.fromkeys(read)), values)
    for op in hoisted.ops:
        replaced = {i: values[x] for i, x in enumerate(op.operands)}
        values.update(zip(op.results, b.reapply(op, replaced), strict=True))
    return [values[x] for x in hoisted.tangents]


def _elements(parts: LentSplit, record: Loop) -> list[int]:
    """Returns the positions, among the body's inputs, of the sequences of the loop that the linear body reads."""
    n, m = len(record.inits), len(record.sequences)
    inputs = list(record.body.inputs.values())
    return [i for i in range(n, n + m) if inputs[i] in parts.inputs]


def _linearize(b: StablehloBuilder, record: Loop, active: list[bool]) -> LinearizedLoop:
    """Linearizes the body of a loop.

    A loop-carried value is active if its initial value is, or if its next value depends on an active value.
    """
    engine: Linearizing = b.engine
    n, m = len(record.inits), len(record.sequences)
    while True:
        parts = engine.split(record.body, active, varying=n + m)
        reached = [parts.outputs[i] is not None and not active[i] for i in range(n)]
        if not any(reached):
            break
        active = [flag or (i < n and reached[i]) for i, flag in enumerate(active)]
        b.view.discard(parts.linear)
    outputs = [active[i] if i < n else y is not None for i, y in enumerate(parts.outputs)]
    if not any(outputs):
        b.view.discard(parts.linear)
        return LinearizedLoop(parts, record.body, None, tuple(active), tuple(outputs), Hoisted((), ()), ())
    inputs = list(record.body.inputs.values())
    varying = [*parts.residuals, *(x for x in parts.inputs if x in inputs[:n])]
    elements = [inputs[i] for i in _elements(parts, record)]
    more: list[Any] = list(varying)
    if not (varying or elements):
        tick = with_shape(inputs[0].type, [0])  # a sequence of empty elements has only the trip count
        more, varying = [tick], [Value(tick, record.body)]
    extended = parts.extended(b, more)
    s = sum(active[: n + m])
    read = dict.fromkeys([*parts.inputs, *parts.invariant, *parts.dynamic_inputs])
    invariants = [x for x in read if x not in inputs[: n + m]]
    wanted = [
        y.type if dy is None else dy
        for y, dy, flag in zip(record.body.outputs, parts.outputs, outputs, strict=True)
        if flag and y is not None
    ]
    hoisted = parts.hoisted(b, len(parts.tangents) - s)
    given = [*parts.tangents[:s], *elements, *varying, *hoisted.tangents, *invariants]
    linear = parts.closed(b, wanted, given)
    return LinearizedLoop(parts, extended, linear, tuple(active), tuple(outputs), hoisted, tuple(invariants))


def _bound(record: Loop) -> int | None:
    return record.bound if record.trip_count is None else None


@transpose(LOOP)
def loop_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    try:
        return _backwards(b, loop(b.view, op), ct, active)
    except UnknownSize as error:
        raise needs_static_shapes(error, op.location) from None


def _backwards(b: StablehloBuilder, record: Loop, ct: Tangents, active: Sequence[bool]) -> list[Value | None]:
    n, m = len(record.inits), len(record.sequences)
    linear = tuple([i < n or flag for i, flag in enumerate(active)])
    flags = tuple([t is not None for t in ct])
    steep = tuple(
        [i >= n + m and active[i] and has_infinite_slope(b, x) for i, x in enumerate(record.operands)]
    )
    sequence = record.sequences[0].type if record.sequences and record.bound is None else None
    runs = sequence is not None and not sequence.is_dynamic_dim(0) and sequence.shape[0] > 0
    key = record.body, linear, flags, steep, runs
    transposed = _TRANSPOSED.get(b.view, key, lambda: _transpose(b, record, linear, list(flags), steep, runs))
    body, got = transposed.body, transposed.operands
    if body is None:
        return [None] * len(active)
    inits = [
        b.zeros_like(x) if t is None else t
        for x, t, flag in zip(record.inits, ct, transposed.outputs, strict=False)
        if flag
    ]
    summed = [i for i in range(n + m, len(active)) if got[i]]
    read = [x for x, flag in zip(record.operands, linear, strict=True) if not flag]
    kept = sum(not flag for flag in linear[n : n + m])
    back = Loop(
        (
            *inits,
            *(b.zeros_like(record.operands[i]) for i in summed),
            *(_false(b, type_, record.operands[i]) for i, type_ in transposed.masks),
        ),
        (*(t for t in ct[n:] if t is not None), *read[:kept]),
        tuple(read[kept:]),
        body,
        None,
        not record.reverse,
        None,
        body.name,
        memory=record.memory,
        bound=record.bound,
    )
    results = iter(emit_loop(b, back))
    of = {i: next(results) for i in [*(i for i in range(n) if got[i]), *summed]}
    masks = {i: next(results) for i, _ in transposed.masks}
    of |= {i: next(results) for i in range(n, n + m) if got[i]}
    of |= {i: mask_with(b, mask, of[i]) for i, mask in masks.items()}
    return [of.get(i) for i in range(len(active))]


def _or_zeros(ct: Value | None, x: Value) -> Value | ir.Type:
    """Returns the cotangent of x or, for a symbolic zero, the type of x, for which `close` creates zeros."""
    type_: ir.Type = x.type
    return type_ if ct is None else ct


def _false(b: StablehloBuilder, type_: ir.RankedTensorType, like: Value) -> Value:
    """Returns a mask that is false everywhere. It is a scalar if `type_` is, else it has the shape of `like`."""
    scalar = b.zero(with_shape(type_, []))
    return b.broadcast_in_dim(scalar, [], like) if type_.rank else scalar


def _transpose(
    b: StablehloBuilder, record: Loop, linear: Flags, with_ct: list[bool], steep: Flags, runs: bool
) -> TransposedLoop:
    """Transposes the body of a loop.

    The transposed loop carries the cotangents of the loop-carried values, and those of the loop invariants, summed over
    the iterations. For each invariant in `steep`, it also carries a predicate, which is true where some iteration has
    added a cotangent that no mask makes zero.
    """
    n, m = len(record.inits), len(record.sequences)
    inputs = list(record.body.inputs.values())
    numbers = [i for i, flag in enumerate(linear) if flag]
    summed = [i for i in numbers if i >= n + m]
    while True:
        part = transpose_graph(b, record.body, linear, with_ct, [inputs[i] for i in summed], steep)
        of = dict(zip(numbers, part.outputs, strict=False))
        reached = [of.get(i) is not None and not with_ct[i] for i in range(n)]
        if not any(reached):
            break
        with_ct = [flag or (i < n and reached[i]) for i, flag in enumerate(with_ct)]
        b.view.discard(part)
    carries = [i for i in range(n) if with_ct[i]]
    cts = list(part.inputs.values())
    count = sum(with_ct[n:])
    elements = cts[len(carries) : len(carries) + count]
    sums = dict(zip(summed, cts[len(carries) + count :], strict=False))
    got = [of.get(i) is not None and of[i] is not sums.get(i) for i in range(len(linear))]
    got[:n] = with_ct[:n]
    if not any(got):
        b.view.discard(part)
        return TransposedLoop(None, tuple(with_ct), tuple(got))
    reads = [x for x, flag in zip(inputs, linear, strict=True) if not flag]
    befores = iter(cts[len(carries) + count + len(summed) :])
    masks: list[tuple[int, Value, Value]] = []
    for i, mask in zip(
        [i for i, flag in enumerate(steep) if flag], part.outputs[len(numbers) :], strict=True
    ):
        if mask is not None and not is_everywhere(mask):
            masks.append((i, next(befores), mask))
        elif mask is not None and not runs:
            masks.append((i, Value(mask.type, record.body), mask))
    given = [*cts[: len(carries)], *(sums[i] for i in summed if got[i])]
    given += [*(before for _, before, _ in masks), *elements, *reads]
    results = [*carries, *(i for i in summed if got[i])]
    wanted: list[Value | ir.Type] = [_or_zeros(of[i], inputs[i]) for i in results]
    wanted += [mask for *_, mask in masks]
    wanted += [_or_zeros(of[i], inputs[i]) for i in range(n, n + m) if got[i]]
    engine: Transposing = b.engine
    body = engine.close(b.view, wanted, given, name=f"{stem(record.body)}.transpose")
    b.view.discard(part)
    return TransposedLoop(body, tuple(with_ct), tuple(got), tuple((i, mask.type) for i, _, mask in masks))
