"""Computes a dynamic number of random words by THREE_FRY, in elementwise ops.

`rng_bit_generator` needs a static shape, so it cannot compute them.

The words equal those of `rng_bit_generator` with THREE_FRY for 64-bit words: word i is the number counter + i,
encrypted with the key.

Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), section 3.1: Threefry-2x32-20.
"""

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import i64

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA
_LOW = 2**32 - 1


def threefry(b: IrEmitter, state: IrValue, count: IrValue) -> IrValue:
    """A flat array of `count` random words of 64 bits. `state` consists of a key and a counter.

    `count` is a tensor<1xi64>. The builder's `constant` and `broadcast_in_dim` must return flat arrays of this length.
    """
    u32, u64 = (ir.IntegerType.get_unsigned(n) for n in (32, 64))
    wide = ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], u64)

    def halves(x: IrValue) -> tuple[IrValue, IrValue]:
        low = _two(b, "and", x, _LOW)
        return b.convert(low, u32), b.convert(_two(b, "shift_right_logical", x, 32), u32)

    key, counter = (
        b.broadcast_in_dim(b.reshape(b.slice(state, [i], [i + 1], [1]), []), [], wide) for i in (0, 1)
    )
    place = b.emit("stablehlo.dynamic_iota", (count,), wide, {"iota_dimension": i64(0)})
    low, high = _enciphered(b, halves(b.add(counter, place)), halves(key))
    return _two(b, "or", b.convert(low, u64), _two(b, "shift_left", b.convert(high, u64), 32))


def _enciphered(
    b: IrEmitter, block: tuple[IrValue, IrValue], key: tuple[IrValue, IrValue]
) -> tuple[IrValue, IrValue]:
    """Encrypts the two 32-bit halves of a block by 20 rounds of Threefry."""
    keys = (*key, _two(b, "xor", _two(b, "xor", *key), _PARITY))
    x, y = b.add(block[0], keys[0]), b.add(block[1], keys[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = b.add(x, y)
            left, right = _two(b, "shift_left", y, distance), _two(b, "shift_right_logical", y, 32 - distance)
            y = _two(b, "xor", x, _two(b, "or", left, right))
        x = b.add(x, keys[(group + 1) % 3])
        y = b.add(b.add(y, keys[(group + 2) % 3]), b.constant(group + 1, y))
    return x, y


def _two(b: IrEmitter, op: str, x: IrValue, y: IrValue | int) -> IrValue:
    """Emits an op on two arrays, or on an array and a number."""
    y = b.constant(y, x) if isinstance(y, int) else y
    return b.emit(f"stablehlo.{op}", (x, y), x.type)
