"""A sample of the sweep over random networks of large arrays, which `test/sweep/random_networks.py --large` runs."""

from typing import Any

import numpy as np
import pytest
import random_networks
from harness.sources import source_of
from large_networks import LargeNetwork
from random_networks import ROUNDED, outcome

import tiduc

KINDS = (
    *("attention", "convolution", "transposed", "bilinear", "gathered", "layer", "batch", "_pool"),
    *("perceptron", "recurrence", " + x", " beside x", " (an output)"),
)
SLOW = [
    pytest.param(seed, target, marks=pytest.mark.slow)
    for seed in range(1, 5)
    for target in ("cpu", "cpu-threads")
]


@pytest.mark.more
@pytest.mark.parametrize(("seed", "target"), [(0, "cpu"), *SLOW])
def test_values_and_gradients_are_those_of_xla_in_f64(seed: int, target: str) -> None:
    assert outcome(seed, large=True, target=target) == ("ok", "")


@pytest.mark.parametrize(
    ("error", "in_f64", "category"),
    [
        (ROUNDED, "ok", "within rounding"),
        (2 * ROUNDED, "ok", "wrong"),
        (ROUNDED, "wrong", "wrong"),
        (float("inf"), "ok", "wrong"),
    ],
)
def test_an_error_within_rounding_is_small_and_is_none_in_f64(
    error: float, in_f64: str, category: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compared(network: Any, target: str) -> tuple[str, str, float]:
        return ("wrong", "result 0", error) if network.dtype == "float32" else (in_f64, "", 0)

    monkeypatch.setattr(random_networks, "compared", compared)
    assert outcome(1) == (category, "result 0")


@pytest.mark.parametrize(("exact", "is_rounded"), [(1e-17, True), (1e-3, False)])
def test_rounding_of_a_zero_in_f32_is_that_of_the_largest_entry(exact: float, is_rounded: bool) -> None:
    found, wanted = np.float32([exact + 1e-5]), np.float64([exact])
    assert random_networks._is_rounded(found, wanted, 1.0) == is_rounded
    assert not random_networks._is_rounded(found.astype(np.float64), wanted, 1.0)
    assert not random_networks._is_rounded(found + np.float32(1e-3), wanted, 1.0)


@pytest.mark.more
def test_the_networks_have_all_kinds_of_layers() -> None:
    """40 random networks contain all kinds of layers.

    Some have a dynamic batch size, and some have blocks of equal layers.
    """
    networks = [LargeNetwork(seed) for seed in range(40)]
    names = "\n".join(name for network in networks for name in network.names)
    assert [kind for kind in KINDS if kind not in names] == []
    assert 0 < sum(network.dynamic for network in networks) < 20
    assert any(max(map(network.names.count, network.names)) >= 3 for network in networks)


def test_the_arrays_are_placed() -> None:
    network = LargeNetwork(0)
    assert source_of(tiduc.load(network.text).vjp(network.active)).places
