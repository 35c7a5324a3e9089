"""Tests the import of StableHLO and CHLO functions as graphs, and the names and attributes of their signatures."""

import re
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64

from tiduc.dialect.errors import ParseError, TiducError, Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.linearize import linearize
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET


def function(name: str, *lines: str, visibility: str = "", result: str = "%0") -> str:
    inside = "\n  ".join(lines)
    return f"""func.func {visibility} @{name}(%x: {F64}) -> {F64} {{
  {inside}
  return {result} : {F64}
}}
"""


def negate(result: str, x: str) -> str:
    return f"{result} = stablehlo.negate {x} : {F64}"


def call(result: str, callee: str, x: str) -> str:
    return f"{result} = func.call @{callee}({x}) : ({F64}) -> {F64}"


def imported(text: str) -> str:
    """Imports a module and returns its text. Checks that the result is valid and that the source is unchanged."""
    module = parse(text)
    before = str(module)
    result = str(import_stablehlo(module))
    assert str(module) == before
    parse(result)
    return result


def keys(text: str) -> list[str]:
    return re.findall(r"inputs = \[(.*?)\], (?:res_attrs|sym_name)", text)


# ---- functions


def test_a_function_becomes_a_graph() -> None:
    text = imported(function("main", negate("%0", "%x")))
    assert "func.func" not in text and 'sym_name = "main"' in text
    assert keys(text) == ["@x"] and "stablehlo.negate %arg0" in text


def test_private_callees_are_inlined() -> None:
    text = function("main", call("%0", "f", "%x"), call("%1", "f", "%0"), result="%1")
    text += function("f", call("%0", "g", "%x"), negate("%1", "%0"), visibility="private", result="%1")
    text += function("g", f"%0 = stablehlo.multiply %x, %x : {F64}", visibility="private")
    result = imported(text)
    assert result.count("tidu.graph") == 1 and "call" not in result
    assert result.count("stablehlo.multiply") == 2
    p = load(text)
    compare(run(p.jvp(), [2.0, 1.0]), [-16.0, -32.0])
    compare(run(p.grad(), [2.0]), [-32.0])


def test_public_functions_become_several_graphs() -> None:
    """A public function that is called becomes a graph, and is also inlined into its callers."""
    text = function("main", call("%0", "f", "%x")) + function("f", negate("%0", "%x"))
    result = imported(text)
    assert re.findall(r'sym_name = "(\w+)"', result) == ["main", "f"]
    assert result.count("stablehlo.negate") == 2 and "call" not in result
    compare(run(load(text), [2.0]), [-2.0])
    assert load(text, entry="f").name == "f"


def test_a_private_function_that_nobody_calls() -> None:
    text = function("main", negate("%0", "%x"))
    text += function("f", f"%0 = stablehlo.tanh %x : {F64}", visibility="private")
    assert "tanh" not in imported(text)


def test_composites() -> None:
    """A composite is replaced by the body of its decomposition."""
    text = f"""
    func.func @main(%x: {F64}) -> {F64} {{
      %0 = stablehlo.composite "my.square" %x {{decomposition = @square}} : ({F64}) -> {F64}
      return %0 : {F64}
    }}
    """ + function("square", f"%0 = stablehlo.multiply %x, %x : {F64}", visibility="private")
    assert "composite" not in imported(text)
    compare(run(load(text).grad(), [3.0]), [6.0])


def test_chlo() -> None:
    text = function("main", f"%0 = chlo.asinh %x : {F64} -> {F64}")
    assert "chlo.asinh" in imported(text)
    compare(run(load(text).grad(), [0.5]), [1 / np.sqrt(1.25)])


def test_no_arguments_and_no_results() -> None:
    text = imported("func.func @main() { return }")
    assert keys(text) == [""]
    assert str(load("func.func @main() { return }").jvp()).count("return") == 1


@pytest.mark.parametrize("callee", ["main", "f"])
def test_recursion(callee: str) -> None:
    text = "\n" + function("main", call("%0", "f", "%x"))
    text += function("f", call("%0", callee, "%x"), visibility="private")
    with pytest.raises(Unsupported) as error:
        import_stablehlo(parse(text, "file.mlir"))
    assert re.search(r"the call of @\w+ is recursive", str(error.value))
    assert re.match(r"-:\d+:\d+: error: ", str(error.value))


def test_several_blocks() -> None:
    text = f"""
    func.func @main(%x: {F64}) -> {F64} {{
      return %x : {F64}
    ^bb1(%y: {F64}):
      return %y : {F64}
    }}
    """
    with pytest.raises(Unsupported) as error:
        import_stablehlo(parse(text))
    assert str(error.value) == ("-:2:5: error: a function of several blocks cannot be differentiated")


