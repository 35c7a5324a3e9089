"""The law of selection: if all operands of an op that selects elements increase by one amount, the result increases by
this amount, even at ties.

Therefore tangents of 1 give a tangent of 1, second derivatives are zero, and the cotangents of all operands sum to the
cotangent of the result. Operands are drawn from few numbers, so that most elements are tied. Each program is also
tested with aliased operands, where all operands of a type are the same value.
"""

import re
from typing import Any

import jax
import numpy as np
import pytest
from harness.check_rule import run
from numpy.typing import NDArray

from tiduc.explain.kinks import CHOICES
from tiduc.loading import load
from tiduc.program import Program

S, V, M = "tensor<f64>", "tensor<6xf64>", "tensor<3x4xf64>"
I = "tensor<4x1xi64>"  # noqa: E741
INIT = {"maximum": "0xFFF0000000000000", "minimum": "0x7FF0000000000000"}
INDICES = f"%i = stablehlo.constant dense<[[1], [3], [1], [9]]> : {I}"


def region(*ops: str, result: str = "%m", of: tuple[str, ...] = ("f64",)) -> str:
    """A region, as of a reduction. Its block has the arguments %a0, %a1, ..., followed by %b0, %b1, ...."""
    arguments = [f"%{s}{i}: tensor<{t}>" for s in "ab" for i, t in enumerate(of)]
    kinds = ", ".join(f"tensor<{t}>" for t in of)
    return f"({{ ^bb0({', '.join(arguments)}):\n{chr(10).join(ops)}\nstablehlo.return {result} : {kinds} }})"


def combined(op: str) -> str:
    return region(f"%m = stablehlo.{op} %a0, %b0 : {S}")


def compared(direction: str, *of: str) -> str:
    """A comparator.

    Its arguments are two elements of the first operand, then two elements of the second one, and so on.
    """
    arguments = ", ".join(f"%{s}{i}: tensor<{t}>" for i, t in enumerate(of) for s in "ab")
    test = f"%c = stablehlo.compare {direction}, %a0, %b0 : ({S}, {S}) -> tensor<i1>"
    return f"({{ ^bb0({arguments}):\n{test}\nstablehlo.return %c : tensor<i1> }})"


