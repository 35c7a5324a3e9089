"""Loops on IREE that become single dispatches, with packed stacks, and the values that they compute."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from cases.loop_gradients import grad, random
from cases.looping import drawn, looping
from harness.one_module import Joined, compiled_as_one, selected
from harness.sources import source_of, sources_of
from harness.variants import HERE, THREADS
from harness.xla import by_xla
from jax import lax
from numpy.typing import NDArray

import tiduc
import tiduc.runtime
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.fast.loops.carries_in_place import TOPOLOGY
from tiduc.dialect.errors import CompileError, TiducError

Array = NDArray[Any]


V, M = "tensor<6xf64>", "tensor<6x6xf64>"


def summed(other: str) -> str:
    """A loop whose inner loop adds to the first carry, %a; `other` computes %q, the second carry %b, after it."""
    text = looping(
        f"{V} {V}",
        f"""%ten = stablehlo.constant dense<10> : tensor<i32>
        %z:2 = stablehlo.while(%m = %i, %w = %a) : tensor<i32>, {V}
        cond {{
          %d = stablehlo.compare LT, %m, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %d : tensor<i1>
        }} do {{
          %f = stablehlo.sine %b : {V}
          %g = stablehlo.add %w, %f : {V}
          %l = stablehlo.add %m, %one : tensor<i32>
          stablehlo.return %l, %g : tensor<i32>, {V}
        }}
        {other}""",
    )
    return text.replace("return %j, %p,", "return %j, %z#1,")


LOOPS = {
    "exchange": looping(f"{V} {V}", f"%p = stablehlo.negate %b : {V}\n%q = stablehlo.add %a, %b : {V}"),
    "turned": looping(
        f"{V} {M}",
        f"""%p = stablehlo.reverse %a, dims = [0] : {V}
        %t = stablehlo.transpose %b, dims = [1, 0] : ({M}) -> {M}
        %h = stablehlo.constant dense<0.5> : {M}
        %u = stablehlo.multiply %t, %h : {M}
        %q = stablehlo.add %b, %u : {M}""",
    ),
    "matrix": looping(
        f"{V} {M} tensor<7x6xf64>",
        f"""%v = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : ({M}, {V}) -> {V}
        %w = stablehlo.tanh %v : {V}
        %s = stablehlo.slice %w [1:6] : ({V}) -> tensor<5xf64>
        %zero64 = stablehlo.constant dense<0.0> : tensor<f64>
        %x = stablehlo.pad %s, %zero64, low = [0], high = [1], interior = [0]
          : (tensor<5xf64>, tensor<f64>) -> {V}
        %p = stablehlo.add %x, %a : {V}
        %o = stablehlo.dot_general %p, %w, contracting_dims = [] x [] : ({V}, {V}) -> {M}
        %q = stablehlo.subtract %b, %o : {M}
        %row = stablehlo.reshape %p : ({V}) -> tensor<1x6xf64>
        %r = stablehlo.dynamic_update_slice %c, %row, %i, %zero
          : (tensor<7x6xf64>, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> tensor<7x6xf64>""",
    ),
    "shifted": looping(
        "tensor<7x6xf64>",
        """%old = stablehlo.dynamic_slice %a, %zero, %zero, sizes = [1, 6]
          : (tensor<7x6xf64>, tensor<i32>, tensor<i32>) -> tensor<1x6xf64>
        %new = stablehlo.add %old, %old : tensor<1x6xf64>
        %p = stablehlo.dynamic_update_slice %a, %new, %j, %zero
          : (tensor<7x6xf64>, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> tensor<7x6xf64>""",
        9,
    ),
    "twice": looping(
        f"{V} tensor<i64>",
        f"""%ten = stablehlo.constant dense<10> : tensor<i64>
        %z:2 = stablehlo.while(%m = %b, %w = %a) : tensor<i64>, {V}
        cond {{
          %d = stablehlo.compare LT, %m, %ten : (tensor<i64>, tensor<i64>) -> tensor<i1>
          stablehlo.return %d : tensor<i1>
        }} do {{
          %two = stablehlo.constant dense<2> : tensor<i64>
          %e = stablehlo.add %m, %two : tensor<i64>
          %f = stablehlo.sine %w : {V}
          %g = stablehlo.add %f, %a : {V}
          stablehlo.return %e, %g : tensor<i64>, {V}
        }}
        %p = stablehlo.multiply %z#1, %a : {V}
        %q = stablehlo.subtract %z#0, %ten : tensor<i64>""",
    ),
    "solved": looping(
        f"{V} {M}",
        f"""%c = stablehlo.reshape %a : ({V}) -> tensor<6x1xf64>
        %x = "stablehlo.triangular_solve"(%b, %c) <{{left_side = true, lower = true, unit_diagonal = true,
          transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({M}, tensor<6x1xf64>) -> tensor<6x1xf64>
        %s = stablehlo.reshape %x : (tensor<6x1xf64>) -> {V}
        %p = stablehlo.tanh %s : {V}
        %q = stablehlo.add %b, %b : {M}""",
        4,
    ),
    "put": looping(
        V,
        f"""%k = stablehlo.multiply %i, %i : tensor<i32>
        %x = stablehlo.dynamic_slice %a, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %u = stablehlo.reshape %x : (tensor<1xf64>) -> tensor<f64>
        %at = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
        %p = "stablehlo.scatter"(%a, %at, %u) ({{
        ^bb0(%old: tensor<f64>, %new: tensor<f64>):
          %sum = stablehlo.add %old, %new : tensor<f64>
          stablehlo.return %sum : tensor<f64>
        }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0]>}} : ({V}, tensor<1xi32>, tensor<f64>) -> {V}""",
    ),
    "taken": looping(
        M,
        f"""%k = stablehlo.multiply %i, %i : tensor<i32>
        %two = stablehlo.constant dense<2> : tensor<1xi32>
        %r = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
        %s = stablehlo.subtract %two, %r : tensor<1xi32>
        %at = stablehlo.concatenate %s, %r, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %g = "stablehlo.gather"(%a, %at) {{dimension_numbers = #stablehlo.gather<offset_dims = [0],
          collapsed_slice_dims = [1], start_index_map = [1, 0]>, slice_sizes = array<i64: 4, 1>}}
          : ({M}, tensor<2xi32>) -> tensor<4xf64>
        %t = stablehlo.sine %g : tensor<4xf64>
        %u = stablehlo.reshape %t : (tensor<4xf64>) -> tensor<1x4xf64>
        %p = stablehlo.dynamic_update_slice %a, %u, %i, %k
          : ({M}, tensor<1x4xf64>, tensor<i32>, tensor<i32>) -> {M}""",
    ),
    "flags": looping(
        "tensor<6xi1>",
        """%x = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<6xi1>, tensor<i32>) -> tensor<1xi1>
        %y = stablehlo.not %x : tensor<1xi1>
        %p = stablehlo.dynamic_update_slice %a, %y, %j
          : (tensor<6xi1>, tensor<1xi1>, tensor<i32>) -> tensor<6xi1>""",
    ),
    "predicates": looping(
        f"{V} tensor<6xi1> tensor<i1>",
        f"""%s = stablehlo.sine %a : {V}
        %t = stablehlo.add %s, %a : {V}
        %p = stablehlo.select %b, %t, %s : tensor<6xi1>, {V}
        %d = stablehlo.compare LT, %t, %a : ({V}, {V}) -> tensor<6xi1>
        %q = stablehlo.xor %d, %b : tensor<6xi1>
        %false = stablehlo.constant dense<false> : tensor<i1>
        %e = stablehlo.reduce(%q init: %false) applies stablehlo.or across dimensions = [0]
          : (tensor<6xi1>, tensor<i1>) -> tensor<i1>
        %w:2 = stablehlo.while(%m = %c, %v = %i) : tensor<i1>, tensor<i32>
        cond {{
          stablehlo.return %m : tensor<i1>
        }} do {{
          %u = stablehlo.add %v, %one : tensor<i32>
          %h = stablehlo.compare LT, %u, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %h, %u : tensor<i1>, tensor<i32>
        }}
        %k = stablehlo.compare EQ, %w#1, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %r = stablehlo.and %e, %k : tensor<i1>""",
    ),
    "unsigned": looping(
        "tensor<ui32> tensor<6xui8>",
        """%three = stablehlo.constant dense<3> : tensor<ui32>
        %h = stablehlo.divide %a, %three : tensor<ui32>
        %p = stablehlo.add %h, %three : tensor<ui32>
        %k = stablehlo.convert %a : (tensor<ui32>) -> tensor<ui8>
        %r = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui8>) -> tensor<6xui8>
        %s = stablehlo.add %b, %r : tensor<6xui8>
        %q = stablehlo.reverse %s, dims = [0] : tensor<6xui8>""",
    ),
    "branches": looping(
        f"{V} {V}",
        f"""%low = stablehlo.constant dense<3> : tensor<i32>
        %k = stablehlo.subtract %i, %low : tensor<i32>
        %p, %s = "stablehlo.case"(%k) ({{
          %u = stablehlo.sine %a : {V}
          stablehlo.return %u, %a : {V}, {V}
        }}, {{
          %u = stablehlo.log %a : {V}
          stablehlo.return %b, %u : {V}, {V}
        }}, {{
          stablehlo.return %b, %a : {V}, {V}
        }}) : (tensor<i32>) -> ({V}, {V})
        %two = stablehlo.constant dense<2> : tensor<i32>
        %even = stablehlo.remainder %i, %two : tensor<i32>
        %go = stablehlo.compare EQ, %even, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %q = "stablehlo.if"(%go) ({{
          stablehlo.return %s : {V}
        }}, {{
          %v = "stablehlo.case"(%even) ({{
            %w = stablehlo.add %s, %p : {V}
            stablehlo.return %w : {V}
          }}, {{
            stablehlo.return %p : {V}
          }}) : (tensor<i32>) -> {V}
          stablehlo.return %v : {V}
        }}) : (tensor<i1>) -> {V}""",
    ),
    "put and kept": looping(
        f"{V} {M}",
        f"""%s = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : ({M}, {V}) -> {V}
        %x = stablehlo.dynamic_slice %s, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %p = stablehlo.dynamic_update_slice %a, %x, %i : ({V}, tensor<1xf64>, tensor<i32>) -> {V}
        %r = stablehlo.reshape %a : ({V}) -> tensor<1x6xf64>
        %q = stablehlo.dynamic_update_slice %b, %r, %i, %zero
          : ({M}, tensor<1x6xf64>, tensor<i32>, tensor<i32>) -> {M}""",
        6,
    ),
    "summed inside": summed(f"%q = stablehlo.tanh %b : {V}"),
    "two put": looping(
        V,
        f"""%five = stablehlo.constant dense<5> : tensor<i32>
        %k = stablehlo.subtract %five, %i : tensor<i32>
        %x = stablehlo.dynamic_slice %a, %i, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %y = stablehlo.dynamic_slice %a, %k, sizes = [1] : ({V}, tensor<i32>) -> tensor<1xf64>
        %b = stablehlo.dynamic_update_slice %a, %y, %i : ({V}, tensor<1xf64>, tensor<i32>) -> {V}
        %p = stablehlo.dynamic_update_slice %b, %x, %k : ({V}, tensor<1xf64>, tensor<i32>) -> {V}""",
        3,
    ),
}


