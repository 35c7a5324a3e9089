"""Functions that call each other on many paths.

Derivatives are right, and their size is proportional to the number of call sites.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cases.control_flow_random import program as random_program
from cases.control_flow_texts import TEXTS
from harness.check_rule import like
from harness.compare import compare
from harness.control_flow_check import Kink, check
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.explain.costs import find_cost
from tiduc.passes.engine import split
from tiduc.passes.rules import call

DERIVATIVES: dict[str, Callable[[tiduc.Program], tiduc.Program]] = {
    "jvp": tiduc.Program.jvp,
    "vjp": tiduc.Program.vjp,
    "grad": tiduc.Program.grad,
    "hvp": tiduc.Program.hvp,
    "jvp of jvp": lambda program: program.jvp().jvp(),
    "vjp of vjp": lambda program: program.vjp().vjp(),
}


def nested(depth: int, width: int = 2, ops: int = 2) -> str:
    """The text of nested functions, each of which calls the next one `width` times.

    The last function has 2 `ops` ops.
    """
    lines = []
    for i in range(depth):
        name = f"private @f{i}" if i else "@main"
        lines.append(f"func.func {name}(%y: !t, %w: !t) -> !t attributes {{no_inline}} {{")
        values = ["y", *(f"y{j}" for j in range(width))]
        lines += [f"  %{y} = call @f{i + 1}(%{x}, %w) : (!t, !t) -> !t" for x, y in pairwise(values)]
        lines.append(f"  return %{values[-1]} : !t\n}}")
    lines.append(f"func.func private @f{depth}(%y0: !t, %w: !t) -> !t attributes {{no_inline}} {{")
    for j in range(ops):
        lines.append(f"  %s{j} = stablehlo.sine %y{j} : !t")
        lines.append(f"  %y{j + 1} = stablehlo.multiply %s{j}, %w : !t")
    return "\n".join([*lines, f"  return %y{ops} : !t\n}}"]).replace("!t", "tensor<f64>")


@pytest.mark.parametrize("kind", DERIVATIVES)
def test_a_derivative_grows_with_the_call_sites(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding 14 levels of calls adds about the same number of bytes to a derivative each time, although the number of
    paths grows by a factor of 16,384.
    """
    if kind not in ("jvp", "vjp"):  # a lower limit makes the texts smaller and the test faster
        monkeypatch.setattr(split, "MOST_CARRIED", 64)
    sizes = [len(DERIVATIVES[kind](tiduc.load(nested(depth))).text) for depth in (14, 28, 42)]
    first, second = (y - x for x, y in pairwise(sizes))
    assert second <= 2 * first, sizes


