"""Imports ONNX files by torch-mlir's importer.

    model.onnx --onnx--> shapes inferred, weights as inputs, nodes rewritten --torch-mlir--> torch dialect --> StableHLO

Float initializers become inputs before torch-mlir runs, so that no array is copied or printed. Integer
initializers, mostly shapes and axes, and floats that an op needs as constants (`_STATIC`) stay initializers.
"""

import copy
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError, RequestError, TiducError, Unsupported, first_line
from tiduc.models.assemble import assemble
from tiduc.models.expansions import call_text
from tiduc.models.model import Model
from tiduc.models.onnx.inputs import modernize, needed_constants, set_constants
from tiduc.models.onnx.ml.outputs import arrays_only
from tiduc.models.onnx.ml.replace import replace_ml
from tiduc.models.onnx.narrow import widen
from tiduc.models.onnx.nodes import CALL, STOP
from tiduc.models.onnx.prepare import describe_node, prepare
from tiduc.models.onnx.refused import refuse_types
from tiduc.models.onnx.trainable import not_parameters
from tiduc.models.onnx.wellformed import check_arrays, check_model, reading
from tiduc.models.recurrent import RECURRENT
from tiduc.models.stops import composite
from tiduc.models.torch.dialect import import_in_worker, lower_torch
from tiduc.runtime.arrays import Array
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import warm_up

if TYPE_CHECKING:
    import onnx

_FIRST = "builtin.module(torch-onnx-to-torch-backend-pipeline)"

_OPERATORS = {**RECURRENT, f"onnx.{CALL}": call_text, f"onnx.{STOP}": composite}
"""The operators that pass through torch-mlir as custom calls, with their expansions."""

_RESULT = re.compile(r".+\.\d+")
"""Matches a key of `sizes` that names a dimension of a node's result: `RESULT.AXIS`."""

_WAY_OUT = "; write the operator in others, or cut it out with onnx.utils.extract_model and give its result as an input"

_STATIC = {
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "Dropout": (1,),
    "NonMaxSuppression": (3, 4),
    "OneHot": (1, 2),
    "Pad": (2,),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "Resize": (1, 2),
    "Upsample": (1,),
}
"""Maps an op to the positions of operands that must be constants, because torch-mlir cannot lower the op otherwise."""

_CODES = 2, 3
"""ONNX's codes for the element types uint8 and int8."""


def from_onnx(
    model: "onnx.ModelProto | str | Path",
    *,
    lift_constants: bool = False,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    straight_through: bool = False,
    limits: Limits | None = None,
) -> Model:
    """The model of an ONNX file, or of an `onnx.ModelProto`.

    Inputs and outputs have the names of the model. With `lift_constants`, float initializers are also inputs. They are
    the first inputs and have the names of the initializers. Attributes of ai.onnx.ml, such as coefficients, count as
    initializers. `sizes` maps dynamic dimensions to sizes. A key is the name of a dimension, such as `batch`, or has
    the form `INPUT.AXIS` or `RESULT.AXIS`. Other dimensions stay dynamic. `constants` gives the values of inputs by
    name, and removes these inputs. Some ops need constant axes, shapes or counts. With `straight_through`, the rounding
    of a quantization has derivative one instead of zero, so only the clipping affects the derivative. `limits` bound
    the import, which runs in a separate process. Raises `TiducError` if the file cannot be read, `Unsupported` if
    StableHLO cannot express an op, and `CompileError` if the import exceeds its limits.
    """
    warm_up(__name__, "onnx.shape_inference", "onnx.version_converter", "torch_mlir.extras.onnx_importer")
    onnx = _onnx()
    given: Any = model
    is_proto = isinstance(given, onnx.ModelProto)  # the import changes the model, so it is copied
    proto, folder = (copy.copy(given), ".") if is_proto else _read(onnx, Path(given))
    check_model(onnx, proto)
    arrays_only(onnx, proto)
    refuse_types(onnx, proto.graph)
    _set_sizes(onnx, proto, dict(sizes or {}))
    set_constants(onnx, proto.graph, dict(constants or {}))
    replace_ml(onnx, proto)
    # Quantized weights stay integers only in training steps, where this saves memory. Kernels read floats faster.
    weights = _weights_to_inputs(onnx, proto.graph, folder, set(constants or {}), integers=lift_constants)
    with reading(proto.graph.name):
        onnx.external_data_helper.load_external_data_for_model(proto, folder)
    check_arrays(onnx, proto)
    held = not_parameters(proto.graph, weights)
    outputs = [each.name for each in proto.graph.output]
    written, inputs = import_in_worker(_lowered, limits, _serialized(proto), list(weights), straight_through)
    return assemble(written, [*weights, *inputs], outputs, weights, lift_constants, held=held)


