"""A sample of the sweep over random networks of large arrays: test/sweep/random_networks.py --large."""

import pytest
from harness.sources import source_of
from large_networks import LargeNetwork
from random_networks import outcome

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


@pytest.mark.parametrize(("seed", "target"), [(0, "cpu"), *SLOW])
def test_values_and_gradients_are_those_of_xla_in_f64(seed: int, target: str) -> None:
    assert outcome(seed, large=True, target=target) == ("ok", "")


def test_the_networks_have_all_kinds_of_layers() -> None:
    """Some have a dynamic batch, and some have blocks of equal layers."""
    networks = [LargeNetwork(seed) for seed in range(40)]
    names = "\n".join(name for network in networks for name in network.names)
    assert [kind for kind in KINDS if kind not in names] == []
    assert 0 < sum(network.dynamic for network in networks) < 20
    assert any(max(map(network.names.count, network.names)) >= 3 for network in networks)


def test_the_arrays_are_placed() -> None:
    network = LargeNetwork(0)
    assert source_of(tiduc.load(network.text).vjp(network.active)).places_arrays
