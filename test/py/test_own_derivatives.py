"""Functions with a custom JVP or VJP, and rules in Python for functions of a given name."""

import re

import numpy as np
import pytest
from harness.check_rule import check_rule
from harness.compare import compare

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.program import Program

T = "tensor<3xf64>"
MAIN = f"""
func.func @main(%x: {T}) -> {T} {{
  %0 = stablehlo.sine %x : {T}
  %1 = call @softplus(%0) : ({T}) -> {T}
  %2 = call @softplus(%1) : ({T}) -> {T}
  return %2 : {T}
}}
"""
ONCE = MAIN.replace("(%1)", "(%x)")
"""A main function that calls softplus once, on x, instead of computing softplus(softplus(sin x))."""


def softplus(named: str = "") -> str:
    """The text of softplus. `named` is the attribute that names its custom derivative."""
    return f"""
func.func private @softplus(%x: {T}) -> {T} attributes {{{named}}} {{
  %0 = stablehlo.exponential %x : {T}
  %1 = stablehlo.log_plus_one %0 : {T}
  return %1 : {T}
}}
"""


def forward(factor: float = 1.0) -> str:
    """The text of a custom JVP of softplus. It multiplies the right tangent by `factor`."""
    return f"""
func.func private @forward(%x: {T}, %dx: {T}) -> ({T}, {T}) {{
  %0 = call @softplus(%x) : ({T}) -> {T}
  %1 = stablehlo.logistic %x : {T}
  %c = stablehlo.constant dense<{factor}> : {T}
  %2 = stablehlo.multiply %1, %c : {T}
  %3 = stablehlo.multiply %2, %dx : {T}
  return %0, %3 : {T}, {T}
}}
"""


REVERSE = f"""
func.func private @reverse(%x: {T}, %ct: {T}) -> {T} {{
  %0 = stablehlo.logistic %x : {T}
  %1 = stablehlo.multiply %0, %ct : {T}
  return %1 : {T}
}}
"""
WITH_OUTPUTS = f"""
func.func private @reverse(%x: {T}, %ct: {T}) -> ({T}, {T}) {{
  %y = call @softplus(%x) : ({T}) -> {T}
  %0 = stablehlo.logistic %x : {T}
  %1 = stablehlo.multiply %0, %ct : {T}
  return %y, %1 : {T}, {T}
}}
"""
OF_JVP, OF_VJP = softplus("tidu.jvp = @forward"), softplus("tidu.vjp = @reverse")
POINT = np.array([0.3, -0.7, 1.1])
CT, CCY, CCX = np.array([0.2, 0.5, -1.0]), np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.5])


def derived(program: Program, modes: str) -> Program:
    """The program after differentiation in a sequence of modes.

    F is a JVP, R is a VJP; `FR` gives the VJP of the JVP.
    """
    for mode in modes:
        program = program.jvp() if mode == "F" else program.vjp()
    return program


# ---- rules in Python


def test_function_by_name() -> None:
    """A Python rule for the name of a function differentiates its calls, which are not inlined."""
    mine = tiduc.OPSET.extended()
    mine.elementwise("func.call @softplus", lambda b, x, y: b.logistic(x))
    text = MAIN + softplus()
    check_rule(text, POINT, opset=mine)
    by_rule = str(tiduc.load(text, opset=mine).vjp())
    assert by_rule.count("call @softplus") == 2 and by_rule.count("stablehlo.logistic") == 2


# ---- JVP


def test_jvp() -> None:
    check_rule(MAIN + OF_JVP + forward(), POINT)


@pytest.mark.parametrize("modes", ["F", "R", "FF", "FR", "RF", "RR"])
def test_jvp_is_used(modes: str) -> None:
    """Derivatives of all modes and orders use the custom JVP: they change if the custom JVP is scaled."""
    whole, part = (derived(tiduc.load(ONCE + OF_JVP + forward(c)), modes) for c in (1.0, 1 / 3))
    arguments = [np.random.default_rng(i).normal(size=3) for i in range(len(whole.inputs))]
    given = list(zip(evaluate(str(whole), arguments), evaluate(str(part), arguments), strict=True))
    if len(modes) == 1:
        compare([given[1][1]], [given[1][0] / 3])
    assert not np.allclose(*given[-1])


