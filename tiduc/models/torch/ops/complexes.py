"""Decomposes PyTorch's ops on complex tensors into calls of StableHLO ops, because torch-mlir lowers only some ops."""

from collections.abc import Callable, Sequence
from functools import partial
from math import pi
from typing import Any

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call, element
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch


def unary(op: str, x: torch.Tensor, kind: str | None = None) -> torch.Tensor:
    """Applies an elementwise op of StableHLO or CHLO to x.

    `kind` is the element type of the result. It defaults to the element type of x.
    """

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        return [body.emit(op, [a], a.sizes, element=kind)]

    return call(op.rpartition(".")[2], [x], emit)


def parts(x: torch.Tensor) -> tuple[Any, Any]:
    """The real and the imaginary part of a complex tensor."""
    kind = _parts_element(x)
    return unary("real", x, kind), unary("imag", x, kind)


def together(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    """The complex tensor with the given real and imaginary parts, which are broadcast to a common shape."""
    real, imaginary = torch.broadcast_tensors(real, imaginary)
    kind = f"complex<{element(real)}>"
    return call(
        "complex", [real, imaginary], lambda b, x, y: [b.emit("complex", [x, y], x.sizes, element=kind)]
    )


def eye(m: int, n: int, like: torch.Tensor) -> torch.Tensor:
    """The m by n matrix with ones on its diagonal and zeros elsewhere, with the element type of `like`."""
    matrix = torch.eye(m, n, dtype=_real(like.dtype))
    return to_complex(matrix) if like.is_complex() else matrix


def to_complex(x: torch.Tensor) -> torch.Tensor:
    return together(x, torch.zeros_like(x))


def magnitude(x: torch.Tensor) -> torch.Tensor:
    """The elementwise absolute value of a complex tensor."""
    return unary("abs", x, _parts_element(x))


def _parts_element(x: torch.Tensor) -> str:
    return element(x).removeprefix("complex<").removesuffix(">")


def _real(dtype: torch.dtype) -> torch.dtype:
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _of_complex(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A decomposition that applies `function` if the first operand is a complex tensor, and otherwise keeps the op."""

    def run(x: torch.Tensor, *rest: bool | Sequence[int], **keywords: Any) -> Any:
        return (
            function(x, *rest, **keywords)
            if isinstance(x, torch.Tensor) and x.is_complex()
            else NotImplemented
        )

    return run


TABLE[aten.complex.default] = together
TABLE[aten.view_as_complex.default] = lambda x: together(x[..., 0], x[..., 1])
TABLE[aten.view_as_real.default] = TABLE[aten.view_as_real_copy.default] = lambda x: torch.stack(parts(x), -1)
TABLE[aten.real.default] = _of_complex(lambda x: parts(x)[0])
TABLE[aten.imag.default] = _of_complex(lambda x: parts(x)[1])
TABLE[aten.polar.default] = lambda size, angle: together(size * torch.cos(angle), size * torch.sin(angle))


@decomposes(aten.angle.default)
def angle(x: torch.Tensor) -> Any:
    """The angle of each element. For a real tensor, it is pi, 0 or NaN with derivative zero, as in PyTorch."""
    if x.is_complex():
        return torch.atan2(*parts(x)[::-1])
    x = x if x.is_floating_point() else x.float()
    return torch.where(torch.isnan(x), x, torch.where(x < 0, pi, 0.0).to(x.dtype)).detach()


@decomposes(aten.sgn.default)
@_of_complex
def sgn(x: torch.Tensor) -> Any:
    size = magnitude(x)
    return x / torch.where(size == 0, 1, size)


def _pair(op: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Applies a binary op of StableHLO to two operands, one of which may be a number.

    At least one operand is complex.
    """
    like = x if isinstance(x, torch.Tensor) and x.is_complex() else y
    x, y = (v if isinstance(v, torch.Tensor) else torch.full((), v, dtype=like.dtype) for v in (x, y))
    dtype = torch.promote_types(x.dtype, y.dtype)
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))
    return call(op, [x, y], lambda body, a, b: [body.emit(op, [a, b], a.sizes)])


def _arithmetic(op: str, x: int | torch.Tensor, y: float | torch.Tensor, *, alpha: int = 1) -> Any:
    if not any(isinstance(v, complex) or (isinstance(v, torch.Tensor) and v.is_complex()) for v in (x, y)):
        return NotImplemented
    return _pair(op, x, y if alpha == 1 else y * alpha)


def _of_parts(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The decomposition of a linear function that applies the function to the real and to the imaginary part."""
    return _of_complex(
        lambda x, *rest, **keywords: together(*(function(y, *rest, **_of_reals(keywords)) for y in parts(x)))
    )


def _of_reals(keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: _real(value) if key == "dtype" else value for key, value in keywords.items()}


for _overload in (aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim):
    TABLE[_overload] = _of_parts(_overload)
for _name, _op in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide")):
    for _suffix in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, _name), _suffix)] = partial(_arithmetic, _op)
TABLE[aten.pow.Tensor_Scalar] = TABLE[aten.pow.Tensor_Tensor] = partial(_arithmetic, "power")
for _name, _op in (
    ("exp", "exponential"),
    ("log", "log"),
    ("sqrt", "sqrt"),
    ("sin", "sine"),
    ("cos", "cosine"),
):
    TABLE[getattr(aten, _name).default] = _of_complex(partial(unary, _op))
TABLE[aten.neg.default] = _of_complex(partial(unary, "negate"))
TABLE[aten.tanh.default] = _of_complex(partial(unary, "tanh"))


def _creates(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A decomposition that creates a complex tensor from real tensors, because torch-mlir creates only real tensors."""

    def run(*arguments: int, dtype: torch.dtype | None = None, **keywords: Any) -> Any:
        if dtype is None or not dtype.is_complex:
            return NotImplemented
        *first, last = arguments
        if not isinstance(last, complex):
            return to_complex(function(*arguments, dtype=_real(dtype)))
        return together(*(function(*first, part, dtype=_real(dtype)) for part in (last.real, last.imag)))

    return run


TABLE |= {overload: _creates(overload) for overload in (aten.eye.default, aten.eye.m, aten.arange.default)}


@decomposes(aten._assert_tensor_metadata.default)
def assert_metadata(x: torch.Tensor, *facts: torch.dtype | None, **keywords: object) -> None:
    """Removes the op, because torch-mlir does not support a complex `dtype` in it. An export adds it before `to`."""


@decomposes(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
@_of_complex
def conj(x: torch.Tensor) -> Any:
    real, imaginary = parts(x)
    return together(real, -imaginary)


@decomposes(aten._to_copy.default, aten.to.dtype, aten.to.dtype_layout)
def convert(x: torch.Tensor, dtype: torch.dtype | None = None, *rest: bool, **keywords: Any) -> Any:
    dtype = keywords.get("dtype", dtype)
    dtype = dtype if isinstance(dtype, torch.dtype) else x.dtype
    if not (dtype.is_complex or x.is_complex()):
        return NotImplemented
    if x.dtype == dtype:
        return x.clone()
    real, imaginary = parts(x) if x.is_complex() else (x, torch.zeros_like(x))
    real = real.to(_real(dtype))
    return together(real, imaginary.to(real.dtype)) if dtype.is_complex else real
