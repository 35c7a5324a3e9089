"""The programs that flags.py times, and the rewrites of backends/iree/fast/ that should make them faster."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import suite
from jax import lax

import tiduc

Program = Callable[[], tuple[str, Sequence[Any]]]
"""A function that returns the StableHLO text of a program, and arguments for it."""


class Rewrite(NamedTuple):
    """The programs that a rewrite should make faster, and the flags of IREE that may replace the rewrite.

    If the rewrite is a flag or a part of a pass, `part` has the name of an object in the sources, and its value for
    runs without the rewrite. Otherwise, the rewrite is the module of backends/iree/fast/ with its name.
    """

    programs: Sequence[str]
    flags: Sequence[str] = ()
    part: tuple[str, Any] | None = None


LOOPS = "tiduc.backends.iree.fast.loops.loops_to_kernels."
SUMS = ("split", "multi-use")
CONVOLUTION_GRADIENTS = [
    f"toward {argument}, {order}"
    for order in ("channels last", "channels first")
    for argument in ("image", "kernel")
]
REWRITES = {
    "convolutions_to_kernels": Rewrite(
        ("images", "few channels", "first", "strided", *CONVOLUTION_GRADIENTS),
        ("im2col", "channels-last"),
    ),
    "reassociation": Rewrite(
        ("ode", "kmeans", "softmax of rows", "rows", "products of rows"),
        part=("tiduc.backends.iree.plan.REASSOCIATED", ()),
    ),
    "reductions_in_lanes": Rewrite(
        ("rows", "squares", "odd squares", "gelu", "softmax", "softmax of rows", "gmm", "kmeans"), SUMS
    ),
    "sums_in_blocks": Rewrite(("columns", "biases"), SUMS),
    "loops_by_count": Rewrite(("countdown",)),
    "loops_to_kernels": Rewrite(
        ("ode", "lstm", "ode by JAX", "lstm by JAX", "recurrence", "betainc", "expm")
    ),
    "packing": Rewrite(("ode by JAX", "lstm by JAX"), part=(LOOPS + "pack", lambda loop: None)),
    "carries": Rewrite(
        ("betainc", "recurrence"),
        part=("tiduc.backends.iree.fast.loops.signed_carries._is_converted", lambda new, old: False),
    ),
    "branches": Rewrite(
        ("expm",), part=("tiduc.backends.iree.fast.loops.kernel_forms.is_cheap", lambda op: False)
    ),
    "single_updates": Rewrite(
        ("recurrence",),
        part=("tiduc.backends.iree.fast.ops.scatter_loops.is_single", lambda op, places: False),
    ),
    "scatter_loops": Rewrite(("look-up", "bundle", "segments")),
    "window_loops": Rewrite(("pooling by JAX",)),
    "reversals": Rewrite(("reverse", "cumulative")),
    "flat_products": Rewrite(("layer",)),
    "row_reductions": Rewrite(("uneven rows", "products of rows")),
    "row_gathers": Rewrite(("rows by index", "pixels by index")),
    "flat_gathers": Rewrite(("pixels by index",)),
    "products_of_few_rows": Rewrite(
        ("one row", "three columns"),
        part=(
            "tiduc.backends.iree.fast.products.products_in_tiles._is_thin",
            lambda sizes, count: False,
        ),
    ),
    "padded_sums": Rewrite(("bundle", "lstm")),
    "iotas": Rewrite(("argmax",)),
    "insertion_sort": Rewrite(("short rows", "largest")),
    "exponentials": Rewrite(("exponential", "tanh", "logistic")),
    "logarithms": Rewrite(("log", "log1p")),
    "remainders": Rewrite(("remainder",)),
}
"""Maps the names of rewrites to the rewrites."""


def of(
    function: Callable[..., Any], *sizes: Any, wrt: Sequence[int] = (), dtype: Any = np.float32
) -> Program:
    """Returns a program that computes a function, or its gradient if `wrt` is not empty.

    `sizes` has, for each argument, the shape of a random array or the value itself.
    """

    def program() -> tuple[str, Sequence[Any]]:
        draw = np.random.default_rng(0).uniform
        arguments = [draw(0.1, 1, x).astype(dtype) if isinstance(x, tuple) else x for x in sizes]
        text = jax.jit(function, keep_unused=True).lower(*arguments).as_text()
        return tiduc.load(text).grad(list(wrt)).text if wrt else text, arguments

    return program


def ours(name: str) -> Program:
    """Returns a program that is tiduc's gradient of a case of suite.py."""
    return lambda: (suite.texts(suite.cases()[name])[0], suite.cases()[name].arguments)


def theirs(name: str) -> Program:
    """Returns a program that is JAX's gradient of a case of suite.py."""
    return lambda: (suite.texts(suite.cases()[name])[1], suite.cases()[name].arguments)


def convolved(strides: int, layout: str, kernel: str) -> Callable[[Any, Any], Any]:
    """Returns a function that computes the convolution of an image and a kernel in these layouts."""
    numbers = (layout, kernel, layout)
    return lambda x, w: lax.conv_general_dilated(x, w, (strides, strides), "SAME", dimension_numbers=numbers)


def toward(argument: int, layout: str, kernel: str) -> Program:
    """Returns a program that computes the cotangent of one argument of a convolution.

    The convolution maps 16 channels to 32 channels with stride 2.
    """
    convolution = convolved(2, layout, kernel)
    x, w, ct = ((8, 32, 32, 16), (3, 3, 16, 32), (8, 16, 16, 32))
    if layout == "NCHW":
        x, w, ct = (8, 16, 32, 32), (32, 16, 3, 3), (8, 32, 16, 16)
    return of(lambda x, w, ct: jnp.sum(convolution(x, w) * ct), x, w, ct, wrt=(argument,))


