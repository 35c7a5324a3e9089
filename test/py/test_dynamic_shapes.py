"""Tests programs with dynamic dimensions: how derivatives get sizes, engines, error messages, and JAX's exports."""

from typing import Any

import numpy as np
import pytest
from cases.dynamic_programs import CASES, SCALAR, XX, X, a, program, reduce, sizes_of
from harness.dynamic_shapes import refined, run
from harness.exports import exported_dynamic
from harness.sources import source_of
from harness.variants import named

from tiduc.dialect.errors import InputError, Unsupported
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.opt import run_pipeline


def test_a_transposed_graph_reads_no_tangent_for_its_size() -> None:
    """The VJP reads sizes only from the argument, so that it stores no residual merely to read the residual's size."""
    text = str(load(CASES["sum"][0]).vjp())
    assert text.count("get_dimension_size") == text.count("get_dimension_size %arg0") == 2


def test_zero_tangents_have_the_sizes_of_their_primals() -> None:
    p = load(f"func.func @main(%x: {X}, %w: {XX}) -> {X} {{ return %x : {X} }}")
    x, w = a(3), a(2, 4)
    for program_, more in ((p.vjp(["arg1"]), [a(3)]), (p.vjp(["arg1"]).jvp(["arg0"]), [a(3), a(3)])):
        zero = run(program_, [x, w, *more])[1]
        np.testing.assert_array_equal(zero, np.zeros((2, 4)))
    np.testing.assert_array_equal(run(p.jvp(["arg1"]), [x, w, w])[1], np.zeros(3))


def test_stages_between_texts_know_the_sizes() -> None:
    """The VJP is correct if the module is printed and parsed after each pass, which must preserve the known sizes."""
    text, points = CASES["sum"]
    for stage in ("import", "linearize", "linear-transpose", "materialize-merge", "lower"):
        module = parse(text)
        run_pipeline(module, f"tidu-{stage}")
        text = str(module)
    (x, v), ct = points[0], a(3)
    y, cx, cv = run(load(text), [x, v, ct])
    np.testing.assert_allclose(cx, np.broadcast_to(2 * np.sqrt(y) * np.sign(x.sum(0) + v) * ct, (2, 3)))
    np.testing.assert_allclose(cv, cx[0].sum())


def test_what_needs_static_sizes_says_how_to_get_them() -> None:
    text = program(f"%x: {XX}, %v: {SCALAR}", X, reduce("multiply"))
    with pytest.raises(Unsupported, match=r"rule for stablehlo.reduce: .*stablehlo-refine-shapes"):
        load(text).jvp()


def test_compiled_for_every_size() -> None:
    """IREE compiles a VJP with dynamic sizes once for all sizes, and refuses an argument of wrong rank.

    tiduc must emit which dimensions a broadcast expands, because IREE must know them.
    """
    text = program(
        f"%x: {XX}, %v: {SCALAR}",
        XX,
        f"""{sizes_of("%x")}
        %0 = stablehlo.reduce(%x init: %v) applies stablehlo.add across dimensions = [1] : ({XX}, {SCALAR}) -> {X}
        %1 = stablehlo.dynamic_broadcast_in_dim %0, %shape, dims = [0] : ({X}, tensor<2xi32>) -> {XX}
        %y = stablehlo.multiply %1, %x : {XX}""",
    )
    program_ = load(text).vjp()
    compiled = program_.compile()
    for sizes in ((2, 3), (5, 1)):
        arguments = [a(*sizes), a(), a(*sizes)]
        for actual, expected in zip(compiled(*arguments), run(program_, arguments), strict=True):
            np.testing.assert_allclose(actual, expected)
    with pytest.raises(InputError, match=r"argument 2 \(result0.cotangent\): expected \?x\?xf64, got 3xf64"):
        compiled(a(2, 3), a(), a(3))


def test_shapes_that_other_dialects_compute() -> None:
    text = program(
        "%x: tensor<?x4xf64>, %w: tensor<4xf64>",
        "tensor<?x4xf64>",
        """%c0 = arith.constant 0 : index
        %d = tensor.dim %x, %c0 : tensor<?x4xf64>
        %n = arith.index_cast %d : index to i64
        %c4 = arith.constant 4 : i64
        %shape = tensor.from_elements %n, %c4 : tensor<2xi64>
        %0 = stablehlo.dynamic_broadcast_in_dim %w, %shape, dims = [1]
          : (tensor<4xf64>, tensor<2xi64>) -> tensor<?x4xf64>
        %y = stablehlo.multiply %0, %x : tensor<?x4xf64>""",
    )
    compiled = load(text).vjp().compile()
    for n in (2, 5):
        x, w, ct = a(n, 4), a(4), a(n, 4)
        y, cx, cw = compiled(x, w, ct)
        np.testing.assert_allclose(y, (x * w) ** 2)
        np.testing.assert_allclose(cx, 2 * x * w**2 * ct)
        np.testing.assert_allclose(cw, (2 * w * x**2 * ct).sum(0))


