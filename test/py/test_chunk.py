"""Large arrays are computed in chunks: the same values and derivatives as without chunks, and less memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiduc
from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.context import parse
from tiduc.opt import run_pipeline
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array

B, H, N, M, D = 2, 3, 61, 80, 4
"""The sizes of batches, heads, queries, keys and features. The number of queries is prime."""


def attention(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("bhnd,bhmd->bhnm", q, k)
    return jnp.einsum("bhnm,bhmd->bhnd", jax.nn.softmax(s / 2), v)


def causal(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("bhnd,bhmd->bhnm", q, k)
    row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, d) for d in (2, 3))
    return jnp.einsum("bhnm,bhmd->bhnd", jax.nn.softmax(jnp.where(row + 9 >= column, s, -1e30)), v)


def merged(q: Any, k: Any, v: Any) -> Any:
    """Batches and heads are one dimension of the products, as in PyTorch's exports."""
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    s = jnp.einsum("cnd,cmd->cnm", q, k).reshape(B, H, N, M)
    p = jnp.exp(s - s.max(-1, keepdims=True))
    return jnp.einsum("cnm,cmd->cnd", (p / p.sum(-1, keepdims=True)).reshape(-1, N, M), v)


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    s = jnp.einsum("bhnd,bhmd->bhnm", q, k) + bias
    return jnp.einsum("bhnm,bhmd->bhnd", jax.nn.softmax(s), v)


def normalized_over_queries(q: Any, k: Any, v: Any) -> Any:
    s = jnp.einsum("bhnd,bhmd->bhnm", q, k)
    return jnp.einsum("bhnm,bhmd->bhnd", jax.nn.softmax(s, axis=2), v)


def two_results(q: Any, k: Any, v: Any) -> Any:
    """The loop returns the values and the sums of the rows."""
    p = jnp.exp(jnp.tanh(jnp.einsum("bhnd,bhmd->bhnm", q, k)))
    return jnp.einsum("bhnm,bhmd->bhnd", p, v) / jnp.sqrt(p.sum(-1, keepdims=True))


def two_layers(q: Any, k: Any, v: Any) -> Any:
    return attention(causal(q, k, v) + q, k, v)


def kernel_sums(q: Any, k: Any, v: Any) -> Any:
    """Sums of a Gaussian kernel."""
    square = (q**2).sum(-1)[..., None] + (k**2).sum(-1)[..., None, :]
    return jnp.exp((jnp.einsum("bhnd,bhmd->bhnm", q, k) - square / 2) / 3).sum(-1)[..., None] * v[..., :1, :]


CASES: tuple[tuple[Callable[..., Any], int], ...] = (
    (attention, 1),
    (causal, 1),
    (merged, 1),
    (biased, 1),
    (normalized_over_queries, 1),
    (two_results, 1),
    (two_layers, 2),
    (kernel_sums, 1),
)
"""Functions, and the number of loops that compute them in chunks."""


def arguments(function: Callable[..., Any], seed: int) -> list[Array]:
    draw = np.random.default_rng(seed).standard_normal
    bias = [draw((H, N, M))] if function is biased else []
    return [draw((B, H, N, D)), draw((B, H, M, D)), draw((B, H, M, D)), *bias]


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: jnp.sin(function(*xs)).sum()


def in_chunks(function: Callable[..., Any], given: list[Array], aim: int) -> Program:
    """The program with products of more than 2^15 bytes in chunks of about `aim` bytes."""
    module = parse(tiduc.from_jax(scalar(function), *given).text)
    run_pipeline(module, f"tidu-import,tidu-chunk{{limit=32768 aim={aim}}}")
    return from_module(module)


def loops(program: Program) -> int:
    return len(within(program.module.operation, ("stablehlo.while",)))


