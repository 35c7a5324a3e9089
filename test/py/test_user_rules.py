"""Users' rules: for ops of any dialect, for names of called functions, and in place of built-in rules.

The loading of rules is tested, too.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.user_ops import CUBE, FOREIGN, function, three_squares, unary
from harness.check_rule import check_rule
from harness.compare import compare
from harness.processes import command
from harness.stages import body

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.cli.rules import opset as named_opset
from tiduc.dialect.mlir.context import context, parse
from tiduc.passes.rules.registry import OpSet


@pytest.fixture
def mine() -> OpSet:
    return tiduc.OPSET.extended()


# ---- op sets


def test_built_in_rules_are_not_changed(mine: OpSet) -> None:
    before = dict(tiduc.OPSET.forms), dict(tiduc.OPSET.linearize_rules)
    mine.inactive("stablehlo.tanh")
    mine.refuse("no", "stablehlo.add")
    assert (tiduc.OPSET.forms, tiduc.OPSET.linearize_rules) == before
    text = unary('"stablehlo.tanh"(%x)')
    assert body(str(tiduc.load(text, opset=mine).jvp())) == ["constant", "tanh"]
    assert "subtract" in body(str(tiduc.load(text).jvp()))


def test_an_op_is_replaced_once(mine: OpSet) -> None:
    mine.inactive("stablehlo.tanh")
    with pytest.raises(ValueError, match="declared twice: inactive, refused"):
        mine.refuse("no", "stablehlo.tanh")
    assert mine.extended().forms["stablehlo.tanh"] == "inactive"
    mine.extended().refuse("no", "stablehlo.tanh")


def test_a_form_replaces_the_old_rule(mine: OpSet) -> None:
    """A user's rule for an op replaces all rules of the op, also the old transpose rule."""
    mine.elementwise("stablehlo.reverse", lambda b, x, y: b.constant(3, x.type))
    assert "stablehlo.reverse" not in mine.transpose_rules
    mine.refuse("not here", "stablehlo.add")
    assert "stablehlo.add" not in mine.linearize_rules and "stablehlo.add" not in mine.transpose_rules
    with pytest.raises(tiduc.Unsupported, match="unsupported jvp AD rule for stablehlo.add: not here"):
        tiduc.load(function(" %y = stablehlo.add %x, %x : tensor<f64>"), opset=mine).jvp()


def test_a_transpose_alone_is_replaced(mine: OpSet) -> None:
    def twice(b: Any, op: Any, ct: Sequence[Any], active: Sequence[bool]) -> list[Any]:
        return [b.sum([ct[0], ct[0]])]

    mine.transpose("stablehlo.negate")(twice)
    program = tiduc.load(function(" %y = stablehlo.negate %x : tensor<f64>"), opset=mine)
    compare(evaluate(str(program.jvp()), [np.array(2.0), np.array(1.0)])[1:], [-1])
    compare(evaluate(str(program.vjp()), [np.array(2.0), np.array(1.0)])[1:], [2])


# ---- rules for callee names


def test_composite(mine: OpSet) -> None:
    """A rule for a composite applies at each order. Derived programs contain the composite and its decomposition."""
    mine.elementwise("stablehlo.composite @my.cube", three_squares)
    program = tiduc.load(CUBE, opset=mine)
    check_rule(CUBE, np.array([0.3, -0.7, 1.1]), opset=mine)
    text = str(program.vjp().jvp())
    assert text.count('stablehlo.composite "my.cube"') == 1 and "func.func private @cube" in text
    assert "@times" not in text
    without = str(tiduc.load(CUBE).jvp())
    assert "composite" not in without and "private" not in without


def test_linear_composite(mine: OpSet) -> None:
    """The JVP of a composite with a linear rule applies the composite to the tangents."""

    @mine.linear("stablehlo.composite @my.swap", [0])
    def swap(b: Any, op: Any, ct: Any) -> list[Any]:
        return list(b.reapply(op, {0: ct}))

    text = """
    func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
      %0 = stablehlo.composite "my.swap" %x {decomposition = @swap} : (tensor<3xf64>) -> tensor<3xf64>
      %1 = stablehlo.exponential %0 : tensor<3xf64>
      return %1 : tensor<3xf64>
    }
    func.func private @swap(%x: tensor<3xf64>) -> tensor<3xf64> {
      %0 = stablehlo.reverse %x, dims = [0] : tensor<3xf64>
      return %0 : tensor<3xf64>
    }"""
    program = tiduc.load(text, opset=mine)
    check_rule(text, np.array([0.3, -0.7, 1.1]), opset=mine)
    assert str(program.vjp()).count('composite "my.swap"') == 2
    names = [str(program.vjp()).count(f"stablehlo.{op} ") for op in ("reverse", "exponential")]
    assert names == [1, 1]  # the decomposition contains the only reverse


