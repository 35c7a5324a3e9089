"""reduce_window: each reducer with each kind of window, initial values, ties, zeros, and bodies that select
elements.
"""

import re
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import tensor

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
IDENTITY = {"add": "0.0", "maximum": "0xFFF0000000000000", "minimum": "0x7FF0000000000000", "multiply": "1.0"}


@dataclass(frozen=True)
class Case:
    """The attributes of a reduce_window, which has one dimension by default."""

    size: tuple[int, ...] = (6,)
    window: tuple[int, ...] = (3,)
    stride: tuple[int, ...] = (1,)
    pad: tuple[tuple[int, int], ...] = ((0, 0),)
    base: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)

    @property
    def places(self) -> tuple[int, ...]:
        counts = []
        every = zip(self.size, self.window, self.stride, self.pad, self.base, self.dilation, strict=True)
        for n, k, s, (low, high), a, w in every:
            room = ((n - 1) * a + 1 if n else 0) + low + high - ((k - 1) * w + 1)
            counts.append(max(room // s + 1, 0))
        return tuple(counts)

    def text(self, op: str, init: str | None = None, element: str = "f64") -> str:
        """The program. The initial value is a constant, or the second argument if `init` is None."""
        x, y, scalar = tensor(self.size, element), tensor(self.places, element), f"tensor<{element}>"
        argument = f", %init: {scalar}" if init is None else ""
        constant = "" if init is None else f"%init = stablehlo.constant dense<{init}> : {scalar}"
        rank = len(self.size)
        pad = f"dense<{[list(p) for p in self.pad]}>" if rank else "dense<>"
        numbers = {
            "base_dilations": self.base,
            "window_dilations": self.dilation,
            "window_dimensions": self.window,
            "window_strides": self.stride,
        }
        attributes = [
            f"{k} = array<i64{': ' if rank else ''}{', '.join(map(str, v))}>" for k, v in numbers.items()
        ]
        attributes.append(f"padding = {pad} : tensor<{rank}x2xi64>")
        return f"""
        func.func @main(%x: {x}{argument}) -> {y} {{
          {constant}
          %0 = "stablehlo.reduce_window"(%x, %init) <{{{", ".join(attributes)}}}> ({{
          ^bb0(%a: {scalar}, %b: {scalar}):
            %1 = stablehlo.{op} %b, %a : {scalar}
            stablehlo.return %1 : {scalar}
          }}) : ({x}, {scalar}) -> {y}
          return %0 : {y}
        }}"""


CASES = {
    "plain": Case(),
    "disjoint": Case(stride=(3,)),
    "disjoint_leaves_remainder": Case((8,), (3,), (3,)),
    "disjoint_2d": Case((4, 5), (2, 2), (2, 2), ((0, 0),) * 2, (1, 1), (1, 1)),
    "stride_leaves_remainder": Case(size=(8,), window=(2,), stride=(3,)),
    "pad": Case(size=(4,), pad=((1, 2),)),
    "pad_negative": Case(pad=((-1, -2),)),
    "windows_of_padding_only": Case(size=(2,), window=(2,), pad=((3, 3),)),
    "windows_of_holes_only": Case(size=(3,), window=(1,), base=(3,)),
    "base_dilation": Case(size=(3,), window=(2,), base=(3,), pad=((1, 0),)),
    "window_dilation": Case(dilation=(2,)),
    "cumulative": Case(size=(4,), window=(4,), pad=((3, 0),)),
    "empty": Case(size=(0,), window=(2,), pad=((2, 1),)),
    "empty_places": Case(size=(2,)),
    "empty_beside": Case((0, 3), (1, 2), (1, 1), ((0, 0),) * 2, (1, 1), (1, 1)),
    "unit": Case(size=(1,), window=(1,)),
    "scalar": Case((), (), (), (), (), ()),
    "pooling": Case((4, 5, 2), (2, 3, 1), (2, 1, 1), ((0, 1), (1, 1), (0, 0)), (1,) * 3, (1,) * 3),
    "all": Case((4, 3), (2, 3), (2, 1), ((1, -1), (2, 2)), (2, 3), (1, 2)),
}  # fmt: skip


def check(op: str, case: Case) -> None:
    """Checks the derivatives for two initial values: the identity of the op, with which results may be infinite, and
    another number.
    """
    x = RNG.standard_normal(case.size)
    with np.errstate(invalid="ignore"):
        check_rule(case.text(op, IDENTITY[op]), x, differences=op in ("add", "multiply"))
    check_rule(case.text(op), x, np.array(RNG.standard_normal()))


@pytest.mark.sampled(14)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("op", IDENTITY)
def test_windows(op: str, case: Case) -> None:
    check(op, case)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(40))
def test_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(map(int, rng.integers(low, high, rank)))

    pad = tuple(zip(sizes(-1, 4), sizes(-1, 4), strict=True))
    case = Case(sizes(1, 6), sizes(1, 5), sizes(1, 4), pad, sizes(1, 4), sizes(1, 4))
    if all((n - 1) * a + 1 + lo + hi > 0 for n, a, (lo, hi) in zip(case.size, case.base, pad, strict=True)):
        check([*IDENTITY][seed % len(IDENTITY)], case)


@pytest.mark.parametrize("op", ["add", "multiply"])
def test_complex(op: str) -> None:
    x = RNG.standard_normal(4) + 1j * RNG.standard_normal(4)
    case = Case((4,), (2,), (1,), ((1, 0),))
    check_rule(case.text(op, element="complex<f64>"), x, np.array(0.3 + 2j))


TIED = ["plain", "disjoint_leaves_remainder", "disjoint_2d", "stride_leaves_remainder", "pad", "pooling"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("name", TIED)
def test_first_of_ties(op: str, name: str) -> None:
    case = CASES[name]
    x = RNG.integers(0, 3, case.size).astype(np.float64)
    reducer, identity = (jax.lax.max, -np.inf) if op == "maximum" else (jax.lax.min, np.inf)

    def function(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, identity, reducer, case.window, case.stride, case.pad)

    check_rule(case.text(op, IDENTITY[op]), x, differences=False, jax_function=function, order=2)


def test_an_element_goes_before_an_equal_initial_value() -> None:
    program = load(Case(size=(3,), window=(2,)).text("maximum"))
    point = [np.array([1.0, 2, 0]), np.array(2.0), np.array([3.0, 5, 7]), np.array(11.0)]
    np.testing.assert_array_equal(run(program.jvp(), point)[1], [5, 5])
    point[1] = np.array(1.0)
    np.testing.assert_array_equal(run(program.jvp(), [np.array([1.0, 0, 0]), *point[1:]])[1], [3, 11])


def test_infinities_stay_out() -> None:
    program = load(Case(size=(4,), window=(2,), stride=(2,)).text("maximum", IDENTITY["maximum"]))
    x = np.array([-np.inf, -np.inf, -np.inf, 1])
    _, dy = run(program.jvp(), [x, np.arange(4.0)])
    np.testing.assert_array_equal(dy, [0, 3])
    _, cx = run(program.vjp(), [x, np.array([2.0, 3.0])])
    np.testing.assert_array_equal(cx, [2, 0, 0, 3])


@pytest.mark.parametrize("name", ["plain", "cumulative", "disjoint", "pooling"])
def test_product_with_zeros(name: str) -> None:
    case = CASES[name]
    x = RNG.standard_normal(case.size) * (RNG.random(case.size) < 0.5)
    check_rule(case.text("multiply", "1.0"), x, order=2)
    check_rule(case.text("multiply"), x, np.array(0.0), order=2)


SELECT = """
func.func @main(%x: tensor<4xf64>, %y: tensor<4xf64>, %p: tensor<f64>, %q: tensor<f64>)
    -> (tensor<4xf64>, tensor<4xf64>) {
  %0:2 = "stablehlo.reduce_window"(%x, %y, %p, %q) <{window_dimensions = array<i64: 3>,
      padding = dense<[[1, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
    %1 = stablehlo.compare GE, %a, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f64>
    %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<f64>
    stablehlo.return %2, %3 : tensor<f64>, tensor<f64>
  }) : (tensor<4xf64>, tensor<4xf64>, tensor<f64>, tensor<f64>) -> (tensor<4xf64>, tensor<4xf64>)
  return %0#0, %0#1 : tensor<4xf64>, tensor<4xf64>
}"""


@pytest.mark.parametrize("p", [-9.0, 0.3])
def test_selection(p: float) -> None:
    """The derivative of a maximum over windows, as JAX exports it, has right derivatives itself."""
    check_rule(SELECT, RNG.standard_normal(4), RNG.standard_normal(4), np.array(p), np.array(0.5))


def test_refused() -> None:
    for op in ("subtract", "divide"):
        with pytest.raises(Unsupported, match=rf"stablehlo.reduce_window: its body is one stablehlo.{op}"):
            load(CASES["plain"].text(op)).jvp()


def affine(case: Case) -> str:
    """A reduce_window that composes maps x -> s x + t. The order of the elements matters."""
    program, scalar = case.text("add"), "tensor<f64>"
    x, y = tensor(case.size, "f64"), tensor(case.places, "f64")
    for old, new in (
        (
            f"(%x: {x}, %init: {scalar}) -> {y}",
            f"(%x: {x}, %z: {x}, %i: {scalar}, %j: {scalar}) -> ({y}, {y})",
        ),
        ("(%x, %init)", "(%x, %z, %i, %j)"),
        ("%0 =", "%0:2 ="),
        (f"(%a: {scalar}, %b: {scalar})", f"(%a: {scalar}, %p: {scalar}, %b: {scalar}, %q: {scalar})"),
        ("%b, %a", "%b, %p"),
        ("stablehlo.add", "stablehlo.multiply"),
        (
            f"stablehlo.return %1 : {scalar}",
            f"""%2 = stablehlo.add %1, %q : {scalar}
            %3 = stablehlo.multiply %a, %b : {scalar}
            stablehlo.return %3, %2 : {scalar}, {scalar}""",
        ),
        (f": ({x}, {scalar}) -> {y}", f": ({x}, {x}, {scalar}, {scalar}) -> ({y}, {y})"),
        (f"return %0 : {y}\n        }}", f"return %0#0, %0#1 : {y}, {y}\n        }}"),
    ):
        assert old in program, old
        program = program.replace(old, new)
    return program


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_any_body(case: Case) -> None:
    x, z = RNG.standard_normal((2, *case.size))
    check_rule(affine(case), x, z, *RNG.standard_normal(2), subsets=False)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("pad", ["low", "high"])
def test_cumulative(size: int, pad: str) -> None:
    ends = (size - 1, 0) if pad == "low" else (0, size - 1)
    x, z = RNG.standard_normal((2, size, 2))
    case = Case((size, 2), (size, 1), (1, 1), (ends, (0, 0)), (1, 1), (1, 1))
    check_rule(affine(case), x, z, *RNG.standard_normal(2), order=1)
    x[::3] = 0
    check_rule(case.text("multiply", "1.0"), x, order=3 if size == 3 else 2)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.sampled(5)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_cumulative_through_jax(name: str, reverse: bool) -> None:
    def function(x: jax.Array) -> jax.Array:
        return getattr(jax.lax, name)(x, axis=1, reverse=reverse)  # type: ignore[no-any-return]

    x = RNG.standard_normal((2, 5))
    text = jax.jit(function).lower(x).as_text()
    assert "reduce_window" in text
    check_rule(text, x, jax_function=function)
    check_rule(
        text.replace("x5x", "x37x"),
        x.repeat(8, 1)[:, :37],
        order=1,
        differences=name in ("cumsum", "cumprod"),
    )


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize(("low", "high"), [(39, 0), (0, 39), (7, 3)])
def test_long_windows(op: str, low: int, high: int) -> None:
    """Derivatives of maxima over long windows do not use windows, but also select the first element at ties."""
    size, width = (40, 40) if low + high == 39 else (50, 35)
    case = Case((size,), (width,), pad=((low, high),))
    x = RNG.integers(0, 9, size).astype(np.float64)
    program, (dx, ct) = load(case.text(op, IDENTITY[op])), RNG.standard_normal((2, size))
    y, dy = run(program.jvp(), [x, dx])
    padded = np.pad(x, (low, high), constant_values=-np.inf if op == "maximum" else np.inf)
    arg = np.argmax if op == "maximum" else np.argmin
    expected = [dx[o + arg(padded[o : o + width]) - low] for o in range(len(y))]
    np.testing.assert_array_equal(dy, expected)
    _, cx = run(program.vjp(), [x, ct[: len(y)]])
    assert np.vdot(cx, dx) == pytest.approx(np.vdot(ct[: len(y)], dy))
    check_rule(case.text(op), RNG.standard_normal(size), np.array(0.3), order=1)


def test_memory_of_long_windows() -> None:
    """The derivatives of a cumulative op over n elements contain only tensors with at most n + 1 elements, also at
    order two.
    """
    case = Case((1000,), (1000,), pad=((999, 0),))
    for op in ("multiply", "maximum"):
        program = load(case.text(op, IDENTITY[op])).vjp().jvp()
        sizes = [
            np.prod([int(n) for n in sizes.split("x")[:-1]])
            for sizes in re.findall(r"tensor<([0-9x]+f64)>", str(program))
        ]
        assert max(sizes) <= 1001
