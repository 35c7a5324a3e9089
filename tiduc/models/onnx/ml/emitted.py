"""Emits nodes of ai.onnx in place of a node of ai.onnx.ml."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.onnx.nodes import CALL, version
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import DTYPES

if TYPE_CHECKING:
    import onnx


Attribute = Union[int, Sequence[int], "onnx.TensorProto"]
"""The value of an attribute of an emitted node."""


class Emitted:
    """Builds the nodes that replace the node `node`. `before` has the nodes before `node`."""

    def __init__(
        self,
        onnx: ModuleType,
        model: "onnx.ModelProto",
        node: "onnx.NodeProto",
        before: "list[onnx.NodeProto]",
    ) -> None:
        self.onnx, self.graph, self.node = onnx, model.graph, node
        self.version = version(model)
        self.nodes: list[Any] = []
        self._model, self._before = model, before
        values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        self.attributes = {name: x.decode() if isinstance(x, bytes) else x for name, x in values.items()}
        self._stem = next(y for y in node.output if y)
        self._count = itertools.count()

    def emit(self, op: str, *inputs: str | ArrayLike, **attributes: Attribute) -> str:
        """Emits a node and returns the name of its result. Inputs are names, or arrays, which become constants."""
        names = [x if isinstance(x, str) else self.constant(np.asarray(x)) for x in inputs]
        return self._node(op, names, attributes)

    def constant(self, array: Array) -> str:
        """Adds a constant that is not a weight, and returns its name."""
        return self._node("Constant", [], {"value": self.onnx.numpy_helper.from_array(array)})

    def weight(self, name: str, array: ArrayLike, dtype: DTypeLike = np.float32) -> str:
        """Adds a float initializer. Returns its name, which consists of the node's first result and `name`."""
        named = f"{self._stem}.{name}"
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(np.asarray(array, dtype), named))
        return named

    def result(self, i: int, value: str) -> None:
        """Sets result i of the replaced node to `value`. Does nothing if result i has no name."""
        if i < len(self.node.output) and self.node.output[i]:
            self.nodes.append(self.onnx.helper.make_node("Identity", [value], [self.node.output[i]]))

    def is_read(self, i: int) -> bool:
        """Whether result i of the replaced node has a name. A result without a name is not read."""
        return i < len(self.node.output) and bool(self.node.output[i])

    def floats(self, dtype: DTypeLike = np.float32) -> str:
        """The first operand, cast to floats, because operators of ai.onnx.ml compute with floats."""
        return self.cast(self.node.input[0], dtype)

    def cast(self, x: str, dtype: DTypeLike) -> str:
        return self.emit("Cast", x, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def array(self, name: str) -> Array | None:
        """The array in the attribute `name`, or else in `{name}_as_tensor`. Returns None if there is no element."""
        given = self.attributes.get(name)
        given = self.attributes.get(f"{name}_as_tensor") if given is None else given
        if given is None:
            return None
        array: Array = self.onnx.numpy_helper.to_array(given) if hasattr(given, "dims") else np.asarray(given)
        if isinstance(given, list) and array.dtype == np.float64:  # attributes hold floats of 32 bits
            array = array.astype(np.float32)
        return array if array.size else None

    def needed(self, name: str) -> Array:
        """The array that `array(name)` returns. Raises `Unsupported` if `array` returns None."""
        if (array := self.array(name)) is None:
            raise Unsupported(f"its attribute {name} is missing")
        return array

    def shape(self, name: str) -> list[int | str]:
        """The sizes of a value, with "?" for a dynamic size. Raises `Unsupported` if the rank is unknown."""
        part = self.onnx.ModelProto()
        part.CopyFrom(self._model)
        del part.graph.node[:], part.graph.output[:]
        part.graph.node.extend([*self._before, *self.nodes])
        try:
            inferred = self.onnx.shape_inference.infer_shapes(part).graph
        except Exception:  # raised by onnx for shapes that disagree, which a later step reports
            inferred = part.graph
        for tensor in inferred.initializer:
            if tensor.name == name:
                return list(tensor.dims)
        for value in (*inferred.input, *inferred.value_info):
            if value.name == name and value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                return [d.dim_value if d.HasField("dim_value") else "?" for d in dims]
        raise Unsupported(f"the rank of {name!r} is not known")

    def call(
        self,
        name: str,
        operands: Sequence[str],
        kinds: Sequence[str],
        build: Callable[..., Sequence[TextTensor]],
    ) -> list[str]:
        """Emits a call of a StableHLO function on `operands`, whose element types are `kinds`.

        Returns the names of the results. `build(body, *arguments)` emits the function's ops and returns its results.
        """
        types: Any = [(self.shape(x), kind) for x, kind in zip(operands, kinds, strict=True)]
        body = Body(types)
        results = build(body, *body.arguments)
        names = [f"{self._stem}.{name}.{next(self._count)}" for _ in results]
        for y, value in zip(names, results, strict=True):
            to = self.onnx.helper.np_dtype_to_tensor_dtype(DTYPES[value.element])
            sizes = [n if isinstance(n, int) else None for n in value.sizes]
            self.graph.value_info.append(self.onnx.helper.make_tensor_value_info(y, to, sizes))
        text = body.function(name, results)
        self.nodes.append(self.onnx.helper.make_node(CALL, operands, names, domain=CALL, text=text))
        return names

    def sum(self, x: str, axis: int, keepdims: int = 0) -> str:
        if self.version >= 13:
            return self.emit("ReduceSum", x, np.asarray([axis]), keepdims=keepdims)
        return self.emit("ReduceSum", x, axes=[axis], keepdims=keepdims)

    def extreme(self, op: str, x: str, axis: int, keepdims: int = 0) -> str:
        """The maximum or minimum along an axis. `op` is ReduceMax or ReduceMin."""
        if self.version >= 18:
            return self.emit(op, x, np.asarray([axis]), keepdims=keepdims)
        return self.emit(op, x, axes=[axis], keepdims=keepdims)

    def unsqueeze(self, x: str, axis: int) -> str:
        if self.version >= 13:
            return self.emit("Unsqueeze", x, np.asarray([axis]))
        return self.emit("Unsqueeze", x, axes=[axis])

    def _node(self, op: str, inputs: list[str], attributes: Mapping[str, Attribute]) -> str:
        name = f"{self._stem}.{op}.{next(self._count)}"
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [name], **attributes))
        return name
