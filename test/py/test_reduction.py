"""The reducer of failing programs: the ops that it drops, the validity of candidates, its limits, and its command."""

import re
import time
from pathlib import Path

import pytest

from tiduc.cli import run
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.reduction.reduce import reduce

PROGRAM = """
func.func private @helper(%z: tensor<4xf64>) -> tensor<4xf64> {
  %0 = stablehlo.tanh %z : tensor<4xf64>
  return %0 : tensor<4xf64>
}
func.func @unused(%z: tensor<4xf64>) -> tensor<4xf64> {
  return %z : tensor<4xf64>
}
func.func @main(%a: tensor<4xf64> {my.attr = 1 : i32}, %x: tensor<4xf64>, %p: tensor<i1>)
    -> (tensor<4xf64>, tensor<4xf64>) {
  %0 = stablehlo.multiply %a, %x : tensor<4xf64>
  %1 = stablehlo.exponential %0 : tensor<4xf64>
  %2 = func.call @helper(%1) : (tensor<4xf64>) -> tensor<4xf64>
  %3 = "stablehlo.if"(%p) ({
    %s = stablehlo.sine %2 : tensor<4xf64>
    %t = stablehlo.custom_call @bad(%s) : (tensor<4xf64>) -> tensor<4xf64>
    %u = stablehlo.cosine %t : tensor<4xf64>
    stablehlo.return %u : tensor<4xf64>
  }, {
    stablehlo.return %2 : tensor<4xf64>
  }) : (tensor<i1>) -> tensor<4xf64>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %n, %y = %3) : tensor<i32>, tensor<4xf64>
    cond {
      %c = stablehlo.compare GT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %l = stablehlo.log %y : tensor<4xf64>
      stablehlo.return %i, %l : tensor<i32>, tensor<4xf64>
    }
  return %w#1, %2 : tensor<4xf64>, tensor<4xf64>
}
"""


def ops(text: bytes) -> list[str]:
    return re.findall(r"(?:stablehlo|func)\.\w+", text.decode())


@pytest.mark.parametrize(
    ("word", "left"),
    [
        (b"custom_call", ["func.func", "stablehlo.custom_call"]),
        (b"tanh", ["func.func", "stablehlo.tanh"]),
        (b"stablehlo.if", ["func.func", "stablehlo.if", "stablehlo.return", "stablehlo.return"]),
        (b"my.attr", ["func.func"]),
        (b"@unused", ["func.func"]),
    ],
)
def test_all_that_is_not_needed_is_dropped(word: bytes, left: list[str]) -> None:
    reduction = reduce(parse(PROGRAM), lambda text: word in text)
    assert [op for op in ops(reduction.text) if op != "func.return"] == left
    parse(reduction.text)


def test_the_body_of_a_loop_is_reduced_and_the_loop_stays() -> None:
    reduction = reduce(parse(PROGRAM), lambda text: b"log" in text and b"while" in text)
    assert sorted(set(ops(reduction.text))) == sorted(
        {"func.func", "stablehlo.while", "stablehlo.log", "stablehlo.return", "stablehlo.constant"}
        | set(re.findall(r"stablehlo\.compare", reduction.text.decode()))
    )


def test_every_tested_module_is_valid() -> None:
    def test(text: bytes) -> bool:
        parse(text)
        return b"multiply" in text

    assert reduce(parse(PROGRAM), test).tested > 3


def test_names_of_arguments_stay() -> None:
    assert b"%x" in reduce(parse(PROGRAM), lambda text: b"multiply %a, %x" in text).text


def test_an_uninteresting_module_is_refused() -> None:
    with pytest.raises(RequestError, match="does not find the module interesting"):
        reduce(parse(PROGRAM), lambda text: False)


def test_the_time_is_limited() -> None:
    def test(text: bytes) -> bool:
        time.sleep(0.05)
        return b"log" in text

    begin = time.monotonic()
    assert reduce(parse(PROGRAM), test, seconds=0.2).is_over
    assert time.monotonic() - begin < 5


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    program, script = tmp_path / "f.mlir", tmp_path / "interesting.sh"
    program.write_text(PROGRAM)
    script.write_text('#!/bin/sh\ngrep -q "$2" "$1" && exit 1\nexit 0\n')
    script.chmod(0o755)
    return str(program), str(script)


def test_command(files: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, script = files
    out = tmp_path / "small.mlir"
    assert run(["reduce", program, "--test", script, "--test-arg", "custom_call", "-o", str(out)]) == 0
    assert "custom_call @bad" in out.read_text() and "exponential" not in out.read_text()
    assert re.search(r"\d+ bytes to \d+ in \d+ tests", capfd.readouterr().err)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (["--test", "SCRIPT", "--test-arg", "nothing"], "not interesting: the test ended with status 0"),
        (["--test", "no-such-command"], "no command 'no-such-command'"),
        (["--test", "sh -c 'exit 127'"], "the test cannot run (exit status 127)"),
    ],
)
def test_refused(
    test: list[str], message: str, files: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    program, script = files
    assert run(["reduce", program, *[script if word == "SCRIPT" else word for word in test]]) == 1
    assert message in capfd.readouterr().err
