"""Tests the `--help` texts, shell completion, `--quiet` and `--json`."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete
from harness.example_files import EXAMPLES as FOLDER

from tiduc.cli import COMMANDS, run, tiduc
from tiduc.cli.diagnostics import is_quiet
from tiduc.cli.manual import EPILOG, EXAMPLES

NAMES = [name for section in COMMANDS.values() for name in section]


def command(name: str) -> click.Command:
    subcommand = tiduc.get_command(click.Context(tiduc), name)
    assert subcommand is not None
    return subcommand


def checked(line: str) -> None:
    """Checks that tiduc accepts the arguments of every command in a line with pipes. The files need not exist."""
    for part in line.split("|"):
        words = shlex.split(part)
        assert words[0] == "tiduc"
        subcommand = command(words[1])
        subcommand.make_context(words[1], words[2:], parent=click.Context(tiduc)).close()


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == set(NAMES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_command_lines(name: str) -> None:
    for purpose, line in EXAMPLES[name]:
        assert f"tiduc {name}" in line and purpose[0].isupper() and not purpose.endswith(".")
        checked(line)


def test_examples_of_the_top_level_help() -> None:
    lines = [line.strip() for line in EPILOG.splitlines() if line.startswith("  tiduc")]
    assert len(lines) == 4
    for line in lines:
        checked(line)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_says_what_it_is_for(name: str) -> None:
    group = command(name)
    assert group.help and group.help.split("\n\n")[0].strip().endswith(".")
    for parameter in group.params:
        if isinstance(parameter, click.Option):
            assert parameter.help and parameter.help.strip(".").strip(), parameter.name
        else:
            assert parameter.metavar, parameter.name


def completed(arguments: list[str], incomplete: str) -> list[tuple[str, str]]:
    complete = BashComplete(tiduc, {}, "tiduc", "_TIDUC_COMPLETE")
    return [(item.value, item.type) for item in complete.get_completions(arguments, incomplete)]


def test_completion() -> None:
    assert completed([], "ex") == [("export", "plain"), ("explain", "plain")]
    assert ("--wrt", "plain") in completed(["grad"], "--w")
    assert [value for value, _ in completed(["view", "--format"], "h")] == ["html"]
    assert completed(["grad"], "mod") == [("mod", "file")]  # the shell completes file names
    assert completed(["grad", "model.mlir", "-o"], "out") == [("out", "file")]
    assert [value for value, _ in completed(["compile", "--target"], "wa")] == ["wasm32"]
    assert "cuda:sm_86" in [value for value, _ in completed(["compile", "--target"], "cuda:sm_8")]


def test_completion_of_a_shell() -> None:
    source = BashComplete(tiduc, {}, "tiduc", "_TIDUC_COMPLETE").source()
    assert "_TIDUC_COMPLETE=bash_complete" in source


def test_quiet(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["check", str(FOLDER / "newton.mlir"), "--engine", "reference"]
    assert run(["--quiet", *arguments]) == 0
    assert capsysbinary.readouterr().out == b""
    assert run(arguments) == 0
    assert b"agrees" in capsysbinary.readouterr().out
    monkeypatch.setenv("TIDUC_QUIET", "1")
    assert run(arguments) == 0
    assert capsysbinary.readouterr().out == b""
    assert not is_quiet()  # the setting ends with the command


def test_quiet_does_not_hide_errors(capsys: Any) -> None:
    assert run(["-q", "grad", str(FOLDER / "nothing.mlir")]) == 1
    assert "error: " in capsys.readouterr().err


JSON = {
    "cache": ["info"],
    "targets": [],
    "ops": [],
    "passes": [],
    "check": [str(FOLDER / "newton.mlir"), "--engine", "reference"],
    "explain": [str(FOLDER / "newton.mlir")],
}


@pytest.mark.parametrize("name", JSON)
def test_json(name: str, capsysbinary: Any) -> None:
    assert run([name, *JSON[name], "--json"]) == 0
    data = json.loads(capsysbinary.readouterr().out, parse_constant=lambda text: pytest.fail(text))
    assert data


def test_json_of_targets(capsysbinary: Any) -> None:
    run(["targets", "--json"])
    cpu = json.loads(capsysbinary.readouterr().out)[0]
    assert cpu["target"] == "cpu" and cpu["runs_here"] is True and "generic" in cpu["variants"]


def test_json_of_a_difference(capsysbinary: Any, tmp_path: Path) -> None:
    """If a check fails with NaN, the error in the JSON is null, because JSON has no NaN. The exit status is 1."""
    (tmp_path / "f.mlir").write_text(
        "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n"
        "  %0 = stablehlo.sqrt %x : tensor<f64>\n  return %0 : tensor<f64>\n}\n"
    )
    status = run(["check", str(tmp_path / "f.mlir"), "--input", "0", "--engine", "reference", "--json"])
    data = json.loads(capsysbinary.readouterr().out)
    assert status == 1 and data["agrees"] is False
    assert {c["error"] for c in data["comparisons"] if not c["agrees"]} == {None}


def test_help_loads_no_compiler() -> None:
    code = "import sys; from tiduc.cli import run; run(['grad', '--help']); sys.exit('torch_mlir' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