def test_a_declaration_is_not_a_program() -> None:
    text = f"func.func private @f({F64}) -> {F64}\n" + function("main", call("%0", "f", "%x"))
    with pytest.raises(TiducError) as error:
        load(text)
    assert "@f" in str(error.value) and "-:3:" in str(error.value)


# ---- signatures


def test_names() -> None:
    """The key of an input is its attribute `tidu.name`, or else the name in its location or in the text.

    Equal names get a suffix, such as "w.2".
    """
    text = f"""
    func.func @main(%a: {F64} {{tidu.name = "w"}} loc("other"), %b: {F64} loc("params['b']"),
                    %c: {F64}, %d: {F64} {{tidu.name = "w"}}, %e: {F64} loc("arg2"),
                    %f: {F64} {{tidu.name = "w"}}) -> ({F64} {{tidu.name = "loss"}}, {F64}) {{
      return %a, %a : {F64}, {F64}
    }}
    """
    assert keys(imported(text)) == ["@w, @\"params['b']\", @c, @w.2, @arg2, @w.3"]
    p = load(text)
    assert [port.name for port in p.inputs] == ["w", "params['b']", "c", "w.2", "arg2", "w.3"]
    assert [port.name for port in p.outputs] == ["loss", "result1"]


def test_an_empty_name() -> None:
    with pytest.raises(ParseError, match="argument 0 has an empty name"):
        load(f'func.func @main(%a: {F64} {{tidu.name = ""}}) -> {F64} {{\n return %a : {F64}\n}}')


@pytest.mark.parametrize("attribute", ["tidu.name = 3 : i32", "tidu.name", "tidu.name = @w"])
def test_a_name_that_is_not_a_string(attribute: str) -> None:
    with pytest.raises(TiducError):
        load(f"func.func @main(%a: {F64} {{{attribute}}}) -> {F64} {{\n return %a : {F64}\n}}")
    with pytest.raises(TiducError):
        load(f"func.func @main(%a: {F64}) -> ({F64} {{{attribute}}}) {{\n return %a : {F64}\n}}")


ATTRIBUTED = f"""
module @jit_f attributes {{mhlo.num_partitions = 1 : i32, mine.note = "kept"}} {{
  func.func public @main(%x: {F64} {{mhlo.layout_mode = "default", mine.rank = 2 : i64}}, %y: {F64})
      -> ({F64} {{jax.result_info = "loss", tidu.name = "loss"}}) attributes {{mine.function = [1, 2]}} {{
    %0 = stablehlo.multiply %x, %y {{mhlo.frontend_attributes = {{a = "b"}}, mine.op}} : {F64}
    return %0 : {F64}
  }}
}}
"""


def test_attributes_survive() -> None:
    text = imported(ATTRIBUTED)
    for part in (
        "mhlo.num_partitions = 1 : i32",
        'mine.note = "kept"',
        'mhlo.layout_mode = "default"',
        "mine.rank = 2 : i64",
        'jax.result_info = "loss"',
        "mine.function = [1, 2]",
        'mhlo.frontend_attributes = {a = "b"}',
        "mine.op",
    ):
        assert part in text


@pytest.mark.parametrize("mode", ["jvp", "vjp", "grad", "hvp"])
def test_attributes_are_exported(mode: str) -> None:
    """A derivative keeps the attributes of the module, the function, and the arguments and results that it retains."""
    text = str(getattr(load(ATTRIBUTED), mode)())
    for part in (
        "mhlo.num_partitions = 1 : i32",
        'mine.note = "kept"',
        '%arg0: tensor<f64> {mhlo.layout_mode = "default", mine.rank = 2 : i64, tidu.name = "x"}',
        "mine.function = [1, 2]",
    ):
        assert part in text
    assert ('jax.result_info = "loss"' in text) == (mode in ("jvp", "vjp"))
    assert text.count("mhlo.layout_mode") == 1
    load(text)


def test_the_module_s_name_survives() -> None:
    assert "@jit_f" in imported(ATTRIBUTED)
    assert "@jit_f" in str(load(ATTRIBUTED).jvp())


def test_locations_survive() -> None:
    text = f"""
    func.func @main(%x: {F64}) -> {F64} {{
      %0 = stablehlo.negate %x : {F64} loc("layer"("model.py":7:3))
      return %0 : {F64}
    }}
    """
    module = import_stablehlo(parse(text))
    assert '"model.py":7:3' in module.operation.get_asm(enable_debug_info=True)


def test_location_of_a_refusal() -> None:
    text = f"""
    func.func @main(%x: {F64}) -> {F64} {{
      %0 = "stablehlo.custom_call"(%x) {{call_target_name = "f"}} : ({F64}) -> {F64} loc("model.py":7:3)
      return %0 : {F64}
    }}
    """
    with pytest.raises(Unsupported) as error:
        load(text).jvp()
    assert str(error.value).startswith(
        "model.py:7:3: error: unsupported jvp AD rule for stablehlo.custom_call"
    )


