"""Converts ONNX models to a version that torch-mlir can lower, and turns inputs into constants."""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.runtime.arrays import Array

if TYPE_CHECKING:
    import onnx

_OLDEST, _WANTED = 13, 17
"""Models of an opset older than `_OLDEST` are converted to the opset `_WANTED`."""

_IR = 8
_SCAN = 9
"""The first opset in which Scan has no batch dimension."""

_CONSTANT_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Clip": (1, 2),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Maps a node type to the positions of operands whose values determine the shape or the form of the lowered op.
`decisive_positions` adds the axes of the types `Reduce...`, which are at position 1."""


def modernize(onnx: ModuleType, model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Converts a model to a recent version of ONNX's operators. Returns the model unchanged if ONNX cannot convert it.

    If the model states no version of ONNX's own operators, the latest version is added.
    """
    model.ir_version = max(model.ir_version, _IR)  # older versions require each initializer to be an input
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if not versions:
        model.opset_import.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    if versions and versions[0] < _SCAN and any(node.op_type == "Scan" for node in model.graph.node):
        raise Unsupported(
            "Scan of opset 8 differs from that of later opsets; export the model with opset 9 or later"
        )
    if not versions or versions[0] >= _OLDEST or model.functions:
        return model
    try:
        converted = onnx.version_converter.convert_version(model, _WANTED)
    except Exception:
        # onnx cannot convert an operator of the model, but torch-mlir may still lower this operator.
        return model
    converted.ir_version = model.ir_version
    return converted


def set_constants(onnx: ModuleType, graph: "onnx.GraphProto", constants: Mapping[str, Array]) -> None:
    """Turns the inputs named in `constants` into initializers, in place.

    Raises `RequestError` if no input has the name, or if the type of the array is not that of the input.
    """
    inputs = {value.name: value for value in graph.input}
    for name, array in constants.items():
        if name not in inputs:
            raise RequestError(f"no input {name!r} for a constant; the inputs are: {', '.join(inputs)}")
        type_ = inputs[name].type.tensor_type
        array = np.asarray(array)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
        agrees = not type_.HasField("shape") or (
            len(sizes) == array.ndim and all(n in (None, m) for n, m in zip(sizes, array.shape, strict=True))
        )
        if array.dtype != dtype or not agrees:
            wanted = f"{dtype}{sizes}".replace("None", "?")
            raise RequestError(
                f"input {name!r} is {wanted}, and the constant is {array.dtype}{list(array.shape)}"
            )
        graph.input.remove(inputs[name])
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def needed_constants(graph: "onnx.GraphProto") -> dict[str, str]:
    """Maps each input that decides the shape or form of an op to the type of the first node that reads the input."""
    initialized = {tensor.name for tensor in graph.initializer}
    inputs = {value.name for value in graph.input} - initialized
    return {name: kind for kind, name in reversed(list(_decisive(graph))) if name in inputs}


def _decisive(graph: "onnx.GraphProto") -> Iterator[tuple[str, str]]:
    for node in graph.node:
        for i in decisive_positions(node):
            if i < len(node.input) and node.input[i]:
                yield node.op_type, node.input[i]


def decisive_positions(node: "onnx.NodeProto") -> tuple[int, ...]:
    """The positions of operands whose values decide the shape or form of the lowered op, such as axes."""
    return (1,) if node.op_type.startswith("Reduce") else _CONSTANT_OPERANDS.get(node.op_type, ())
