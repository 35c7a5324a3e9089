"""Derivatives of random compositions of ops: some of them; test/sweep/compositions.py draws as many as one likes."""

from collections import Counter
from typing import Any

import compositions
import pytest
from composer import programs
from families import FAMILIES
from hypothesis import HealthCheck, given, settings

from tiduc.passes.rules import OPSET

SETTINGS = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize(("order", "count"), [(1, 75), (2, 50), (3, 25)])
def test_derivatives(order: int, count: int) -> None:
    total: Counter[str] = Counter()

    @settings(SETTINGS, max_examples=count)
    @given(compositions.cases([order]))
    def sample(case: Any) -> None:
        total.update(compositions.check(*case))

    sample()
    assert total["compared"] > 0.9 * order * count and total["checked"] > 0.9 * total["compared"]
    assert total["refused"] < 0.05 * count


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_family(family: Any) -> None:
    """Each family alone, on its own results."""

    @settings(SETTINGS, max_examples=5)
    @given(programs([family], 3))
    def sample(text: str) -> None:
        compositions.check(text, ("vjp",), 0)

    sample()


@pytest.mark.parametrize("modes", [("jvp",), ("vjp", "jvp")])
def test_a_wrong_rule_is_seen(modes: tuple[str, ...]) -> None:
    """Wrong at the first order, or at the second only."""
    wrong = OPSET.extended()
    if len(modes) == 1:
        wrong.elementwise("stablehlo.sine", lambda b, x, y: b.negate(b.cosine(x)))
    else:
        wrong.inactive("stablehlo.cosine")
    text = "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n%0 = stablehlo.sine %x : tensor<f64>\n"
    text += "return %0 : tensor<f64>\n}\n"
    assert compositions.check(text, modes, 0)["checked"] == len(modes)
    with pytest.raises(AssertionError, match=f"order {len(modes)} of"):
        compositions.check(text, modes, 0, wrong)


def test_a_kink_decides_nothing() -> None:
    text = "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n"
    text += (
        "%c = stablehlo.constant dense<1000.0> : tensor<f64>\n%0 = stablehlo.multiply %c, %x : tensor<f64>\n"
    )
    text += "%1 = stablehlo.floor %0 : tensor<f64>\nreturn %1 : tensor<f64>\n}\n"
    assert compositions.check(text, ("jvp",), 0) == {"compared": 1, "checked": 0}