# ---- JAX's exports -----------------------------------------------------------------------------------------


def _exports() -> dict[str, tuple[Any, list[str], list[list[tuple[int, ...]]]]]:
    import jax
    import jax.numpy as jnp

    def mlp(x: Any, w: Any, b: Any, v: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w + b) @ v) ** 2)

    def layer_norm(x: Any, gain: Any) -> Any:
        centered = x - jnp.mean(x, -1, keepdims=True)
        return centered / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqd,bkd->bqk", q, k) / 2
        causal = jnp.tril(jnp.ones(scores.shape[1:], bool))
        return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(jnp.where(causal, scores, -1e9)), v)

    def moved(x: Any) -> Any:
        y = jnp.concatenate([x, 2 * x], 0)[1:]
        return jnp.pad(y, ((1, 2), (0, 0))).sum(0) * jnp.flip(x, 1).max(0)

    def network(x: Any, w: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return y.reshape(y.shape[0], -1).sum(1)

    return {
        "mlp": (mlp, ["b, 3", "3, 4", "4", "4, 2"], [[(n, 3), (3, 4), (4,), (4, 2)] for n in (2, 5)]),
        "softmax": (jax.nn.softmax, ["b, n"], [[(2, 3)], [(4, 1)]]),
        "layer norm": (layer_norm, ["b, n", "n"], [[(2, 3), (3,)], [(4, 5), (5,)]]),
        "attention": (attention, ["b, n, 4"] * 3, [[(2, 3, 4)] * 3, [(1, 5, 4)] * 3]),
        "moved": (moved, ["b, n"], [[(3, 2)], [(4, 3)]]),
        "network": (network, ["b, 4, 4, 2", "3, 3, 2, 3"], [[(n, 4, 4, 2), (3, 3, 2, 3)] for n in (2, 3)]),
    }


@pytest.mark.parametrize("name", ["mlp", "softmax", "layer norm", "attention", "moved", "network"])
def test_jax_exports(name: str) -> None:
    """Compares the JVP and the VJP with `jax.jvp` and `jax.vjp` at several sizes."""
    import jax
    from jax import export

    function, specifications, points = _exports()[name]
    with jax.enable_x64(True):
        scope = export.SymbolicScope()
        shapes = [export.symbolic_shape(s, scope=scope) for s in specifications]
        arguments = [jax.ShapeDtypeStruct(s, np.float64) for s in shapes]
        p = load(export.export(jax.jit(function))(*arguments).mlir_module())
        jvp, vjp = p.jvp(), p.vjp()
        for sizes in points:
            x, dx = ([a(*s) for s in sizes] for _ in range(2))
            y, dy = jax.jvp(jax.jit(function), x, dx)
            ct = a(*y.shape)
            expected = [y, *jax.vjp(jax.jit(function), *x)[1](ct)]
            for mine, theirs in zip(run(jvp, [*x, *dx]), [y, dy], strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-10)
            for mine, theirs in zip(run(vjp, [*x, ct]), expected, strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-10)


def _of_rows(x: Any) -> tuple[Any, ...]:
    """Results of ops on rows of 64 elements. If shapes were static, passes for speed would rewrite these ops."""
    from jax import lax, nn
    from jax import numpy as jnp

    windows, after_2 = ((2, 1), (1, 1), "VALID"), jnp.pad(x, ((2, 0), (0, 0)))
    zeros = (x.dtype.type(0),) * 2
    return (
        jnp.mean(x * x),
        jnp.var(x, 0),
        nn.softmax(x, -1),
        x.T @ x,
        jnp.einsum("ni,nj->nij", x, x).sum((0, 1)),
        jnp.sort(x, -1),
        lax.reduce_window(x, -jnp.inf, lax.max, *windows),
        lax.reduce_window((x, 2 * x), zeros, lambda p, q: (p[0] + q[0], p[1] + q[1]), *windows),
        jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
        jnp.flip(x, 0) * x,
        jnp.concatenate([x, after_2]),
        jnp.exp(-jnp.abs(x)) + jnp.log1p(x * x) + jnp.sin(x) + lax.rem(x, 2 * x + 9),
    )


@pytest.mark.more
@pytest.mark.parametrize("target", ["cpu", "cpu-threads", "cuda", "vulkan:ampere"])
def test_passes_for_speed_take_dynamic_sizes(target: str) -> None:
    """Compiles a program with dynamic sizes in f32, the type that most passes for speed rewrite.

    For CPUs, compares values with JAX's. For other targets, only asserts that sizes remain dynamic.
    """
    import jax

    p = load(exported_dynamic(_of_rows, "n, 64", dtype=np.float32))
    if target not in ("cpu", "cpu-threads"):
        assert "tensor<?x64xf32>" in str(source_of(p, named(target)).stablehlo)
        return
    compiled = p.compile(target)
    for n in (3, 300):
        x = a(n, 64).astype(np.float32)
        for mine, theirs in zip(compiled(x), jax.tree.leaves(_of_rows(jax.numpy.asarray(x))), strict=True):
            atol = max(2e-4, 1e-5 * float(np.max(np.abs(theirs))))  # the terms of long sums may cancel
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=atol)


