"""Decompositions of bitwise functions, of `isclose`, and of functions that return floats for integers.

torch-mlir does not lower some functions of floats, such as `reciprocal`, if the operand is a tensor of integers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.fills import as_tensors
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch


def _with_tensors(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Any, Any], Any]:
    """Wraps a function of two tensors, so that one operand may be a number."""
    return lambda x, y: function(*as_tensors(x, y))


def _shifted(op: str) -> Callable[[Any, Any], Any]:
    """A function (x, y) that shifts a tensor x of integers by y bits. y may be a tensor or a number.

    If y is at least the number of bits of the type, the result is 0, or -1 for an arithmetic shift of a negative x.
    """

    def run(x: torch.Tensor, y: int | torch.Tensor) -> torch.Tensor:
        x, y = torch.broadcast_tensors(*as_tensors(x, y))
        return call(op, [x, y], lambda body, a, b: [body.emit(op, [a, b], a.sizes)])

    return run


def _shifted_right(x: torch.Tensor, y: int) -> torch.Tensor:
    return _shifted("shift_right_logical" if x.dtype == torch.uint8 else "shift_right_arithmetic")(x, y)


@decomposes(aten.isclose.default)
def isclose(
    x: torch.Tensor, y: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> torch.Tensor:
    close = x == y
    if equal_nan:
        close = close | ((x != x) & (y != y))
    if not x.is_floating_point():
        x, y = x.double(), y.double()
    return close | (torch.isfinite(y) & (torch.abs(x - y) <= atol + rtol * torch.abs(y)))


@decomposes(aten.reciprocal.default)
def reciprocal(x: torch.Tensor) -> Any:
    if x.is_floating_point() or x.is_complex():
        return NotImplemented
    return torch.reciprocal(x.to(torch.get_default_dtype()))


@decomposes(aten.mean.default, aten.mean.dim)
def mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Converts x to `dtype`, and computes the mean. Keeps the op if `dtype` is absent or is the type of x."""
    if dtype in (None, x.dtype):
        return NotImplemented
    return x.to(dtype).mean(dim, keepdim)


for _overload in (aten.__lshift__.Scalar, aten.__lshift__.Tensor):
    TABLE[_overload] = _shifted("shift_left")
for _overload in (aten.__rshift__.Scalar, aten.__rshift__.Tensor):
    TABLE[_overload] = _shifted_right
for _suffix in ("Tensor", "Tensor_Scalar"):
    TABLE[getattr(aten.bitwise_left_shift, _suffix)] = _shifted("shift_left")
    TABLE[getattr(aten.bitwise_right_shift, _suffix)] = _shifted_right
TABLE[aten.bitwise_or.Scalar] = _with_tensors(torch.bitwise_or)
TABLE[aten.bitwise_xor.Scalar] = _with_tensors(torch.bitwise_xor)
TABLE[aten.fmod.Scalar] = _with_tensors(torch.fmod)
