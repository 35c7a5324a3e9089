"""Decompositions of functions that fill a tensor with one number.

torch.ones(3)    ->    torch.ops.tiduc.call_0_1([3], "... stablehlo.constant dense<1.0> ...")

The call hides the number from torch-mlir, which folds ops on such tensors wrongly: `torch.ones(3) != 1` becomes true,
and `torch.full((3,), -3) // 2` becomes -2^63. Constant tensors of one element are replaced by such calls, too.
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
    """A tensor of the given sizes with `value` in all elements. Sizes may be dynamic.

    If `dtype` is None, the element type is PyTorch's default for the number. Returns `NotImplemented` if StableHLO
    lacks the element type.
    """
    dtype = dtype or _type_of(value)
    name = str(dtype).removeprefix("torch.")
    if name not in ELEMENTS or not isinstance(value, Number):
        return NotImplemented
    static = list(sizes) if all(isinstance(n, int) for n in sizes) else []
    x = call("fill", [], _constant(static, value, dtype))
    return x if len(static) == len(sizes) else x.expand(sizes).clone(memory_format=torch.contiguous_format)


def hide(graph: torch.fx.Graph, placeholder: torch.fx.Node, tensor: torch.Tensor) -> bool:
    """Replaces the placeholder of a one-element tensor by a call that returns the tensor.

    Returns False, without a change, if the tensor has another number of elements, or a type that StableHLO lacks.
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
    """A function that emits a constant of the given sizes with `value` in all elements."""
    element = ELEMENTS[str(dtype).removeprefix("torch.")]
    return lambda body: [body.constant(_written(value, dtype), sizes, element)]


def tabulated(array: Array) -> torch.Tensor:
    """Converts an array of i64 or f64 to a tensor that the traced program contains as a constant.

    Decompositions use such tensors as tables, because they cannot refer to tensors outside the program.
    """
    written = f'"0x{np.ascontiguousarray(array).tobytes().hex()}"'
    element = ELEMENTS[str(array.dtype)]
    return call("table", [], lambda body: [body.constant(written, array.shape, element)])


def as_tensors(x: float | torch.Tensor, y: float | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Converts both operands to tensors of their common element type. One operand may be a number."""
    dtype = torch.result_type(x, y)
    tensors = (v.to(dtype) if isinstance(v, torch.Tensor) else filled([], v, dtype) for v in (x, y))
    return next(tensors), next(tensors)


def _type_of(value: Number) -> torch.dtype:
    if isinstance(value, bool | int):
        return torch.bool if isinstance(value, bool) else torch.int64
    default = torch.get_default_dtype()
    return torch.promote_types(default, torch.complex32) if isinstance(value, complex) else default


def _written(value: Number, dtype: torch.dtype) -> str:
    """The number in MLIR's syntax. Floats are written as hexadecimal bits, the only syntax for infinities and NaN."""
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
    """Computes y - alpha x. The op is decomposed because torch-mlir would round y to f32 if y is a number."""
    x, y = as_tensors(x, y)
    return torch.sub(y, x, alpha=alpha)