@pytest.mark.parametrize("aim", [4096, 60000])
@pytest.mark.parametrize(("function", "count"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_derivatives_are_those_of_jax(function: Callable[..., Any], count: int, aim: int) -> None:
    with jax.enable_x64(True):
        given, direction = arguments(function, 0), arguments(function, 1)
        program = in_chunks(function, given, aim)
        assert loops(program) == count
        wrt = tuple(range(len(given)))
        gradient = jax.grad(scalar(function), wrt)
        product = jax.jvp(gradient, tuple(given), tuple(direction))[1]
        expected = [scalar(function)(*given), *gradient(*given)]
        results = program.grad(value=True)(*given)
        results = [*results, *program.hvp()(*given, *direction)]
        for ours, theirs in zip(results, [*expected, *product], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11)


def test_an_hvp_that_iree_rejects_with_rewrites_for_speed_compiles() -> None:
    """IREE fuses this HVP to invalid IR ("does not dominate") unless the last attempt leaves the rewrites out."""

    def loss(q: Any, k: Any, v: Any, w: Any) -> Any:
        s = jnp.einsum("bhnd,bhmd->bhnm", q, k) / 2
        row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, d) for d in (2, 3))
        p = jax.nn.softmax(jnp.where(row + 5 >= column, s, -1e9)) * jnp.tanh(w)
        return (jnp.sin(jnp.einsum("bhnm,bhmd->bhnd", p, v)) ** 2).sum()

    with jax.enable_x64(True):
        sizes = (1, 2, 67, 4), (1, 2, 96, 4), (1, 2, 96, 4), (67, 96)
        given, direction = ([np.random.default_rng(i).standard_normal(n) for n in sizes] for i in (0, 1))
        module = parse(tiduc.from_jax(loss, *given).text)
        run_pipeline(module, "tidu-import,tidu-chunk{limit=4096 aim=8000}")
        product = jax.jvp(jax.grad(loss, (0, 1, 2, 3)), tuple(given), tuple(direction))[1]
        for ours, theirs in zip(from_module(module).hvp()(*given, *direction), product, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-11)


def test_large_tables_are_not_whole_in_memory_by_default() -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return ((jax.nn.softmax(q @ k.T / 4) @ v) ** 2).sum()

    draw = np.random.default_rng(0).standard_normal
    given = [draw((4200, 16)).astype(np.float32) for _ in range(3)]
    gradient = tiduc.from_jax(loss, *given).grad(value=True)
    sizes = [int(np.prod(y.type.shape)) for op in within(gradient.module.operation) for y in op.results]
    assert loops(gradient) == 2 and max(sizes) < 2**21  # a table has 4200^2 elements
    value, derivatives = jax.value_and_grad(loss, (0, 1, 2))(*given)
    for ours, theirs in zip(gradient(*given), [value, *derivatives], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


LARGE = """
func.func @main(%q: tensor<4200x16xf32>, %k: tensor<16x4200xf32>) -> tensor<4200x16xf32> {
  %0 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [0]
    : (tensor<4200x16xf32>, tensor<16x4200xf32>) -> tensor<4200x4200xf32>
  %1 = stablehlo.exponential %0 : tensor<4200x4200xf32>
  %2 = stablehlo.dot_general %1, %k, contracting_dims = [1] x [1]
    : (tensor<4200x4200xf32>, tensor<16x4200xf32>) -> tensor<4200x16xf32>
  return %2 : tensor<4200x16xf32>
}
"""


def test_loop_memory_stack_keeps_whole_tables() -> None:
    assert loops(tiduc.load(LARGE)) == 1
    assert loops(tiduc.load(LARGE, loop_memory="stack")) == 0


@pytest.mark.parametrize(
    "rest",
    [
        "stablehlo.slice %s [0:100, 0:150] : (tensor<128x160xf32>) -> tensor<100x150xf32>",
        "stablehlo.reverse %s, dims = [0] : tensor<128x160xf32>",
        "stablehlo.add %s, %s : tensor<128x160xf32>",
    ],
)
def test_a_table_that_is_read_whole_stays_whole(rest: str) -> None:
    type_ = rest.rsplit("-> ")[-1].rsplit(": ")[-1]
    module = parse(f"""
    func.func @main(%q: tensor<128x4xf32>, %k: tensor<160x4xf32>) -> {type_} {{
      %s = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1]
        : (tensor<128x4xf32>, tensor<160x4xf32>) -> tensor<128x160xf32>
      %0 = {rest}
      return %0 : {type_}
    }}""")
    run_pipeline(module, "tidu-import,tidu-chunk{limit=1024 aim=512}")
    assert "tidu.loop" not in str(module)
