"""rng: tangents toward the parameters, from the map that takes the standard sample to the result."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.evidence import NOTES

from tiduc.program import load

SAMPLES = {  # the standard sample of a result, and the result of a sample
    "UNIFORM": (lambda a, b, y: (y - a) / (b - a), lambda a, b, u: a + (b - a) * u),
    "NORMAL": (lambda a, s, y: (y - a) / s, lambda a, s, z: a + s * z),
}
A, B, SHAPE = np.array(0.3), np.array(1.7), (4, 5)


def program(distribution: str, squared: bool = False) -> str:
    r = "tensor<4x5xf64>"
    return f"""
    func.func @main(%a: tensor<f64>, %b: tensor<f64>) -> ({r}, {r}) {{
      %shape = stablehlo.constant dense<[4, 5]> : tensor<2xi64>
      %0 = stablehlo.rng %a, %b, %shape, distribution = {distribution}
          : (tensor<f64>, tensor<f64>, tensor<2xi64>) -> {r}
      %1 = stablehlo.multiply %0, %0 : {r}
      return %0, %1 : {r}, {r}
    }}"""


def moved(distribution: str, y: Any, da: Any, db: Any) -> Any:
    sample, of_sample = SAMPLES[distribution]
    u = sample(A, B, y)
    h = 1e-6
    return (of_sample(A + h * da, B + h * db, u) - of_sample(A - h * da, B - h * db, u)) / (2 * h)


@pytest.mark.parametrize("distribution", SAMPLES)
@pytest.mark.parametrize("wrt", [[0], [1], [0, 1]])
def test_tangents_and_cotangents(distribution: str, wrt: list[int]) -> None:
    rng, p = np.random.default_rng(2), load(program(distribution))
    dx = rng.standard_normal(len(wrt))
    y, square, dy, dsquare = run(p.jvp(wrt), [A, B, *map(np.asarray, dx)])
    da, db = (dx[wrt.index(i)] if i in wrt else 0.0 for i in (0, 1))
    np.testing.assert_allclose(dy, moved(distribution, y, da, db), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(square, y * y)
    np.testing.assert_allclose(dsquare, 2 * y * dy)
    ct = rng.standard_normal((2, *SHAPE))
    y, _, *cx = run(p.vjp(wrt), [A, B, *ct])
    for i, c in zip(wrt, cx, strict=True):
        dy = moved(distribution, y, *(float(i == j) for j in (0, 1)))
        np.testing.assert_allclose(c, np.sum(ct[0] * dy + ct[1] * 2 * y * dy), rtol=1e-6)


@pytest.mark.parametrize("distribution", SAMPLES)
def test_order_two(distribution: str) -> None:
    """The map is linear in the parameters, so its second derivative is zero and that of its square is 2 dy^2."""
    tangents = [np.array(v) for v in (0.4, -1.1)]
    p = load(program(distribution)).jvp().jvp()
    *_, y2, s2 = run(p, [A, B, *tangents, *tangents, np.array(0.0), np.array(0.0)])
    assert np.abs(y2).max() < 1e-12
    first = run(load(program(distribution)).jvp(), [A, B, *tangents])
    assert s2.shape == first[3].shape and (s2 >= 0).all() and s2.max() > 0
    NOTES.checked_text(program(distribution), 2)


def test_one_sample_is_drawn() -> None:
    assert str(load(program("NORMAL")).jvp().vjp()).count("stablehlo.rng") == 1
