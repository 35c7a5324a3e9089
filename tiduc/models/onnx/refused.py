"""Refuses operators of ONNX that StableHLO cannot express. Each message has the reason and a workaround."""

from types import ModuleType
from typing import TYPE_CHECKING

from tiduc.dialect.errors import Unsupported

if TYPE_CHECKING:
    import onnx

_STRINGS = (
    "StableHLO has no strings; apply the operator before the model runs and give its result as an input"
)
SEQUENCE = "StableHLO has no sequences of unknown length; use Split, Concat, or a loop's scan outputs"

_REFUSED = {
    "ImageDecoder": "StableHLO has no image formats; decode the image before the model runs and give it as an input",
    "RegexFullMatch": _STRINGS,
    "StringConcat": _STRINGS,
    "StringNormalizer": _STRINGS,
    "StringSplit": _STRINGS,
    "TfIdfVectorizer": "StableHLO has no tables of n-grams; count before the model runs and give the counts",
    "SequenceMap": SEQUENCE,
}


_REFUSED_TYPES = ("FLOAT4E2M1", "FLOAT8E8M0", "STRING")


def refuse_types(onnx: ModuleType, graph: "onnx.GraphProto") -> None:
    """Raises `Unsupported` for inputs and outputs whose element types StableHLO or torch-mlir lacks."""
    for value in (*graph.input, *graph.output):
        kind = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if value.type.HasField("sequence_type"):
            raise Unsupported(f"{value.name!r} is a sequence: {SEQUENCE}")
        if kind in _REFUSED_TYPES:
            way = (
                "give the operands of the first numeric nodes as inputs"
                if kind == "STRING"
                else "cast it to FLOAT"
            )
            raise Unsupported(f"{value.name!r} has elements of type {kind}, which are not supported; {way}")


def refuse(node: "onnx.NodeProto") -> None:
    """Raises `Unsupported` if StableHLO cannot express the node's operator."""
    if node.op_type in _REFUSED:
        raise Unsupported(_REFUSED[node.op_type])
