"""Batch normalization: the ops for training, for inference and for the gradient, with features in any dimension."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run

from tiduc.loading import load

RNG = np.random.default_rng(0)
EPSILON = 0.125


def random(*sizes: int) -> Any:
    return RNG.standard_normal(sizes)


def program(op: str, sizes: list[int], feature: int) -> str:
    """A program that applies the op to its arguments. x and operands like x have the shape `sizes`."""
    x, f = (f"tensor<{''.join(f'{n}x' for n in some)}f64>" for some in (sizes, [sizes[feature]]))
    operands = {"training": [x, f, f], "inference": [x, f, f, f, f], "grad": [x, f, f, f, x]}[op]
    results = [x] if op == "inference" else [x, f, f]
    names = [f"%a{i}" for i in range(len(operands))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, operands, strict=True))
    outputs = ", ".join(f"%0#{i}" for i in range(len(results))) if len(results) > 1 else "%0"
    return f"""
    func.func @main({arguments}) -> ({", ".join(results)}) {{
      %0{f":{len(results)}" if len(results) > 1 else ""} = "stablehlo.batch_norm_{op}"({", ".join(names)})
        {{epsilon = {EPSILON} : f32, feature_index = {feature} : i64}}
        : ({", ".join(operands)}) -> ({", ".join(results)})
      return {outputs} : {", ".join(results)}
    }}"""


def point(op: str, sizes: list[int], feature: int) -> list[Any]:
    n = sizes[feature]
    x, scale, offset, mean, variance = random(*sizes), random(n), random(n), random(n), random(n) ** 2 + 0.5
    return {
        "training": [x, scale, offset],
        "inference": [x, scale, offset, mean, variance],
        "grad": [x, scale, mean, variance, random(*sizes)],
    }[op]


def along(v: Any, x: Any, feature: int) -> Any:
    return jnp.reshape(v, [-1 if i == feature else 1 for i in range(x.ndim)])


def inference(x: Any, scale: Any, offset: Any, mean: Any, variance: Any, feature: int) -> Any:
    scale, offset, mean, variance = (along(v, x, feature) for v in (scale, offset, mean, variance))
    return scale * (x - mean) / jnp.sqrt(variance + EPSILON) + offset


def training(x: Any, scale: Any, offset: Any, feature: int) -> Any:
    others = tuple(i for i in range(x.ndim) if i != feature)
    mean, variance = jnp.mean(x, others), jnp.var(x, others)
    return inference(x, scale, offset, mean, variance, feature), mean, variance


CASES = [([4, 3], 1), ([3, 4], 0), ([2, 3, 2], 1), ([5], 0), ([1, 2], 1), ([4, 1], 1)]


@pytest.mark.parametrize("op", ["training", "inference", "grad"])
def test_order_two(op: str) -> None:
    check_rule(program(op, [3, 2], 1), *point(op, [3, 2], 1), subsets=False, order=2)


@pytest.mark.parametrize("op", ["training", pytest.param("grad", marks=pytest.mark.slow)])
def test_every_subset(op: str) -> None:
    check_rule(program(op, [3, 2], 1), *point(op, [3, 2], 1), order=1)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("op", ["training", "inference", "grad"])
@pytest.mark.parametrize(("sizes", "feature"), CASES)
def test_feature_dimensions(op: str, sizes: list[int], feature: int) -> None:
    check_rule(program(op, sizes, feature), *point(op, sizes, feature), order=1, subsets=False)


@pytest.mark.parametrize("op", ["training", "inference"])
def test_as_jax(op: str) -> None:
    function = {"training": training, "inference": inference}[op]
    check_rule(
        program(op, [4, 3], 1),
        *point(op, [4, 3], 1),
        order=1,
        subsets=False,
        jax_function=lambda *operands: function(*operands, 1),
    )


def test_the_gradient_op_is_the_gradient() -> None:
    """The VJP of `batch_norm_training` toward all three operands equals `batch_norm_grad` at the batch's mean and
    variance.
    """
    x, scale, offset = point("training", [4, 3], 1)
    ct, nothing = random(4, 3), np.zeros(3)
    mean, variance = np.mean(x, 0), np.var(x, 0)
    cotangents = run(load(program("training", [4, 3], 1)).vjp(), [x, scale, offset, ct, nothing, nothing])[3:]
    expected = run(load(program("grad", [4, 3], 1)), [x, scale, mean, variance, ct])
    for cx, gradient in zip(cotangents, expected, strict=True):
        np.testing.assert_allclose(cx, gradient, atol=1e-12)


@pytest.mark.parametrize("op", ["training", "inference", "grad"])
def test_empty_batch(op: str) -> None:
    """For an empty batch, cotangents have the shapes of the operands.

    Only shapes are compared, because the mean is NaN and has no derivative.
    """
    given = point(op, [0, 2], 1)
    for y, x in zip(
        run(
            load(program(op, [0, 2], 1)).vjp(list(range(len(given)))),
            [*given, *[random(0, 2)] + ([] if op == "inference" else [random(2), random(2)])],
        )[-len(given) :],
        given,
        strict=True,
    ):
        assert y.shape == x.shape
