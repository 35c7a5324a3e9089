"""Tests the rates (such as flops per second) by which times of ops are estimated: defaults, from a file, measured."""

import json
from pathlib import Path

import pytest
from test_memory_budget import network

from tiduc.cli import run
from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.rates import Rates, as_json, rates
from tiduc.passes.rematerialize.rematerialize import memory_curve


def test_times_follow_from_the_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file of rates states a high cost of functions such as tanh, the estimated cost of recomputation rises."""
    program, _ = network(4, 64, 8)
    assert rates() == Rates()
    usual = memory_curve(program.view, program.merged)
    file = tmp_path / "costs.json"
    file.write_text(as_json(Rates(functions=1e5)))
    monkeypatch.setenv("TIDUC_COSTS", str(file))
    assert rates() == Rates(functions=1e5)
    slow = memory_curve(program.view, program.merged)
    assert slow[0] == usual[0] and slow[-1][1] > 1.1 * usual[-1][1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bytes": 1, "flops": 1, "functions": 0}'])
def test_other_files_are_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "costs.json"
    file.write_text(text)
    monkeypatch.setenv("TIDUC_COSTS", str(file))
    with pytest.raises(RequestError, match="TIDUC_COSTS names"):
        rates()


def test_missing_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDUC_COSTS", str(tmp_path / "costs.json"))
    with pytest.raises(RequestError, match="No such file"):
        rates()


@pytest.mark.slow
def test_rates_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["flops"] > measured["bytes"] > 1e7 and measured["functions"] > 1e6
