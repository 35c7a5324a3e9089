"""Random programs as scalar ops: the reference interpreter's values, with and without a batch."""

import numpy as np
import pytest
from cases.random_arrays import program
from harness.scalars import evaluate, scalars
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.backends.named_main import text_with_main
from tiduc.backends.reference import in_process
from tiduc.dialect.mlir.context import parse
from tiduc.program import from_module


@pytest.mark.more
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from([0, 4, 5]))
def test_random_programs(seed: int, steps: int, batch: int) -> None:
    """Programs that scalar ops cannot express are left out. f32 is rounded alike."""
    text = program(seed, steps)
    of = from_module(parse(text))
    if batch:
        of = of.batch(0, batch)
        text = text_with_main(of.lower().module)
    found, rng = scalars(of), np.random.default_rng(seed)
    if found is None:
        return
    arrays = []
    for x in of.signature.inputs:
        array = rng.integers(-12, 13, x.type.shape) / 4
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], array.shape)
        arrays.append(np.where(rng.random(array.shape) < 0.06, special, array).astype(x.type.dtype))
    for x, y in zip(
        evaluate(found, [each[None] for each in arrays]), in_process.run(text, arrays), strict=True
    ):
        np.testing.assert_allclose(x[0], y, rtol=1e-6, atol=1e-6)