def test_jvp_of_several_arguments() -> None:
    """The custom JVP of a function of several arguments is used, whichever arguments are active.

    In f(x, n, w) = (w x, n, sin x), the integers n have no tangent.
    """
    of_f = f"({T}, tensor<i32>, {T}) -> ({T}, tensor<i32>, {T})"
    arguments = f"%x: {T}, %n: tensor<i32>, %w: {T}"
    text = f"""
func.func @main({arguments}) -> ({T}, tensor<i32>, {T}) {{
  %0:3 = call @f(%x, %n, %w) : {of_f}
  return %0#0, %0#1, %0#2 : {T}, tensor<i32>, {T}
}}
func.func private @f({arguments}) -> ({T}, tensor<i32>, {T}) attributes {{tidu.jvp = @g}} {{
  %0 = stablehlo.multiply %x, %w : {T}
  %1 = stablehlo.sine %x : {T}
  return %0, %n, %1 : {T}, tensor<i32>, {T}
}}
func.func private @g({arguments}, %dx: {T}, %dw: {T}) -> ({T}, tensor<i32>, {T}, {T}, {T}) {{
  %0:3 = call @f(%x, %n, %w) : {of_f}
  %1 = stablehlo.multiply %x, %dw : {T}
  %2 = stablehlo.multiply %dx, %w : {T}
  %3 = stablehlo.add %1, %2 : {T}
  %4 = stablehlo.cosine %x : {T}
  %5 = stablehlo.multiply %4, %dx : {T}
  return %0#0, %0#1, %0#2, %3, %5 : {T}, tensor<i32>, {T}, {T}, {T}
}}
"""
    check_rule(text, POINT, np.array(3, np.int32), CT)


def test_jvp_in_a_loop() -> None:
    text = MAIN.replace(
        f"  %2 = call @softplus(%1) : ({T}) -> {T}\n",
        f"""  %n = stablehlo.constant dense<3> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %k, %2 = stablehlo.while(%i = %z, %c = %1) : tensor<i32>, {T}
    cond {{
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = func.call @softplus(%c) : ({T}) -> {T}
      stablehlo.return %j, %s : tensor<i32>, {T}
    }}
""",
    )
    check_rule(text + OF_JVP + forward(), POINT)
    assert "call @softplus" in str(tiduc.load(text + OF_JVP + forward()).vjp())


def test_jvp_that_is_not_linear() -> None:
    text = MAIN + OF_JVP + forward().replace("logistic %x", "logistic %dx")
    with pytest.raises(tiduc.Unsupported, match="its JVP @forward is not linear in the tangents"):
        tiduc.load(text).jvp()


# ---- VJP


@pytest.mark.parametrize("vjp", [REVERSE, WITH_OUTPUTS])
def test_vjp(vjp: str) -> None:
    """Reverse mode to order two with a custom VJP equals that without.

    The VJP may return the outputs before the cotangents.
    """
    mine, plain = tiduc.load(MAIN + OF_VJP + vjp), tiduc.load(MAIN + softplus())
    compare(*(evaluate(str(p.vjp()), [POINT, CT]) for p in (mine, plain)))
    compare(*(evaluate(str(p.vjp().vjp()), [POINT, CT, CCY, CCX]) for p in (mine, plain)))
    assert str(mine.vjp()).count("stablehlo.logistic") == 1 and "exponential" in str(mine.vjp())


@pytest.mark.parametrize("modes", ["F", "FF", "FR", "RF"])
def test_vjp_has_no_forward_mode(modes: str) -> None:
    message = "unsupported jvp AD rule for func.call: the function defines its derivative as the VJP @reverse"
    program = tiduc.load(MAIN + OF_VJP + REVERSE)
    with pytest.raises(tiduc.Unsupported, match=message) as raised:
        str(derived(program, modes))
    assert re.fullmatch(r"-:[45]:8", raised.value.location)  # the location of one of the calls