def recurrence(c: Any) -> Any:
    """Returns the sum of c after 20 iterations of c[i] = 2 c[i] + c[i - 1]."""
    return jnp.sum(lax.fori_loop(1, 21, lambda i, c: c.at[i].set(2 * c[i] + c[i - 1]), c))


def countdown(x: Any) -> Any:
    """Runs a loop of 200 steps whose counter decreases. It cannot become a kernel, because each step sorts."""

    def step(state: Any) -> Any:
        i, x = state
        return i - 1, jnp.sort(jnp.sin(x * i))

    return lax.while_loop(lambda state: state[0] > 0, step, (200, x))[1]


def pooled(x: Any) -> Any:
    """Returns the sum of the squares of the maxima over overlapping windows."""
    y = lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return jnp.sum(y**2)


IDS = np.random.default_rng(1).integers(0, 1000, 512, dtype=np.int32)
PIXELS = np.random.default_rng(2).integers(0, 1000, (2, 20_000), dtype=np.int32)
MANY, F64 = (100_000,), np.float64
PROGRAMS: dict[str, Program] = {
    **{name: ours(name) for name in suite.cases()},
    "ode by JAX": theirs("ode"),
    "lstm by JAX": theirs("lstm"),
    "few channels": of(convolved(2, "NCHW", "OIHW"), (1, 3, 112, 112), (32, 3, 7, 7)),
    "first": of(convolved(1, "NCHW", "OIHW"), (4, 16, 32, 32), (32, 16, 3, 3)),
    "strided": of(convolved(2, "NCHW", "OIHW"), (4, 16, 32, 32), (32, 16, 3, 3)),
    "toward image, channels last": toward(0, "NHWC", "HWIO"),
    "toward kernel, channels last": toward(1, "NHWC", "HWIO"),
    "toward image, channels first": toward(0, "NCHW", "OIHW"),
    "toward kernel, channels first": toward(1, "NCHW", "OIHW"),
    "softmax": of(lambda x: jax.nn.softmax(x, 1), (1000, 1000)),
    "softmax of rows": of(lambda x: jnp.sum(jax.nn.softmax(x, 1) ** 2), (500, 400), wrt=(0,)),
    "rows": of(lambda x: jnp.sum(x, 1), (500, 400)),
    "columns": of(lambda x: jnp.sum(jnp.exp(x), 0), (20_000, 8)),
    "biases": of(lambda x: jnp.sum(x, (0, 1, 2)), (8, 112, 112, 16)),
    "squares": of(lambda x: jnp.sum(x * x), MANY),
    "products of rows": of(lambda x, y: jnp.sum(x * y, 1), (503, 300), (503, 300)),
    "odd squares": of(lambda x: jnp.sum(x * x), (503, 300)),
    "gelu": of(lambda x: jnp.sum(jax.nn.gelu(x) ** 2), MANY),
    "countdown": of(countdown, (16,)),
    "recurrence": of(recurrence, (21,), wrt=(0,)),
    "betainc": of(lambda a, x: jax.scipy.special.betainc(a, 2 * a, x), (1000,), (1000,)),
    "expm": of(lambda x: jnp.sum(jax.scipy.linalg.expm(x)), (8, 8), wrt=(0,)),
    "layer": of(lambda x, w: jnp.tanh(x @ w), (4, 32, 256), (256, 1024)),
    "look-up": of(lambda x, i: jnp.sum(x[i] ** 2), (1000, 64), IDS, wrt=(0,)),
    "rows by index": of(lambda x, i: x[i], (1000, 300), IDS),
    "pixels by index": of(lambda x, i, j: x[i, j], (1000, 1000), *PIXELS),
    "uneven rows": of(lambda x: jnp.sum((x - jnp.mean(x, 1, keepdims=True)) ** 2, 1), (100, 5607)),
    "one row": of(lambda x, w: x @ w.T, (1, 1001), (503, 1001)),
    "three columns": of(lambda x, w: x @ w, (1001, 503), (503, 3)),
    "segments": of(lambda x: jax.ops.segment_max(x, IDS[:400] % 50, 50), (400,), wrt=()),
    "pooling by JAX": of(jax.grad(pooled), (8, 28, 28, 16)),
    "reverse": of(lambda x: x[::-1, ::-1] * 2, (500, 500)),
    "cumulative": of(lambda x: lax.cumsum(x, 1, reverse=True), (100, 500)),
    "argmax": of(lambda x: jnp.argmax(x, 0), (500, 400)),
    "short rows": of(lambda x: jnp.sort(x, 1), (200, 16)),
    "largest": of(lambda x: jnp.sum(lax.top_k(x, 5)[0] ** 2), (64, 200), wrt=(0,)),
    "exponential": of(jnp.exp, MANY, dtype=F64),
    "tanh": of(jnp.tanh, MANY, dtype=F64),
    "logistic": of(jax.nn.sigmoid, MANY, dtype=F64),
    "log": of(jnp.log, MANY, dtype=F64),
    "log1p": of(jnp.log1p, MANY, dtype=F64),
    "remainder": of(lambda x, y: lax.rem(x, y), MANY, MANY),
}
"""Maps the names of programs to the programs. Their element type is f32, except for some functions in f64."""
