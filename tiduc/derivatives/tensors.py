"""tensor: all partial derivatives up to an order, interpolated from Taylor coefficients along directions.

A direction is a vector j of non-negative integers. The Taylor coefficient of order k of y(x + t j) is

    F_k(j) = sum over multi-indices i with |i| = k of  j^i / i!  D^i y

All directions j with |j| = d are used, where d is the highest order. If the inputs have n entries, there are C(n + d -
1, d) such directions, as many as partial derivatives of order d. The directions are batched. Each partial derivative is
a sum of the F_k with constant weights:

    D^i y = sum over j of w_ij F_|i|(j)
    w_ij  = sum over 0 < k <= i of (-1)^|i-k| binom(i, k) binom(d k / |k|, j) (|k| / d)^|i|

If each row of the outputs depends on only one row of the inputs (`passes/batching/alignment.py`), all rows can move
along a direction at once. Then n is the number of entries of one row. Derivatives with respect to other rows, which are
zero, are omitted.

Source: Griewank, Utke, Walther, "Evaluating higher derivative tensors by forward propagation of univariate Taylor
series" (2000).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.derivatives.blocks import free_dimensions
from tiduc.derivatives.jacobians import batched, check_types
from tiduc.derivatives.jets import check_order, coefficients, known_coefficients
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, rank, shape, with_shape
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Wrt, smooth, with_ports

MOST_DIRECTIONS = 2048
"""The largest number of directions. The weights are a matrix with at most this many rows and columns."""

Exponents = tuple[int, ...]


P = TypeVar("P", bound=Function)


def tensor(self: P, order: int, wrt: Wrt = None, sparsity: str | None = None) -> P:
    """(primals...) -> (y, its partial derivatives of orders 1 to `order`) for each differentiable output y.

    The derivatives of order k have the shape [shape of y..., count]. Equal derivatives occur once, in the order of
    `itertools.combinations_with_replacement(range(n), k)` over the n entries of wrt. "block-diagonal" omits derivatives
    with respect to other rows. Raises `RequestError` for more than 2048 derivatives of the highest order, for
    "block-diagonal" if no rows are independent, and in the cases in which `jacobian` does.
    """
    results: Any = {"outputs": with_ports((), _tensor(self, order, wrt, sparsity))}
    return replace(self, **results)  # type: ignore[type-var]


def _tensor(program: Function, order: int, wrt: Wrt, sparsity: str | None) -> list[OutputPort]:
    """Returns each differentiable output, followed by its partial derivatives of orders 1 to `order` in the entries of
    wrt.
    """
    check_order(order)
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    check_types("tensor", inputs, outputs, "forward")
    free = _free(program, inputs, outputs, sparsity)
    count = sum(_count(x, dims) for x, dims in zip(inputs, free, strict=True))
    directions = comb(count + order - 1, order)
    if directions > MOST_DIRECTIONS:
        raise RequestError(
            f"{count} entries have {directions} partial derivatives of order {order}, more than {MOST_DIRECTIONS}; "
            "choose fewer inputs, or use jet for derivatives along directions"
        )
    found = _along_directions(program, inputs, outputs, free, order) if directions else []
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    results = []
    for y, series in zip(outputs, found or [[]] * len(outputs), strict=True):
        results.append(y)
        for k in range(1, order + 1):
            weights = _weights(count, k, order)
            type_ = with_shape(y.type, [*shape(y), weights.shape[1]])
            value = series[k - 1].value if series else Zero(type_)
            whole = Zero(type_) if isinstance(value, Zero) else _interpolated(b, value, weights)
            results.append(OutputPort(f"{y.name}.derivative{k}", type_, whole))
    b.finish([])
    return results


def _free(
    program: Function, inputs: Sequence[InputPort], outputs: Sequence[OutputPort], sparsity: str | None
) -> list[list[int]]:
    """Returns, for each input, the dimensions along which its entries vary separately.

    These are all dimensions or, for "block-diagonal", the dimensions within one row.
    """
    if sparsity is None:
        return [list(range(rank(x))) for x in inputs]
    if sparsity != "block-diagonal":
        raise RequestError(f"sparsity must be None or block-diagonal, not {sparsity!r}")
    free = [free_dimensions(program, outputs, x) for x in inputs] if outputs else []
    if all(len(dims) == rank(x) for x, dims in zip(inputs, free, strict=False)):
        raise RequestError("no rows of the outputs are known to be independent; use sparsity None")
    return free


def _count(x: InputPort, dims: Sequence[int]) -> int:
    return prod(shape(x)[d] for d in dims)


def _along_directions(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    free: Sequence[list[int]],
    order: int,
) -> list[list[OutputPort]]:
    """Returns, for each output, its Taylor coefficients of orders 1 to `order`, batched over all directions."""
    view = program.view
    count = sum(_count(x, dims) for x, dims in zip(inputs, free, strict=True))
    b: Any = program.opset.builder(view, view.fresh("J"))
    given = [InputPort(x.name, x.type, f"{b.graph.name}.{i}") for i, x in enumerate(inputs)]
    first = [[b.input(x.key, x.type), *([None] * (order - 1))] for x in given]
    of_inputs = [view.input(x.key) for x in inputs]
    found = coefficients(program, b, dict(zip(of_inputs, first, strict=True)), order)
    series = [
        OutputPort(y.name, y.type, Zero(y.type) if value is None else value)
        for y in outputs
        for value in (known_coefficients(y, found) or [None] * (order + 1))[1:]
    ]
    b.finish([y.value for y in series if not isinstance(y.value, Zero)])
    directions = np.array(list(_exponents(count, order)), np.float64)
    keys, results = batched(program, given, series, len(directions))
    s: Any = program.opset.builder(view, view.fresh("S"))
    at, seeds = 0, []
    for key, x, dims in zip(keys, inputs, free, strict=True):
        columns = directions[:, at : at + _count(x, dims)]
        sizes = [len(directions), *(shape(x)[d] for d in dims)]
        seed = s.constant(columns.reshape(sizes), with_shape(key.type, sizes))
        places = [0, *(1 + d for d in dims)]
        seeds.append(seed if len(places) == rank(key) else s.broadcast_in_dim(seed, places, key.type))
        at += columns.shape[1]
    s.finish(seeds)
    for key, seed in zip(keys, seeds, strict=True):
        view.bind(key.key, seed)
    return [results[i : i + order] for i in range(0, len(results), order)]


def _interpolated(b: StablehloBuilder, x: Value, weights: NDArray[np.float64]) -> Value:
    """Computes partial derivatives from the Taylor coefficients along all directions.

    The first dimension of `x` is the direction. The last dimension of the result enumerates the partial derivatives.
    """
    matrix = b.constant(weights, ir.RankedTensorType.get(weights.shape, element(x)))
    precision = ir.ArrayAttr.get(
        [hlo.PrecisionAttr.get("HIGHEST")] * 2
    )  # the weights have both signs, so rounding errors grow when terms cancel
    return b.dot_general(x, matrix, ([], []), ([0], [0]), {"precision_config": precision})


# ---- weights -----------------------------------------------------------------------------------------------


def _exponents(n: int, order: int) -> Iterator[Exponents]:
    """Yields the multi-indices i with |i| = `order`, as tuples of n exponents.

    Their order is the order of the lists of variables that they multiply.
    """
    for variables in combinations_with_replacement(range(n), order):
        exponents = [0] * n
        for v in variables:
            exponents[v] += 1
        yield tuple(exponents)


def _weights(n: int, k: int, order: int) -> NDArray[np.float64]:
    """Returns the matrix that maps coefficients of order k along all directions to partial derivatives of order k."""
    row = {j: at for at, j in enumerate(_exponents(n, order))}
    columns = list(_exponents(n, k))
    matrix = np.zeros((len(row), len(columns)))
    for at, i in enumerate(columns):
        support = [v for v, exponent in enumerate(i) if exponent]
        for j, weight in _weights_of(tuple([i[v] for v in support]), order):
            direction = [0] * n
            for v, entry in zip(support, j, strict=True):
                direction[v] = entry
            matrix[row[tuple(direction)], at] = weight
    return matrix


@cache
def _weights_of(i: Exponents, order: int) -> list[tuple[Exponents, float]]:
    """Returns the weights of a partial derivative for the directions along its own variables.

    All other directions have the weight zero.
    """
    found = []
    for j in _exponents(len(i), order):
        total = Fraction(0)
        for k in product(*(range(exponent + 1) for exponent in i)):
            if sum(k):
                sign = (-1) ** (sum(i) - sum(k))
                choices = prod(comb(a, b) for a, b in zip(i, k, strict=True))
                places = prod((_binomial(Fraction(order * a, sum(k)), b) for a, b in zip(k, j, strict=True)))
                total += sign * choices * places * Fraction(sum(k), order) ** sum(i)
        found.append((j, float(total)))
    return found


def _binomial(z: Fraction, k: int) -> Fraction:
    """The binomial coefficient z (z - 1) ... (z - k + 1) / k!."""
    return prod(((z - i) / (i + 1) for i in range(k)), start=Fraction(1))