SELECTS = [
    f"%c = stablehlo.compare GE, %a0, %b0 : ({S}, {S}) -> tensor<i1>",
    f"%m = stablehlo.select %c, %a0, %b0 : tensor<i1>, {S}",
]
ARGMAX = region(
    *SELECTS,
    "%n = stablehlo.select %c, %a1, %b1 : tensor<i1>, tensor<i64>",
    result="%m, %n",
    of=("f64", "i64"),
)
MEDIAN = region(  # an associative body of several ops, which computes a maximum that is bounded by 1
    f"%one = stablehlo.constant dense<1.0> : {S}",
    f"%m0 = stablehlo.maximum %a0, %b0 : {S}",
    f"%m1 = stablehlo.maximum %b0, %a0 : {S}",
    f"%m = stablehlo.minimum %m0, %m1 : {S}",
)
SCATTER = (
    "scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
WINDOW = "window_dimensions = array<i64: 3>, padding = dense<[[1, 1]]> : tensor<1x2xi64>"
CUMULATIVE = "window_dimensions = array<i64: 6>, padding = dense<[[5, 0]]> : tensor<1x2xi64>"
TILES = "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>"
GROUPS = "replica_groups = dense<[[0, 2, 4, 6], [7, 5, 3, 1]]> : tensor<2x4xi64>"


def reduction(op: str, attributes: str, body: str, result: str, x: str = V, count: int = 1) -> str:
    """The text of a reduction of %x with the initial value %init.

    If `count` is 2, a second operand contains the indices of the elements, and its initial value is 99.
    """
    if count == 1:
        return f'%r = "stablehlo.{op}"(%x, %init) {body} {{{attributes}}} : ({x}, {S}) -> {result}'
    n, m = x.replace("f64", "i64"), result.replace("f64", "i64")
    return f"""
      %at = stablehlo.iota dim = 0 : {n}
      %last = stablehlo.constant dense<99> : tensor<i64>
      %r, %n = "stablehlo.{op}"(%x, %at, %init, %last) {body} {{{attributes}}}
        : ({x}, {n}, {S}, tensor<i64>) -> ({result}, {m})"""


def scattered(body: str) -> str:
    return f'{INDICES}\n%r = "stablehlo.scatter"(%x, %i, %u) {body} {{{SCATTER}}} : ({V}, {I}, tensor<4xf64>) -> {V}'


def placed(body: str, attributes: str = TILES, source: str = "tensor<3xf64>") -> str:
    regions = f"{compared('GE', 'f64')[:-1]}, {body[1:]}"
    return f'%r = "stablehlo.select_and_scatter"(%x, %u, %init) {regions} {{{attributes}}} : ({V}, {source}, {S}) -> {V}'  # noqa: E501


XI = {"x": V, "init": S}
PROGRAMS: dict[str, tuple[dict[str, str], str, str]] = {
    "maximum": ({"x": V, "y": V}, f"%r = stablehlo.maximum %x, %y : {V}", V),
    "minimum": ({"x": V, "y": V}, f"%r = stablehlo.minimum %x, %y : {V}", V),
    "clamp": ({"l": V, "x": V, "h": V}, f"%r = stablehlo.clamp %l, %x, %h : {V}", V),
    "clamp by scalars": (
        {"l": S, "x": V, "h": S},
        f"%r = stablehlo.clamp %l, %x, %h : ({S}, {V}, {S}) -> {V}",
        V,
    ),
    "chlo.broadcast_maximum": (
        {"x": V, "y": S},
        f"%r = chlo.broadcast_maximum %x, %y : ({V}, {S}) -> {V}",
        V,
    ),
    "chlo.broadcast_minimum": (
        {"x": V, "y": S},
        f"%r = chlo.broadcast_minimum %x, %y : ({V}, {S}) -> {V}",
        V,
    ),
    "select": (
        {"x": V, "y": V},
        f"%c = stablehlo.compare GE, %x, %y : ({V}, {V}) -> tensor<6xi1>\n"
        f"%r = stablehlo.select %c, %x, %y : tensor<6xi1>, {V}",
        V,
    ),
    "map": (
        {"x": V, "y": V},
        f'%r = "stablehlo.map"(%x, %y) {combined("maximum")} {{dimensions = array<i64: 0>}} : ({V}, {V}) -> {V}',
        V,
    ),
    "sort": (
        {"x": V, "y": V},
        f'%r, %s = "stablehlo.sort"(%x, %y) {compared("LT", "f64", "f64")} : ({V}, {V}) -> ({V}, {V})',
        f"{V}, {V}",
    ),
    "top_k": (
        {"x": M},
        f"%r, %n = chlo.top_k(%x, k = 2) : {M} -> (tensor<3x2xf64>, tensor<3x2xi32>)",
        "tensor<3x2xf64>",
    ),
    "mhlo.topk": (
        {"x": M},
        "%r, %n = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}, "
        f"mhlo.version = 1 : i64}} : ({M}) -> (tensor<3x2xf64>, tensor<3x2xi32>)",
        "tensor<3x2xf64>",
    ),
    "scatter maximum": ({"x": V, "u": "tensor<4xf64>"}, scattered(combined("maximum")), V),
    "scatter minimum": ({"x": V, "u": "tensor<4xf64>"}, scattered(combined("minimum")), V),
    "scatter selects": ({"x": V, "u": "tensor<4xf64>"}, scattered(region(*SELECTS)), V),
    "scatter of several ops": ({"x": V, "u": "tensor<4xf64>"}, scattered(MEDIAN), V),
    "scatter sets": ({"x": V, "u": "tensor<4xf64>"}, scattered(region(result="%b0")), V),
    "select_and_scatter": (
        {"x": V, "u": "tensor<3xf64>", "init": S},
        placed(combined("maximum")),
        V,
    ),
    "select_and_scatter in overlapping windows": (
        {"x": V, "u": V, "init": S},
        placed(combined("maximum"), WINDOW, V),
        V,
    ),
}
for _op in INIT:
    PROGRAMS |= {
        f"reduce {_op}": (
            {"x": M, "init": S},
            reduction("reduce", "dimensions = array<i64: 1>", combined(_op), "tensor<3xf64>", M),
            "tensor<3xf64>",
        ),
        f"reduce_window {_op}": (XI, reduction("reduce_window", WINDOW, combined(_op), V), V),
        f"reduce_window {_op} of tiles": (
            XI,
            reduction("reduce_window", TILES, combined(_op), "tensor<3xf64>"),
            "tensor<3xf64>",
        ),
        f"reduce_window {_op}, cumulative": (XI, reduction("reduce_window", CUMULATIVE, combined(_op), V), V),
    }
for _name, _body, _count in (
    ("selects", region(*SELECTS), 1),
    ("argmax", ARGMAX, 2),
    ("of several ops", MEDIAN, 1),
):
    PROGRAMS |= {
        f"reduce {_name}": (
            XI,
            reduction("reduce", "dimensions = array<i64: 0>", _body, S, count=_count),
            S,
        ),
        f"reduce_window {_name}": (XI, reduction("reduce_window", WINDOW, _body, V, count=_count), V),
    }


def program(name: str, aliased: bool = False) -> Program:
    """The program with this name in `PROGRAMS`. If `aliased`, all inputs of a type are replaced by one input."""
    types, body, results = PROGRAMS[name]
    if aliased:
        first = {t: x for x, t in reversed(types.items())}
        body = re.sub(r"%(\w+)", lambda m: f"%{first[types[m[1]]]}" if m[1] in types else m[0], body)
        types = {x: t for x, t in types.items() if first[t] == x}
    arguments = ", ".join(f"%{x}: {t}" for x, t in types.items())
    returned = ", ".join(["%r", "%s"][: results.count("tensor")])
    return load(f"func.func @main({arguments}) -> ({results}) {{\n{body}\nreturn {returned} : {results}\n}}")


def floats(values: Any) -> list[NDArray[Any]]:
    return [np.asarray(y) for y in values if np.asarray(y).dtype.kind == "f"]


def check(p: Program, draw: Any, name: str) -> None:
    """Checks the law for a program at one point. `draw` returns an array of a given shape."""
    point = [draw(tuple(port.type.shape)) for port in p.inputs]
    ones, count = [np.ones_like(x) for x in point], len(p.outputs)
    jvp = p.jvp()
    slopes = floats(run(jvp, [*point, *ones])[count:])
    for dy in slopes:
        np.testing.assert_allclose(dy, np.ones_like(dy), rtol=1e-14, err_msg=f"{name} at {point}")
    zeros = [np.zeros_like(x) for x in point]
    for d2y in run(jvp.jvp(), [*point, *ones, *ones, *zeros])[-len(slopes) :]:
        np.testing.assert_allclose(d2y, np.zeros_like(d2y), atol=1e-14, err_msg=name)
    ct = [np.random.default_rng(0).standard_normal(tuple(port.type.shape)) for port in p.outputs]
    given = sum(float(c.sum()) for c in ct)
    got = sum(float(c.sum()) for c in run(p.vjp(), [*point, *ct])[count:])
    np.testing.assert_allclose(got, given, rtol=1e-13, err_msg=f"{name} at {point}")


@pytest.mark.parametrize("aliased", [False, True], ids=["", "aliased"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_moves_with_its_operands(name: str, aliased: bool) -> None:
    p = program(name, aliased)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        check(p, lambda shape, rng=rng: rng.integers(0, 2, shape).astype(float), name)


@pytest.mark.parametrize("op", INIT)
def test_in_windows_that_double(op: str) -> None:
    """The law holds for windows of 70 elements. The derivative of such long windows does not use window reductions."""
    n = 70
    t, pads = f"tensor<{n}xf64>", f"padding = dense<[[{n - 1}, 0]]> : tensor<1x2xi64>"
    attributes = f"window_dimensions = array<i64: {n}>, {pads}"
    body = reduction("reduce_window", attributes, combined(op), t, t)
    p = load(f"func.func @main(%x: {t}, %init: {S}) -> {t} {{\n{body}\nreturn %r : {t}\n}}")
    rng = np.random.default_rng(0)
    check(p, lambda shape: rng.integers(0, 3, shape).astype(float), op)


@pytest.mark.parametrize("name", ["approx_max_k", "approx_min_k"])
def test_approximate_top_k(name: str) -> None:
    with jax.enable_x64(True):
        text = jax.jit(lambda x: getattr(jax.lax, name)(x, 3)[0]).lower(np.zeros((2, 6))).as_text()
    rng = np.random.default_rng(0)
    check(load(text), lambda shape: rng.integers(0, 2, shape).astype(float), name)


@pytest.mark.parametrize("op", INIT)
@pytest.mark.parametrize(
    ("name", "attributes", "size", "result"),
    [("all_reduce", GROUPS, 4, 4), ("reduce_scatter", f"scatter_dimension = 0 : i64, {GROUPS}", 4, 1)],
)
def test_among_processes(name: str, attributes: str, size: int, result: int, op: str) -> None:
    """The law holds for reductions among processes: the result of each process depends on the operands of all
    processes.
    """
    x, y = f"tensor<{size}xf64>", f"tensor<{result}xf64>"
    call = f'%r = "stablehlo.{name}"(%x) {combined(op)} {{{attributes}}} : ({x}) -> {y}'
    p = load(f"func.func @main(%x: {x}) -> {y} {{\n{call}\nreturn %r : {y}\n}}")
    rng = np.random.default_rng(0)
    point = rng.integers(0, 2, (8, size)).astype(float)
    np.testing.assert_allclose(run(p.jvp(), [point, np.ones_like(point)])[1], np.ones((8, result)))
    ct = rng.standard_normal((8, result))
    np.testing.assert_allclose(run(p.vjp(), [point, ct])[1].sum(), ct.sum())


@pytest.mark.parametrize("attributes", [TILES, WINDOW])
def test_each_source_is_placed_once(attributes: str) -> None:
    """A select_and_scatter that adds is linear in its sources: the sum of its result has slope 1 toward each source
    element.
    """
    source = "tensor<3xf64>" if attributes == TILES else V
    body = placed(combined("add"), attributes, source)
    p = load(f"""
    func.func @main(%x: {V}, %u: {source}) -> {V} {{
      %init = stablehlo.constant dense<0.0> : {S}
      {body}
      return %r : {V}
    }}""")
    for x in (np.zeros(6), np.array([1.0, 1, 0, 1, 1, 1])):
        source_ct = run(p.vjp(), [x, np.ones(int(source[7])), np.ones(6)])[2]
        np.testing.assert_array_equal(source_ct, np.ones_like(source_ct))


def test_every_choice_at_ties_is_in_the_table() -> None:
    """`PROGRAMS` has all ops for which docs/conventions.md states a choice at ties, extrema or bounds."""
    ties = re.compile("equal|tie|extrema|bound")
    ops = {op for choice in CHOICES if ties.search(choice.where) for op in choice.ops}
    assert ops >= {"maximum", "clamp", "reduce", "reduce_window", "select_and_scatter", "sort"}
    assert ops <= {name.split()[0].strip(",") for name in PROGRAMS}
