"""The deprecated ops broadcast, einsum, unary_einsum and torch_index_select."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import active, check_rule, run
from harness.tensors import normal, tensor

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
random = partial(normal, RNG)


# ---- broadcast


@pytest.mark.parametrize(("sizes", "more"), [([], [2]), ([3], [2]), ([3], []), ([2, 1], [3, 1]), ([3], [0])])
def test_broadcast(sizes: list[int], more: list[int]) -> None:
    x, y = tensor(sizes), tensor([*more, *sizes])
    text = f"""
    func.func @main(%x: {x}) -> {y} {{
      %0 = stablehlo.broadcast %x, sizes = {more} : ({x}) -> {y}
      return %0 : {y}
    }}"""
    check_rule(text, random(sizes))


def check_gradient(text: str, point: Any, sizes: Any, function: Any) -> None:
    """Checks the gradient of sum(w y), where y is the op's result.

    Does not compute the sum itself, because no engine here runs most of these ops.
    """
    program = text.replace(") -> ", f", %w: {tensor(sizes)}) -> ", 1).replace(
        tensor(sizes) + " {", "tensor<f64> {"
    )
    every = list(range(len(sizes)))
    head, _ = program.split("return")
    program = f"""{head}%s = stablehlo.dot_general %0, %w, contracting_dims = {every} x {every}
        : ({tensor(sizes)}, {tensor(sizes)}) -> tensor<f64>
      return %s : tensor<f64>
    }}"""
    wrt, w = active(point), random(sizes)

    def loss(*some: Any) -> Any:
        return (w * function(*[some[wrt.index(i)] if i in wrt else x for i, x in enumerate(point)])).sum()

    with jax.enable_x64(True):
        expected = jax.grad(loss, tuple(range(len(wrt))))(*[point[i] for i in wrt])
    actual = run(load(program).grad(wrt), [*point, w])
    for cx, gradient in zip(actual, expected, strict=True):
        np.testing.assert_allclose(cx, gradient, atol=1e-12)


# ---- einsum


def einsum(config: str, *sizes: list[int], result: list[int] | None = None) -> str:
    types, names = [tensor(s) for s in sizes], [f"%x{i}" for i in range(len(sizes))]
    y = tensor(result_of(config, *sizes) if result is None else result)
    op = "einsum" if len(sizes) == 2 else "unary_einsum"
    return f"""
    func.func @main({", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))}) -> {y} {{
      %0 = "stablehlo.{op}"({", ".join(names)}) {{einsum_config = "{config}"}} : ({", ".join(types)}) -> {y}
      return %0 : {y}
    }}"""


def result_of(config: str, *sizes: list[int]) -> list[int]:
    labels, target = config.split("->")
    size = {
        c: n for s, names in zip(sizes, labels.split(","), strict=True) for c, n in zip(names, s, strict=True)
    }
    return [size[c] for c in target]


EINSUMS = [
    ("ab,bc->ac", ([2, 3], [3, 4])),
    ("ab,bc->ca", ([2, 3], [3, 4])),
    ("bac,cbd->abd", ([2, 3, 4], [4, 2, 3])),
    ("ab,ab->ab", ([2, 3], [2, 3])),
    ("ab,ab->", ([2, 3], [2, 3])),
    ("a,b->ba", ([2], [3])),
    (",ab->ba", ([], [2, 3])),
    ("abx,bcy->ac", ([2, 3, 4], [3, 4, 5])),
    ("ab,bc->ac", ([2, 0], [0, 4])),
    ("ab->ba", ([2, 3],)),
    ("abc->b", ([2, 3, 2],)),
    ("ab->", ([2, 3],)),
]


@pytest.mark.parametrize(("config", "sizes"), EINSUMS)
def test_einsum(config: str, sizes: tuple[list[int], ...]) -> None:
    point, result = [random(s) for s in sizes], result_of(config, *sizes)
    check_gradient(einsum(config, *sizes), point, result, lambda *x: jnp.einsum(config, *x))


@pytest.mark.slow
def test_einsum_by_iree() -> None:
    check_rule(einsum("ab,bc->ca", [2, 3], [3, 4]), random([2, 3]), random([3, 4]), subsets=False)


@pytest.mark.parametrize(
    "text",
    [
        einsum("aa,ab->b", [3, 3], [3, 2]),
        einsum("ab->aa", [2, 3], result=[2, 2]),
        einsum("...a,...b->ab", [3], [2], result=[3, 2]),
        einsum("a,a->a", [3], [1], result=[3]),
    ],
)
def test_other_einsums_are_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="is not a plain sum of products"):
        load(text).jvp()


# ---- torch_index_select


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "index", "dim", "batch"),
    [
        ([5, 3], [2], 0, 0),
        ([3, 5], [2], 1, 0),
        ([2, 5, 3], [2, 4], 1, 0),
        ([2, 5, 3], [2, 4], 1, 1),
        ([2, 3, 5], [2, 4], 2, 1),
    ],
)
def test_torch_index_select(sizes: list[int], index: list[int], dim: int, batch: int) -> None:
    y_sizes = [*sizes[:dim], *index[batch:], *sizes[dim + 1 :]]
    x, i, y = tensor(sizes), tensor(index, "i32"), tensor(y_sizes)
    text = f"""
    func.func @main(%x: {x}, %i: {i}) -> {y} {{
      %0 = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = {batch} : i64}}
        : ({x}, {i}) -> {y}
      return %0 : {y}
    }}"""
    point = random(sizes), RNG.integers(0, sizes[dim], index).astype(np.int32)

    def function(x: Any, i: Any) -> Any:
        if batch:
            return jnp.stack([jnp.take(x[n], i[n], dim - 1) for n in range(len(i))])
        return jnp.take(x, i, dim)

    check_gradient(text, point, y_sizes, function)
    if (dim, batch) != (2, 1):  # IREE refuses the transpose of this op
        check_rule(text, *point, order=1)
