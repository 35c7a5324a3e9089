"""A few programs of the sweep over random loops and array programs, and the sweep's handling of failures."""

import json
import re
from pathlib import Path

import loop_reducer
import numpy as np
import pytest
import random_loops as sweep
from array_programs import ArrayProgram
from loop_programs import Program
from random_arguments import arguments_of

import tiduc


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize("case", ["program:1", "vjp:2", "jvp:3"])
def test_a_sample_is_right(case: str, target: str) -> None:
    assert sweep.tried([case, target]) == ("ok", "")


@pytest.mark.more
@pytest.mark.parametrize("case", ["calls:702", "calls.vjp.memory:702"])
def test_a_sample_of_nested_calls_is_right(case: str) -> None:
    assert sweep.tried([case, "cpu"]) == ("ok", "")


def test_functions_call_functions_three_levels_deep() -> None:
    """Programs of kind "calls" have functions that call each other three levels deep and not recursively.

    The only optimization barriers in them are those of recomputed ops.
    """
    for seed in range(8):
        program = Program(seed, levels=3)
        assert {level for *_, level in program.functions} == {1, 2, 3}
        tiduc.load(program.text)
    text = sweep.text_of("calls:1", "cpu")
    assert text.count("optimization_barrier") == text.count("{tidu.recomputed}") > 0


@pytest.mark.slow
def test_dispatches_in_a_loop_await_carried_values() -> None:
    """A program with a dispatch that reads a loop-carried value, which a branch computes, gives the right results.

    After an optimization barrier, IREE may fail to wait for such a value.
    """
    assert sweep.tried(["vjp:31", "cpu"]) == ("ok", "")


def test_constants_that_loops_return_are_not_updated() -> None:
    """A loop whose body returns the constant `x - x` gives the right results in repeated calls.

    An in-place update of the loop's result must not change the constant.
    """
    assert sweep.tried(["program:7066", "cpu"]) == ("ok", "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_a_sample_of_array_ops_is_right(seed: int) -> None:
    assert sweep.tried([f"arrays:{seed}", "cpu"]) == ("ok", "")


def test_programs_of_array_ops_are_valid_and_reproducible() -> None:
    for seed in range(60):
        text = ArrayProgram(seed).text
        tiduc.load(text)
        assert ArrayProgram(seed).text == text


def test_arguments_of_array_ops_are_of_all_sizes() -> None:
    signature = tiduc.load("func.func @main(%x: tensor<40xi8>, %y: tensor<40xf32>) { return }").signature
    small, any_, two = (x for x, _ in arguments_of(signature, "any"))
    assert any_.min() == -128 and any_.max() == 127
    assert abs(small).max() < 10 and {*two.tolist()} == {0, 1}
    assert all(abs(y).max() < 10 for _, y in arguments_of(signature, "any"))


def test_programs_are_valid_and_reproducible() -> None:
    for seed in range(30):
        text = Program(seed, smooth=seed % 2 == 1).text
        assert "stablehlo.while" in text
        tiduc.load(text)
        assert Program(seed, smooth=seed % 2 == 1).text == text


def test_element_types_that_are_left_out() -> None:
    assert all("f64" not in Program(seed, True, ["f64"]).text for seed in range(10))
    texts = [ArrayProgram(seed, ["f64"]).text for seed in range(60)]
    assert any("f64" in text for text in texts)
    assert not any(
        re.search(r"stablehlo\.(sine|cosine|tanh)\"\(%\w+\) : \(tensor<[0-9x]*f64", text) for text in texts
    )


def test_agreement_is_exact_but_for_derivatives() -> None:
    x, near = np.array([1.0, np.nan, 100.0]), np.array([1.000001, np.nan, 100.0])
    assert not sweep.agree(x, near, exact=True) and sweep.agree(x, near, exact=False)
    assert not sweep.agree(x, x[:2], exact=False)
    assert not sweep.agree(x, x.astype(np.float32), exact=False)


REDUCED = """func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<3xf32>, tensor<3xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.sine %a : tensor<3xf32>
    %t = stablehlo.tanh %b : tensor<3xf32>
    %u = stablehlo.add %t, %b : tensor<3xf32>
    stablehlo.return %j, %s, %u : tensor<i32>, tensor<3xf32>, tensor<3xf32>
  }
  return %0#1, %0#2 : tensor<3xf32>, tensor<3xf32>
}
"""


def test_failing_programs_are_reduced() -> None:
    """The reducer removes from a program all that is not needed for the failure, here a tanh in a loop.

    The reduced program has no sines, and no additions that only they need.
    """

    def fails(text: str) -> bool:
        return "stablehlo.tanh" in text and "stablehlo.while" in text

    text = loop_reducer.reduced(REDUCED, fails, 60)
    assert (
        fails(text) and "sine" not in text and "stablehlo.add" not in text.replace("%c_0 : tensor<i32>", "")
    )
    assert len(text.splitlines()) < 16
    tiduc.load(text)


def test_a_journal_resumes(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rows = [["vjp:1", "cpu", "wrong", "x"], ["vjp:1", "cpu", "ok", ""], ["vjp:2", "cpu", "crash", ""]]
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert sweep.known(journal, "cpu", "") == {"vjp:1": ("ok", ""), "vjp:2": ("crash", "")}
    assert sweep.known(journal, "cpu", "crash") == {"vjp:1": ("ok", "")}
    assert sweep.known(journal, "vulkan", "") == sweep.known(None, "cpu", "") == {}
