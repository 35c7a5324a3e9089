"""`Program`: signatures, names, composition of derivatives, loading and saving."""

import dataclasses
import inspect
import itertools
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import F64

import tiduc
from tiduc.dialect.errors import ParseError, RequestError, TiducError, Unsupported
from tiduc.dialect.mlir.emit import emit
from tiduc.loading import load
from tiduc.program import Program

V = "tensor<3xf64>"
MIXED = f"""
func.func @main(%w: {V} {{tidu.name = "w"}}, %n: tensor<i32> {{tidu.name = "n"}}, %x: {F64} {{tidu.name = "x"}},
                %mask: tensor<3xi1> {{tidu.name = "mask"}}, %z: tensor<complex<f64>> {{tidu.name = "z"}})
    -> ({V} {{tidu.name = "scaled"}}, tensor<i32> {{tidu.name = "count"}}, tensor<3xi1>, tensor<complex<f64>>) {{
  %b = stablehlo.broadcast_in_dim %x, dims = [] : ({F64}) -> {V}
  %0 = stablehlo.multiply %w, %b : {V}
  %1 = stablehlo.select %mask, %0, %w : tensor<3xi1>, {V}
  %2 = stablehlo.add %n, %n : tensor<i32>
  %3 = stablehlo.not %mask : tensor<3xi1>
  %4 = stablehlo.multiply %z, %z : tensor<complex<f64>>
  return %1, %2, %3, %4 : {V}, tensor<i32>, tensor<3xi1>, tensor<complex<f64>>
}}
"""
SCALAR = f"""
func.func @main(%a: {F64} {{tidu.name = "a"}}, %x: {F64} {{tidu.name = "x"}}) -> {F64} {{
  %0 = stablehlo.multiply %a, %x : {F64}
  %1 = stablehlo.exponential %0 : {F64}
  return %1 : {F64}
}}
"""
CUBE = f"""
func.func @main(%x: {F64} {{tidu.name = "x"}}) -> ({F64} {{tidu.name = "y"}}) {{
  %0 = stablehlo.multiply %x, %x : {F64}
  %1 = stablehlo.multiply %0, %x : {F64}
  return %1 : {F64}
}}
"""


def names(ports: Any) -> list[str]:
    return [port.name for port in ports]


