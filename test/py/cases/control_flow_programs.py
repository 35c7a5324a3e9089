"""JAX programs with loops, branches and calls. The arguments are f64 numbers or integers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
UNBOUNDED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
"""Programs with loops whose trip count depends on the data. JAX cannot differentiate these programs in reverse mode."""

LONG = {"fori_thousand"}
"""The names of programs that the reference interpreter runs slowly."""


def program(*shapes: Any, of: dict[str, Any] = PROGRAMS) -> Callable[[Any], Any]:
    """Adds the decorated function to a table. A shape stands for a random argument. Other values are the arguments."""

    def declare(function: Any) -> Any:
        random = np.random.default_rng(len(of))
        arguments = [
            s if isinstance(s, np.ndarray | np.generic | int) else 0.2 + 0.6 * random.random(s)
            for s in shapes
        ]
        of[function.__name__] = function, tuple(arguments)
        return function

    return declare


# ---- branches ----------------------------------------------------------------------------------------------


@program((3,), (3,))
def cond(x: Any, y: Any) -> Any:
    return lax.cond(x[0] < y[0], lambda: jnp.sin(x) * y, lambda: jnp.cos(x * y) + x)


@program(np.int64(1), (3,), (3,))
def switch(i: Any, x: Any, y: Any) -> Any:
    return lax.switch(i, [lambda x, y: x, lambda x, y: x * y * jnp.exp(x), lambda x, y: y[::-1]], x, y)


@program((), ())
def cond_nested(x: Any, y: Any) -> Any:
    def inner(x: Any, y: Any) -> Any:
        return lax.cond(y > 0.1, lambda: x * y**2, lambda: x)

    return lax.cond(x > 0.0, lambda: inner(jnp.sin(x), y), lambda: inner(y, x))


@program((4,))
def cond_in_scan(x: Any) -> Any:
    def body(c: Any, v: Any) -> Any:
        c = lax.cond(v > 0.5, lambda: jnp.sin(c) * v, lambda: c + v**2)
        return c, c * v

    return lax.scan(body, 0.3, x)


@program((3,))
def cond_inactive_branch(x: Any) -> Any:
    return lax.cond(x[0] > 10.0, lambda: x * x, lambda: jnp.ones_like(x))


# ---- counted loops -------------------------------------------------------------------------------------------


@program((3,), (3,))
def fori(x: Any, w: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, c: jnp.sin(c * w) + 0.1 * i, x)


@program((3,))
def fori_none(x: Any) -> Any:
    return lax.fori_loop(0, 0, lambda i, c: c * c, x) * x


@program((3,))
def fori_once(x: Any) -> Any:
    return lax.fori_loop(3, 4, lambda i, c: c * x * i, x)


@program((2,))
def fori_two_carries(x: Any) -> Any:
    return lax.fori_loop(0, 17, lambda i, c: (c[1] * 0.9, jnp.sin(c[0]) + c[1] * 0.1), (x, x * x))


@program(())
def fori_thousand(x: Any) -> Any:
    return lax.fori_loop(0, 1000, lambda i, c: c + 0.001 * jnp.sin(c * x), x)


@program((3, 3), (3,))
def fori_matrix(a: Any, x: Any) -> Any:
    return lax.fori_loop(0, 6, lambda i, c: jnp.tanh(a @ c) + c[i % 3], x)


@program((4, 3))
def fori_update(x: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return c.at[i].set(jnp.sin(c[i - 1]) * c[i])

    return lax.fori_loop(1, 4, body, x)


@program((3,))
def becomes_active(x: Any) -> Any:
    return lax.fori_loop(
        0, 4, lambda i, c: (c[1], c[1] * x + c[0], c[2] + 1.0), (jnp.ones(3), jnp.zeros(3), 0.0)
    )[0]


@program((3,))
def nested_loops(x: Any) -> Any:
    def outer(i: Any, c: Any) -> Any:
        return lax.fori_loop(0, 3, lambda j, d: jnp.sin(d * x) + 0.1 * c * j, c)

    return lax.fori_loop(0, 4, outer, x)


@program((5, 2), (2,))
def scan_outputs(xs: Any, w: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = jnp.tanh(c * w + x)
        return c, c * c

    return lax.scan(body, jnp.zeros(2), xs)


@program((5, 2), (2,))
def scan_reverse(xs: Any, w: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = jnp.cos(c * w) * x
        return c, c + x

    return lax.scan(body, w, xs, reverse=True)


@program((5,), np.arange(5))
def scan_integers(xs: Any, ns: Any) -> Any:
    def body(c: Any, both: Any) -> Any:
        x, n = both
        return (c[0] * x + n, c[1] + n), (c[0] * c[0], c[1])

    return lax.scan(body, (1.0, 0), (xs, ns))


@program((3, 4), (4, 4), (3, 4), (2, 3))
def rnn(wx: Any, wh: Any, b: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ wx + h @ wh + b[0])
        return h, h

    return lax.scan(cell, jnp.zeros(4), xs)[1]


@program((3, 8), (2, 8), (8,), (6, 3))
def lstm(wx: Any, wh: Any, b: Any, xs: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, (jnp.zeros(2), jnp.zeros(2)), xs)[1]


@program((3, 6), (2, 6), (4, 3))
def gru(wx: Any, wh: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        r, z, _ = jnp.split(jax.nn.sigmoid(x @ wx + h @ wh), 3)
        n = jnp.tanh(x @ wx[:, 4:] + r * (h @ wh[:, 4:]))
        h = (1 - z) * n + z * h
        return h, None

    return lax.scan(cell, jnp.zeros(2), xs)[0]


@program((2,), (5, 1), (2, 2))
def kalman(x0: Any, ys: Any, f: Any) -> Any:
    h = jnp.array([[1.0, 0.5]])

    def step(state: Any, y: Any) -> Any:
        x, p = state
        x, p = f @ x, f @ p @ f.T + 0.1 * jnp.eye(2)
        s = h @ p @ h.T + 0.2
        k = p @ h.T / s
        r = y - h @ x
        return (x + k @ r, p - k @ h @ p), -0.5 * (jnp.log(s[0, 0]) + r[0] ** 2 / s[0, 0])

    return jnp.sum(lax.scan(step, (x0, jnp.eye(2)), ys)[1])


@program((4,), (4, 4), (6, 4))
def hidden_markov(start: Any, move: Any, seen: Any) -> Any:
    def step(alpha: Any, emission: Any) -> Any:
        return jax.nn.logsumexp(alpha[:, None] + jax.nn.log_softmax(move), axis=0) + emission, None

    return jax.nn.logsumexp(lax.scan(step, jax.nn.log_softmax(start), seen)[0])


@program((2,), (2,))
def runge_kutta(y: Any, p: Any) -> Any:
    def f(y: Any) -> Any:
        return jnp.stack([y[0] * (p[0] - y[1]), y[1] * (y[0] - p[1])])

    def step(i: Any, y: Any) -> Any:
        h = 0.1
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3))

    return lax.fori_loop(0, 10, step, y)


@program((3, 3), (6, 5))
def ctc_like(w: Any, logits: Any) -> Any:
    """The forward recursion of a CTC loss, over a sequence of labels with blanks between them."""
    labels = jnp.array([4, 0, 4, 1, 4])
    skip = jnp.array([False, False, False, True, False])

    def step(alpha: Any, frame: Any) -> Any:
        one = jnp.concatenate([jnp.array([-1e5]), alpha[:-1]])
        two = jnp.concatenate([jnp.array([-1e5, -1e5]), alpha[:-2]])
        total = jnp.logaddexp(jnp.logaddexp(alpha, one), jnp.where(skip, two, -1e5))
        return total + frame[labels], None

    frames = jax.nn.log_softmax(logits)
    alpha = jnp.full(5, -1e5).at[0].set(frames[0, 4]).at[1].set(frames[0, 0])
    alpha = lax.scan(step, alpha, frames[1:])[0]
    return -jnp.logaddexp(alpha[-1], alpha[-2]) * w[0, 0]


@program((6,))
def cumulative_in_loop(x: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return c.at[i].add(c[i - 1] * x[i])

    return lax.fori_loop(1, 6, body, x)


@program((4,))
def checkpointed(x: Any) -> Any:
    @jax.checkpoint
    def layer(c: Any) -> Any:
        return jnp.sin(jnp.cos(c) * x)

    return lax.fori_loop(0, 3, lambda i, c: layer(c), x)


@program((3,), (3,))
def layers(x: Any, w: Any) -> Any:
    @jax.jit
    def layer(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = jnp.tanh(x * w) + jnp.sin(x) * w
        return x

    for _ in range(5):
        x = layer(x, w)
    return x + layer(w, w)


@program((3, 2), (2,))
def scan_stacks(xs: Any, w: Any) -> Any:
    """A scan with several carried values and stacked outputs. One output equals an input, and one is constant."""

    def body(c: Any, x: Any) -> Any:
        a, n, d = c
        a = jnp.sin(a * x) + d[n % 2]
        return (a, n + 1, d), (a, x, n * a[0], w)

    return lax.scan(body, (w, 0, w * w), xs)


@program((4, 2))
def scan_of_scan(xs: Any) -> Any:
    def inner(c: Any, v: Any) -> Any:
        return c * jnp.cos(v), c + v

    def outer(c: Any, x: Any) -> Any:
        c, ys = lax.scan(inner, c, x, reverse=True)
        return c + 0.1, ys * c

    return lax.scan(outer, 0.7, xs)


@program((3,))
def switch_in_loop(x: Any) -> Any:
    """A loop with a switch on the counter. One branch of the switch has a loop with a branch on a value."""

    def body(i: Any, c: Any) -> Any:
        def deep(c: Any) -> Any:
            return lax.fori_loop(0, 2, lambda j, d: lax.cond(d[0] > 0.4, jnp.sin, lambda e: e * x, d), c)

        return lax.switch(i % 3, [jnp.cos, deep, lambda c: c * x[i % 3]], c)

    return lax.fori_loop(0, 5, body, x)


@program((2,), (2,))
def shared_layer(x: Any, w: Any) -> Any:
    """A function with a loop, whose calls are inside and outside another loop."""

    @jax.jit
    def layer(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 2, lambda i, c: jnp.tanh(c * w) + jnp.sin(w) * i, x)

    y = lax.fori_loop(0, 2, lambda i, c: layer(c, w) + layer(w, c), x)
    return layer(y, y), layer(x, w)


# ---- loops that end when values say so -------------------------------------------------------------------------


@program((), of=UNBOUNDED)
def newton(a: Any) -> Any:
    def step(x: Any) -> Any:
        return 0.5 * (x + a / x)

    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-10, step, 1.0 + 0 * a)


@program((3,), of=UNBOUNDED)
def until_norm(x: Any) -> Any:
    return lax.while_loop(lambda c: jnp.sum(c * c) < 50.0, lambda c: c * 1.3 + 0.1 * jnp.sin(c) * x, x)


@program((3,), np.int64(7), of=UNBOUNDED)
def fori_run_time(x: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * x + 0.1 * i, x)


@program((3,), np.int64(0), of=UNBOUNDED)
def fori_run_time_none(x: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * x + 0.1 * i, x) + x


@program((2,), of=UNBOUNDED)
def nested_unbounded(x: Any) -> Any:
    def outer(state: Any) -> Any:
        n, c = state
        c = lax.while_loop(lambda d: jnp.sum(d * d) < 3.0 * n, lambda d: d * 1.2 + 0.1 * jnp.sin(d), c)
        return n + 1, jnp.tanh(c) + x

    return lax.while_loop(lambda s: s[0] < 4, outer, (1, x))[1]


@program((2,), of=UNBOUNDED)
def adaptive_step(y: Any) -> Any:
    def f(y: Any) -> Any:
        return jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    def step(state: Any) -> Any:
        t, h, y = state
        euler = y + h * f(y)
        heun = y + h / 2 * (f(y) + f(euler))
        error = jnp.max(jnp.abs(heun - euler))
        good = error < 0.05
        t, y = jnp.where(good, t + h, t), jnp.where(good, heun, y)
        return t, h * jnp.where(good, 1.2, 0.5), y

    return lax.while_loop(lambda s: s[0] < 1.0, step, (0.0, 0.3, y))[2]


@program((2,), (2,), of=UNBOUNDED)
def two_unbounded(x: Any, w: Any) -> Any:
    """Two loops in sequence. The second loop is inside a branch."""
    y, n = lax.while_loop(lambda s: jnp.sum(s[0] * w) < 4.0, lambda s: (s[0] * 1.3 + x, s[1] + 1), (x, 0))
    return lax.cond(
        n > 1, lambda: lax.while_loop(lambda c: c[0] > 0.5, lambda c: jnp.sin(c) * w * c, y), lambda: y * y
    )


@program((3,), (3,), of=UNBOUNDED)
def line_search(x: Any, w: Any) -> Any:
    """Gradient descent until the gradient is small. Each step is halved until the value decreases."""

    def f(x: Any) -> Any:
        return jnp.sum(w * x**4 + (x - w) ** 2)

    def step(state: Any) -> Any:
        x, n = state
        g = jax.grad(f)(x)
        h = lax.while_loop(lambda h: f(x - h * g) > f(x) - 0.3 * h * jnp.sum(g * g), lambda h: h / 2, 1.0)
        return x - h * g, n + 1

    return lax.while_loop(lambda s: (jnp.sum(jax.grad(f)(s[0]) ** 2) > 1e-2) & (s[1] < 8), step, (x, 0))[0]
