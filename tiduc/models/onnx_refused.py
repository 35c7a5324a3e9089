"""Operators of ONNX that have no StableHLO, each with the reason and a way out."""

from typing import Any

from tiduc.dialect.errors import Unsupported

_STRINGS = (
    "StableHLO has no strings; apply the operator before the model runs and give its result as an input"
)
_DATA = "the result's size depends on data; declare the size in the model's output"
_SEQUENCE = "StableHLO has no sequences; use Split, Concat, or a loop's scan outputs"

_REFUSED = {
    "ImageDecoder": "StableHLO has no image formats; decode the image before the model runs and give it as an input",
    "RegexFullMatch": _STRINGS,
    "StringConcat": _STRINGS,
    "StringNormalizer": _STRINGS,
    "StringSplit": _STRINGS,
    "TfIdfVectorizer": "StableHLO has no tables of n-grams; count before the model runs and give the counts",
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
        ),
        _SEQUENCE,
    ),
}


def refuse(node: Any) -> None:
    """`Unsupported` for a node without StableHLO."""
    if node.op_type in _REFUSED:
        raise Unsupported(_REFUSED[node.op_type])