def text_names(p: Program) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs after printing and parsing the program."""
    reloaded = load(str(p))
    return names(reloaded.inputs), names(reloaded.outputs)


# ---- signatures


def test_signature() -> None:
    p = load(MIXED)
    assert names(p.inputs) == ["w", "n", "x", "mask", "z"]
    assert names(p.outputs) == ["scaled", "count", "result2", "result3"]
    assert [str(port.type) for port in p.outputs] == [
        V,
        "tensor<i32>",
        "tensor<3xi1>",
        "tensor<complex<f64>>",
    ]


def test_jvp_signature() -> None:
    p = load(MIXED).jvp()
    assert names(p.inputs)[5:] == ["w.tangent", "x.tangent", "z.tangent"]
    assert names(p.outputs)[4:] == ["scaled.tangent", "result3.tangent"]
    assert text_names(p) == (names(p.inputs), names(p.outputs))
    assert [str(port.type) for port in p.inputs[5:]] == [V, F64, "tensor<complex<f64>>"]


def test_vjp_signature() -> None:
    p = load(MIXED).vjp(["z", 0])
    assert names(p.inputs)[5:] == ["scaled.cotangent", "result3.cotangent"]
    assert names(p.outputs)[4:] == ["z.cotangent", "w.cotangent"]
    assert text_names(p) == (names(p.inputs), names(p.outputs))


def test_grad_and_hvp_signatures() -> None:
    p = load(CUBE)
    assert (names(p.grad().inputs), names(p.grad().outputs)) == (["x"], ["x.cotangent"])
    assert names(p.grad(value=True).outputs) == ["y", "x.cotangent"]
    assert names(p.hvp().inputs) == ["x", "x.tangent"]
    assert names(p.hvp().outputs) == ["x.cotangent.tangent"]


def test_names_that_are_taken() -> None:
    """The names of inputs and outputs of a higher derivative are distinct, and stay equal when the program is printed
    and parsed.
    """
    p = load(CUBE).jvp().jvp("x").vjp("x")
    for ports in (p.inputs, p.outputs):
        assert len(set(names(ports))) == len(ports)
    assert names(p.inputs)[:3] == ["x", "x.tangent", "x.tangent.2"]
    assert text_names(p) == (names(p.inputs), names(p.outputs))


def test_default_names_are_not_written() -> None:
    """The text of a program does not contain the default names argN and resultN as attributes."""
    p = load(f"func.func @main(%arg0: {F64}) -> {F64} {{\n return %arg0 : {F64}\n}}")
    assert (names(p.inputs), names(p.outputs)) == (["arg0"], ["result0"])
    assert "tidu.name" not in str(p)
    assert str(p.jvp()).count("tidu.name") == 2


# ---- values


def test_values_without_derivatives_pass_through() -> None:
    w, n, x, mask, z = np.array([1.0, 2, 3]), np.int32(4), 5.0, np.array([True, False, True]), 1 + 2j
    dw, dx, dz = np.array([0.1, 0.2, 0.3]), 2.0, 0.5j
    p = load(MIXED)
    scaled = np.where(mask, w * x, w)
    outputs = [scaled, 8, ~mask, z * z]
    point = [w, n, x, mask, z]
    compare(run(p, point), outputs)
    tangents = [np.where(mask, dw * x + w * dx, dw), 2 * z * dz]
    compare(run(p.jvp(), [*point, dw, dx, dz]), [*outputs, *tangents])
    ct, cz = np.array([1.0, 10.0, 100.0]), 1j
    cotangents = [np.where(mask, ct * x, ct), np.sum(np.where(mask, ct * w, 0)), np.conj(2 * z) * cz]
    compare(run(p.vjp(), [*point, ct, cz]), [*outputs, *cotangents])


def test_explicit_zeros() -> None:
    """A derivative that is zero is returned as an array of zeros."""
    text = f"""
    func.func @main(%x: {F64}, %u: {V}) -> ({F64}, {V}) {{
      %c = stablehlo.constant dense<2.0> : {V}
      return %x, %c : {F64}, {V}
    }}
    """
    p, u = load(text), np.ones(3)
    compare(run(p.jvp(), [1.0, u, 3.0, u]), [1, 2 * u, 3, 0 * u])
    compare(run(p.vjp(), [1.0, u, 3.0, u]), [1, 2 * u, 3, 0 * u])
    compare(run(p.jvp(1), [1.0, u, u]), [1, 2 * u, 0, 0 * u])
    compare(run(p.vjp(1), [1.0, u, 3.0, u]), [1, 2 * u, 0 * u])
    compare(run(p.vjp().jvp(), [1.0, u, 3.0, u, 1.0, u, 5.0, u])[-4:], [1, 0 * u, 5, 0 * u])
    compare(run(p.jvp().vjp(), [1.0, u, 3.0, u, 1.0, u, 5.0, u])[-4:], [1, 0 * u, 5, 0 * u])


def test_gradient_of_a_constant() -> None:
    p = load(
        f"func.func @main(%x: {V}) -> {F64} {{\n%c = stablehlo.constant dense<2.0> : {F64}\n return %c : {F64}\n}}"
    )
    compare(run(p.grad(value=True), [np.ones(3)]), [2, np.zeros(3)])
    compare(run(p.hvp(), [np.ones(3), np.ones(3)]), [np.zeros(3)])


def test_unused_inputs_stay() -> None:
    text = f"func.func @main(%u: tensor<i32>, %x: {F64}, %v: {V}) -> {F64} {{\n return %x : {F64}\n}}"
    p = load(text)
    for q, count in ((p, 3), (p.grad(), 3), (p.jvp("arg1"), 4), (p.vjp(2), 4)):
        assert str(q).split(") -> ")[0].count("%arg") == count
    compare(run(p.grad(), [np.int32(1), 2.0, np.ones(3)]), [1, np.zeros(3)])


def test_nothing_to_differentiate() -> None:
    text = "func.func @main(%x: tensor<i32>) -> tensor<i32> {\n return %x : tensor<i32>\n}"
    p = load(text)
    assert names(p.jvp().inputs) == ["x"] and names(p.vjp().outputs) == ["result0"]
    assert str(p.jvp()) == str(p.vjp()) == str(p)
    assert names(load(CUBE).jvp([]).outputs) == ["y", "y.tangent"]
    compare(run(load(CUBE).vjp([]), [2.0, 5.0]), [8])


# ---- composition


@pytest.mark.parametrize("modes", [m for n in (1, 2, 3, 4) for m in itertools.product("FR", repeat=n)])
def test_any_order(modes: tuple[str, ...]) -> None:
    """Any sequence of JVPs and VJPs of x^3 gives 3 x^2, 6 x, 6 and 0 at the orders one to four."""
    p, point = load(CUBE), [2.0]
    for mode in modes:
        count = len(p.outputs)
        p = p.jvp("x") if mode == "F" else p.vjp("x")
        point += [1.0] if mode == "F" else [*[0.0] * (count - 1), 1.0]
    compare(run(p, point)[-1:], [[12, 12, 6, 0][len(modes) - 1]])


def test_grad_of_grad() -> None:
    p = load(CUBE)
    for expected in (12.0, 12.0, 6.0, 0.0, 0.0):
        p = p.grad("x")
        compare(run(p, [2.0]), [expected])


def test_everything_at_once() -> None:
    """The JVP of a VJP with respect to all its inputs, including the cotangent, is right."""
    p = load(CUBE).vjp().jvp()
    x, ct, dx, dct = 2.0, 3.0, 0.5, 0.25
    compare(run(p, [x, ct, dx, dct])[2:], [3 * x * x * dx, 6 * x * ct * dx + 3 * x * x * dct])


def test_programs_are_independent() -> None:
    """Derivatives of one program share its graphs, but deriving one does not change the texts of the others."""
    p = load(CUBE)
    texts = [str(p.jvp()), str(p.vjp()), str(p.grad()), str(p.hvp())]
    assert [str(p.jvp()), str(p.vjp()), str(p.grad()), str(p.hvp())] == texts
    q = p.jvp()
    q.vjp(), q.jvp(), p.grad()
    assert str(q) == texts[0] and str(p) == str(load(CUBE))
    compare(run(p.grad(), [2.0]), [12.0])


def test_programs_are_immutable() -> None:
    p = load(CUBE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.name = "other"  # type: ignore[misc]


def test_hvp_is_the_derivative_of_the_gradient() -> None:
    text = f"""
    func.func @main(%x: {V}) -> {F64} {{
      %zero = stablehlo.constant dense<0.0> : {F64}
      %0 = stablehlo.sine %x : {V}
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.multiply across dimensions = [0] : ({V}, {F64}) -> {F64}
      %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : ({V}, {F64}) -> {F64}
      %3 = stablehlo.multiply %2, %2 : {F64}
      %4 = stablehlo.add %1, %3 : {F64}
      return %4 : {F64}
    }}
    """
    p, x, v, h = load(text), np.array([0.3, 0.7, 1.1]), np.array([1.0, -2.0, 0.5]), 1e-5
    (hv,) = run(p.hvp(), [x, v])
    (plus,), (minus,) = run(p.grad(), [x + h * v]), run(p.grad(), [x - h * v])
    compare([hv], [(plus - minus) / (2 * h)], 1e-7)
    compare(run(p.jvp().vjp(0), [x, v, 0.0, 1.0])[-1:], [hv])


# ---- refusals


@pytest.mark.parametrize("text", [MIXED, CUBE.replace(F64, V), CUBE.replace("f64", "complex<f64>")])
@pytest.mark.parametrize("mode", ["grad", "hvp"])
def test_grad_needs_one_real_scalar(text: str, mode: str) -> None:
    with pytest.raises(RequestError, match="grad needs one real scalar float output; the outputs are"):
        getattr(load(text), mode)()


@pytest.mark.parametrize("wrt", ["n", 1, "mask", ["w", "n"]])
def test_no_derivative_in_integers(wrt: Any) -> None:
    for mode in ("jvp", "vjp"):
        with pytest.raises(RequestError, match=r"input '(n|mask)' of type tensor<.*> has no derivative"):
            getattr(load(MIXED), mode)(wrt)


def test_a_program_is_usable_after_a_refusal() -> None:
    text = f"""
    func.func @main(%x: {F64}, %y: {F64}) -> ({F64}, {F64}) {{
      %0 = "stablehlo.custom_call"(%x) {{call_target_name = "f"}} : ({F64}) -> {F64}
      %1 = stablehlo.multiply %y, %y : {F64}
      return %0, %1 : {F64}, {F64}
    }}
    """
    p = load(text)
    for _ in range(2):
        with pytest.raises(Unsupported, match="unsupported jvp AD rule for stablehlo.custom_call"):
            p.vjp()
        assert str(p.vjp("arg1")).count("custom_call") == 1


# ---- loading and saving


def test_load_what(tmp_path: Path) -> None:
    path = tmp_path / "cube.mlir"
    path.write_text(CUBE)
    module = load(CUBE).module
    sources: list[Any] = [CUBE, path, str(path), emit(module, "bytecode"), emit(module, "artifact")]
    for source in sources:
        compare(run(tiduc.load(source).grad(), [2.0]), [12.0])
    for kind in ("text", "bytecode", "artifact"):
        path.write_bytes(emit(module, kind))
        compare(run(load(path).grad(), [2.0]), [12.0])


def test_save(tmp_path: Path) -> None:
    p = load(CUBE).vjp()
    p.save(tmp_path / "vjp.mlir")
    assert str(load(tmp_path / "vjp.mlir")) == str(p)
    with pytest.raises(TiducError):
        p.save(tmp_path / "none" / "vjp.mlir")


def test_load_errors(tmp_path: Path) -> None:
    with pytest.raises(TiducError) as error:
        load(tmp_path / "none.mlir")
    assert str(error.value) == f"{tmp_path / 'none.mlir'}: error: No such file or directory"
    with pytest.raises(ParseError) as error:
        load("func.func @main(\n")
    assert str(error.value).startswith("-:")
    path = tmp_path / "bad.mlir"
    path.write_text("\n\nfunc.func @main(%x: tensor<f64>) -> tensor<f32> {\n  return %x : tensor<f64>\n}\n")
    with pytest.raises(ParseError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:4:3: error: ")
    with pytest.raises(ParseError):
        load(b"ML\xefR nothing")


def test_bfloat16_and_small_floats() -> None:
    for type_ in ("bf16", "f16", "f32", "f8E4M3FN"):
        text = CUBE.replace("f64", type_)
        assert f"tensor<{type_}>" in str(load(text).grad()), type_


def test_dynamic_sizes() -> None:
    """Programs with dynamic dimensions have derivatives if these do not need the sizes."""
    text = CUBE.replace(F64, "tensor<?xf64>")
    assert "tensor<?xf64>" in str(load(text).vjp())
    x = load(text).jvp()
    assert str(load(str(x))) == str(x)


def test_graphs_are_a_module() -> None:
    """The text of a program's graphs can be loaded as a program, whose derivatives are right."""
    p = load(CUBE).vjp()
    text = str(p.graphs)
    assert text.count('"tidu.graph"') == 3
    reloaded = load(text, entry="main")
    compare(run(reloaded.grad(), [2.0]), [12.0])


