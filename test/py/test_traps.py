"""Known mistakes of other implementations of this design, which tiduc must not make."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.stages import EXP_AX, F64, external, graph, named, numbers, view_of

from tiduc.dialect.errors import RequestError, ResolveError, TiducError
from tiduc.dialect.mlir.context import stage
from tiduc.loading import load
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET


def program(body: str, outputs: str, inputs: str = "x") -> Any:
    """A program whose inputs and outputs are f64 scalars."""
    arguments = ", ".join(f'%{name}: {F64} {{tidu.name = "{name}"}}' for name in inputs.split())
    types = ", ".join([F64] * len(outputs.split(",")))
    return load(f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {outputs} : {types}\n}}")


# ---- sums and products -------------------------------------------------------------------------------------


@pytest.mark.parametrize("operands", ["%0, %x", "%x, %0"])
def test_vjp_of_a_product_with_its_own_factor(operands: str) -> None:
    p = program(f"%0 = stablehlo.exponential %x : {F64}\n%1 = stablehlo.multiply {operands} : {F64}", "%1")
    at = 0.7
    compare(run(p.vjp(), [at, 3.0]), [at * np.exp(at), 3 * (1 + at) * np.exp(at)])
    compare(run(p.vjp().vjp("x"), [at, 1.0, 0.0, 1.0])[-1:], [(2 + at) * np.exp(at)])


SAME_VALUE = f"%0 = stablehlo.negate %x : {F64}"
TWO_OPS = f"{SAME_VALUE}\n%1 = stablehlo.negate %x : {F64}"


@pytest.mark.parametrize(("body", "outputs"), [(SAME_VALUE, "%0, %0"), (TWO_OPS, "%0, %1")])
def test_outputs_that_are_equal(body: str, outputs: str) -> None:
    """The cotangents of equal outputs (-x, -x) are summed, whether the outputs are one value or two equal values."""
    p = program(body, outputs)
    compare(run(p.vjp(), [2.0, 1.0, 10.0]), [-2, -2, -11])
    compare(run(p.jvp(), [2.0, 5.0]), [-2, -2, -5, -5])
    q = p.vjp()  # transposes the graph again, which is linear in the seeds
    compare(run(q.jvp([1, 2]), [2.0, 1.0, 10.0, 3.0, 4.0])[-1:], [-7])
    compare(run(q.vjp([1, 2]), [2.0, 1.0, 10.0, 0.0, 0.0, 3.0])[-2:], [-3, -3])


def test_an_output_that_is_an_input() -> None:
    p = program(f"%c = stablehlo.constant dense<3.0> : {F64}\n%0 = stablehlo.add %x, %c : {F64}", "%0, %x")
    compare(run(p.vjp(), [2.0, 1.0, 10.0]), [5, 2, 11])
    compare(run(p.jvp(), [2.0, 7.0]), [5, 2, 7, 7])


def test_outputs_that_are_one_input() -> None:
    p = program("", "%x, %x, %x")
    compare(run(p.vjp(), [2.0, 1.0, 10.0, 100.0])[-1:], [111])
    compare(run(p.vjp().vjp([1, 2, 3]), [2.0, 1.0, 10.0, 100.0, 0.0, 0.0, 0.0, 4.0])[-3:], [4, 4, 4])


def test_an_output_that_is_another_output_s_operand() -> None:
    """For the outputs (u, exp u) with u = x x, the given cotangent of u and the cotangent through exp are summed."""
    p = program(f"%0 = stablehlo.multiply %x, %x : {F64}\n%1 = stablehlo.exponential %0 : {F64}", "%0, %1")
    compare(run(p.vjp(), [0.5, 2.0, 3.0])[-1:], [2 * 0.5 * (2 + 3 * np.exp(0.25))])


def test_reverse_over_reverse_seeds() -> None:
    """The VJP of the VJP of x^2 with the cotangents 5 and 7 gives d/dx (2 x 5) * 7 = 70."""
    p = program(f"%0 = stablehlo.multiply %x, %x : {F64}", "%0").vjp().vjp("x")
    compare(run(p, [3.0, 5.0, 0.0, 7.0])[-1:], [70])


def test_an_inactive_output_keeps_its_place() -> None:
    p = program(f"%0 = stablehlo.exponential %x : {F64}", "%y, %0, %y", "x y")
    compare(run(p.jvp("x"), [0.5, 2.0, 1.0]), [2, np.exp(0.5), 2, 0, np.exp(0.5), 0])
    compare(run(p.vjp("x"), [0.5, 2.0, 1.0, 10.0, 100.0])[-1:], [10 * np.exp(0.5)])
    compare(run(p.vjp(["y", "x"]), [0.5, 2.0, 1.0, 10.0, 100.0])[-2:], [101, 10 * np.exp(0.5)])


# ---- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["jvp", "vjp", "grad", "hvp"])
@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        (["x", "x"], "input 'x' is given twice in wrt"),
        ([0, "x"], "input 'x' is given twice in wrt"),
        ([0, 0], "input 'x' is given twice in wrt"),
        (["z"], "unknown input 'z' in wrt; the inputs are 0: x, 1: y"),
        ([2], "unknown input 2 in wrt; the inputs are 0: x, 1: y"),
        ([-1], "unknown input -1 in wrt"),
        ("xy", "unknown input 'xy' in wrt"),
    ],
)
def test_bad_wrt(mode: str, wrt: Any, message: str) -> None:
    p = program(f"%0 = stablehlo.multiply %x, %y : {F64}", "%0", "x y")
    with pytest.raises(RequestError) as error:
        getattr(p, mode)(wrt)
    assert message in str(error.value)


def test_stages_refuse_duplicate_arguments() -> None:
    view = view_of(EXP_AX)
    with pytest.raises(RequestError, match="wrt @x is given twice"):
        linearize(view, [("F0", "p3")], ["x", "x"], OPSET)
    with pytest.raises(RequestError, match="output @F0::@p3 is given twice"):
        linearize(view, [("F0", "p3"), ("F0", "p2"), ("F0", "p3")], ["x"], OPSET)
    with pytest.raises(ResolveError, match="unknown input @z"):
        linearize(view, [("F0", "p3")], ["z"], OPSET)
    with pytest.raises(ResolveError, match="unknown value @p9 in graph @F0"):
        linearize(view, [("F0", "p9")], ["x"], OPSET)
    assert str(view.module).count('sym_name = "L') == 0  # refused requests leave no graphs
    assert linearize(view, [("F0", "p3")], ["x"], OPSET).linear


def test_two_references_to_one_value_are_duplicates() -> None:
    """Requesting a value twice is an error, also if it is once requested by a reference from another graph, or by a
    second name.
    """
    duplicate = graph(
        "F1",
        ["x"],
        external("%e", "@F0::@p3")
        + named("%e", "again")
        + f"%0 = stablehlo.negate %e : {F64}\n"
        + named("%0", "n"),
        ["%0"],
    )
    view = view_of(EXP_AX, duplicate)
    with pytest.raises(RequestError, match="given twice"):
        linearize(view, [("F0", "p3"), ("F1", "again")], ["x"], OPSET)
    with pytest.raises(RequestError, match="given twice"):
        linearize(view, [("F0", "x"), ("F1", "x")], ["a"], OPSET)


# ---- perturbation confusion --------------------------------------------------------------------------------

ONE = graph("S", [], f"%0 = stablehlo.constant dense<1.0> : {F64}\n" + named("%0", "one"), ["%0"])


def inner(op: str) -> str:
    return graph("F", ["x", "y"], f"%0 = stablehlo.{op} %x, %y : {F64}\n" + named("%0", "v"), ["%0"])


def outer(ref: str) -> str:
    body = external("%d", ref) + f"%0 = stablehlo.multiply %x, %d : {F64}\n" + named("%0", "p")
    return graph("G", ["x"], body, ["%0"])


@stage
def times(view: Any, x: Any, value: Any) -> Any:
    """The product of two values, in a new graph. `x` may also be the key of a new input of that graph."""
    b = OPSET.builder(view, view.fresh("G"))
    product = b.multiply(b.input(x, value.type) if isinstance(x, str) else x, value)
    b.finish([product])
    return product


@stage
def bind_to_one(view: Any, key: str) -> None:
    view.bind(key, view.value(("S", "one")))


BIND = '"tidu.bind"() {input = @L0.y, value = @S::@one} : () -> ()'


@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize(("op", "expected"), [("add", 1.0), ("multiply", 2 * 3.0)])
def test_a_derivative_in_a_derivative(op: str, expected: float, reload: bool) -> None:
    """In nested derivatives, the tangents of the inner and the outer derivative are not confused: d/dx [x * d/dy (x +
    y)] = 1, and d/dx [x * d/dy (x y)] = 2 x.
    """
    view = view_of(inner(op) + ONE)
    first = linearize(view, [("F", "v")], ["y"], OPSET)
    (dv,) = first.outputs
    if reload:
        times(view, dv, dv)  # gives the tangent a name
        name = str(view.module).split("ref = @L0::@")[1].split("}")[0]
        view = view_of(str(view.module), outer(f"@L0::@{name}"), BIND)
    else:
        product = times(view, view.value(("F", "x")), dv)
        bind_to_one(view, *first.keys)
    wanted = ("G", "p") if reload else product
    second = linearize(view, [wanted], ["x"], OPSET)
    assert not set(first.keys) & set(second.keys)
    (dp,) = second.outputs
    compare(numbers(view, [wanted, dp], {"x": 3.0, second.keys[0]: 1.0, "y": 4.0})[1:], [expected])


@pytest.mark.parametrize(
    "same_input",
    [
        False,
        True,
    ],
    ids=["by reference", "as an input of the same key"],
)
def test_a_derivative_in_a_derivative_of_the_same_input(same_input: bool) -> None:
    """Nested derivatives with respect to one input do not confuse tangents: d/dx [x * d/dx (x x)] = 4 x."""
    square = graph("F", ["x"], f"%0 = stablehlo.multiply %x, %x : {F64}\n" + named("%0", "v"), ["%0"])
    view = view_of(square, ONE)
    first = linearize(view, [("F", "v")], ["x"], OPSET)
    product = times(view, "x" if same_input else view.value(("F", "x")), first.outputs[0])
    bind_to_one(view, *first.keys)
    second = linearize(view, [product], ["x"], OPSET)
    compare(numbers(view, [second.outputs[0]], {"x": 3.0, second.keys[0]: 1.0}), [12])


def test_two_linearizations_share_no_keys() -> None:
    view = view_of(EXP_AX)
    keys: set[str] = set()
    for count in range(1, 4):
        one = linearize(view, [("F0", "p3")], ["a", "x"], OPSET)
        two = linear_transpose(view, one, OPSET)
        keys |= {*one.keys, *two.keys}
        assert len(keys) == 3 * count
    view = view_of(str(view.module))  # keys are also distinct after the text is parsed again
    one = linearize(view, [("F0", "p3")], ["a", "x"], OPSET)
    two = linear_transpose(view, one, OPSET)
    assert not keys & {*one.keys, *two.keys}


def test_two_linearizations_do_not_merge() -> None:
    """Two linearizations of one value are not merged, because each has its own tangent as input."""
    view = view_of(EXP_AX)
    one, two = (linearize(view, [("F0", "p3")], ["x"], OPSET) for _ in range(2))
    wanted = [*one.outputs, *two.outputs]
    e = np.exp(0.5 * 0.2)
    point = {"a": 0.5, "x": 0.2, one.keys[0]: 3.0, two.keys[0]: 7.0}
    compare(numbers(view, wanted, point), [0.5 * e * 3, 0.5 * e * 7])


@pytest.mark.parametrize(
    "name",
    [
        *("L0.x", "T0.v0", "S0.0", "S0.1"),
        *("x.tangent", "result0.cotangent", "C0.0"),
    ],
)
def test_an_input_that_is_called_like_a_fresh_key(name: str) -> None:
    """An input whose name looks like the key of a tangent or cotangent is not mistaken for it."""
    p = load(f"""
    func.func @main(%x: {F64} {{tidu.name = "x"}}, %t: {F64} {{tidu.name = "{name}"}}) -> ({F64}, {F64}) {{
      %0 = stablehlo.multiply %x, %t : {F64}
      return %0, %0 : {F64}, {F64}
    }}""")
    compare(run(p.jvp("x"), [2.0, 5.0, 3.0]), [10, 10, 15, 15])
    compare(run(p.vjp("x"), [2.0, 5.0, 1.0, 10.0]), [10, 10, 55])
    compare(run(p.jvp("x").jvp(name), [2.0, 5.0, 3.0, 7.0])[-2:], [21, 21])


def test_a_name_whose_keys_are_taken() -> None:
    """If the caller's name for the graph gives a key that an input already has, the request is refused."""
    view = view_of(graph("F", ["x", "y"], named("%x", "v"), ["%y"]).replace("[@x, @y]", '[@x, @"mine.x"]'))
    with pytest.raises(TiducError, match="mine.x"):
        linearize(view, [("F", "mine.x")], ["x"], OPSET, name="mine")


def test_derivatives_of_a_program_read_again() -> None:
    """The text of a derivative can be loaded as an ordinary program, in which the derivative's keys have no special
    meaning.
    """
    p = program(f"%0 = stablehlo.multiply %x, %x : {F64}\n%1 = stablehlo.multiply %0, %x : {F64}", "%1")
    second = load(str(load(str(p.jvp())).jvp("x")))
    compare(run(second, [2.0, 1.0, 1.0])[-1:], [12])
    compare(run(load(str(p.vjp())).vjp("x"), [2.0, 1.0, 0.0, 1.0])[-1:], [12])


def test_a_wrong_name_is_a_tiduc_error() -> None:
    with pytest.raises(TiducError):
        linearize(view_of(EXP_AX), [("F0", "p3")], ["x"], OPSET, name="F0")
