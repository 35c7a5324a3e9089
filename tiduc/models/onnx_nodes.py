"""Types and constants of an ONNX graph, and an emitter of nodes that replace others."""

import itertools
from typing import Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.runtime.arrays import Array


class Nodes:
    """The state of a rewrite: known types and constants, and the nodes emitted so far."""

    def __init__(self, onnx: Any, model: Any) -> None:
        self.onnx, self.graph = onnx, model.graph
        self.version = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
        self.constants: dict[str, Array] = {
            x.name: onnx.numpy_helper.to_array(x) for x in model.graph.initializer
        }
        self.types = {
            x.name: x.type.tensor_type
            for x in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }
        self.emitted: list[Any] = []
        self._count = itertools.count()
        self._taken = {*self.types, *self.constants}

    def shape(self, name: str) -> list[int | None]:
        """The sizes of a value, None for a dynamic dimension; `Unsupported` where its rank is unknown."""
        if name in self.constants:
            return list(self.constants[name].shape)
        type_ = self.types.get(name)
        if type_ is None or not type_.HasField("shape"):
            raise Unsupported(f"the rank of {name!r} is not known, which a node that reads it needs")
        return [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]

    def has_rank(self, name: str) -> bool:
        """Whether the rank of a value is known."""
        return name in self.constants or (name in self.types and self.types[name].HasField("shape"))

    def constant(self, node: Any, i: int) -> Array | None:
        """The node's operand i where it is a constant; None where it is absent or not a constant."""
        return self.constants.get(node.input[i]) if i < len(node.input) and node.input[i] else None

    def attributes(self, node: Any) -> dict[str, Any]:
        """The attributes of a node by name; strings are decoded."""
        values = {each.name: self.onnx.helper.get_attribute_value(each) for each in node.attribute}
        return {name: x.decode() if isinstance(x, bytes) else x for name, x in values.items()}

    def emit(self, op: str, *inputs: Any, **attributes: Any) -> str:
        """Emits a node and returns the name of its output; inputs are names or arrays."""
        name = self.fresh()
        names = [x if isinstance(x, str) else self.hold(np.asarray(x)) for x in inputs]
        self.emitted.append(self.onnx.helper.make_node(op, names, [name], **attributes))
        return name

    def hold(self, array: Array) -> str:
        """Adds a constant and returns its name."""
        name = self.fresh()
        self.constants[name] = array
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def like(self, node: Any, number: float) -> Array:
        """A scalar with the element type of the node's first operand."""
        name = node.input[0]
        if name in self.constants:
            return np.asarray(number, self.constants[name].dtype)
        return np.asarray(number, self.onnx.helper.tensor_dtype_to_np_dtype(self.types[name].elem_type))

    def like_result(self, node: Any, number: float) -> Array:
        """A scalar with the element type of the node's first result."""
        kind = self.types[node.output[0]].elem_type
        return np.asarray(number, self.onnx.helper.tensor_dtype_to_np_dtype(kind))

    def fresh(self) -> str:
        """A name that is not in use."""
        return next(name for i in self._count if (name := f"tiduc.{i}") not in self._taken)
