"""The choice of sampled cases of an exhaustive parametrization. Only these cases run in the fast tests."""

import itertools

from harness.samples import sample

SIZES = {"size": 7, "kind": 3, "element": 2}
CASES = [
    dict(zip(SIZES, values, strict=True)) for values in itertools.product(*(range(n) for n in SIZES.values()))
]


def test_each_value_is_in_a_sample() -> None:
    chosen = sample(CASES, 7)
    assert len(chosen) == 7
    for name, count in SIZES.items():
        assert {CASES[i][name] for i in chosen} == set(range(count))


def test_all_pairs_of_values_are_in_a_larger_sample() -> None:
    chosen = [CASES[i] for i in sample(CASES, 24)]
    for first, second in itertools.combinations(SIZES, 2):
        pairs = {(case[first], case[second]) for case in chosen}
        assert len(pairs) == SIZES[first] * SIZES[second]


def test_a_sample_is_the_same_in_each_process() -> None:
    assert sample(CASES, 7) == sample(CASES, 7)
    assert sample(CASES, 100) == set(range(len(CASES)))
