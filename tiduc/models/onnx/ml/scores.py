"""Emits transforms of the scores of a classifier or regressor, and labels."""

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.ml.emitted import Emitted

_TINY = np.float32(1e-7)
"""If the absolute value of a score is below this limit, SOFTMAX_ZERO scales the score instead of exponentiating it."""


def transformed(e: Emitted, scores: str, kind: str | None = None) -> str:
    """Emits the scores after the transform `kind`. The default is the attribute `post_transform` of the node."""
    kind = kind or e.attributes.get("post_transform", "NONE")
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return e.emit("Sigmoid", scores)
    if kind == "SOFTMAX":
        return e.emit("Softmax", scores, axis=1)
    if kind == "SOFTMAX_ZERO":
        most = e.extreme("ReduceMax", scores, 1, keepdims=1)
        is_tiny = e.emit("Less", e.emit("Abs", scores), _TINY)
        scaled = e.emit("Mul", scores, e.emit("Exp", e.emit("Neg", most)))
        parts = e.emit("Where", is_tiny, scaled, e.emit("Exp", e.emit("Sub", scores, most)))
        total = e.sum(parts, 1, keepdims=1)
        is_zero = e.emit("Equal", total, np.float32(0))
        share = e.emit("Div", parts, e.emit("Where", is_zero, np.float32(1), total))
        return e.emit("Where", is_zero, np.float32(0.5), share)
    raise Unsupported(f"the post_transform {kind} is not supported; apply this transform after the model")


def label(e: Emitted, scores: str) -> None:
    """Sets result 0 of the node to the label of the greatest score, if result 0 is read."""
    if e.is_read(0):
        e.result(0, labelled(e, e.emit("ArgMax", scores, axis=1, keepdims=0)))


def labelled(e: Emitted, places: str) -> str:
    """Emits the labels whose indices in the list of labels are `places`."""
    names = ("classlabels_ints", "classlabels_int64s")
    classes = next((x for name in names if (x := e.array(name)) is not None), None)
    if classes is None:
        raise Unsupported("its labels are strings, which StableHLO does not have, and a node reads them")
    return e.emit("Gather", np.asarray(classes, np.int64), places, axis=0)


def class_count(e: Emitted) -> int:
    names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
    return max(len(e.attributes.get(name, ())) for name in names)
