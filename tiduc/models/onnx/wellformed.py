"""Refuses ONNX models that are not well formed, or whose operators are newer than the installed package `onnx`.

The checker of `onnx` is not used, because it refuses some operators that tiduc imports, and models larger than 2 GiB.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.dialect.errors import ParseError, TiducError, Unsupported, first_line

if TYPE_CHECKING:
    import onnx


def check_model(onnx: ModuleType, model: "onnx.ModelProto") -> None:
    """Raises `TiducError` if versions, element types, sizes or names in a model are invalid.

    Call this before arrays in other files are read.
    """
    newest = onnx.defs.onnx_opset_version()
    for version in (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")):
        if not 1 <= version <= newest:
            raise Unsupported(
                f"the model has version {version} of ONNX's operators, and the installed onnx knows 1 to {newest}"
            )
    for name, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        _check_distinct([value.name for value in values], f"two {name} of the model have the name")
    for graph in graphs(model):
        _check_distinct([x for node in graph.node for x in node.output if x], "two nodes give the value")
    for name, number in _types(model):
        if number not in onnx.TensorProto.DataType.values():
            raise ParseError(f"{name!r} has an unknown element type: {number}")
    for tensor in _tensors(model):
        if tensor.data_type == onnx.TensorProto.UNDEFINED:
            raise ParseError(f"the array {tensor.name!r} has no element type")
        if any(size < 0 for size in tensor.dims):
            raise ParseError(f"the array {tensor.name!r} has a negative size: {list(tensor.dims)}")


def check_arrays(onnx: ModuleType, model: "onnx.ModelProto") -> None:
    """Raises `TiducError` if the number of elements of an array does not match the array's sizes.

    Call this after arrays in other files have been read.
    """
    for tensor in _tensors(model):
        if tensor.data_type != onnx.TensorProto.STRING:
            with reading(tensor.name):
                onnx.numpy_helper.to_array(tensor)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Context manager that raises a `TiducError` about the arrays of `name` instead of any exception in its body.

    Such exceptions come from the operating system or from `onnx`.
    """
    try:
        yield
    except Exception as error:
        raise TiducError(f"cannot read the arrays of {name!r}: {first_line(error)}") from error


def graphs(model: "onnx.ModelProto") -> Iterator[Any]:
    """Yields the graph of a model, the model's functions, and all subgraphs of nodes."""
    stack = [model.graph, *model.functions]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                stack += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]


def _tensors(model: "onnx.ModelProto") -> Iterator[Any]:
    """Yields the initializers of all graphs in a model, and the arrays in attributes of nodes."""
    for graph in graphs(model):
        yield from getattr(graph, "initializer", ())  # functions have no initializers
        for node in graph.node:
            for attribute in node.attribute:
                yield from attribute.tensors
                if attribute.HasField("t"):
                    yield attribute.t


def _types(model: "onnx.ModelProto") -> Iterator[tuple[str, int]]:
    """Yields pairs of a name and an element type (a number) for each array, typed value and cast in a model."""
    for tensor in _tensors(model):
        yield tensor.name, tensor.data_type
    for graph in graphs(model):
        is_function = not hasattr(graph, "initializer")
        # The inputs and outputs of a function have no types.
        ends = () if is_function else (*graph.input, *graph.output)
        for value in (*ends, *graph.value_info):
            yield value.name, value.type.tensor_type.elem_type
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype") and node.domain in ("", "ai.onnx"):
                    yield node.output[0] if node.output else node.name, attribute.i


def _check_distinct(names: list[str], message: str) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise ParseError(f"{message} {name!r}")
        seen.add(name)