def _serialized(proto: "onnx.ModelProto") -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # raised by protobuf if the model exceeds 2 GiB without its weights
        raise Unsupported(f"the model cannot be serialized: {first_line(error)}") from error


def _lowered(serialized: bytes, weights: Sequence[str], straight_through: bool) -> tuple[bytes, list[str]]:
    """Lowers a model whose first inputs are `weights`. Returns bytecode of StableHLO, and the other inputs' names."""
    onnx = _onnx()
    proto = widen(onnx, modernize(onnx, onnx.load_from_string(serialized)))
    needed = needed_constants(proto.graph)
    try:
        functions: list[Any] = []
        proto = prepare(onnx, proto, functions, straight_through)
        written = lower_torch(_imported(proto, functions), _FIRST, _OPERATORS)
        return written, _own_inputs(proto.graph, weights)
    except Unsupported as error:
        if not needed:
            error.message = f"{error.message}{'' if ';' in error.message else _WAY_OUT}"
            raise
        name, kind = next(iter(needed.items()))
        raise Unsupported(
            f"{kind} reads {name!r}, an input, and may need its value at import: give it with "
            f"--constant {name}=ARRAY (constants={{{name!r}: ...}} in Python); {error.message}"
        ) from error


def _onnx() -> Any:
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
        import onnx.shape_inference
        import onnx.version_converter
    except ImportError:
        raise TiducError("models of ONNX need its package: pip install 'tiduc[onnx]'") from None
    return onnx


def _read(onnx: ModuleType, path: Path) -> "tuple[onnx.ModelProto, str]":
    """Reads the model in a file. Returns the model and the folder of its external arrays, which are not read yet."""
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(path)) from None
    except Exception as error:  # raised by protobuf
        raise ParseError(f"not an ONNX model: {first_line(error)}", str(path)) from error
    if not model.graph.node and not model.graph.output:
        raise ParseError("not an ONNX model", str(path))
    return model, os.path.dirname(path) or "."


def _set_sizes(onnx: ModuleType, proto: "onnx.ModelProto", sizes: Mapping[str, int]) -> None:
    """Sets dynamic dimensions of inputs and results, in place. A later shape inference propagates the sizes."""
    graph = proto.graph
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and (place := f"{value.name}.{axis}") in sizes:
                dim.dim_param = place
    names = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
    results = {place: n for place, n in sizes.items() if place not in names and _RESULT.fullmatch(place)}
    if missing := [name for name in sizes if name not in names and name not in results]:
        raise RequestError(
            f"no dynamic dimension is called {missing[0]!r}; the names are: {', '.join(sorted(names - {''})) or 'none'}"
        )
    if len(results) < len(sizes):
        del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    if results:
        _set_results(onnx, proto, results)


def _set_results(onnx: ModuleType, proto: "onnx.ModelProto", results: Mapping[str, int]) -> None:
    """Sets dimensions of results of nodes, in place. The keys of `results` have the form `RESULT.AXIS`."""
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    values = {value.name: value for value in (*inferred.value_info, *inferred.output)}
    own = {value.name: value for value in (*proto.graph.value_info, *proto.graph.output)}
    for place, n in results.items():
        name, _, axis = place.rpartition(".")
        dims = values[name].type.tensor_type.shape.dim if name in values else []
        if int(axis) >= len(dims):
            raise RequestError(f"no result of a node has the dimension {place!r}")
        if name not in own:
            own[name] = proto.graph.value_info.add()
        dims[int(axis)].dim_value = n
        own[name].CopyFrom(values[name])


