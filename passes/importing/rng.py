"""Expands `stablehlo.rng` to `rng_bit_generator` on a seed, a new argument of the function; part of import.

    func.func @main(%x: T) -> T {             func.func @main(%x: T, %seed: tensor<2xui64>) -> T {
      %y = rng %a, %b, UNIFORM         ->       %key = THREE_FRY(%seed)             one word
      ...                                       %words = THREE_FRY(%key, 0)         two words for each draw
                                                %bits = THREE_FRY(%words[i, i + 1])
                                                %y = %a + (%b - %a) u               u from the bits

    uniform    u = (2 k + 1) / 2^p, which is never 0 or 1; k has p - 1 bits if floats of the type have p binary digits
    normal     a + s sqrt(2) erfinv(2 u - 1)
    integers   a + k mod (b - a), with k of 64 bits

A draw in a branch gets its words from the region around the branch. A loop that draws carries a state; each iteration
takes words from it and advances it. No two draws share a stream. The numbers depend only on the seed, so a recomputed
op gives the same numbers. THREE_FRY, unlike PHILOX, gives equal bits in IREE and XLA.

Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011).
"""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from numpy.typing import ArrayLike
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.emitters.dynamic_shapes import BROADCAST
from tiduc.dialect.emitters.protocol import Dims, Fill
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.functions import replace, symbol, within
from tiduc.dialect.graph.graph import operations, terminator
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.ops.verify import CHECKPOINT, NAME
from tiduc.dialect.shapes.sizes import Extent
from tiduc.dialect.shapes.types import is_dynamic, is_empty, with_element, with_shape
from tiduc.passes.importing.threefry import threefry

RNG = "stablehlo.rng"
SEED = "seed"
"""The name of the new input. If another input has this name, a number is appended, as for any repeated name."""

_LOOP, _BRANCHES = "stablehlo.while", ("stablehlo.if", "stablehlo.case")

_DIGITS = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
"""Maps each float type of which random numbers can be drawn to its number of binary digits."""

_ONE = {32: 127 << 23, 64: 1023 << 52}
"""Maps the width of a float type in bits to the bit pattern of 1.0."""


