"""Decompositions of PyTorch's functions of bits and of integers, and of comparisons with a tolerance.

torch-mlir has no lowering of some functions of floats for operands that are integers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.fills import as_tensors
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch


def _with_tensors(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[Any, Any], Any]:
    """Wraps a function of two tensors so that an operand may be a number."""
    return lambda x, y: function(*as_tensors(x, y))


def _shifted(op: str) -> Callable[[Any, Any], Any]:
    """A function that shifts a tensor of integers by `y` bits, a tensor or a number.

    A shift by all bits gives 0 or -1.
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
    """The mean, computed in `dtype`. Keeps the op if `dtype` is the type of x."""
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
