"""dynamic_reduce_window: the call that JAX exports for reductions over windows of dynamic sizes.

    y... = custom_call @stablehlo.dynamic_reduce_window(x..., init..., sizes, strides, base, dilation, padding)

`sizes`, `strides`, `base` (the dilation of x) and `dilation` (of the window) have one entry per dimension. `padding`
has a row per dimension, with a low and a high entry. Only results whose reducer is an addition have derivatives, and
only with respect to x. Import lists these results in an attribute (`dialect/dynamic/calls.py`).
"""

from collections.abc import Sequence

from tiduc.dialect.dynamic.calls import REDUCE_WINDOW, SUMS
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.shapes.sizes import Size
from tiduc.dialect.shapes.types import element, shape, with_shape
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import repeated

CALL = f"{CUSTOM_CALL} @{REDUCE_WINDOW}"


@linearize(CALL)
def dynamic_reduce_window(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Applies the call to the tangents. Each sum is linear in its operand. The call's other results are not used."""
    count = len(op.results)
    sums = set(op.attributes[SUMS]) if SUMS in op.attributes else set()
    active = [i for i in range(count) if dx[i] is not None]
    if any(d is not None for d in dx[count:]) or not sums.issuperset(active):
        raise unsupported(
            "jvp", op, "only sums over dynamic windows are differentiated, toward their operands"
        )
    if not active:
        return [None] * count
    zeros = {count + i: b.zeros_like(op.operands[count + i]) for i in active}
    dy = b.reapply(op, {i: dx[i] for i in active} | zeros)
    _say_sizes(dy, op.results)
    return [tangent if i in active else None for i, tangent in enumerate(dy)]


@transpose(CALL)
def dynamic_reduce_window_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    """Applies the call to the cotangents, with the adjoint window (see `Window.adjoint`) computed at run time."""
    count = len(op.results)
    xs, inits, window = op.operands[:count], op.operands[count : 2 * count], op.operands[2 * count :]
    first = next(i for i in range(count) if ct[i] is not None)
    back = _adjoint(b, window, b.sizes(shape(xs[first])), b.sizes(shape(ct[first])))
    zeros = [b.zero(with_shape(y.type, [])) for y in op.results]
    cts = [repeated(b, zero, ct[first]) if c is None else c for zero, c in zip(zeros, ct, strict=True)]
    dx = b.emit_all(op.name, [*cts, *inits, *back], [x.type for x in xs], op.attributes)
    _say_sizes(dx, xs)
    return [*(y if active[i] else None for i, y in enumerate(dx)), *[None] * (len(op.operands) - count)]


def _say_sizes(values: Sequence[Value], like: Sequence[Value]) -> None:
    """Records that `values` have the dynamic sizes of `like`. A call does not state the sizes of its results."""
    for y, x in zip(values, like, strict=True):
        y.graph.sizes.update({(y, d): n for d, n in enumerate(shape(x)) if isinstance(n, Size)})


def _adjoint(b: StablehloBuilder, window: Sequence[Value], inputs: Value, outputs: Value) -> list[Value]:
    """Emits the operands that describe the adjoint window. `inputs` and `outputs` are the sizes of x and y."""
    sizes, strides, base, dilation, padding = window
    inputs, outputs = (b.convert(n, element(sizes)) for n in (inputs, outputs))
    one, n = b.constant(1, sizes), shape(sizes)[0]
    low = b.reshape(b.slice(padding, [0, 0], [n, 1], [1, 1]), [n])
    extent = b.add(b.multiply(b.subtract(sizes, one), dilation), one)
    before = b.subtract(b.subtract(extent, one), low)
    spread = b.maximum(b.add(b.multiply(b.subtract(outputs, one), strides), one), b.zeros_like(one))
    ends = b.add(b.multiply(b.subtract(inputs, one), base), extent)
    after = b.subtract(b.subtract(ends, spread), before)
    pairs = b.concatenate([b.reshape(before, [n, 1]), b.reshape(after, [n, 1])], 1)
    return [sizes, base, strides, dilation, pairs]
