"""Decompositions of functions that fill a tensor with one number.

torch.ones(3)    ->    torch.ops.tiduc.call_0_1([3], "... stablehlo.constant dense<1.0> ...")

The call hides the number from torch-mlir, whose folds of such tensors are wrong: `torch.ones(3) != 1` is true there,
and `torch.full((3,), -3) // 2` is -2^63. One-element tensors in a program are hidden, too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import ELEMENTS, call, called
from tiduc.models.torch.ops.framework import aten, decomposes, torch
from tiduc.runtime.arrays import Array

Number = bool | int | float | complex


def filled(sizes: Sequence[int | torch.SymInt], value: Number, dtype: torch.dtype | None = None) -> Any:
    """A tensor of the sizes `sizes`, some of which may be dynamic, filled with a number.

    If `dtype` is None, the element type is PyTorch's default for the number. Returns `NotImplemented` for a type that
    StableHLO lacks.
    """
    dtype = dtype or _type_of(value)
    name = str(dtype).removeprefix("torch.")
    if name not in ELEMENTS or not isinstance(value, Number):
        return NotImplemented
    static = list(sizes) if all(isinstance(n, int) for n in sizes) else []
    x = call("fill", [], _constant(static, value, dtype))
    return x if len(static) == len(sizes) else x.expand(sizes).clone(memory_format=torch.contiguous_format)


def hide(graph: torch.fx.Graph, placeholder: torch.fx.Node, tensor: torch.Tensor) -> bool:
    """Replaces a placeholder of a one-element tensor by a call that fills the tensor.

    Returns whether it did: the tensor must have one element, of a type that StableHLO has.
    """
    if tensor.numel() != 1 or str(tensor.dtype).removeprefix("torch.") not in ELEMENTS:
        return False
    function, arguments = called("fill", [], _constant(list(tensor.shape), tensor.item(), tensor.dtype))
    first = next(node for node in graph.nodes if node.op != "placeholder")
    with graph.inserting_before(first):
        node = graph.call_function(function, arguments)
    node.meta |= placeholder.meta
    placeholder.replace_all_uses_with(node)
    graph.erase_node(placeholder)
    return True


def _constant(sizes: Sequence[int], value: Number, dtype: torch.dtype) -> Callable[[Body], list[TextTensor]]:
    """A function that emits a constant in a body: a tensor of these sizes filled with a number."""
    element = ELEMENTS[str(dtype).removeprefix("torch.")]
    return lambda body: [body.constant(_written(value, dtype), sizes, element)]


def tabulated(array: Array) -> torch.Tensor:
    """The tensor of an array of i64 or f64, as a constant of the program. Decompositions cannot use other tensors."""
    written = f'"0x{np.ascontiguousarray(array).tobytes().hex()}"'
    element = ELEMENTS[str(array.dtype)]
    return call("table", [], lambda body: [body.constant(written, array.shape, element)])


def as_tensors(x: float | torch.Tensor, y: float | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both operands as tensors of PyTorch's common type. One operand may be a number."""
    dtype = torch.result_type(x, y)
    tensors = (v.to(dtype) if isinstance(v, torch.Tensor) else filled([], v, dtype) for v in (x, y))
    return next(tensors), next(tensors)


def _type_of(value: Number) -> torch.dtype:
    if isinstance(value, bool | int):
        return torch.bool if isinstance(value, bool) else torch.int64
    default = torch.get_default_dtype()
    return torch.promote_types(default, torch.complex32) if isinstance(value, complex) else default


def _written(value: Number, dtype: torch.dtype) -> str:
    """The number in MLIR's syntax. A float is written by its bits, because infinities and NaN have no other syntax."""
    if dtype.is_complex:
        parts = (complex(value).real, complex(value).imag)
        return f"({', '.join(_written(part, dtype.to_real()) for part in parts)})"
    if dtype == torch.bool:
        return str(bool(value)).lower()
    if not dtype.is_floating_point:
        return str(int(value.real))
    name = str(dtype).removeprefix("torch.")
    with np.errstate(over="ignore"):
        array = np.array(value, getattr(ml_dtypes, name, None) or getattr(np, name))
    return f"0x{int(array.view(f'u{array.itemsize}')):0{2 * array.itemsize}X}"


@decomposes(aten.full.default)
def full(
    sizes: Sequence[int], value: Number, *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    return filled(sizes, value, dtype)


@decomposes(aten.scalar_tensor.default)
def scalar(value: Number, *, dtype: torch.dtype | None = None, **_: object) -> Any:
    return filled([], value, dtype or torch.get_default_dtype())


@decomposes(aten.zeros.default)
def zeros(sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> Any:
    return filled(sizes, 0, dtype or torch.get_default_dtype())


@decomposes(aten.ones.default)
def ones(sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    return filled(sizes, 1, dtype or torch.get_default_dtype())


@decomposes(aten.full_like.default, aten.fill.Scalar)
def full_like(
    x: torch.Tensor, value: Number, *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    return filled(x.shape, value, dtype or x.dtype)


@decomposes(aten.zeros_like.default, aten.zero.default)
def zeros_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Any:
    return filled(x.shape, 0, dtype or x.dtype)


@decomposes(aten.ones_like.default)
def ones_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    return filled(x.shape, 1, dtype or x.dtype)


@decomposes(aten.new_full.default)
def new_full(
    x: torch.Tensor, sizes: Sequence[int], value: Number, *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    return filled(sizes, value, dtype or x.dtype)


@decomposes(aten.new_zeros.default)
def new_zeros(
    x: torch.Tensor, sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    return filled(sizes, 0, dtype or x.dtype)


@decomposes(aten.new_ones.default)
def new_ones(
    x: torch.Tensor, sizes: Sequence[int], *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    return filled(sizes, 1, dtype or x.dtype)


@decomposes(aten.rsub.Scalar, aten.rsub.Tensor)
def rsub(x: torch.Tensor, y: float | torch.Tensor, alpha: float = 1) -> torch.Tensor:
    """y - alpha x. torch-mlir would round a number y to f32."""
    x, y = as_tensors(x, y)
    return torch.sub(y, x, alpha=alpha)
