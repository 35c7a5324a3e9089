"""Tests which loops become single dispatches on IREE, and the values that they compute."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from cases.kernel_loops import LOOPS, M, V, summed
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


@pytest.fixture(scope="module")
def kernels(request: pytest.FixtureRequest) -> Joined:
    """Fixture: the selected loops, compiled to one module. If IREE rejects one loop as a kernel, all tests fail."""
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
    """The gradient of a scan with checkpoints becomes two dispatches, and its values equal XLA's.

    The outer loop, over segments, carries the gradient of w. The inner loop, within a segment, adds to it.
    """

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
    """If the residuals of all segments are too large for one dispatch, each segment becomes a dispatch.

    The host runs the loop over segments. Values equal XLA's.
    """

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
    """Whether IREE compiles the source of a loop after the passes, which may have made the loop a dispatch."""
    try:
        compile_source(source_of(tiduc.load(LOOPS[name])))
    except CompileError:
        return False
    return True


@pytest.mark.slow
def test_which_loops_compile_as_kernels() -> None:
    """IREE compiles each loop of `LOOPS`."""
    assert [name for name in LOOPS if not compiles(name)] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["i8", "i16"])
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_narrow_starts_have_a_sign(kind: str, target: str) -> None:
    """Start indices of narrow unsigned types are read as unsigned, and those of signed types as signed.

    Outside a dispatch, IREE's host code would widen the indices and read them as signed.
    """
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
    """A small loop becomes one dispatch even if the program also has a matrix product on several threads.

    A loop that contains a large product does not become a dispatch.
    """
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
    """A loop that stores the combination of two products or sums gives XLA's values.

    The stored value is computed in a separate array. Otherwise, IREE would compute both terms in the memory of the
    stored value, and the second would overwrite the first.
    """
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