@pytest.mark.parametrize("kind", DERIVATIVES)
@pytest.mark.parametrize("bound", [0, 3])
def test_functions_that_run_again(bound: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives whose functions recompute residuals equal the derivatives of the program with inlined calls, for
    random tangents and cotangents.
    """
    text, rng = nested(3, 2, ops=2), np.random.default_rng(0)
    expected = DERIVATIVES[kind](tiduc.load(text, inline=True))
    shared = DERIVATIVES[kind](tiduc.load(text)).text
    monkeypatch.setattr(split, "MOST_CARRIED", bound)
    derived = DERIVATIVES[kind](tiduc.load(text)).text
    assert derived != shared
    arguments = [like(np.zeros(x.type.shape), rng) for x in expected.signature.inputs]
    compare(evaluate(derived, arguments), evaluate(expected.text, arguments), 1e-12)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TEXTS)
def test_control_flow_that_runs_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives to order two are right if called functions, branches and loops recompute their residuals."""
    monkeypatch.setattr(split, "MOST_CARRIED", -1)
    text, arguments = TEXTS[name]
    check(text, *arguments, subsets=False)


@settings(max_examples=5, derandomize=True, deadline=None, database=None)
@given(st.data(), st.integers(0, 4))
def test_random_programs_that_run_again(data: Any, n: int) -> None:
    text = random_program(lambda count: data.draw(st.integers(0, count - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "MOST_CARRIED", -1)
        try:
            check(text, 0.43, np.array([0.71, 0.38]), np.int32(n), subsets=False)
        except Kink:
            assume(False)


def test_a_function_that_runs_again_on_iree(monkeypatch: pytest.MonkeyPatch) -> None:
    text, arguments = nested(2), [np.asarray(x) for x in (0.3, 1.1, 0.7)]
    expected = tiduc.load(text, inline=True).vjp().text
    monkeypatch.setattr(split, "MOST_CARRIED", 3)
    compare(tiduc.load(text).vjp().compile("cpu")(*arguments), evaluate(expected, arguments), 1e-9)


def test_more_residuals_than_the_bound() -> None:
    """If a function calls another one 13 times, and each call has 80 residuals, these are more than the limit of 1,024.

    Then the reverse pass recomputes the calling function instead of storing the residuals.
    """
    f2 = nested(1, 13, ops=80).replace("@f1", "@f2").replace("func.func @main", "func.func private @f1")
    f1 = nested(1, 2, ops=1)
    text = f1[: f1.index("func.func private")] + f2
    vjp, inlined = (tiduc.load(text, inline=flag).vjp().text for flag in (False, True))
    assert vjp.count("call @f.primal(") == 13 and "@f.primal_1" not in vjp
    arguments = [np.asarray(x) for x in (0.3, 1.1, 0.7)]
    compare(evaluate(vjp, arguments), evaluate(inlined, arguments), 1e-9)


def test_ordinary_programs_keep_their_residuals(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder of 24 blocks that is called twice stores all residuals of its blocks instead of recomputing them."""
    block = nested(1, 1, ops=16).replace("@main", "@block").replace("func.func @", "func.func private @")
    calls = "\n".join(f"%x{i + 1} = call @block(%x{i}, %w) : (!t, !t) -> !t" for i in range(24))
    text = f"""{block}
func.func private @encoder(%x0: !t, %w: !t) -> !t {{
{calls}
  return %x24 : !t
}}
func.func @main(%x: !t, %w: !t) -> !t {{
  %0 = call @encoder(%x, %w) : (!t, !t) -> !t
  %1 = call @encoder(%0, %w) : (!t, !t) -> !t
  return %1 : !t
}}""".replace("!t", "tensor<f64>")
    vjp = tiduc.load(text).vjp().text
    monkeypatch.setattr(split, "MOST_CARRIED", 2**40)
    assert vjp == tiduc.load(text).vjp().text
    assert vjp.count("call @block.primal") == 24


@pytest.mark.parametrize("is_reducer", [False, True])
def test_inlining_is_bounded(is_reducer: bool) -> None:
    """A program is refused if inlining would copy a function for each of 2^40 paths, even if its calls must be inlined
    because a reducer contains them.
    """
    text = nested(40)
    if is_reducer:
        text = (
            text.replace("func.func @main", "func.func private @f0")
            + """
func.func @main(%x: tensor<3xf64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %zero) across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
    reducer(%a: tensor<f64>, %b: tensor<f64>) {
      %1 = func.call @f0(%a, %b) : (tensor<f64>, tensor<f64>) -> tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }
  return %0 : tensor<f64>
}"""
        )
    with pytest.raises(tiduc.Unsupported, match=r"@f\d+ has more than 262144 ops once its calls are inlined"):
        tiduc.load(text, inline=not is_reducer)


def test_patterns_of_active_arguments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is refused if its functions need derivatives for too many sets of active arguments.

    Each of 20 functions passes a constant in one of two calls, which gives 2^20 such sets.
    """
    monkeypatch.setattr(call, "MOST_PATTERNS", 64)
    arguments, types = (
        ", ".join(names) for names in zip(*((f"%x{j}: !t", "!t") for j in range(20)), strict=True)
    )
    lines = []
    for i in range(20):
        every = [f"%x{j}" for j in range(20)]
        without = ["%c" if j == i else x for j, x in enumerate(every)]
        visible = f"private @f{i}" if i else "@main"
        lines.append(f"""func.func {visible}({arguments}) -> !t attributes {{no_inline}} {{
  %c = stablehlo.constant dense<1.0> : !t
  %0 = call @f{i + 1}({", ".join(every)}) : ({types}) -> !t
  %1 = call @f{i + 1}({", ".join(without)}) : ({types}) -> !t
  %2 = stablehlo.multiply %0, %1 : !t
  return %2 : !t
}}""")
    lines.append(
        f"func.func private @f20({arguments}) -> !t attributes {{no_inline}} {{\n  %y0 = stablehlo.sine %x0 : !t"
    )
    lines += [f"  %y{j} = stablehlo.multiply %y{j - 1}, %x{j} : !t" for j in range(1, 20)]
    program = tiduc.load("\n".join([*lines, "  return %y19 : !t\n}"]).replace("!t", "tensor<f64>"))
    with pytest.raises(
        tiduc.Unsupported, match="@f20 is differentiated for more than 64 sets of active arguments"
    ):
        program.jvp()


def test_the_cost_of_many_paths() -> None:
    """The cost of a function that is called on 2^40 paths is counted 2^40 times."""
    cost = find_cost(tiduc.load(nested(40)))
    assert cost.flops == 2**40 * 4 and cost.transcendentals == 2**40 * 2