def test_custom_call_target(mine: OpSet) -> None:
    """A rule for the target of a custom call applies to this target only."""
    text = unary("stablehlo.custom_call @mine.erfcx(%x)")
    with pytest.raises(tiduc.Unsupported, match="stablehlo.custom_call"):
        tiduc.load(text).jvp()
    mine.elementwise("stablehlo.custom_call @mine.erfcx", lambda b, x, y: b.multiply(x, y))
    assert body(str(tiduc.load(text, opset=mine).jvp())) == ["custom_call", "multiply", "multiply"]
    with pytest.raises(tiduc.Unsupported, match="stablehlo.custom_call"):
        tiduc.load(text.replace("erfcx", "erfcy"), opset=mine).jvp()


def test_a_built_in_target_is_replaced(mine: OpSet) -> None:
    text = unary('stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{replicated}"}')
    mine.refuse("not shared here", "stablehlo.custom_call @Sharding")
    message = "unsupported jvp AD rule for stablehlo.custom_call @Sharding: not shared here"
    with pytest.raises(tiduc.Unsupported, match=message):
        tiduc.load(text, opset=mine).jvp()


# ---- other dialects


def test_unregistered_dialects(mine: OpSet) -> None:
    """Ops of an unregistered dialect are accepted only if the op set has a rule for an op of that dialect."""
    with pytest.raises(tiduc.ParseError, match="unregistered dialect"):
        tiduc.load(FOREIGN, opset=mine)
    mine.elementwise("foreign.erfcx", lambda b, x, y: b.multiply(x, y))
    for text in (FOREIGN, FOREIGN.replace("foreign.", "strange.")):
        with pytest.raises(tiduc.ParseError, match="unregistered dialect"):
            tiduc.load(text)
    with pytest.raises(tiduc.ParseError, match="unregistered dialect"):
        tiduc.load(FOREIGN.replace("foreign.", "strange."), opset=mine)
    derived = tiduc.load(FOREIGN, opset=mine).grad().jvp()
    assert str(derived).count('"foreign.erfcx"(%arg0)') == 1
    tiduc.load(str(derived), opset=mine)
    with pytest.raises(tiduc.ParseError, match="unregistered dialect"):
        tiduc.load(FOREIGN)


def test_an_unregistered_op_without_a_rule(mine: OpSet) -> None:
    mine.inactive("foreign.sign")
    with pytest.raises(tiduc.Unsupported, match="unsupported jvp AD rule for foreign.erfcx"):
        tiduc.load(FOREIGN, opset=mine).jvp()


# ---- stop_gradient


STOPPED = """
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.composite "tidu.stop_gradient" %x {decomposition = @same} : (tensor<f64>) -> tensor<f64>
  %1 = stablehlo.multiply %0, %x : tensor<f64>
  return %1 : tensor<f64>
}
func.func private @same(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
"""


def test_stop_gradient() -> None:
    """The derivative of x stop(x) is stop(x) dx in both modes, and the second derivative is zero."""
    program, x = tiduc.load(STOPPED), np.array(1.5)
    compare(evaluate(str(program.jvp()), [x, np.array(2.0)]), [2.25, 3.0])
    compare(evaluate(str(program.grad()), [x]), [1.5])
    compare(evaluate(str(program.grad().grad()), [x]), [0.0])


def test_stop_gradient_survives() -> None:
    """`stop_gradient` still has its effect after MLIR's passes, printing and parsing."""
    module = tiduc.parse(STOPPED)
    tiduc.run_pipeline(
        module, "canonicalize,cse,inline,symbol-dce,func.func(stablehlo-aggressive-simplification)"
    )
    assert str(module).count('composite "tidu.stop_gradient"') == 1
    parsed = tiduc.load(str(tiduc.load(str(module)).jvp()))
    x = np.array(1.5)
    compare(evaluate(str(parsed.vjp([0])), [x, np.array(2.0), np.array(1.0), np.array(1.0)])[2:], [1.5])
    compare(parsed.compile()(x, np.array(2.0)), [2.25, 3.0])


def test_stop_gradient_of_jax() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(x * jax.lax.composite(lambda y: y, "tidu.stop_gradient")(jnp.sin(x)))

    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((3,), jnp.float64))
    x = np.array([0.2, 1.0, -2.0])
    compare(evaluate(str(tiduc.load(exported.mlir_module()).grad()), [x]), [np.sin(x)])


# ---- the command line