@pytest.fixture(scope="module")
def kernels(request: pytest.FixtureRequest) -> Joined:
    """The loops, compiled to one module; all tests fail if IREE rejects one as a kernel."""
    names = selected(request, "test_loops_are_kernels")
    return compiled_as_one({name: text for name, text in LOOPS.items() if name in names}, kernels=True)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_kernels(name: str, kernels: Joined) -> None:
    program, arguments = tiduc.load(LOOPS[name]), drawn(LOOPS[name])
    source = source_of(program)
    assert isinstance(source.stablehlo, str) and source.stablehlo.count("flow.dispatch.region") == 1
    for y, expected in zip(kernels[name](*arguments), by_xla(program.text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_gradients_with_checkpoints_are_kernels() -> None:
    """The loop over a segment adds to the derivative of w, which the loop over all segments carries."""

    def f(xs: Any, w: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, x: (jnp.tanh(w @ c + x), None), jnp.ones(6), xs)[0])

    arguments = random((12, 6), (6, 6))
    text = grad(f, arguments, "sqrt")
    source = source_of(tiduc.load(text))
    assert isinstance(source.stablehlo, str) and source.stablehlo.count("flow.dispatch.region") == 2
    actual = tiduc.Executable(compile_source(source_of(tiduc.load(text), HERE)))(*arguments)
    for y, expected in zip(actual, by_xla(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_carries_that_are_read_after_an_inner_loop() -> None:
    text = summed(f"%q = stablehlo.subtract %a, %b : {V}")
    arguments = drawn(text)
    for y, expected in zip(tiduc.load(text).compile()(*arguments), by_xla(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_segments_of_large_stacks_are_kernels_each() -> None:
    """The stacks of a segment take more than a kernel's stack, so the host runs the segments."""

    def f(x: Any, w: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, _: (c * (1.5 - c * w), None), x, None, 100)[0])

    arguments = random((4000,), (4000,))
    text = grad(f, arguments, "sqrt")
    source = source_of(tiduc.load(text))
    assert isinstance(source.stablehlo, str) and source.stablehlo.count("flow.dispatch.region") == 3
    actual = tiduc.Executable(compile_source(source_of(tiduc.load(text), HERE)))(*arguments)
    for y, expected in zip(actual, by_xla(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def compiles(name: str) -> bool:
    """Whether the loop compiles as one dispatch."""
    try:
        compile_source(source_of(tiduc.load(LOOPS[name])))
    except CompileError:
        return False
    return True


@pytest.mark.slow
def test_which_loops_compile_as_kernels() -> None:
    """The other loops are compiled unchanged; if this test fails, IREE supports more loops."""
    assert [name for name in LOOPS if not compiles(name)] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["i8", "i16"])
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_narrow_starts_have_a_sign(kind: str, target: str) -> None:
    """Outside of a dispatch, the host reads narrow start indices as signed numbers, after they are widened."""
    text = looping(
        V,
        f"""%k = stablehlo.subtract %one, %i : tensor<i32>
        %n = stablehlo.convert %k : (tensor<i32>) -> tensor<{kind}>
        %x = stablehlo.dynamic_slice %a, %n, sizes = [2] : ({V}, tensor<{kind}>) -> tensor<2xf64>
        %u = stablehlo.add %x, %x : tensor<2xf64>
        %b = stablehlo.dynamic_update_slice %a, %u, %n : ({V}, tensor<2xf64>, tensor<{kind}>) -> {V}
        %r = stablehlo.reshape %n : (tensor<{kind}>) -> tensor<1x{kind}>
        %p = "stablehlo.scatter"(%b, %r, %one64) ({{
        ^bb0(%old: tensor<f64>, %new: tensor<f64>):
          stablehlo.return %new : tensor<f64>
        }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0]>}} : ({V}, tensor<1x{kind}>, tensor<f64>) -> {V}""",
    ).replace("%zero =", "%one64 = stablehlo.constant dense<1.0> : tensor<f64>\n%zero =")
    arguments = drawn(text)
    for y, expected in zip(
        tiduc.load(text).compile(target)(*arguments), by_xla(text, arguments), strict=True
    ):
        np.testing.assert_array_equal(y, expected)


W = "tensor<200x200xf64>"
LARGE = looping(W, f"%p = stablehlo.dot %a, %a : ({W}, {W}) -> {W}")
GATHER = looping(
    V,
    f"""%k = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<i32>) -> tensor<6x1xi32>
    %p = "stablehlo.gather"(%a, %k) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}} : ({V}, tensor<6x1xi32>) -> {V}""",
)


@pytest.mark.parametrize("text", [LARGE, GATHER])
def test_large_or_unusual_loops_stay(text: str) -> None:
    source, copying, *_ = sources_of(tiduc.load(text))
    assert isinstance(source.stablehlo, str) and "flow.dispatch" not in source.stablehlo
    assert TOPOLOGY in source.stablehlo and TOPOLOGY not in str(copying.stablehlo)


def test_kernels_are_for_one_thread() -> None:
    vmfb = tiduc.load(LOOPS["turned"]).compile().vmfb
    with pytest.raises(TiducError, match="compiled for one thread"):
        tiduc.runtime.load(vmfb, devices=["local-task"])
    threads = source_of(tiduc.load(LOOPS["turned"]), THREADS)
    assert isinstance(threads.stablehlo, str) and "flow.dispatch" not in threads.stablehlo


def test_threads_beside_loops() -> None:
    """A small loop becomes one dispatch even beside a product, which several threads share where it is in tiles."""
    wide = "tensor<300x300xf64>"
    product = f"%w = stablehlo.dot_general %z, %z, contracting_dims = [1] x [0] : ({wide}, {wide}) -> {wide}"
    small = (
        LOOPS["turned"].replace("%b0: ", f"%z: {wide}, %b0: ").replace("return %y", f"{product}\nreturn %y")
    )
    small = small.replace("-> (", f"-> ({wide}, ", 1).replace("return %y#1", "return %w, %y#1")
    small = small.replace(f": {V}, {M}\n    }}", f": {wide}, {V}, {M}\n    }}")
    program = tiduc.load(small)
    source = source_of(program)
    assert "flow.dispatch.region" in str(source.stablehlo)
    assert source.threaded == ("local-task" in str(source.stablehlo))
    vmfb = program.compile().vmfb
    rng = np.random.default_rng(3)
    arguments = [rng.standard_normal(x.type.shape).astype(x.type.dtype) for x in program.signature.inputs]
    one, several = (tiduc.runtime.load(vmfb, devices=[f"local-{how}"])["main"] for how in ("sync", "task"))
    (z,) = [x for x in arguments if x.shape == (300, 300)]
    results = [np.asarray(x) for x in several(*arguments)]
    np.testing.assert_allclose(results[0], z @ z, rtol=1e-10, atol=1e-12)
    for x, y in zip(results, one(*arguments), strict=True):
        np.testing.assert_array_equal(x, np.asarray(y))
    large = looping(wide, f"%p = stablehlo.dot %a, %a : ({wide}, {wide}) -> {wide}")
    assert "local-task" in str(source_of(tiduc.load(large)).stablehlo)


@pytest.mark.more
@pytest.mark.parametrize("combine", ["add", "multiply", "subtract"])
@pytest.mark.parametrize("of", ["products", "sums", "both"])
def test_an_update_combines_two_products_or_sums(of: str, combine: str) -> None:
    """IREE computes both in the part that is updated, one over the other, unless the update has its own array."""
    join = {"add": jnp.add, "multiply": jnp.multiply, "subtract": jnp.subtract}[combine]

    def scanned(x: Any, m: Any, n: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            total = jnp.sum(row[:, :, None] * m, 1)
            first = row @ m if of != "sums" else total
            second = jnp.sin(row) @ n if of == "products" else jnp.sum(jnp.sin(row)[:, :, None] * n, 1)
            return carry + 1, join(first, second)

        return lax.scan(step, 0.0, x)[1]

    given = [x.astype(np.float32) for x in random((5, 4, 32), (32, 64), (32, 64))]
    program = tiduc.from_jax(scanned, *given)
    (found,) = program.compile("cpu")(*given)
    (wanted,) = program.compile("cpu", engine="xla")(*given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