class _Emitter(IrEmitter):
    """Emits ops at an insertion point. With `checkpoint`, reverse mode recomputes the results of the emitted ops.

    An array of dynamic shape is emitted as a flat array, whose length is `count`, a tensor<1xi64>.
    """

    def __init__(self, ip: ir.InsertionPoint, location: ir.Location, checkpoint: bool = False) -> None:
        super().__init__(ip, location)
        self.count: Any = None
        self._marks = {CHECKPOINT: ir.UnitAttr.get()} if checkpoint else {}

    def emit_all(
        self,
        name: str,
        operands: Sequence[IrValue | float],
        types: Sequence[ir.Type],
        attributes: Attributes | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[IrValue, ...]:
        return super().emit_all(name, operands, types, {**(attributes or {}), **self._marks}, regions)

    def constant(self, value: ArrayLike | complex, like: IrValue | ir.Type) -> IrValue:
        type_: Any = like if isinstance(like, ir.Type) else like.type
        scalar = super().constant(value, with_shape(type_, []) if is_dynamic(type_) else type_)
        return self.broadcast_in_dim(scalar, [], type_) if is_dynamic(type_) else scalar

    def broadcast_in_dim(
        self, x: IrValue, dimensions: Dims, like: IrValue | ir.Type | list[Extent]
    ) -> IrValue:
        """Broadcasts x to a type. For the type of a flat dynamic array, x must be a scalar."""
        if not isinstance(like, ir.Type) or not is_dynamic(like):
            return super().broadcast_in_dim(x, dimensions, like)
        key = (x, like)
        if key not in self.constants:
            attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
            self.constants[key] = self.emit(BROADCAST, (x, self.count), like, attributes)
        return self.constants[key]

    def bits(self, state: IrValue, sizes: Sequence[int], width: int = 64) -> tuple[IrValue | None, IrValue]:
        """Emits random words. Returns the next state of the generator (None for a dynamic shape), and the words."""
        type_ = ir.RankedTensorType.get(sizes, ir.IntegerType.get_unsigned(width))
        if is_dynamic(type_):
            wide = threefry(self, state, self.count)
            high = self.emit(
                "stablehlo.shift_right_logical", (wide, self.constant(64 - width, wide)), wide.type
            )
            return None, self.convert(high, type_.element_type)
        algorithm = {"rng_algorithm": hlo.RngAlgorithmAttr.get("THREE_FRY")}
        after, words = self.emit_all("stablehlo.rng_bit_generator", (state,), (state.type, type_), algorithm)
        return after, words

    def streams(self, state: IrValue, count: int) -> tuple[IrValue | None, list[IrValue]]:
        """Emits the states of `count` streams of random words. Returns the next state of the generator, and these."""
        after, words = self.bits(state, [2 * count])
        return after, [self.slice(words, [2 * i], [2 * i + 2], [1]) for i in range(count)]


def expand_rng(function: IrOp) -> None:
    """Expands the `rng` ops of a function, in place. Adds the seed as the last argument if there are such ops.

    Raises `Unsupported` if numbers of the type cannot be drawn, or if the op is in a region other than a branch or a
    loop.
    """
    for op in within(function, (RNG,)):
        if is_empty(op.result):
            b = _Emitter(ir.InsertionPoint(op), op.location)
            replace(op, [b.broadcast_in_dim(op.operands[0], [], op.result.type)])
        elif not len(list(op.result.uses)):
            op.erase()
    block = function.regions[0].blocks[0]
    draws = _draws(block)
    if not draws:
        return
    seed = _add_seed(function)
    b = _Emitter(ir.InsertionPoint.at_block_begin(block), function.location)
    key = b.bits(seed, [1])[1]
    _, streams = b.streams(b.concatenate([key, b.constant([0], key)], 0), len(draws))
    _expand(draws, streams)


def refuse_rng(op: IrOp) -> None:
    """Raises `Unsupported` if `op`, a function or graph that cannot take a seed, has an `rng`."""
    for inner in within(op, (RNG,)):
        raise Unsupported(
            f"@{symbol(op)} draws random numbers, and cannot take a seed: use rng_bit_generator, with the state "
            "as an argument",
            inner.location,
        )


def _draws(block: ir.Block) -> list[ir.Operation]:
    """The `rng` ops in a block and its branches, and the loops that contain `rng` ops, in order.

    Raises `Unsupported` if a region of any other op contains an `rng`.
    """
    draws: list[Any] = []
    for op in operations(block):
        if op.name == RNG:
            draws.append(op)
        elif not len(op.regions) or not (inner := within(op, (RNG,))):
            continue
        elif op.name == _LOOP:
            draws.append(op)
        elif op.name in _BRANCHES:
            draws += [each for region in op.regions for each in _draws(region.blocks[0])]
        else:
            raise Unsupported(f"no random numbers can be drawn in a region of {op.name}", inner[0].location)
    return draws


def _add_seed(function: IrOp) -> IrValue:
    """Adds the seed as the last argument of a function. Returns the new argument."""
    type_ = ir.RankedTensorType.get([2], ir.IntegerType.get_unsigned(64))
    block = function.regions[0].blocks[0]
    types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    seeded = ir.FunctionType.get([*types.inputs, type_], types.results)
    before = function.attributes.get("arg_attrs")
    attributes = [ir.DictAttr.get({})] * len(types.inputs) if before is None else list(ir.ArrayAttr(before))
    function.attributes["function_type"] = ir.TypeAttr.get(seeded)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [*attributes, ir.DictAttr.get({NAME: ir.StringAttr.get(SEED)})]
    )
    seed: IrValue = block.add_argument(type_, function.location)
    return seed


def _expand(draws: Sequence[IrOp], streams: Sequence[IrValue]) -> None:
    """Expands `rng` ops and loops, each with the state of its own stream. There may be more streams than ops."""
    for op, state in zip(draws, streams, strict=False):
        if op.name == _LOOP:
            _expand_loop(op, state)
        else:
            b = _Emitter(ir.InsertionPoint(op), op.location, CHECKPOINT in op.attributes)
            replace(op, [_drawn(b, op, state)])