RULES = """
import tiduc

OPSET = tiduc.OPSET.extended()
OTHER = OPSET.extended()
OPSET.elementwise("foreign.erfcx", lambda b, x, y: b.multiply(x, y))
OTHER.inactive("foreign.erfcx")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rules.py").write_text(RULES)
    (tmp_path / "f.mlir").write_text(FOREIGN)
    return tmp_path


def test_rules_on_the_command_line(directory: Path) -> None:
    assert command(directory, "jvp", "f.mlir").returncode == 1
    by_module = command(directory, "jvp", "f.mlir", "--rules", "mine.rules")
    assert body(by_module.stdout) == ["multiply", "multiply"], by_module.stderr
    pipeline = "--pass-pipeline=tidu-import,tidu-linearize,tidu-materialize-merge,tidu-lower"
    other = command(directory, "opt", "f.mlir", pipeline, "--rules", "mine/rules.py:OTHER")
    assert body(other.stdout) == [] and '"foreign.erfcx"' in other.stdout, other.stderr


def test_places_of_rules(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    path = list(sys.path)
    assert named_opset(None) is tiduc.OPSET
    assert "foreign.erfcx" in named_opset("mine/rules.py").linearize_rules
    assert "foreign.erfcx" in named_opset("mine/rules.py:OTHER").inactive_ops
    for where, message in (
        ("mine/rules.py:NONE", "mine/rules.py has no op set NONE"),
        ("json", "json has no op set OPSET"),
        ("none.py", "file not found: none.py"),
        ("mine.none", "module not found: mine.none"),
        ("none.rules", "module not found: none.rules"),
        (".", "module not found: the name '.' is relative"),
    ):
        with pytest.raises(tiduc.RequestError, match=message):
            named_opset(where)
    (directory / "broken.py").write_text("import nothing.at.all")
    with pytest.raises(tiduc.RuleError, match=r"broken.py:1: error: ModuleNotFoundError: .*nothing"):
        named_opset("broken")
    assert sys.path == path


def test_the_context_is_not_changed() -> None:
    """Loading a file that is refused does not change the settings of the MLIR context."""
    before = context().allow_unregistered_dialects
    with pytest.raises(tiduc.ParseError):
        tiduc.load(FOREIGN.replace("foreign.", "strange."))
    assert context().allow_unregistered_dialects == before


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_zeros_are_symbolic(mine: OpSet, mode: str) -> None:
    """Rules may return constant zeros, which become symbolic zeros. The graphs remain valid."""
    mine.linearize("stablehlo.custom_call @flat")(lambda b, op, dx: [b.zeros_like(op.result)])
    mine.linear("stablehlo.custom_call @half", [0])(lambda b, op, ct: [b.zeros_like(op.operands[0])])
    for name in ("flat", "half"):
        text = f"""func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {{
          %y = stablehlo.custom_call @{name}(%x) : (tensor<3xf64>) -> tensor<3xf64>
          return %y : tensor<3xf64>
        }}"""
        parse(str(getattr(tiduc.load(text, opset=mine), mode)().graphs))


NONLINEAR = {
    "multiply": (
        lambda b, op, dx: b.multiply(dx[0], dx[1]),
        "multiply to tangents in which it is not linear",
    ),
    "sine": (lambda b, op, dx: b.sine(dx[0]), "sine to a tangent"),
    "divide": (lambda b, op, dx: b.divide(op.operands[0], dx[0]), "divide to tangents"),
    "add": (
        lambda b, op, dx: b.add(dx[0], op.operands[0]),
        "add to a tangent and to a value that is not a tangent",
    ),
    "select": (
        lambda b, op, dx: b.select(b.compare(*op.operands, "LT"), dx[0], op.operands[0]),
        "select to a tangent and",
    ),
    "concatenate": (
        lambda b, op, dx: b.reduce_sum(
            b.concatenate([b.reshape(x, [1]) for x in (dx[0], op.operands[0])], 0), [0]
        ),
        "concatenate to a tangent and",
    ),
    "primal": (
        lambda b, op, dx: op.operands[0],
        "returns a value that does not depend on a tangent as entry 0",
    ),
}
LINEAR = [
    lambda b, op, dx: b.add(dx[0], b.multiply(op.operands[0], dx[1])),
    lambda b, op, dx: b.select(b.compare(*op.operands, "LT"), dx[0], b.zeros_like(dx[0])),
    lambda b, op, dx: b.divide(b.negate(dx[1]), op.operands[1]),
    lambda b, op, dx: b.zeros_like(op.result),
    lambda b, op, dx: b.emit("foreign.linear", (dx[0],), dx[0].type),
]
BINARY = function(
    ' %y = "foreign.plus"(%x, %z) : (tensor<f64>, tensor<f64>) -> tensor<f64>',
    "%x: tensor<f64>, %z: tensor<f64>",
)


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_a_rule_that_is_not_linear_is_refused(mine: OpSet, name: str, mode: str) -> None:
    rule, message = NONLINEAR[name]
    mine.linearize("foreign.plus")(lambda b, op, dx: [rule(b, op, dx)])
    with pytest.raises(
        tiduc.RuleError, match=f"-:2:.*the rule for foreign.plus .*{message}.*test_user_rules.py"
    ):
        getattr(tiduc.load(BINARY, opset=mine), mode)()


@pytest.mark.parametrize("rule", LINEAR)
def test_a_linear_rule_is_accepted(mine: OpSet, rule: Any) -> None:
    mine.linearize("foreign.plus")(lambda b, op, dx: [rule(b, op, dx)])
    mine.linearize("foreign.linear")(lambda b, op, dx: [b.emit("foreign.linear", (dx[0],), dx[0].type)])
    assert len(tiduc.load(BINARY, opset=mine).jvp().outputs) == 2
