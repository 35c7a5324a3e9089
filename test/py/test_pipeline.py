"""The table of compilation stages agrees with the methods of `Program`, the passes, and the documentation."""

import re
from itertools import dropwhile
from pathlib import Path

import pytest

from tiduc.cli import derivatives, jacobians, orders
from tiduc.cli.derivatives import derived
from tiduc.dialect import progress
from tiduc.loading import load
from tiduc.opt import PASSES
from tiduc.pipeline import DERIVATIVES, LOWERING, STAGES, Stage, stops
from tiduc.program import Program

ROOT = Path(__file__).parents[2]
TEXT = """
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
"""
OTHER = ("batch", "jet")
"""Stages that the compilation of a gradient does not run."""


def path(stage: Stage) -> str:
    """The path of the file that contains the stage's function, as the documentation writes it."""
    return stage.function.__module__.removeprefix("tiduc.").replace(".", "/") + ".py"


def test_a_gradient_runs_the_stages_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    enter = progress.enter
    monkeypatch.setattr(progress, "enter", lambda name: [entered.append(name), enter(name)][1])
    assert load(TEXT).grad().text
    stages = [stage.function.__name__ for stage in STAGES if stage.name not in (*OTHER, "compile")]
    assert [name for name in dict.fromkeys(entered) if name in stages] == stages


def test_each_stage_on_graphs_is_a_pass() -> None:
    between = dropwhile(lambda stage: stage.name == "parse", STAGES[:-1])
    assert all(f"tidu-{stage.name.replace('_', '-')}" in PASSES for stage in between)


def test_lowering_is_the_end_of_the_pipeline_before_an_engine() -> None:
    assert (*LOWERING, STAGES[-1]) == STAGES[-1 - len(LOWERING) :]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_derivative_can_be_printed_after_each_of_its_stages(name: str) -> None:
    commands = derivatives.COMMANDS | jacobians.COMMANDS | orders.COMMANDS
    (choices,) = (p.type.choices for p in commands[name].params if p.name == "stop_after")  # type: ignore[attr-defined]
    assert list(choices) == stops([name])
    assert all(hasattr(Program, method) for method in DERIVATIVES[name].values())
    for stop in stops([name]):
        options = {"order": 2} if name == "jet" else {}
        _, module = derived(load(TEXT), name, None, stop, **options)
        assert module.operation.verify()


def test_a_jet_can_be_printed_after_each_of_its_stages() -> None:
    (choices,) = (p.type.choices for p in orders.COMMANDS["jet"].params if p.name == "stop_after")  # type: ignore[attr-defined]
    assert "jet" in choices
    for name in ("jet", "derivatives"):
        for stop in choices:
            _, module = derived(load(TEXT), name, None, stop, order=2)
            assert ("tidu.external" in str(module)) == (stop == "jet")


def test_the_walk_through_the_sources_has_the_stages() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| \d+ \| (.*?) \| `(.*?)` \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    stages = [stage for stage in STAGES if stage.name not in OTHER]
    names = [f"`{stage.function.__name__}`" for stage in stages]
    listed = [row for row in rows if any(name in row[0] for name in names)]
    assert [(path(stage), stage.takes, stage.gives) for stage in stages] == [row[1:] for row in listed]
    assert all(f"`{name}` in `passes/{name}.py`" in page for name in OTHER)