# ---- other contents of a module


@pytest.mark.parametrize(
    ("of_function", "of_op", "message"),
    [
        ("", " {tidu.active = array<i1: true>}", "carries an active mask"),
        (" attributes {tidu.output_of = [@main::@x]}", "", "has tidu.output_of, but lacks tidu.input_of"),
        (" attributes {tidu.input_of = [@main::@x]}", "", "is linear, but lacks tidu.output_of"),
    ],
)
def test_attributes_of_graphs_are_checked(of_function: str, of_op: str, message: str) -> None:
    text = f"""
func.func @main(%x: tensor<f64>) -> tensor<f64>{of_function} {{
  %0 = stablehlo.sine %x{of_op} : tensor<f64>
  return %0 : tensor<f64>
}}"""
    with pytest.raises(ParseError, match=message):
        load(text)


def test_a_result_that_is_no_tensor() -> None:
    with pytest.raises(ParseError, match=r"'stablehlo.return' op operand #0 must be"):
        load("func.func @main(%x: i32) -> i32 { return %x : i32 }")


def test_graphs_stay() -> None:
    """If a module already has graphs, the import keeps them and adds the graphs of the functions."""
    text = imported(imported(function("f", negate("%0", "%x"))) + function("main", negate("%0", "%x")))
    assert sorted(re.findall(r'sym_name = "(\w+)"', text)) == ["f", "main"]


def test_several_functions_share_inputs_by_key() -> None:
    """If two functions of a file have inputs with equal keys, both can be linearized with respect to that key."""
    text = function("f", negate("%0", "%x")).replace("%x: tensor<f64>", '%x: tensor<f64> {tidu.name = "x"}')
    view: Any = resolve(import_stablehlo(parse(text + text.replace("@f", "@g").replace("negate", "abs"))))
    for name in "fg":
        graph = view.graph(name)
        assert linearize(view, list(graph.outputs), ["x"], OPSET).keys == (f"L{'fg'.index(name)}.x",)


@pytest.mark.parametrize("types", [("tensor<f64>", "tensor<2xf64>"), ("tensor<f64>", "tensor<f32>")])
def test_arguments_of_one_name_and_two_types(types: tuple[str, str]) -> None:
    """Two functions of a file may have arguments with equal names and different types."""
    text = "".join(
        f"func.func @{name}(%x: {t}) -> {t} {{\n return %x : {t}\n}}\n"
        for name, t in zip(("main", "other"), types, strict=True)
    )
    assert [str(port.type) for port in load(text).jvp().inputs] == [types[0]] * 2
    assert [str(port.type) for port in load(text, entry="other").jvp().inputs] == [types[1]] * 2


SHARDY = "#sdy.op_sharding_rule<([i])->([j]) {i=4, j=4}, custom>"


def test_attributes_of_unknown_dialects_stay() -> None:
    call = (
        f'%0 = "stablehlo.custom_call"(%x) {{call_target_name = "f", sdy.rule = {SHARDY}}} : ({F64}) -> {F64}'
    )
    text = function("main", call, f"%1 = stablehlo.multiply %0, %x : {F64}", result="%1")
    assert SHARDY in str(load(text))
    with pytest.raises(Unsupported, match="custom_call"):
        load(text).jvp()
    with pytest.raises(ParseError, match="unregistered dialect"):
        parse(function("main", f'%0 = "sdy.not_an_op"(%x) : ({F64}) -> {F64}'))


def test_functions_that_custom_calls_name_stay() -> None:
    comparator = """
func.func @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %0 : tensor<i1>
}
"""
    named = '{call_target_name = "f", called_computations = [@less]}'
    call = f'%0 = "stablehlo.custom_call"(%x) {named} : ({F64}) -> {F64}'
    sine = f"%1 = stablehlo.sine %y : {F64}"
    main = function("main", call, sine, f"%2 = stablehlo.add %0, %1 : {F64}", result="%2")
    program = load(comparator + main.replace("(%x:", f"(%y: {F64}, %x:"))
    for text in (str(program), str(program.jvp(0)), str(program.vjp(0))):
        assert text.count("func.func private @less") == 1 and text.count("[@less]") == 1
        parse(text)
    assert "@less" not in str(program.grad(0))


def test_an_unread_argument_of_small_complex_numbers() -> None:
    text = """func.func @main(%x: tensor<3xcomplex<f8E5M2>>, %y: tensor<3xf32>) -> tensor<3xf32> {
  return %y : tensor<3xf32>
}"""
    with pytest.raises(Unsupported, match="its parts must be f32 or f64"):
        load(text).vjp()
