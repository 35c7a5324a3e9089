"""Faulty rules of users, and lowerings of users' ops: error messages and values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.user_ops import CUBE, FOREIGN, function, three_squares
from harness.compare import compare
from harness.processes import command
from harness.stages import body

import tiduc
from tiduc.backends.backend import ENGINES
from tiduc.backends.named_main import text_with_main
from tiduc.checking.check import check
from tiduc.passes.rules.registry import OpSet


@pytest.fixture
def mine() -> OpSet:
    return tiduc.OPSET.extended()


# ---- faulty rules


def test_misuse_is_reported_at_once(mine: OpSet) -> None:
    for decorator in (mine.elementwise, mine.elementwise("foreign.f", three_squares) or mine.elementwise):
        with pytest.raises(TypeError, match="elementwise is not a decorator"):
            decorator("foreign.erfcx")
    with pytest.raises(TypeError, match="a rule needs the name of its op"):
        mine.linearize(three_squares)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="is 2, which is not a function"):
        mine.elementwise("foreign.erfcx", 2)  # type: ignore[arg-type]
    for form in (mine.inactive, mine.linearize, mine.transpose, mine.lowering):
        with pytest.raises(ValueError, match="there is no op stablehlo.tahn; did you mean .*stablehlo.tanh"):
            form("stablehlo.tahn")
    with pytest.raises(
        ValueError, match="there is no op stablehlo.custom_cal; did you mean stablehlo.custom_call"
    ):
        mine.linear("stablehlo.custom_cal @mine.f", [0])


def test_a_misspelt_op_name(mine: OpSet) -> None:
    mine.elementwise("foreign.erfcxx", lambda b, x, y: x)
    with pytest.raises(tiduc.Unsupported, match=r"for foreign.erfcx: did you mean foreign.erfcxx\?"):
        tiduc.load(FOREIGN, opset=mine).jvp()


def hand(rule: Any) -> Any:
    return lambda opset: opset.linearize("foreign.erfcx")(rule)


def linear(transpose: Any) -> Any:
    return lambda opset: opset.linear("foreign.erfcx", [0])(transpose)


def elementwise(*partials: Any) -> Any:
    return lambda opset: opset.elementwise("foreign.erfcx", *partials)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (elementwise(lambda b, x, y: b.erfcx(x)), "raised AttributeError: .*'erfcx'"),
        (elementwise(lambda b, x, y: None), "returns nothing for this operand; pass None"),
        (elementwise(lambda b, x, y: 2.0), "returns a value of Python's type float; expects a value"),
        (hand(lambda b, op, dx: None), "returns nothing; expects a list with an entry for each result"),
        (hand(lambda b, op, dx: [None]), "returns nothing as entry 0; where the derivative is zero"),
        (hand(lambda b, op, dx: [dx[0], dx[0]]), "returns 2 entries for 1 result"),
        (hand(lambda b, op, dx: dx[0]), "returns a value of Python's type Value; expects a list"),
        (
            hand(lambda b, op, dx: [b.compare(dx[0], dx[0], "EQ")]),
            "returns tensor<i1> as entry 0; expects tensor<f64>",
        ),
        (linear(lambda b, op, ct: None), "returns nothing; expects a list with an entry for each operand"),
        (linear(lambda b, op, ct: [None]), "returns nothing as entry 0"),
    ],
)
def test_a_rule_that_fails_is_named(mine: OpSet, declare: Any, message: str) -> None:
    """If a rule fails, the message contains the op, its location and the line of the rule.

    A rule that returns nothing is an error, and does not mean a zero derivative.
    """
    declare(mine)
    rule = rf"-:2:7: error: the rule for foreign.erfcx {message}.* \(.*test_user_lowerings.py:\d+\)"
    with pytest.raises(tiduc.RuleError, match=rule):
        tiduc.load(FOREIGN, opset=mine).vjp()


def test_zero_is_explicit(mine: OpSet) -> None:
    """A rule for a zero derivative must return zeros, but in a list of partial derivatives, None stands for zero."""
    text = function(
        ' %y = "foreign.f"(%x, %z) : (tensor<f64>, tensor<f64>) -> tensor<f64>',
        "%x: tensor<f64>, %z: tensor<f64>",
    )
    mine.elementwise("foreign.f", None, lambda b, x, z, y: z)
    assert body(str(tiduc.load(text, opset=mine).grad([0]))) == ["constant"]
    assert body(str(tiduc.load(text, opset=mine).grad([1]))) == []
    too_few = tiduc.OPSET.extended()
    too_few.elementwise("foreign.f", lambda b, x, z, y: z)
    with pytest.raises(tiduc.Unsupported, match="its rule has 1 partial derivatives for 2 operands"):
        tiduc.load(text, opset=too_few).jvp()


# ---- lowerings


def add_lowering(opset: OpSet) -> None:
    """Adds a lowering erfcx(x) = x^2 / 2, in which another custom op, with its own lowering, halves the square."""
    opset.elementwise("foreign.erfcx", lambda b, x, y: x)

    @opset.lowering("foreign.erfcx")
    def erfcx(b: Any, op: Any, x: Any) -> Any:
        (half,) = b.emit_all("foreign.halve", (b.multiply(x, x),), (x.type,), dict(op.attributes))
        return half

    @opset.lowering("foreign.halve")
    def halve(b: Any, op: Any, x: Any) -> list[Any]:
        return [b.divide(x, b.constant(2, x))]


def test_lowerings_run(mine: OpSet) -> None:
    """IREE, XLA and the reference engine run lowered custom ops.

    Derived programs contain the custom op until they are compiled.
    """
    add_lowering(mine)
    program, x = tiduc.load(FOREIGN, opset=mine), np.array(3.0)
    assert '"foreign.erfcx"' in str(program.grad(value=True))
    compare(program.grad(value=True).compile()(x), [4.5, 3.0])
    compare(program.jacobian().compile(engine="xla")(x), [3.0])
    assert all(c.agrees for c in check(program, [x], lambda p: p.compile(engine="reference"), order=2))


def test_lowerings_in_regions_and_of_calls(mine: OpSet) -> None:
    """Custom ops in loops, custom ops with dynamic dimensions, and custom calls are lowered.

    Equal ops share one function.
    """
    add_lowering(mine)

    @mine.lowering("stablehlo.custom_call @mine.twice")
    def twice(b: Any, op: Any, x: Any) -> Any:
        return b.add(x, x)

    text = """func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {
      %i = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<?xf64>
       cond {
        %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %a1 = stablehlo.add %a, %one : tensor<i32>
        %b1 = "foreign.erfcx"(%b) : (tensor<?xf64>) -> tensor<?xf64>
        %b2 = stablehlo.custom_call @mine.twice(%b1) : (tensor<?xf64>) -> tensor<?xf64>
        stablehlo.return %a1, %b2 : tensor<i32>, tensor<?xf64>
      }
      %y = "foreign.erfcx"(%r#1) : (tensor<?xf64>) -> tensor<?xf64>
      return %y : tensor<?xf64>
    }"""
    program = tiduc.load(text, opset=mine)
    lowered = text_with_main(program.lower().module)
    assert lowered.count("func.func private") == 3 and "foreign." not in lowered.replace("@foreign.", "")
    compare(program.compile()(np.array([1.0, 0.5])), [[0.5, 0.5**17]])


def test_without_a_lowering(mine: OpSet) -> None:
    mine.inactive("foreign.erfcx")
    program = tiduc.load(FOREIGN, opset=mine)
    for engine in ENGINES:
        with pytest.raises(
            tiduc.Unsupported, match="-:2:7: error: foreign.erfcx cannot be compiled: it has no lowering"
        ):
            program.compile(engine=engine)


def test_a_lowering_that_fails(mine: OpSet) -> None:
    @mine.lowering("foreign.erfcx")
    def erfcx(b: Any, op: Any, x: Any) -> Any:
        return b.compare(x, x, "EQ")

    with pytest.raises(tiduc.RuleError, match=r"-:2:7: .*returns tensor<i1> as result; expects tensor<f64>"):
        tiduc.load(FOREIGN, opset=mine).compile()

    circular = tiduc.OPSET.extended()
    circular.lowering("foreign.erfcx")(lambda b, op, x: b.reapply(op, {0: b.negate(x)})[0])
    with pytest.raises(tiduc.RuleError, match="the lowering of foreign.erfcx contains the op itself"):
        tiduc.load(FOREIGN, opset=circular).compile()


# ---- the command line


LOWERED = (
    "import tiduc\nOPSET = tiduc.OPSET.extended()\nOPSET.elementwise('foreign.erfcx', lambda b, x, y: x)\n"
    "@OPSET.lowering('foreign.erfcx')\n"
    "def erfcx(b, op, x):\n    return b.divide(b.multiply(x, x), b.constant(2, x))\n"
)


def test_lowerings_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(FOREIGN)
    (tmp_path / "without.py").write_text(LOWERED.partition("@")[0])
    (tmp_path / "lowered.py").write_text(LOWERED)
    rules = "--rules", "lowered.py"
    ran = command(tmp_path, "run", "f.mlir", *rules, "--input", "3")
    assert ran.stdout == "result0: f64=4.5\n", ran.stderr
    assert command(tmp_path, "compile", "f.mlir", *rules, "-o", "f.vmfb").returncode == 0
    assert command(tmp_path, "run", "f.vmfb", "--input", "3").stdout == "result0: f64=4.5\n"
    assert command(tmp_path, "check", "f.mlir", *rules, "--engine", "reference").returncode == 0
    refused = command(tmp_path, "run", "f.mlir", "--rules", "without.py", "--input", "3")
    assert refused.returncode == 1
    assert "f.mlir:2:7: error: foreign.erfcx cannot be compiled: it has no lowering" in refused.stderr
    useless = command(tmp_path, "run", "f.vmfb", *rules, "--input", "3")
    assert "--rules is for programs" in useless.stderr


def test_rules_that_fail_on_the_command_line(tmp_path: Path) -> None:
    """If a rule fails, the command prints one diagnostic with the line of the rule and without a traceback.

    It prints a warning for a misspelt op name.
    """
    (tmp_path / "f.mlir").write_text(FOREIGN)
    (tmp_path / "c.mlir").write_text(CUBE)
    for text, file, message in (
        (
            "OPSET.elementwise('foreign.erfcx', lambda b, x, y: b.no(x))",
            "f.mlir",
            "f.mlir:2:7: error: the rule for",
        ),
        (
            "@OPSET.elementwise('foreign.erfcx')\ndef f(b, x, y):\n  return x",
            "f.mlir",
            "r.py:3: error: TypeError: ",
        ),
        ("OPSET.inactive('stablehlo.tahn')", "f.mlir", "r.py:3: error: ValueError: there is no op"),
        ("x = (", "f.mlir", "r.py:3: error: SyntaxError: "),
        (
            "OPSET.inactive('stablehlo.composite @my.cbe')",
            "c.mlir",
            "c.mlir: warning: no op uses the rule for stablehlo.composite @my.cbe; did you mean "
            "stablehlo.composite",
        ),
    ):
        (tmp_path / "r.py").write_text(f"import tiduc\nOPSET = tiduc.OPSET.extended()\n{text}\n")
        ran = command(tmp_path, "jvp", file, "--rules", "r.py")
        assert message in ran.stderr and "Traceback" not in ran.stderr
        assert ran.returncode == ("warning" not in message)