def _expand_loop(op: IrOp, state: IrValue) -> None:
    """Adds the generator's state to a loop's carried values, and expands the `rng` ops in its condition and body."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    types = [*(y.type for y in op.results), state.type]
    loop = ir.Operation.create(
        _LOOP, types, [*op.operands, state], attributes, None, 2, op.location, ir.InsertionPoint(op)
    )
    condition, body = (region.blocks[0] for region in op.regions)
    first, rest = _draws(condition), _draws(body)
    for block, region in zip((condition, body), loop.regions, strict=True):
        block.append_to(region)
        block.add_argument(state.type, op.location)
    count = len(first) + len(rest)
    if first:
        _expand(first, _streams_in(condition, count)[1])
    after, streams = _streams_in(body, count)
    assert after is not None  # the state of a loop has a static shape
    _expand(rest, streams[len(first) :])
    end = terminator(body)
    ir.Operation.create(end.name, (), [*end.operands, after], loc=end.location, ip=ir.InsertionPoint(end))
    end.erase()
    replace(op, list(loop.results)[:-1])


def _streams_in(block: ir.Block, count: int) -> tuple[IrValue | None, list[IrValue]]:
    """Emits `count` streams at the start of a block, whose last argument is the state. Returns what `streams` does."""
    b = _Emitter(ir.InsertionPoint.at_block_begin(block), block.owner.location)
    return b.streams(list(block.arguments)[-1], count)


# ---- each distribution is computed from random words -------------------------------------------------------


def _drawn(b: _Emitter, op: IrOp, state: IrValue) -> IrValue:
    """Emits the random numbers of an `rng`, from the state of its stream. Raises `Unsupported` for other types."""
    first, second, sizes = op.operands
    is_uniform = hlo.RngDistributionAttr(op.attributes["rng_distribution"]).value == "UNIFORM"
    type_ = op.result.type
    kind = type_.element_type
    if isinstance(kind, ir.IntegerType) and kind.width >= 8 and is_uniform:
        draw: Callable[..., IrValue] = _integers
    elif str(kind) in _DIGITS:
        draw = _uniform if is_uniform else _normal
    else:
        raise Unsupported(f"no random numbers of type {kind} can be drawn", op.location)
    if not is_dynamic(type_):
        return draw(b, first, second, type_, state)
    one = b.constant(1, ir.RankedTensorType.get([], ir.IntegerType.get_signless(64)))
    total = b.reduce(b.convert(sizes, one.type.element_type), one, [0], "stablehlo.multiply")
    b.count = b.reshape(total, [1])
    flat = ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], kind)
    return b.emit("stablehlo.dynamic_reshape", (draw(b, first, second, flat, state), sizes), type_)


def _integers(
    b: _Emitter, low: IrValue, high: IrValue, type_: ir.RankedTensorType, state: IrValue
) -> IrValue:
    """Emits random integers from `low` to below `high`; `low` if the range is empty.

    Arithmetic is modulo 2^64, so signs do not matter.
    """
    _, k = b.bits(state, type_.shape)
    size = b.subtract(*(b.convert(x, k.type.element_type) for x in (high, low)))
    size = b.emit("stablehlo.maximum", (size, b.constant(1, size)), size.type)
    below = b.remainder(k, b.broadcast_in_dim(size, [], k.type))
    return b.add(b.broadcast_in_dim(low, [], type_), b.convert(below, type_.element_type))


def _uniform(b: _Emitter, low: IrValue, high: IrValue, type_: ir.RankedTensorType, state: IrValue) -> IrValue:
    """Emits random numbers from `low` to below `high`. A number that rounding makes `high` becomes `low`."""
    u = _fractions(b, type_, _DIGITS[str(type_.element_type)], state)
    if (splat(low), splat(high)) == (0, 1):
        return b.convert(u, type_.element_type)
    y = _moved(b, u, low, b.subtract(*(b.convert(x, u.type.element_type) for x in (high, low))), type_)
    a, c = (b.broadcast_in_dim(x, [], type_) for x in (low, high))
    return b.select(b.compare(y, c, "GE"), a, y)


def _normal(
    b: _Emitter, mean: IrValue, deviation: IrValue, type_: ir.RankedTensorType, state: IrValue
) -> IrValue:
    """Emits normally distributed random numbers with this mean and standard deviation."""
    u = _fractions(b, type_, 53 if str(type_.element_type) == "f64" else 24, state)
    odd = b.subtract(b.multiply(b.constant(2.0, u), u), b.constant(1.0, u))  # exact
    z = b.multiply(b.constant(sqrt(2), u), b.emit("chlo.erf_inv", (odd,), odd.type))
    if (splat(mean), splat(deviation)) == (0, 1):
        return b.convert(z, type_.element_type)
    return _moved(b, z, mean, deviation, type_)


def _moved(
    b: _Emitter, sample: IrValue, start: IrValue, scale: IrValue, type_: ir.RankedTensorType
) -> IrValue:
    """start + scale * sample, computed in the sample's type."""
    start, scale = (
        b.broadcast_in_dim(b.convert(x, sample.type.element_type), [], sample.type) for x in (start, scale)
    )
    return b.convert(b.add(start, b.multiply(scale, sample)), type_.element_type)


def _fractions(b: _Emitter, type_: ir.RankedTensorType, digits: int, state: IrValue) -> IrValue:
    """Emits (2 k + 1) / 2^digits for random integers k, exactly: in f64 if `digits` is more than 24, else in f32.

    The bits of k become the fraction bits of a number from 1 to 2. Then 1 - 2^-digits is subtracted.
    """
    width, real = (64, ir.F64Type.get()) if digits > 24 else (32, ir.F32Type.get())
    _, drawn = b.bits(state, type_.shape, width)

    def shifted(x: IrValue, by: int, direction: str) -> IrValue:
        return b.emit(f"stablehlo.shift_{direction}", (x, b.constant(by, x)), x.type) if by else x

    k = shifted(drawn, width - (digits - 1), "right_logical")
    k = shifted(k, (52 if width == 64 else 23) - (digits - 1), "left")
    k = b.emit("stablehlo.or", (k, b.constant(_ONE[width], k)), k.type)
    v = b.emit("stablehlo.bitcast_convert", (k,), with_element(k.type, real))
    return b.subtract(v, b.constant(1 - 2.0**-digits, v))
