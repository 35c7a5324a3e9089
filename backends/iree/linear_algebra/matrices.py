"""Batches of matrices as values of StableHLO, with one batch dimension: how to make them, and their types."""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.dialect.types import element, is_complex, shape, with_element


def batched(b: Emitter, x: Any, dimensions: int = 2) -> Any:
    """x with one batch dimension before its last dimensions; f16 and bf16, which would lose too much, become f32."""
    if isinstance(element(x), ir.FloatType) and element(x).width < 32:
        x = b.convert(x, ir.F32Type.get())
    at = len(shape(x)) - dimensions
    return b.reshape(x, [math.prod(shape(x)[:at]), *shape(x)[at:]])


def restored(b: Emitter, op: Any, values: Sequence[Any]) -> list[Any]:
    """The values in the shapes and element types of an op's results."""
    pairs = zip(values, op.results, strict=True)
    return [b.convert(b.reshape(x, y.type.shape), element(y)) for x, y in pairs]


def transposed(b: Emitter, x: Any) -> Any:
    """The transposes of a batch of matrices."""
    return b.transpose(x, [0, 2, 1])


def adjoint(b: Emitter, x: Any) -> Any:
    """The adjoints of a batch of matrices."""
    return b.conj(transposed(b, x))


def identity(b: Emitter, x: Any) -> Any:
    """The identity matrices with the type of a batch; Vulkan cannot convert predicates, and selects."""
    rows, columns = (b.iota(d, with_element(x.type, signless(32))) for d in (1, 2))
    return b.select(b.compare(rows, columns, "EQ"), b.constant(1, x), b.zeros_like(x))


def integers(batch: int, n: int) -> Any:
    """The type of n integers for each matrix of a batch."""
    return ir.RankedTensorType.get([batch, n], signless(32))


def real_rows(x: Any, n: int) -> Any:
    """The type of n real numbers for each matrix of the batch x."""
    return ir.RankedTensorType.get([shape(x)[0], n], real_type(x))


def real_type(x: Any) -> Any:
    """The element type, or the type of the parts of a complex one."""
    return element(x).element_type if is_complex(x) else element(x)
