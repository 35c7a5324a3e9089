"""Tests eager arrays on IREE, their default executor: programs, and all NumPy functions at several sizes.

IREE compiles small and large arrays differently.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.eager_functions import CASES, UNIVERSAL, Case
from harness.one_module import selected

import tiduc
from tiduc.eager import Array, Iree, Session, call, executing, grad
from tiduc.eager.elementwise import EMITTERS
from tiduc.eager.executors import Compiling, Run
from tiduc.eager.graphs import RecordedGraph
from tiduc.eager.products import GENERALIZED
from tiduc.eager.registry import FUNCTIONS, name_of

SIZES = (1, 64, 257)
EXAMPLES = Path(__file__).parents[2] / "examples"


class Zeros(Iree):
    """An executor that returns zeros and collects the graphs that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs: dict[RecordedGraph, None] = {}

    def _ready(self, graph: RecordedGraph) -> Run:
        self.graphs[graph] = None
        return lambda *_: [np.zeros(type_.shape, type_.dtype) for type_ in graph.output_types]


def points(name: str, size: int) -> list[np.ndarray]:
    random = np.random.default_rng([size, len(name)])
    return [random.uniform(*ends, (size, size)).astype(np.float32) for ends in CASES[name].ranges]


def seed_of(y: Any) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype)


def results(case: Case, points: list[np.ndarray]) -> list[np.ndarray]:
    """The value of a case on eager arrays. If the case is differentiable, also its VJP for the cotangent `seed_of`."""
    arrays = [Array(x, requires_grad=case.differentiable) for x in points]
    y = case.function(np, *arrays)
    if not case.differentiable:
        return [np.asarray(y.data if isinstance(y, Array) else y)]
    return [y.data, *(slope.data for slope in grad([y], arrays, [seed_of(y)]))]


def expected_results(case: Case, points: list[np.ndarray]) -> list[np.ndarray]:
    """NumPy's value of a case. If the case is differentiable, also JAX's VJP in f64."""
    y = np.asarray(case.function(np, *points))
    if not case.differentiable:
        return [y]
    with jax.enable_x64(True):
        _, vjp = jax.vjp(lambda *xs: case.function(jnp, *xs), *(jnp.asarray(x, np.float64) for x in points))
        return [y, *map(np.asarray, vjp(jnp.asarray(seed_of(y), np.float64)))]


@cache
def prepared(size: int, names: tuple[str, ...]) -> tuple[Session, Iree]:
    """A session, and its executor, which has compiled the graphs of the named cases as one module."""
    zeros, iree = Zeros(), Iree()
    session = Session(zeros)
    with executing(session):
        for name in names:
            results(CASES[name], points(name, size))
    iree.prepare(list(zeros.graphs))
    session.executor = iree
    return session, iree


def test_the_table_has_every_function() -> None:
    assert UNIVERSAL.keys() == EMITTERS.keys()
    assert CASES.keys() - UNIVERSAL.keys() == {*map(name_of, FUNCTIONS), *GENERALIZED}


OTHERS = [name for name in CASES if not name.startswith(("fft.", "linalg."))]
SECOND = {f"linalg.{name}" for name in ("cholesky", "det", "eigh", "qr", "solve", "svd")} | {
    "fft.fft",
    "fft.irfft2",
}
"""The factorizations and transforms whose tests are marked `more`, because IREE takes seconds to compile each."""


@pytest.mark.sampled(15)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OTHERS)
def test_functions(name: str, size: int, request: pytest.FixtureRequest) -> None:
    as_expected(name, size, "test_functions", request)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(
            name, size, marks=pytest.mark.more if size == 64 and name in SECOND else pytest.mark.slow
        )
        for name in sorted(CASES.keys() - set(OTHERS))
        for size in SIZES
    ],
)
def test_factorizations_and_transforms(name: str, size: int, request: pytest.FixtureRequest) -> None:
    as_expected(name, size, "test_factorizations_and_transforms", request)


def as_expected(name: str, size: int, test: str, request: pytest.FixtureRequest) -> None:
    """Asserts that IREE gives the expected results of a case.

    All selected cases of this size are compiled as one module.
    """
    names = tuple(sorted(selected(request, test, size=size)))
    session, iree = prepared(size, names)
    compiled = iree.compiled
    with executing(session):
        actual = results(CASES[name], points(name, size))
    assert iree.compiled == compiled or len(names) == 1
    for y, wanted in zip(actual, expected_results(CASES[name], points(name, size)), strict=True):
        assert y.shape == wanted.shape
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(y, wanted)
        else:
            scale = np.max(np.abs(wanted), initial=0)
            np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5 * scale)


def test_a_product_of_matrices() -> None:
    """The gradient of a sum of a matrix product is correct. IREE's compiler needs flags for such kernels."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    a = Array(x, requires_grad=True)
    np.sum(a @ a).backward()
    np.testing.assert_allclose(a.grad.data, x.sum(0)[:, None] + x.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.more
def test_a_program_with_loops_and_kernels() -> None:
    """The value and the gradient of the sum of the singular values of x^T x are correct on IREE.

    The program has loops that become kernels, and calls of functions.
    """
    x = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
    text = jax.jit(lambda x: jnp.linalg.svd(x.T @ x, compute_uv=False).sum()).lower(x).as_text()
    a = Array(x, requires_grad=True)
    (y,) = call(tiduc.load(text), a)
    (y * y).backward()
    trace = np.sum(x * x)  # equals the sum of the singular values of x^T x
    np.testing.assert_allclose(y.data, trace, rtol=1e-5)
    np.testing.assert_allclose(a.grad.data, 4 * trace * x, rtol=1e-3, atol=1e-3)


def test_programs_are_compiled_together() -> None:
    """Two programs are compiled as one module, and each gives its own result, although their functions share names."""
    texts = [
        f"""func.func @main(%x: tensor<4xui8>) -> tensor<4xui8> {{
        %y = func.call @inner(%x) : (tensor<4xui8>) -> tensor<4xui8>
        return %y : tensor<4xui8>
        }}
        func.func private @inner(%x: tensor<4xui8>) -> tensor<4xui8> attributes {{no_inline}} {{
        %y = stablehlo.{op} %x, %x : tensor<4xui8>
        return %y : tensor<4xui8>
        }}"""
        for op in ("add", "multiply")
    ]
    iree = Iree()
    session = Session(iree)
    graphs = [session.recorder.graphs.program(tiduc.load(text)) for text in texts]
    iree.prepare(graphs)
    assert isinstance(iree, Compiling) and iree.compiled == 2
    x = np.array([3, 5, 100, 200], np.uint8)
    for graph, expected in zip(graphs, (x + x, x * x), strict=True):
        (y,) = iree.execute_forward(graph, [x])
        assert y.dtype == np.uint8
        np.testing.assert_array_equal(y, expected)
    assert iree.compiled == 2


@pytest.mark.slow
@pytest.mark.more
def test_the_example_runs() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "eager_mlp.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = (float(done.stdout.split()[i]) for i in (1, 4))
    assert last < first / 2