# ---- weights -----------------------------------------------------------------------------------------------


def _weights_to_inputs(
    onnx: ModuleType, graph: "onnx.GraphProto", folder: str, constants: set[str], integers: bool
) -> dict[str, Array]:
    """Turns initializers that may be weights, except those in `constants`, into the first inputs.

    With `integers`, scales of integer matrices become inputs as well, and the matrices stay integers. Returns the
    arrays of the new inputs by name.
    """
    if graph.sparse_initializer:
        raise Unsupported("sparse initializers have no lowering to StableHLO")
    matrices = {x.name for x in graph.initializer if integers and len(x.dims) == 2 and x.data_type in _CODES}
    static = constants.union(_read_statically(graph, matrices))
    kept, weights, values = [], {}, []
    for tensor in graph.initializer:
        if not _is_float(onnx, tensor.data_type) or tensor.name in static:
            kept.append(tensor)
            continue
        weights[tensor.name] = _array(onnx, tensor, folder)
        values.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    # Old exporters also list initializers among the inputs.
    inputs = [value for value in graph.input if value.name not in weights]
    _assign(graph.initializer, kept)
    _assign(graph.input, [*values, *inputs])
    return weights


def _assign(
    field: "onnx.TensorShapeProto.Dimension", entries: "list[onnx.TensorProto | onnx.ValueInfoProto]"
) -> None:
    copies = [type(each)() for each in entries]
    for copied, each in zip(copies, entries, strict=True):
        copied.CopyFrom(each)
    del field[:]
    field.extend(copies)


def _read_statically(graph: "onnx.GraphProto", matrices: Collection[str]) -> Iterator[str]:
    """The names of the operands that `_STATIC` lists. The scales of the integer `matrices` are omitted."""
    for node in graph.node:
        is_weight = node.op_type == "DequantizeLinear" and node.input[0] in matrices
        for i in () if is_weight else _STATIC.get(node.op_type, ()):
            if i < len(node.input):
                yield node.input[i]
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _read_statically(inner, matrices)


def _is_float(onnx: ModuleType, data_type: int) -> bool:
    kind = onnx.helper.tensor_dtype_to_np_dtype(data_type)
    return kind.kind in "fc" or str(kind).startswith(("bfloat", "float"))


def _array(onnx: ModuleType, tensor: "onnx.TensorProto", folder: str) -> Array:
    with reading(tensor.name):
        array: Array = onnx.numpy_helper.to_array(tensor, folder)
    return array


# ---- torch-mlir --------------------------------------------------------------------------------------------


def _imported(proto: "onnx.ModelProto", functions: "Sequence[onnx.ModelProto]") -> Any:
    """Imports the model as a module of the torch dialect, whose ops are ONNX operators.

    `functions` are models that nodes call. Each becomes a private function of the module.
    """
    from torch_mlir.dialects import torch as dialect
    from torch_mlir.extras import onnx_importer

    context = ir.Context()
    dialect.register_dialect(context)
    module = onnx_importer.ModelInfo(proto).create_module(context=context)
    proto.graph.name = "main"
    for model in (*functions, proto):
        for node in model.graph.node:
            node.name = node.name or describe_node(node)
        graph = onnx_importer.ModelInfo(model).main_graph
        define = onnx_importer.NodeImporter.define_function
        try:
            define(graph, module.operation, private=model is not proto).import_all()
        except Exception as error:  # raised for types and ops that the importer does not know
            raise Unsupported(f"torch-mlir cannot import the model: {first_line(error)}") from error
    return module


def _own_inputs(graph: "onnx.GraphProto", weights: Sequence[str]) -> list[str]:
    """The names of the inputs of the graph that are neither initializers nor weights."""
    initialized = {tensor.name for tensor in graph.initializer}.union(weights)
    return [x.name for x in graph.input if x.name not in initialized]
