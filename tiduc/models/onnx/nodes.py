"""Types and constants of an ONNX graph, and an emitter of nodes that replace other nodes."""

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
"""The type and the domain of a node that calls a StableHLO function; its attribute `text` is the function."""
STOP = "TiducStop"
"""The type of a node that stops gradients, in the domain `CALL`."""


class Nodes:
    """The state of a rewrite: known types and constants, and the nodes emitted so far."""

    def __init__(
        self,
        onnx: ModuleType,
        model: "onnx.ModelProto",
        prepare: "Callable[[onnx.ModelProto], onnx.ModelProto]",
        functions: "list[onnx.ModelProto | None]",
        straight_through: bool = False,
    ) -> None:
        """`prepare` prepares a model for torch-mlir; `functions` collects the models that become functions.

        With `straight_through`, quantizations have the derivative of their clipping alone.
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
        """Maps the name of a quantized number to the name of a float with its value and derivative."""
        self.sequences: dict[str, list[str]] = {}
        """The values in each sequence."""
        self.emitted: list[Any] = []
        self.renamed: dict[str, str] = {}
        self.again = False
        self._count = itertools.count()
        self._taken = {*self.types, *self.constants, *(y for node in self.graph.node for y in node.output)}

    # ---- facts ---------------------------------------------------------------------------------------------

    def shape(self, name: str) -> list[int | None]:
        """The sizes of a value, None for a dynamic dimension; raises `Unsupported` if its rank is unknown."""
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
        """The size along an axis of a result whose size depends on data. Raises `Unsupported` if no size is given."""
        n = self.shape(name)[axis] if self.has_rank(name) else None
        if n is None:
            place = f"{name}.{axis}"
            raise Unsupported(
                f"the size of its result depends on data; give the size with --size {place}=N "
                f"(sizes={{{place!r}: N}} in Python)"
            )
        return n

    def is_static(self, name: str) -> bool:
        """Whether all sizes of a value are known."""
        return self.has_rank(name) and None not in self.shape(name)

    def constant(self, node: "onnx.NodeProto", i: int) -> Array | None:
        """Operand i of the node if it is a constant. None if it is absent or not a constant."""
        return self.constants.get(node.input[i]) if i < len(node.input) and node.input[i] else None

    def attributes(self, node: "onnx.NodeProto") -> dict[str, Any]:
        """The attributes of a node by name; strings are decoded."""
        values = {each.name: self.onnx.helper.get_attribute_value(each) for each in node.attribute}
        return {name: x.decode() if isinstance(x, bytes) else x for name, x in values.items()}

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a value; raises `Unsupported` if it is not known."""
        if name in self.constants:
            return self.constants[name].dtype
        if name not in self.types or not self.types[name].elem_type:
            raise Unsupported(f"the element type of {name!r} is not known")
        dtype: np.dtype[Any] = self.onnx.helper.tensor_dtype_to_np_dtype(self.types[name].elem_type)
        return dtype

    def like(self, node: "onnx.NodeProto", number: float) -> Array:
        """A scalar with the element type of the node's first operand."""
        return np.asarray(number, self.dtype(node.input[0]))

    def like_result(self, node: "onnx.NodeProto", number: float) -> Array:
        """A scalar with the element type of the node's first result."""
        return np.asarray(number, self.dtype(node.output[0]))

    # ---- nodes ---------------------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: str | ArrayLike, **attributes: Any) -> str:
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

    def call(
        self, name: str, operands: Sequence[str], build: Callable[..., Sequence[TextTensor]]
    ) -> list[str]:
        """Emits a call of a StableHLO function on the values `operands`. Returns the names of the results.

        `build(body, *arguments)` emits the function's ops and returns its results.
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
        """x without its derivative. x has the shape of the value `shaped`, and elements of type `dtype`."""
        name = self.fresh()
        info = self.info(name, self._dynamic(shaped), element(dtype))
        self.graph.value_info.append(info)
        self.types[name] = info.type.tensor_type
        self.emitted.append(self.onnx.helper.make_node(STOP, [x], [name], domain=CALL))
        return name

    def info(self, name: str, sizes: Sequence[int], element: str) -> Any:
        """ONNX's record of a value's type; a size that is not an `int` is dynamic."""
        to = self.onnx.helper.np_dtype_to_tensor_dtype(DTYPES[element])
        return self.onnx.helper.make_tensor_value_info(
            name, to, [n if isinstance(n, int) else None for n in sizes]
        )

    def _dynamic(self, name: str) -> list[Any]:
        """The sizes of a value, for the argument types of a function; '?' stands for a dynamic size."""
        return ["?" if n is None else n for n in self.shape(name)]

    def fresh(self) -> str:
        """A name that is not in use."""
        return next(name for i in self._count if (name := f"tiduc.{i}") not in self._taken)


def version(model: "onnx.ModelProto") -> int:
    """The version of ONNX's own operators in a model."""
    return int(next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")))


def element(dtype: DTypeLike) -> str:
    """The element type of StableHLO for a type of NumPy; raises `Unsupported` if there is none."""
    if np.dtype(dtype) not in ELEMENTS:
        raise Unsupported(
            f"arrays of {np.dtype(dtype).name} are not supported; cast them to a wider type before"
        )
    return ELEMENTS[np.dtype(dtype)]


def operand(node: "onnx.NodeProto", i: int) -> str:
    """The name of operand i of the node. "" if it is absent."""
    return str(node.input[i]) if i < len(node.input) else ""
