"""Scalers, encoders and linear models of ai.onnx.ml."""

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.ml.emitted import Emitted
from tiduc.models.onnx.ml.scores import class_count, label, transformed
from tiduc.runtime.arrays import Array

_ONE, _ZERO = np.float32(1), np.float32(0)


def scaler(e: Emitted) -> None:
    """Emits (x - offset) * scale."""
    x = e.floats()
    if (offset := e.array("offset")) is not None:
        x = e.emit("Sub", x, e.weight("offset", offset))
    if (scale := e.array("scale")) is not None:
        x = e.emit("Mul", x, e.weight("scale", scale))
    e.result(0, x)


def normalizer(e: Emitted) -> None:
    """Emits each row divided by its norm. A row of zeros is unchanged."""
    x, kind = e.floats(), e.attributes.get("norm", "MAX")
    if kind == "MAX":
        size = e.extreme("ReduceMax", e.emit("Abs", x), -1, keepdims=1)
    elif kind == "L1":
        size = e.sum(e.emit("Abs", x), -1, keepdims=1)
    else:
        size = e.emit("Sqrt", e.sum(e.emit("Mul", x, x), -1, keepdims=1))
    e.result(0, e.emit("Div", x, e.emit("Where", e.emit("Equal", size, _ZERO), _ONE, size)))


def binarizer(e: Emitted) -> None:
    threshold = np.float32(e.attributes.get("threshold", 0))
    is_more = e.emit("Greater", e.floats(), threshold)
    e.result(0, e.cast(is_more, np.float32))


def imputer(e: Emitted) -> None:
    """Emits the operand in which elements that equal a number, or are NaN, are replaced by the value of the column."""
    old: Array
    if (values := e.array("imputed_value_floats")) is not None:
        x, new = e.floats(), e.weight("imputed_values", values)
        old = np.asarray(e.attributes.get("replaced_value_float", 0), np.float32)
    else:
        x, new = e.node.input[0], e.constant(np.asarray(e.needed("imputed_value_int64s"), np.int64))
        old = np.asarray(e.attributes.get("replaced_value_int64", 0), np.int64)
    is_old = e.emit("IsNaN", x) if np.isnan(old) else e.emit("Equal", x, old)
    e.result(0, e.emit("Where", is_old, new, x))


def one_hot_encoder(e: Emitted) -> None:
    if (categories := e.array("cats_int64s")) is None:
        raise Unsupported("its categories are strings, which StableHLO does not have; give numbers as inputs")
    x = e.unsqueeze(e.cast(e.node.input[0], np.int64), -1)
    is_equal = e.emit("Equal", x, np.asarray(categories, np.int64))
    e.result(0, e.cast(is_equal, np.float32))


def array_feature_extractor(e: Emitted) -> None:
    """Emits the columns of the first operand whose indices are in the second operand. A vector is one row."""
    rank = len(e.shape(e.node.input[0]))
    index = e.emit("Reshape", e.node.input[1], np.asarray([-1]))
    y = e.emit("Gather", e.node.input[0], index, axis=rank - 1)
    e.result(0, e.unsqueeze(y, 0) if rank == 1 else y)


def linear_regressor(e: Emitted) -> None:
    e.result(0, transformed(e, _linear(e, int(e.attributes.get("targets", 1)))))


def linear_classifier(e: Emitted) -> None:
    """Emits the label and the scores of the classes. A single score s for two classes means the scores -s and s."""
    classes, intercepts = class_count(e), e.array("intercepts")
    count = classes if intercepts is None else len(intercepts)
    scores = _linear(e, count)
    if count == 1 and classes == 2:
        scores = e.emit("Concat", e.emit("Neg", scores), scores, axis=1)
    elif count != classes or classes < 2:
        raise Unsupported(f"it has {count} scores for {classes} classes")
    scores = transformed(e, scores)
    label(e, scores)
    e.result(1, scores)


def _linear(e: Emitted, targets: int) -> str:
    """Emits x coefficients^T + intercepts. The coefficients have a row for each target."""
    weights = np.asarray(e.needed("coefficients"), np.float32).reshape(targets, -1)
    y = e.emit("MatMul", e.floats(), e.weight("coefficients", np.ascontiguousarray(weights.T)))
    if (intercepts := e.array("intercepts")) is None:
        return y
    return e.emit("Add", y, e.weight("intercepts", intercepts))
