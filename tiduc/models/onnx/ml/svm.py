"""Emits the support vector machines of ai.onnx.ml as ops of ONNX."""

from collections.abc import Callable

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.ml.emitted import Emitted
from tiduc.models.onnx.ml.scores import class_count, labelled, transformed


def svm_regressor(e: Emitted) -> None:
    """Emits the prediction for each row: the weighted sum of its kernel values with the support vectors, plus rho.

    Without support vectors, the coefficients are the weights of the features. With `one_class`, the result is 1 where
    the prediction is positive, and -1 elsewhere.
    """
    coefficients = e.needed("coefficients")
    if count := int(e.attributes.get("n_supports", 0)):
        values = _kernels(e, count)
    else:
        values = e.floats()
    y = e.emit("MatMul", values, e.weight("coefficients", np.reshape(coefficients, (-1, 1))))
    y = e.emit("Add", y, e.weight("rho", e.needed("rho")[:1]))
    if e.attributes.get("one_class"):
        y = e.emit("Where", e.emit("Greater", y, np.float32(0)), np.float32(1), np.float32(-1))
    e.result(0, transformed(e, y))


def svm_classifier(e: Emitted) -> None:
    """Emits a score for each pair of classes, and the label of the class that wins the most pairs.

    For two classes, there is only one pair. Its score s is returned as the two scores -s and s.
    """
    per_class, count = e.array("vectors_per_class"), class_count(e)
    if per_class is None or not per_class.sum():
        raise Unsupported("the classifier has no support vectors; export the model as a LinearClassifier")
    if e.array("prob_a") is not None:
        raise Unsupported(
            "the number of iterations that compute the probabilities depends on data; export the scores instead: "
            "convert_sklearn(..., options={id(model): {'raw_scores': True}})"
        )
    total = int(per_class.sum())
    coefficients = np.asarray(e.needed("coefficients"), np.float32).reshape(-1, total)
    ends = np.cumsum(per_class)
    columns, pairs = [], [(i, j) for i in range(count) for j in range(i + 1, count)]
    for i, j in pairs:
        column = np.zeros(total, np.float32)
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own] - per_class[own], ends[own])
            column[part] = coefficients[row, part]
        columns.append(column)
    weights = e.weight("coefficients", np.stack(columns, 1))
    scores = e.emit("MatMul", _kernels(e, total), weights)
    scores = e.emit("Add", scores, e.weight("rho", e.needed("rho")[: len(pairs)]))
    if e.is_read(0):
        always = count == 2 and bool((coefficients >= 0).all())
        e.result(0, labelled(e, _winner(e, scores, pairs, count, always)))
    if len(pairs) == 1:
        scores = e.emit("Concat", e.emit("Neg", scores), scores, axis=1)
    e.result(1, transformed(e, scores))


def _winner(e: Emitted, scores: str, pairs: list[tuple[int, int]], count: int, last: bool) -> str:
    """The index of the class with the most votes. If `last` is true, it is always the index of the last class."""
    wins = e.cast(e.emit("Greater", scores, np.float32(0)), np.float32)
    first, second = (np.zeros((len(pairs), count), np.float32) for _ in range(2))
    for k, (i, j) in enumerate(pairs):
        first[k, i] = second[k, j] = 1
    votes = e.emit("Add", e.emit("MatMul", wins, first - second), second.sum(0))
    places = e.emit("ArgMax", votes, axis=1, keepdims=0)
    return e.emit("Max", places, np.asarray(count - 1, np.int64)) if last else places


def _kernels(e: Emitted, count: int) -> str:
    """The value of the kernel for each row of the input and each support vector, in the shape (rows, vectors)."""
    kind = e.attributes.get("kernel_type", "LINEAR")
    gamma, constant, degree = [*e.attributes.get("kernel_params", ()), 0, 0, 0][:3]
    vectors = np.asarray(e.needed("support_vectors"), np.float32).reshape(count, -1)
    x = e.floats()
    if kind == "RBF":
        apart = e.emit("Sub", e.unsqueeze(x, 1), e.weight("support_vectors", vectors))
        squares = e.sum(e.emit("Mul", apart, apart), 2)
        return e.emit("Exp", e.emit("Mul", squares, np.float32(-gamma)))
    products = e.emit("MatMul", x, e.weight("support_vectors", np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return products
    affine = e.emit("Add", e.emit("Mul", products, np.float32(gamma)), np.float32(constant))
    if kind == "SIGMOID":
        return e.emit("Tanh", affine)
    if kind == "POLY":
        return _power(lambda y: e.emit("Mul", y, affine), affine, int(degree))
    raise Unsupported(f"the kernel {kind} is not supported")


def _power(times: Callable[[str], str], x: str, degree: int) -> str:
    """x to the power `degree`, a positive integer, as a product, whose derivative is right for negative x too."""
    if degree < 1:
        raise Unsupported(f"a polynomial kernel of degree {degree} is not supported")
    y = x
    for _ in range(degree - 1):
        y = times(y)
    return y
