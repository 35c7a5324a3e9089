"""Tests an op that reads one vector of row sums along both dimensions of a matrix. IREE would confuse the two reads."""

import numpy as np
import pytest
from cases.witnesses import Witness, fails_alone
from harness.one_module import compiled_together
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

M, V = "tensor<8x8xf64>", "tensor<8xf64>"
SUM = "stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]"
ROWS = f"%s = {SUM} : ({M}, tensor<f64>) -> {V}"
FAR = "\n".join(f"%r{i + 1} = stablehlo.tanh %r{i} : {M}" for i in range(12))


def along(name: str, vector: str, dimension: int) -> str:
    return f"%{name} = stablehlo.broadcast_in_dim %{vector}, dims = [{dimension}] : ({V}) -> {M}"


def program(*lines: str) -> str:
    body = "\n".join(("%z = stablehlo.constant dense<0.0> : tensor<f64>", *lines, f"return %y : {M}"))
    return f"func.func @main(%x: {M}) -> {M} {{\n{body}\n}}"


def outer(s: NDArray[np.float64]) -> NDArray[np.float64]:
    return s[:, None] + s[None, :]


def repeated_tanh(x: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    for _ in range(count):
        x = np.tanh(x)
    return x


X = np.random.default_rng(0).standard_normal((8, 8))
SUMS = X.sum(1)
SHARES = np.exp(X) / np.exp(X).sum(1, keepdims=True)
BOTH = along("r", "s", 0), along("c", "s", 1), f"%y = stablehlo.add %r, %c : {M}"
CASES = {
    "sums": (program(ROWS, *BOTH), outer(SUMS)),
    "product": (
        program(
            f"%s = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1] :"
            f" ({M}, {M}) -> {V}",
            *BOTH,
        ),
        outer((X * X).sum(1)),
    ),
    "far": (
        program(ROWS, along("r0", "s", 0), FAR, along("c", "s", 1), f"%y = stablehlo.add %r12, %c : {M}"),
        repeated_tanh(SUMS, 12)[:, None] + SUMS[None, :],
    ),
    "softmax": (
        program(
            f"%e = stablehlo.exponential %x : {M}",
            ROWS.replace("%x", "%e"),
            along("r", "s", 0),
            f"%g = stablehlo.divide %e, %r : {M}",
            f"%t = stablehlo.transpose %g, dims = [1, 0] : ({M}) -> {M}",
            f"%y = stablehlo.add %g, %t : {M}",
        ),
        SHARES + SHARES.T,
    ),
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, Executable]:
    return compiled_together({name: text for name, (text, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_values(compiled: dict[str, Executable], name: str) -> None:
    _, expected = CASES[name]
    (y,) = compiled[name](X)
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.sampled(1)  # one case is enough, because outcomes change only with IREE's version
@pytest.mark.parametrize("name", CASES)
def test_iree_alone_is_wrong(name: str) -> None:
    text, expected = CASES[name]
    assert fails_alone(Witness(text, (X,), (expected,), rtol=1e-12))


@stage
def barriers(text: str) -> int:
    module = parse(text)
    legalize_for_iree(module)
    return str(module).count("optimization_barrier")


def test_one_place_needs_no_barrier() -> None:
    rows = program(
        ROWS,
        along("r", "s", 0),
        f"%q = stablehlo.subtract %x, %r : {M}",
        f"%y = stablehlo.multiply %q, %r : {M}",
    )
    assert barriers(rows) == 0
    for text, _ in CASES.values():
        assert barriers(text) == 1


def test_unit_dimensions_are_no_conflict() -> None:
    column = "tensor<8x1xf64>"
    text = program(
        ROWS,
        along("r", "s", 0),
        f"%k = stablehlo.reshape %s : ({V}) -> {column}",
        f"%c = stablehlo.broadcast_in_dim %k, dims = [0, 1] : ({column}) -> {M}",
        f"%y = stablehlo.add %r, %c : {M}",
    )
    assert barriers(text) == 0


def test_dynamic_sizes() -> None:
    text = program(ROWS, *BOTH).replace("8x8x", "?x?x").replace("tensor<8x", "tensor<?x")
    sizes = """%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf64>) -> tensor<i32>
%1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
%sizes = stablehlo.concatenate %1, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
"""
    for dimension in (0, 1):
        old = f"stablehlo.broadcast_in_dim %s, dims = [{dimension}] : (tensor<?xf64>) ->"
        new = f"stablehlo.dynamic_broadcast_in_dim %s, %sizes, dims = [{dimension}] : (tensor<?xf64>, tensor<2xi32>) ->"
        text = text.replace(old, new)
    text = text.replace("%z = ", f"{sizes}%z = ", 1)
    (y,) = tiduc.load(text).compile("cpu")(X)
    np.testing.assert_allclose(np.asarray(y), outer(SUMS), rtol=1e-12)
