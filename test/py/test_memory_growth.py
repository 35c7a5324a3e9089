"""Memory budgets for deep networks: the time to plan what to recompute is proportional to the number of ops."""

from typing import Any

import numpy as np
import pytest
from cases.memory_graphs import MIB, chain, graph_of

import tiduc
from tiduc.passes.rematerialize import cheap, recompute
from tiduc.passes.rematerialize.cheap import cheaper
from tiduc.passes.rematerialize.liveness import liveness
from tiduc.passes.rematerialize.recompute import within
from tiduc.passes.rematerialize.rematerialize import ordered
from tiduc.passes.rematerialize.second_runs import evicting, unchanged


def test_the_least_memory_of_a_chain_of_elementwise_ops() -> None:
    """Rematerialization with the least memory ends for 40 layers that each read the previous layer twice, and keeps the
    results.

    2^40 paths lead through the ops of these layers, all of which compilers fuse.
    """
    ops, x = list[str](), "%x"
    for i in range(40):
        ops.append(f"%a{i} = stablehlo.sine {x} : tensor<1000xf64>")
        ops.append(f"%b{i} = stablehlo.exponential %a{i} : tensor<1000xf64>")
        ops.append(f"%c{i} = stablehlo.multiply %a{i}, %b{i} : tensor<1000xf64>")
        x = f"%c{i}"
    body = "\n".join(ops)
    text = f"func.func @main(%x: tensor<1000xf64>) -> tensor<1000xf64> {{\n{body}\nreturn {x} : tensor<1000xf64>\n}}"
    vjp = tiduc.load(text).vjp()
    argument, ct = np.linspace(-1, 1, 1000), np.ones(1000)
    wanted = vjp.compile(engine="reference")(argument, ct)
    for y, y_wanted in zip(
        vjp.rematerialize("min").compile(engine="reference")(argument, ct), wanted, strict=True
    ):
        np.testing.assert_array_equal(y, y_wanted)


def test_no_schedule_is_tried_if_no_value_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no value is cheap to recompute, as in a chain of products, the planner evaluates no schedule.

    It searches for cheap values only above 64 KiB.
    """
    graph = graph_of(*chain(240))
    model = ordered(liveness(graph))
    assert model.peak(range(len(model.ops))) - model.throughout > cheap.SMALL

    def refused(*arguments: Any) -> Any:
        raise AssertionError("there is nothing to recompute, so no schedule should be tried")

    for name in ("evicting", "ordered", "_seconds_of_second_runs"):
        monkeypatch.setattr(cheap, name, refused)
    assert cheaper(graph, model, refused, stored=False) is model


def skips(layers: int) -> tuple[list[int], list[list[int]], list[int]]:
    """The graph of a U-Net's gradient: layer i of the second half also reads the i-th last layer of the first half."""
    half = layers // 2
    needs: list[list[int]] = [[i - 1] if i else [] for i in range(half)]
    needs += [[i - 1, layers - 1 - i] for i in range(half, layers)]
    for i in reversed(range(layers)):
        needs.append([len(needs) - 1, i])
    return [1] * len(needs), needs, [len(needs) - 1]


@pytest.mark.parametrize("shape", [chain, skips])
@pytest.mark.parametrize("budget", [0, 20 * MIB, 60 * MIB])
def test_plans_take_time_in_proportion_to_the_ops(
    shape: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedules that the planner evaluates have in total at most a constant multiple of the graph's ops."""
    model, ops = ordered(liveness(graph_of(*shape(240))), has_budget=True), list[int]()

    def counted(*arguments: Any) -> Any:
        choice = evicting(*arguments)
        ops.append(len(choice.model.ops))
        return choice

    monkeypatch.setattr(recompute, "evicting", counted)
    plan = within(model, budget)
    assert sum(ops) < 250 * len(model.ops)
    assert len(plan.model.ops) <= 8 * len(model.ops)
    assert plan.peak < unchanged(model).peak * 0.6