def test_refining_makes_all_shapes_static() -> None:
    """Refining a program for given arguments makes all shapes static. Error messages recommend refinement."""
    assert "?" not in refined(CASES["tanh"][0], [a(2, 4)])


def test_dynamic_sizes_of_arguments_are_compared() -> None:
    """A compiled VJP refuses a cotangent of wrong size. Without this check, IREE would read beyond an array's end."""
    text = program(
        f"%x: {X}, %w: {X}", X, f"%y = stablehlo.concatenate %x, %w, %x, dim = 0 : ({X}, {X}, {X}) -> {X}"
    )
    p = load(text).vjp(["arg0"])
    assert [(n.input, n.constant, n.terms) for n in p.signature.sizes] == [(2, 0, ((2, 0, 0), (1, 1, 0)))]
    compiled = p.compile()
    _, cx = compiled(x := a(2), a(3), ct := a(7))
    np.testing.assert_allclose(cx, 2 * x * (ct[:2] + ct[5:]))
    told = (
        r"argument 2 \(result0.cotangent\): expected size 7 of dimension 0, given the shape of x and w, got 6"
    )
    with pytest.raises(InputError, match=told):
        compiled(a(2), a(3), a(6))
    tangents = load(text).jvp().signature.sizes
    assert [(n.input, n.terms) for n in tangents] == [(2, ((1, 0, 0),)), (3, ((1, 1, 0),))]


def test_sizes_that_a_program_asserts_to_be_equal() -> None:
    """If the program asserts that two sizes are equal, the VJP of a broadcast between them needs no reshape.

    The compiled program refuses arguments whose sizes violate the assertion. JAX's exports contain such assertions.
    """
    text = f"""func.func @main(%x: {XX}, %w: {X}) -> {XX} {{
      %n = stablehlo.get_dimension_size %x, dim = 1 : ({XX}) -> tensor<i32>
      %m = stablehlo.get_dimension_size %w, dim = 0 : ({X}) -> tensor<i32>
      %p = stablehlo.compare EQ, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%p, %m, %n) {{has_side_effect = true}}
        : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
      {sizes_of("%x")}
      %0 = stablehlo.dynamic_broadcast_in_dim %w, %shape, dims = [1] : ({X}, tensor<2xi32>) -> {XX}
      %1 = stablehlo.multiply %0, %x : {XX}
      return %1 : {XX}
    }}""".replace("%n0 =", "%k0 =").replace("reshape %n0", "reshape %k0")
    p = load(text).vjp()
    assert "dynamic_reshape" not in str(p)
    x, w, ct = a(2, 3), a(3), a(2, 3)
    compiled = p.compile()
    for actual, expected in zip(compiled(x, w, ct), [w * x, w * ct, (x * ct).sum(0)], strict=True):
        np.testing.assert_allclose(actual, expected)
    with pytest.raises(
        InputError, match=r"\(w\): expected size 3 of dimension 0, given the shape of x, got 1"
    ):
        compiled(x, a(1), ct)


def test_broadcasts_in_loops_state_what_they_expand() -> None:
    """A broadcast of dynamic sizes in a loop states which dimensions it expands, because IREE requires this.

    The loop subtracts from each element of x the sum of its row, three times.
    """
    text = f"""func.func @main(%x: {XX}) -> {XX} {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %z, %y = %x) : tensor<i32>, {XX}
      cond {{
        %n = stablehlo.constant dense<3> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %zero = stablehlo.constant dense<0.0> : {SCALAR}
        %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
          : ({XX}, {SCALAR}) -> {X}
        {sizes_of("%y")}
        %0 = stablehlo.dynamic_broadcast_in_dim %s, %shape, dims = [0] : ({X}, tensor<2xi32>) -> {XX}
        %1 = stablehlo.subtract %y, %0 : {XX}
        stablehlo.return %j, %1 : tensor<i32>, {XX}
      }}
      return %r#1 : {XX}
    }}"""
    p = load(text)
    assert "known_nonexpanding_dimensions = array<i64: 0>" in str(p)
    x = expected = a(2, 3)
    for _ in range(3):
        expected = expected - expected.sum(1, keepdims=True)
    np.testing.assert_allclose(run(p, [x])[0], expected)


def test_broadcasting_ops_of_chlo_on_iree() -> None:
    """The VJP of a broadcasting chlo op is correct on IREE, although only run time tells which operand is expanded."""
    text, points = CASES["broadcast_multiply"]
    compiled = load(text).vjp(["x"]).compile()
    for x, w in points:
        ct = a(*w.shape[:1], max(x.size, w.shape[1]))
        z, cx = compiled(x, w, ct)
        np.testing.assert_allclose(z, (x * w) ** 2)
        of_rows = np.sum(2 * x * w * w * ct, axis=0)
        np.testing.assert_allclose(cx, of_rows if x.size > 1 else [np.sum(of_rows)])
