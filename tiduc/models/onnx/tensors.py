"""Tensors of an ONNX graph that support NumPy's operators. Each operator emits a node.

The operators and functions accept NumPy's arrays, too. If all operands are arrays, the result is an array. An array
becomes a constant of the graph when it is combined with a tensor. All shapes are static.
"""

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tiduc.models.emitted_text import TextTensor
from tiduc.models.onnx.nodes import Nodes, element
from tiduc.runtime.arrays import Array

Key = int | slice | EllipsisType
"""The type of one entry of an index in brackets, as in x[entry, entry]."""


class Tensor:
    """A value of a graph: its name, its element type and its static shape."""

    __array_ufunc__ = None  # an operator between an array and a tensor calls the method of `Tensor`

    def __init__(self, nodes: Nodes, name: str, dtype: DTypeLike, shape: Sequence[int]) -> None:
        self.nodes, self.name, self.dtype, self.shape = nodes, name, np.dtype(dtype), tuple(shape)

    def emit(
        self,
        op: str,
        *others: "Tensor | ArrayLike",
        dtype: DTypeLike | None = None,
        shape: Sequence[int],
        **attributes: Any,
    ) -> "Tensor":
        """Emits a node whose operands are this tensor and `others`, and returns the node's result.

        `dtype` and `shape` are the type of the result. `dtype` defaults to the element type of this tensor.
        """
        names = [x.name if isinstance(x, Tensor) else x for x in others]
        kind = self.dtype if dtype is None else dtype
        return Tensor(self.nodes, self.nodes.emit(op, self.name, *names, **attributes), kind, shape)

    def _with(
        self, op: str, other: "Tensor | ArrayLike", dtype: DTypeLike | None = None, back: bool = False
    ) -> "Tensor":
        other = other if isinstance(other, Tensor) else held(self.nodes, np.asarray(other, self.dtype))
        x, y = (other, self) if back else (self, other)
        return x.emit(op, y, dtype=dtype, shape=np.broadcast_shapes(x.shape, y.shape))

    def __add__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Add", other)

    def __radd__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Add", other)

    def __sub__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Sub", other)

    def __rsub__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Sub", other, back=True)

    def __mul__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Mul", other)

    def __rmul__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Mul", other)

    def __truediv__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Div", other)

    def __rtruediv__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Div", other, back=True)

    def __neg__(self) -> "Tensor":
        return self.emit("Neg", shape=self.shape)

    def __pow__(self, power: float) -> "Tensor":
        return self._with("Pow", power)

    def __lt__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Less", other, bool)

    def __le__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("LessOrEqual", other, bool)

    def __gt__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Greater", other, bool)

    def __ge__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("GreaterOrEqual", other, bool)

    def equals(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Equal", other, bool)

    def __and__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("And", other)

    def __or__(self, other: "Tensor | ArrayLike") -> "Tensor":
        return self._with("Or", other)

    def __invert__(self) -> "Tensor":
        return self.emit("Not", shape=self.shape)

    def astype(self, dtype: DTypeLike) -> "Tensor":
        to = self.nodes.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self if self.dtype == dtype else self.emit("Cast", dtype=dtype, shape=self.shape, to=to)

    def reshape(self, *shape: int) -> "Tensor":
        sizes = np.empty(self.shape, bool).reshape(shape).shape
        return self.emit("Reshape", np.asarray(sizes, np.int64), shape=sizes)

    def transpose(self, *order: int) -> "Tensor":
        return self.emit("Transpose", shape=[self.shape[d] for d in order], perm=list(order))

    def sum(self, axis: int, keepdims: bool = False) -> "Tensor":
        axis %= len(self.shape)
        sizes = list(self.shape)
        sizes[axis : axis + 1] = [1] if keepdims else []
        return self.emit("ReduceSum", np.asarray([axis], np.int64), shape=sizes, keepdims=int(keepdims))

    def max(self, axis: int) -> "Tensor":
        """The maximum over an axis."""
        axis %= len(self.shape)
        sizes = [n for d, n in enumerate(self.shape) if d != axis]
        if self.nodes.version >= 18:
            return self.emit("ReduceMax", np.asarray([axis], np.int64), shape=sizes, keepdims=0)
        return self.emit("ReduceMax", shape=sizes, axes=[axis], keepdims=0)

    def __getitem__(self, key: Key | tuple[Key, ...]) -> "Tensor":
        """Indexes the tensor as NumPy does. The key may consist of integers, slices with step 1, and ellipses."""
        given = key if isinstance(key, tuple) else (key,)
        gap = len(self.shape) - len([p for p in given if not isinstance(p, EllipsisType)])
        parts = tuple(
            each for p in given for each in ((slice(None),) * gap if isinstance(p, EllipsisType) else (p,))
        )
        kept = np.empty(self.shape, bool)[parts].shape
        starts, ends = [], []
        for n, part in zip(self.shape, parts, strict=False):
            a, b, _ = part.indices(n) if isinstance(part, slice) else (part % n, part % n + 1, 1)
            starts.append(a)
            ends.append(b)
        axes = np.arange(len(starts))
        sizes = [*(max(0, b - a) for a, b in zip(starts, ends, strict=True)), *self.shape[len(starts) :]]
        return self.emit("Slice", np.asarray(starts), np.asarray(ends), axes, shape=sizes).reshape(*kept)


Operand = Tensor | ArrayLike
"""An operand of the functions below: a tensor of the graph, or an array."""


def call(name: str, operands: Sequence[Tensor], build: Callable[..., Sequence[TextTensor]]) -> list[Tensor]:
    """Emits a call of a StableHLO function named `name`, and returns the call's results.

    `build(body, *arguments)` emits the function's ops and returns the function's results.
    """
    nodes = operands[0].nodes
    for x in operands:
        nodes.types[x.name] = nodes.info(x.name, x.shape, element(x.dtype)).type.tensor_type
    names = nodes.call(name, [x.name for x in operands], build)
    return [Tensor(nodes, y, nodes.dtype(y), nodes.sizes(y)) for y in names]


def tensor(nodes: Nodes, name: str) -> Any:
    """The value named `name`: an array if it is a constant, else a `Tensor`.

    Raises `Unsupported` if the shape is dynamic.
    """
    if name in nodes.constants:
        return nodes.constants[name]
    return Tensor(nodes, name, nodes.dtype(name), nodes.sizes(name))


def held(nodes: Nodes, x: NDArray[Any] | Tensor) -> Tensor:
    """Adds an array to the graph as a constant, and returns it as a `Tensor`. Returns a `Tensor` unchanged."""
    return x if isinstance(x, Tensor) else Tensor(nodes, nodes.hold(x), x.dtype, x.shape)


def _unary(of_array: Callable[[Array], Array], op: str) -> Callable[[Any], Any]:
    return lambda x: x.emit(op, shape=x.shape) if isinstance(x, Tensor) else of_array(x)


floor, ceil, absolute = _unary(np.floor, "Floor"), _unary(np.ceil, "Ceil"), _unary(np.abs, "Abs")
sqrt, exp, sin = _unary(np.sqrt, "Sqrt"), _unary(np.exp, "Exp"), _unary(np.sin, "Sin")


def where(condition: Operand, x: Operand, y: Operand) -> Any:
    if not (isinstance(condition, Tensor) or isinstance(x, Tensor) or isinstance(y, Tensor)):
        return np.where(condition, x, y)
    found = [v for v in (condition, x, y) if isinstance(v, Tensor)]
    like = next((v for v in (x, y) if hasattr(v, "dtype")), None)
    dtype = None if like is None else like.dtype
    nodes = found[0].nodes
    x, y = (v if isinstance(v, Tensor) else held(nodes, np.asarray(v, dtype)) for v in (x, y))
    condition = condition if isinstance(condition, Tensor) else held(nodes, np.asarray(condition, bool))
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return condition.emit("Where", x, y, dtype=x.dtype, shape=shape)


def minimum(x: Operand, y: Operand) -> Any:
    return _extreme(np.minimum, "Min", x, y)


def maximum(x: Operand, y: Operand) -> Any:
    return _extreme(np.maximum, "Max", x, y)


def _extreme(
    of_arrays: Callable[[ArrayLike, ArrayLike], Array], op: str, x: Operand, y: Operand
) -> Tensor | Array:
    if isinstance(x, Tensor):
        return x._with(op, y)
    return y._with(op, x) if isinstance(y, Tensor) else of_arrays(x, y)


def clip(x: Tensor, low: float, high: float) -> Any:
    return minimum(maximum(x, low), high)


def take(x: Tensor, index: NDArray[Any] | Tensor, axis: int) -> Tensor:
    """Gathers elements of x at indices along an axis. In the result, the dimensions of `index` replace this axis."""
    axis %= len(x.shape)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.emit("Gather", index, shape=shape, axis=axis)


def concatenate(parts: Sequence[Tensor | Array], axis: int) -> Any:
    found = [x for x in parts if isinstance(x, Tensor)]
    if not found:
        return np.concatenate([x for x in parts if not isinstance(x, Tensor)], axis)
    first, *others = (held(found[0].nodes, x) for x in parts)
    axis %= len(first.shape)
    sizes = list(first.shape)
    sizes[axis] = sum(x.shape[axis] for x in parts)
    return first.emit("Concat", *others, shape=sizes, axis=axis)


def matmul(x: Tensor | Array, y: Tensor | Array) -> Any:
    if isinstance(x, Tensor):
        nodes = x.nodes
    elif isinstance(y, Tensor):
        nodes = y.nodes
    else:
        return np.matmul(x, y)
    x, y = held(nodes, x), held(nodes, y)
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    return x.emit("MatMul", y, shape=shape)
