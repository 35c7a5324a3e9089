"""Loops on IREE that update loop-carried arrays ("stacks") do not change other values that alias these arrays."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.one_module import compiled_together
from harness.xla import by_xla
from jax import lax
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.dialect.mlir.context import parse, stage

Array = NDArray[Any]
S, R, INDEX = "tensor<6x4xf32>", "tensor<1x4xf32>", "tensor<i32>"
X = np.arange(24, dtype=np.float32).reshape(6, 4) + 1


class Loop(NamedTuple):
    """A loop of five iterations that carries the arrays %a, %b, and so on.

    The body can use a row %row of %x, and its negative %minus.
    """

    initial: str
    body: tuple[str, ...]
    new: str
    results: str = "%y#1"
    before: str = ""
    after: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        initial, new, results = self.initial.split(), self.new.split(), self.results.split()
        types = ", ".join([INDEX] + [S] * len(initial))
        bound = ", ".join(f"%{a} = {x}" for a, x in zip("abc", initial, strict=False))
        returned = ", ".join([S] * len(results))
        return f"""func.func @{name}(%x: {S}) -> ({returned}) {{
          %zero = stablehlo.constant dense<0> : {INDEX}
          %one = stablehlo.constant dense<1> : {INDEX}
          %n = stablehlo.constant dense<5> : {INDEX}
          %zeros = stablehlo.constant dense<0.0> : {S}
          {self.before}
          %y:{len(initial) + 1} = stablehlo.while(%i = %zero, {bound}) : {types}
          cond {{
            %less = stablehlo.compare LT, %i, %n : ({INDEX}, {INDEX}) -> tensor<i1>
            stablehlo.return %less : tensor<i1>
          }} do {{
            %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 4] : ({S}, {INDEX}, {INDEX}) -> {R}
            %minus = stablehlo.negate %row : {R}
            %j = stablehlo.add %i, %one : {INDEX}
            {" ".join(self.body)}
            stablehlo.return %j, {", ".join(new)} : {types}
          }}
          {" ".join(self.after)}
          return {", ".join(results)} : {returned}
        }}"""


def put(name: str, x: str, row: str, place: str = "%i") -> str:
    return f"{name} = stablehlo.dynamic_update_slice {x}, {row}, {place}, %zero : ({S}, {R}, {INDEX}, {INDEX}) -> {S}\n"


def row_of(name: str, x: str) -> str:
    return (
        f"{name} = stablehlo.dynamic_slice {x}, %i, %zero, sizes = [1, 4] : ({S}, {INDEX}, {INDEX}) -> {R}\n"
    )


def add(name: str, x: str, y: str, type_: str = R) -> str:
    return f"{name} = stablehlo.add {x}, {y} : {type_}\n"


BOTH = (put("%p", "%a", "%row"), put("%q", "%b", "%minus"))
LOOPS = {
    "same_beginning": Loop("%zeros %zeros", BOTH, "%p %q", "%y#1 %y#2"),
    "of_argument": Loop("%x", BOTH[:1], "%p", "%y#1 %x"),
    "twice_of_argument": Loop("%x %x", BOTH, "%p %q", "%y#1 %y#2 %x"),
    "exchanged": Loop("%zeros %x", BOTH, "%q %p", "%y#1 %y#2"),
    "read_before": Loop(
        "%zeros",
        (
            row_of("%o", "%a"),
            put("%r", "%a", "%minus"),
            add("%s", "%o", "%minus"),
            put("%p", "%r", "%s", "%j"),
        ),
        "%p",
    ),
    "beginning_read_after": Loop("%z", BOTH[:1], "%p", "%y#1 %z", add("%z", "%x", "%x", S)),
    "beginning_read_inside": Loop(
        "%z",
        (
            put("%r", "%a", "%minus"),
            row_of("%o", "%z"),
            add("%s", "%o", "%minus"),
            put("%p", "%r", "%s", "%zero"),
        ),
        "%p",
        before=add("%z", "%x", "%x", S),
    ),
    "given_twice": Loop("%zeros %x", BOTH[:1], "%p %p", "%y#1 %y#2"),
    "old_kept": Loop("%zeros %x", BOTH[:1], "%p %a", "%y#1 %y#2"),
    "updated_after": Loop(
        "%zeros",
        BOTH[:1],
        "%p",
        "%y#1 %u",
        after=(f"%rows = stablehlo.slice %x [2:3, 0:4] : ({S}) -> {R}\n", put("%u", "%y#1", "%rows", "%one")),
    ),
    "twice_a_turn": Loop(
        "%zeros %zeros %x",
        (*BOTH, put("%r", "%c", "%minus"), put("%s", "%r", "%row", "%zero")),
        "%p %q %s",
        "%y#1 %y#2 %y#3 %x",
    ),
}


@pytest.fixture(scope="module")
def compiled() -> bytes:
    """Fixture: all loops, run by the host, compiled as one module, because that is faster than many modules."""
    return compile_module(prepared("\n".join(loop.text(name) for name, loop in LOOPS.items())), "cpu-threads")


@stage
def prepared(text: str) -> str:
    """The text of a program after the passes for IREE."""
    module = parse(text)
    legalize_for_iree(module)
    return str(module)


@pytest.mark.parametrize("name", LOOPS)
def test_values(compiled: bytes, name: str) -> None:
    x = X.copy()
    actual = tiduc.Executable(compiled, entry=name)(x)
    for y, expected in zip(actual, by_xla(LOOPS[name].text("main"), [X]), strict=True):
        np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(x, X)


PACKED = "same_beginning", "twice_of_argument", "twice_a_turn"


@pytest.fixture(scope="module")
def packed() -> dict[str, tiduc.Executable]:
    return compiled_together({name: LOOPS[name].text("main") for name in PACKED}, kernels=True)


@pytest.mark.parametrize("name", PACKED)
def test_values_of_packed_stacks(name: str, packed: dict[str, tiduc.Executable]) -> None:
    """If the loop is a dispatch, its results equal XLA's, and its argument does not change."""
    text, x = LOOPS[name].text("main"), X.copy()
    for y, expected in zip(packed[name](x), by_xla(text, [X]), strict=True):
        np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(x, X)