def test_forward_over_vjp() -> None:
    """`hvp` differentiates the cotangents of a custom VJP in forward mode, although the function itself has no forward
    derivative.
    """
    outputs = f"""
func.func @main(%x: {T}) -> tensor<f64> {{
  %0 = call @softplus(%x) : ({T}) -> {T}
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : ({T}, tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}}
"""
    mine, plain = tiduc.load(outputs + OF_VJP + REVERSE), tiduc.load(outputs + softplus())
    compare(*(evaluate(str(p.hvp()), [POINT, CT]) for p in (mine, plain)))


def test_a_hessian_of_functions_with_a_vjp() -> None:
    """For functions with a custom VJP, `hvp` uses reverse over reverse mode if forward mode is refused.

    The inputs and outputs of the program have their usual names.
    """
    outputs = f"""
func.func @main(%x: {T}) -> tensor<f64> {{
  %0 = call @softplus(%x) : ({T}) -> {T}
  %1 = call @softplus(%0) : ({T}) -> {T}
  %2 = stablehlo.multiply %1, %0 : {T}
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0] : ({T}, tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}}
"""
    mine, plain = (tiduc.load(outputs + each).hvp() for each in (OF_VJP + REVERSE, softplus()))
    assert str(mine.signature) == str(plain.signature)
    compare(*(evaluate(str(p), [POINT, CT]) for p in (mine, plain)))


# ---- exported functions, and mismatched signatures


@pytest.mark.parametrize("functions", [OF_JVP + forward(1 / 3), OF_VJP + REVERSE])
def test_derived_programs_keep_custom_derivatives(functions: str) -> None:
    """A derivative that is printed and parsed still uses the custom derivatives when it is differentiated again, and it
    compiles.
    """
    program = tiduc.load(MAIN + functions)
    reloaded, at_once = tiduc.load(str(program.vjp())).vjp(), program.vjp().vjp()
    expected = evaluate(str(at_once), [POINT, CT, CCY, CCX])
    compare(evaluate(str(reloaded), [POINT, CT, CCY, CCX]), expected)
    compare(reloaded.compile()(POINT, CT, CCY, CCX), expected)


def test_a_public_function() -> None:
    """The custom JVP of a public function is used both in derivatives of its callers and in derivatives of the
    function.
    """
    functions = (OF_JVP + forward(1 / 3)).replace("private @softplus", "@softplus")
    inside = tiduc.load(MAIN.replace("(%1)", "(%0)").replace("sine", "negate") + functions, "main")
    itself = tiduc.load(MAIN + functions, "softplus")
    text = str(itself.jvp()).replace("@softplus(", "@main(", 1)
    (_, dy), (_, expected) = evaluate(text, [-POINT, -CT]), evaluate(str(inside.jvp()), [POINT, CT])
    compare([dy], [expected])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@forward}", "@nothing}", "@softplus has tidu.jvp = @nothing, which is not a function here"),
        ("@forward}", "3 : i32}", "@softplus has tidu.jvp = 3 : i32, which is not a function here"),
        (
            "@forward}",
            "@forward, tidu.vjp = @forward}",
            "@softplus has both tidu.jvp and tidu.vjp; one is enough",
        ),
        ("tidu.jvp", "tidu.vjp", None),  # no error, because a VJP may have this type, too
        (f"return %0, %3 : {T}, {T}", f"return %0 : {T}", f"has the type .*, expects \\({T}, {T}\\) -> "),
    ],
)
def test_mismatched_signatures(old: str, new: str, message: str | None) -> None:
    text = (MAIN + OF_JVP + forward()).replace(old, new)
    if "return" in old:
        text = text.replace(f"-> ({T}, {T})", f"-> {T}")
    if message is None:
        tiduc.load(text)
        return
    with pytest.raises(tiduc.ParseError, match=message) as raised:
        tiduc.load(text)
    assert raised.value.location.startswith("-:")


def test_a_function_that_calls_itself() -> None:
    text = MAIN + OF_JVP.replace(f"stablehlo.log_plus_one %0 : {T}", f"call @softplus(%0) : ({T}) -> {T}")
    with pytest.raises(tiduc.Unsupported, match="the call of @softplus is recursive"):
        tiduc.load(text + forward())