def test_the_repr_is_one_line() -> None:
    program = load(SCALAR)
    assert (
        repr(program.jvp("x"))
        == "<Program main(a: f64, x: f64, x.tangent: f64) -> (result0: f64, result0.tangent: f64)>"
    )
    token = load("func.func @main(%t: !stablehlo.token) -> !stablehlo.token { return %t : !stablehlo.token }")
    assert repr(token) == "<Program main(t: !stablehlo.token) -> (result0: !stablehlo.token)>"
    assert len(str(inspect.signature(tiduc.load))) < 400  # repr omits the default op set


def test_programs_and_executables_have_pickles() -> None:
    program = load(SCALAR)
    x = np.array(2.0), np.array(0.5)
    for each in (program, program.grad("x"), program.grad("x").compile()):
        unpickled = pickle.loads(pickle.dumps(each))
        assert unpickled.signature == each.signature
        run = [e if isinstance(e, tiduc.Executable) else e.compile() for e in (each, unpickled)]
        assert run[0](*x) == run[1](*x)
    unpickled = pickle.loads(pickle.dumps(program.grad("x")))
    assert str(unpickled.grad("x")) == str(program.grad("x").grad("x"))


@pytest.mark.parametrize("wrt", [np.int64(1), np.array([1]), range(1, 2), ("x",), {"x"}, iter([1])])
def test_wrt_is_any_position_or_name(wrt: Any) -> None:
    assert [port.name for port in load(SCALAR).differentiated(wrt)] == ["x"]


@pytest.mark.parametrize("wrt", [1.0, True, [None], [["x"]], -1, [2], "a,x"])
def test_other_values_of_wrt_are_refused(wrt: Any) -> None:
    with pytest.raises(RequestError, match=f"wrt.*{re.escape(repr(wrt))}|unknown input .* in wrt"):
        load(SCALAR).differentiated(wrt)


def test_a_file_has_a_name() -> None:
    with pytest.raises(TiducError, match="^error: the name of the file is empty$"):
        load("")