def twice_in_a_scan(x: Any) -> Any:
    """An outer loop with two inner loops. Each loop stores its outputs in arrays that are equal zeros initially."""

    def inner(c: Any, _: Any) -> Any:
        c = jnp.sin(c) * x + 0.3
        return c, (c * x, jnp.cos(c))

    def outer(c: Any, _: Any) -> Any:
        d, (u, v) = lax.scan(inner, c, None, 4)
        e, (p, q) = lax.scan(inner, d * 0.3, None, 4)
        return d + u.sum(0) * 0.1 + q.sum(0) * 0.01, (d, v[2], e, p)

    return lax.scan(outer, x, None, 3)


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_loops_in_a_loop(target: str) -> None:
    """Nested loops give XLA's results if the arrays that they update have equal initial values.

    tiduc must emit copies, because IREE does not track memory that two loop-carried values share.
    """
    x = np.array([0.3, 0.5, 0.7], np.float32)
    text = jax.jit(lambda x: tuple(jax.tree.leaves(twice_in_a_scan(x)))).lower(x).as_text()
    for y, expected in zip(tiduc.load(text).compile(target)(x), by_xla(text, [x]), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize("rows", [(1.0, 1.0, 1.0), (1.0, 2.0, 3.0), (0.0, 0.0, 0.0)])
def test_constants_that_a_loop_scatters_to(rows: tuple[float, ...], target: str) -> None:
    """In a loop that scatters into a constant, each iteration starts from the constant, not from an earlier result."""

    def step(i: Any, state: Any) -> Any:
        c, out = state
        y = jnp.array(rows, jnp.float32)[:, None].at[0].add(c[0]).sum(0)
        return c * 0.5, out.at[i].set(y)

    x = np.array([[0.3], [0.5], [0.7]], np.float32)
    text = jax.jit(lambda x: lax.fori_loop(0, 3, step, (x, x))).lower(x).as_text()
    for y, expected in zip(tiduc.load(text).compile(target)(x), by_xla(text, [x]), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kept", ["computed", "constant", "carried on"])
@pytest.mark.parametrize("updates", [1, 2])
def test_loop_invariants_that_are_updated(kept: str, updates: int) -> None:
    """Each iteration that updates a loop invariant starts from the invariant, not from an earlier result.

    Without tiduc's rewrite, IREE is wrong here if it uses several threads.
    """
    x = np.random.default_rng(0).uniform(0.2, 0.8, (4, 2)).astype(np.float32)
    constant = np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)

    def steps(x: Any) -> Any:
        outside = jnp.asarray(constant) if kept == "constant" else jnp.sin(x)

        def step(state: Any) -> Any:
            i, c, out, carried = state
            base = carried if kept == "carried on" else outside
            y = lax.dynamic_update_slice(base, c[:1], (i, 0))
            if updates == 2:
                y += lax.dynamic_update_slice(base, -c[:1], (0, 0))
            return i + 1, jnp.sin(c) + y.sum(0) * 0.1, out.at[i].set(y.sum(0)), carried

        done = lax.while_loop(lambda state: state[0] < 3, step, (0, x, x * 0, jnp.sin(x)))
        return (*done[1:], outside)

    text = jax.jit(steps).lower(x).as_text()
    for y, expected in zip(tiduc.load(text).compile("cpu-threads")(x), by_xla(text, [x]), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5)
