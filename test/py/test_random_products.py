"""A sample of the sweep over random products, convolutions, sums and windows (test/sweep/random_products.py)."""

import pytest
from random_products import failures


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_results_are_those_of_xla_in_f64(seed: int) -> None:
    assert failures(seed, "cpu") == []
