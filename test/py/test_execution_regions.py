"""Tests where the memory model splits a program into execution regions, as IREE does."""

from typing import Any

import numpy as np
import pytest
from test_iree_stored_values import of_large_weights

import tiduc
from tiduc.passes.rematerialize import regions
from tiduc.passes.rematerialize.inside import with_regions
from tiduc.passes.rematerialize.liveness import liveness
from tiduc.passes.rematerialize.regions import Spans, best_end
from tiduc.passes.rematerialize.rematerialize import estimated, unplanned
from tiduc.pipeline import lowering, run_stages


def drawn(random: Any) -> Spans:
    """Draws values with random sizes and last readers. Some values are results; some ops use temporary memory."""
    count = int(random.integers(1, 25))
    last = np.array([random.integers(i, count) if random.random() < 0.7 else i for i in range(count)])
    taken, results = (
        1.0 * random.integers(0, 10, count) * (random.random(count) < share) for share in (0.7, 0.4)
    )
    inside = 1.0 * random.integers(-3, 6, count) * (random.random(count) < 0.2)
    return Spans(last, taken, results, np.maximum(inside, -taken))


def test_the_best_end_is_that_of_all_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "_SMALL", 1e-9)
    monkeypatch.setattr(regions, "_GAIN", 1.0)
    random = np.random.default_rng(0)
    for _ in range(400):
        spans = drawn(random)
        count, total = len(spans.last), spans.results.sum()
        peaks = [total + spans.live_in_two(end).max() for end in range(count)]
        found = best_end(spans, range(count))
        if min(peaks) < total + spans.live().max():
            assert found is not None and found[0] == min(peaks) == peaks[found[1]]
        else:
            assert found is None


def test_a_budget_counts_results_that_are_allocated_late() -> None:
    """Splitting a program into regions more than halves its peak memory, not counting arrays that are always live.

    A memory budget slightly above that peak is met without further changes.
    """
    program, _ = of_large_weights()
    graph = run_stages(program, lowering("structure")[1:], program.merged)
    given, planned = unplanned(program.view, graph), estimated(program.view, graph)
    assert planned.throughout == given.throughout
    share = (planned.peak - planned.throughout) / (given.peak - given.throughout)
    within = estimated(program.view, graph, f"{share + 0.01:.2f}x")
    assert share < 0.5 and within == planned


SORT = """"stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
}) : (tensor<4x4xf32>) -> tensor<4x4xf32>"""


@pytest.mark.parametrize(
    ("op", "may_split"),
    [
        ("stablehlo.tanh %x : tensor<4x4xf32>", True),
        ("stablehlo.cholesky %x, lower = true : tensor<4x4xf32>", False),
        (SORT, False),
    ],
)
def test_sorts_and_factorizations_end_regions(op: str, may_split: bool) -> None:
    """A program may be split into regions only if it has no op at which IREE itself ends a region.

    Such ops are sorts and factorizations.
    """
    program = tiduc.load(
        f"func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{\n %0 = {op}\n return %0 : tensor<4x4xf32>\n}}"
    )
    assert with_regions(program.view, liveness(program.merged)).may_split == may_split
