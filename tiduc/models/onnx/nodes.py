"""Looks up types and constants of an ONNX graph, and emits nodes that replace nodes of the graph."""

import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import DTYPES, ELEMENTS

if TYPE_CHECKING:
    import onnx

CALL = "TiducCall"
"""The operator type of a node that calls a StableHLO function. It is also the name of the operator's domain.

The node's attribute `text` has the text of the function.
"""
STOP = "TiducStop"
"""The operator type, in the domain `CALL`, of a node that returns its operand with derivative zero."""


class Nodes:
    """The state while the nodes of a graph are rewritten: known types and constants, and the nodes emitted so far."""

    def __init__(
        self,
        onnx: ModuleType,
        model: "onnx.ModelProto",
        prepare: "Callable[[onnx.ModelProto], onnx.ModelProto]",
        functions: "list[onnx.ModelProto | None]",
        straight_through: bool = False,
    ) -> None:
        """`prepare` prepares a subgraph, given as a model, for torch-mlir. `functions` collects these prepared models.

        With `straight_through`, a quantization has the derivative of its clipping, as if it did not round.
        """
        self.onnx, self.model, self.graph = onnx, model, model.graph
        self.prepare, self.functions = prepare, functions
        self.version = version(model)
        self.constants: dict[str, Array] = {
            x.name: onnx.numpy_helper.to_array(x) for x in model.graph.initializer
        }
        self.types = {
            x.name: x.type.tensor_type
            for x in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }
        self.straight_through = straight_through
        self.floats: dict[str, str] = {}
        """Maps the name of a quantized value to the name of a float value that equals it and has a derivative."""
        self.sequences: dict[str, list[str]] = {}
        """Maps the name of a sequence to the names of the sequence's elements."""
        self.emitted: list[Any] = []
        self.renamed: dict[str, str] = {}
        self.again = False
        self._count = itertools.count()
        self._taken = {*self.types, *self.constants, *(y for node in self.graph.node for y in node.output)}

    # ---- facts ---------------------------------------------------------------------------------------------

    def shape(self, name: str) -> list[int | None]:
        """The sizes of a value, with None for a dynamic size. Raises `Unsupported` if the rank is unknown."""
        if name in self.constants:
            return list(self.constants[name].shape)
        type_ = self.types.get(name)
        if type_ is None or not type_.HasField("shape"):
            raise Unsupported(f"the rank of {name!r} is not known")
        return [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]

    def has_rank(self, name: str) -> bool:
        """Whether the rank of a value is known."""
        return name in self.constants or (name in self.types and self.types[name].HasField("shape"))

    def sizes(self, name: str) -> list[int]:
        """The sizes of a value. Raises `Unsupported` if a size is dynamic."""
        sizes = [n for n in self.shape(name) if n is not None]
        if len(sizes) < len(self.shape(name)):
            raise Unsupported(
                f"{name!r} has a dynamic dimension and needs a static one; set dimensions with --size NAME=N"
            )
        return sizes

    def chosen(self, name: str, axis: int) -> int:
        """The size that the user gave for an axis of a result. Raises `Unsupported` if the user gave none.

        For results whose size depends on data.
        """
        n = self.shape(name)[axis] if self.has_rank(name) else None
        if n is None:
            place = f"{name}.{axis}"
            raise Unsupported(
                f"the size of the result depends on data; give the size with --size {place}=N "
                f"(sizes={{{place!r}: N}} in Python)"
            )
        return n

    def is_static(self, name: str) -> bool:
        """Whether all sizes of a value are known."""
        return self.has_rank(name) and None not in self.shape(name)

    def constant(self, node: "onnx.NodeProto", i: int) -> Array | None:
        """The value of operand i of the node. Returns None if the operand is absent or is not a constant."""
        return self.constants.get(node.input[i]) if i < len(node.input) and node.input[i] else None

    def attributes(self, node: "onnx.NodeProto") -> dict[str, Any]:
        """Maps the names of a node's attributes to the attributes' values. Decodes strings."""
        values = {each.name: self.onnx.helper.get_attribute_value(each) for each in node.attribute}
        return {name: x.decode() if isinstance(x, bytes) else x for name, x in values.items()}

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a value. Raises `Unsupported` if the type is not known."""
        if name in self.constants:
            return self.constants[name].dtype
        if name not in self.types or not self.types[name].elem_type:
            raise Unsupported(f"the element type of {name!r} is not known")
        dtype: np.dtype[Any] = self.onnx.helper.tensor_dtype_to_np_dtype(self.types[name].elem_type)
        return dtype

    def like(self, node: "onnx.NodeProto", number: float) -> Array:
        """Returns `number` as a scalar with the element type of the node's first operand."""
        return np.asarray(number, self.dtype(node.input[0]))

    def like_result(self, node: "onnx.NodeProto", number: float) -> Array:
        """Returns `number` as a scalar with the element type of the node's first result."""
        return np.asarray(number, self.dtype(node.output[0]))

    # ---- nodes ---------------------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: str | ArrayLike, **attributes: Any) -> str:
        """Emits a node and returns the name of its output. An input is the name of a value, or an array."""
        name = self.fresh()
        names = [x if isinstance(x, str) else self.hold(np.asarray(x)) for x in inputs]
        self.emitted.append(self.onnx.helper.make_node(op, names, [name], **attributes))
        return name

    def hold(self, array: Array) -> str:
        """Adds the array to the graph as a constant, and returns the constant's name."""
        name = self.fresh()
        self.constants[name] = array
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def call(
        self, name: str, operands: Sequence[str], build: Callable[..., Sequence[TextTensor]]
    ) -> list[str]:
        """Emits a call of a StableHLO function on the values `operands`. Returns the names of the call's results.

        `build(body, *arguments)` emits the function's ops and returns the function's results.
        """
        body = Body([(self._dynamic(x), element(self.dtype(x))) for x in operands])
        results = build(body, *body.arguments)
        names = [self.fresh() for _ in results]
        for y, value in zip(names, results, strict=True):
            info = self.info(y, value.sizes, value.element)
            self.graph.value_info.append(info)
            self.types[y] = info.type.tensor_type
        text = body.function(name, results)
        self.emitted.append(self.onnx.helper.make_node(CALL, operands, names, domain=CALL, text=text))
        return names

    def stop(self, x: str, shaped: str, dtype: DTypeLike) -> str:
        """Emits a node that returns x with derivative zero, and returns the name of the node's result.

        x has the shape of the value `shaped` and the element type `dtype`.
        """
        name = self.fresh()
        info = self.info(name, self._dynamic(shaped), element(dtype))
        self.graph.value_info.append(info)
        self.types[name] = info.type.tensor_type
        self.emitted.append(self.onnx.helper.make_node(STOP, [x], [name], domain=CALL))
        return name

    def info(self, name: str, sizes: Sequence[int], element: str) -> Any:
        """A `ValueInfoProto` for a value with the given name and type. A size that is not an `int` is dynamic."""
        to = self.onnx.helper.np_dtype_to_tensor_dtype(DTYPES[element])
        return self.onnx.helper.make_tensor_value_info(
            name, to, [n if isinstance(n, int) else None for n in sizes]
        )

    def _dynamic(self, name: str) -> list[Any]:
        """The sizes of a value as they are written in a type of MLIR, with "?" for a dynamic size."""
        return ["?" if n is None else n for n in self.shape(name)]

    def fresh(self) -> str:
        """Returns a name that no value of the graph has."""
        return next(name for i in self._count if (name := f"tiduc.{i}") not in self._taken)


def version(model: "onnx.ModelProto") -> int:
    """The version of ONNX's default operator set that a model imports."""
    return int(next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")))


def element(dtype: DTypeLike) -> str:
    """The name of the StableHLO element type for a NumPy type. Raises `Unsupported` if StableHLO lacks the type."""
    if np.dtype(dtype) not in ELEMENTS:
        raise Unsupported(
            f"arrays of {np.dtype(dtype).name} are not supported; cast them to a wider type first"
        )
    return ELEMENTS[np.dtype(dtype)]


def operand(node: "onnx.NodeProto", i: int) -> str:
    """The name of operand i of the node, or "" if the operand is absent."""
    return str(node.input[i]) if i < len(node.input) else ""
