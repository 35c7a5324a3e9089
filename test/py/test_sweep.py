"""A sample of the sweep over JAX's test harnesses, one for each primitive. test/sweep/harnesses.py runs all
harnesses.
"""

import numpy as np
import pytest
from harness_outcome import Outcome
from harnesses import harnesses, selected, sweep, table


def sample() -> list[str]:
    """The names of one harness for each primitive, in float64 if possible, because then the comparison is most
    precise.
    """
    chosen: dict[str, str] = {}
    for kind in ("float64", "complex128", "float32", "complex64"):
        for name in selected(sample=1):
            harness = harnesses()[name]
            if np.dtype(harness.dtype).name == kind:
                chosen.setdefault(harness.group_name, name)
    return list(chosen.values())


EXPECTED = {
    "sin_shape_complex128_20_20_": "ok",
    "mul_dtypes_lhs_complex64_20_20_rhs_complex64_20_20_": "ok",
    "acosh_shape_complex128_20_20_": "expected",
    "sign_shape_complex128_20_20_": "expected",
    "gather_batchdims_shape_3_10_start_indices_shape_3_2_slice_sizes_1_5_enable_xla_True": "expected",
    "cos_shape_bfloat16_20_20_": "ok",
    "eq_dtypes_lhs_float32_rhs_float32_": "n/a",
}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(0, marks=pytest.mark.more),
        *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12)),
    ],
)
def test_a_sample_is_right_or_refused(part: int) -> None:
    """No sampled harness is wrong or crashes.

    The first part also contains one harness of each category, whose category must be found. One worker process runs a
    whole part.
    """
    named = list(EXPECTED) if part == 0 else []
    outcomes = list(sweep([*named, *sample()[part::12]]))
    assert [o.category for o in outcomes[: len(named)]] == [EXPECTED[name] for name in named]
    assert [o for o in outcomes if o.category in ("wrong", "crash")] == [], table(outcomes)
    assert sum(o.category == "ok" for o in outcomes) > 2


@pytest.mark.slow
def test_order_two() -> None:
    names = [
        "logistic_shape_complex128_20_20_",
        "cumprod_dtype_by_fun_shape_float64_8_9_axis_0_reverse_False",
    ]
    assert [o.category for o in sweep(names, order=2)] == ["ok", "ok"]


def test_the_death_of_a_worker_is_an_outcome() -> None:
    (outcome,) = sweep(["sin_shape_float32_20_20_"], seconds=0.0)
    assert (outcome.category, outcome.detail) == ("crash", "more than 0.0 s")


def test_selection() -> None:
    assert all(harnesses()[name].group_name == "sin" for name in selected("^sin_"))
    assert len(selected("^sin_", sample=1)) == len({harnesses()[name].dtype for name in selected("^sin_")})


def test_table() -> None:
    text = table([Outcome("a_1", "a", "float32", "ok"), Outcome("b_1", "b", "float32", "refused", "why")])
    assert text.splitlines()[-1].split() == ["all", "1", "1"]
