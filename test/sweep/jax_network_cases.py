"""Test programs for `jax_libraries.py`: networks of equinox, flax and haiku."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_library_cases import RNG, B, Case, X


def layers() -> Iterator[Case]:
    """Yields test programs with layers of equinox."""
    import equinox as eqx

    key = jax.random.PRNGKey(0)
    mlp = eqx.nn.MLP(4, 2, 5, 2, activation=jax.nn.tanh, key=key)
    shown: dict[str, tuple[Any, Any]] = {
        "Linear": (eqx.nn.Linear(4, 2, key=key), B),
        "MLP": (mlp, B),
        "Conv1d": (eqx.nn.Conv1d(2, 3, 2, key=key), RNG.standard_normal((2, 5))),
        "ConvTranspose1d": (eqx.nn.ConvTranspose1d(2, 3, 2, key=key), RNG.standard_normal((2, 5))),
        "LayerNorm": (eqx.nn.LayerNorm(4), B),
        "RMSNorm": (eqx.nn.RMSNorm(4), B),
        "GroupNorm": (eqx.nn.GroupNorm(2, 4), RNG.standard_normal((4, 3))),
        "PReLU": (eqx.nn.PReLU(), B),
        "AvgPool1d": (eqx.nn.AvgPool1d(2, 1), RNG.standard_normal((2, 5))),
        "MaxPool1d": (eqx.nn.MaxPool1d(2, 1), RNG.standard_normal((2, 5))),
        "WeightNorm": (eqx.nn.WeightNorm(eqx.nn.Linear(4, 2, key=key)), B),
        "Sequential": (
            eqx.nn.Sequential(
                [eqx.nn.Linear(4, 3, key=key), eqx.nn.Lambda(jax.nn.gelu), eqx.nn.LayerNorm(3)]
            ),
            B,
        ),
        "RotaryPositionalEmbedding": (eqx.nn.RotaryPositionalEmbedding(4), X),
    }
    for name, (layer, x) in shown.items():
        yield Case(f"equinox layers: {name}", lambda m, x: m(x), (layer, x), ("equinox",))
    attention = eqx.nn.MultiheadAttention(2, 4, key=key)
    yield Case(
        "equinox layers: MultiheadAttention",
        lambda m, x: m(x, x, x, inference=True),
        (attention, X),
        ("equinox",),
    )
    yield from _cells(key)


def _cells(key: Any) -> Iterator[Case]:
    import equinox as eqx

    gru, lstm = eqx.nn.GRUCell(4, 3, key=key), eqx.nn.LSTMCell(4, 3, key=key)

    def scanned(cell: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, row: (cell(row, h), None), jnp.zeros(3), x)[0]

    def long(cell: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, row: (cell(row, h), None), (jnp.zeros(3),) * 2, x)[0]

    yield Case("equinox layers: GRUCell", scanned, (gru, X), ("equinox",))
    yield Case("equinox layers: LSTMCell", long, (lstm, X), ("equinox",))


def _own_derivatives() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    import equinox as eqx

    @eqx.filter_custom_vjp
    def clipped(x: Any) -> Any:
        return x * 1.0

    clipped.def_fwd(lambda perturbed, x: (clipped(x), x))
    clipped.def_bwd(lambda residuals, ct, perturbed, x: ct * jnp.cos(residuals))

    @eqx.filter_custom_jvp
    def steep(x: Any, *, power: int) -> Any:
        return x**power

    @steep.def_jvp
    def steep_jvp(primals: Any, tangents: Any, *, power: int) -> Any:
        (x,), (dx,) = primals, tangents
        return steep(x, power=power), (power + 1) * steep(x, power=power - 1) * dx

    return {
        "filter_custom_vjp": (lambda x: clipped(x) ** 2, (B,)),
        "filter_custom_jvp": (lambda x: steep(x, power=3), (B,)),
    }


def transformations() -> Iterator[Case]:
    """Yields test programs with transformations of equinox, such as `filter_vmap`."""
    import equinox as eqx

    key = jax.random.PRNGKey(0)
    mlp = eqx.nn.MLP(4, 2, 5, 2, activation=jax.nn.tanh, key=key)
    transforms: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "filter_jit": (eqx.filter_jit(lambda m, x: m(x)), (mlp, B)),
        "filter_vmap": (lambda m, x: eqx.filter_vmap(m)(x), (mlp, X)),
        "filter_vmap of modules": (
            lambda m, x: eqx.filter_vmap(lambda f, y: f(y), in_axes=(eqx.if_array(0), None))(m, x),
            (eqx.filter_vmap(lambda k: eqx.nn.Linear(4, 2, key=k))(jax.random.split(key, 3)), B),
        ),
        "filter_checkpoint": (lambda m, x: eqx.filter_checkpoint(m)(x), (mlp, B)),
        "filter_grad": (eqx.filter_grad(lambda m, x: jnp.sum(m(x) ** 2)), (mlp, B)),
        "filter_value_and_grad": (eqx.filter_value_and_grad(lambda m, x: jnp.sum(m(x) ** 2)), (mlp, B)),
        "filter_jvp": (lambda x: eqx.filter_jvp(jnp.sin, (x,), (x**2,)), (B,)),
        "filter_vjp": (lambda x: eqx.filter_vjp(jnp.sin, x)[1](x**2), (B,)),
        "filter_jacfwd": (lambda x: eqx.filter_jacfwd(lambda y: y**3)(x), (B,)),
        "filter_jacrev": (lambda x: eqx.filter_jacrev(lambda y: y**3)(x), (B,)),
        "filter_hessian": (lambda x: eqx.filter_hessian(lambda y: jnp.sum(y**3))(x), (B,)),
        "filter_closure_convert": (lambda x: eqx.filter_closure_convert(lambda y: x * y, x)(x), (B,)),
        "error_if": (lambda x: eqx.error_if(x, jnp.any(x > 100), "large") ** 2, (B,)),
        "nan checks": (lambda x: eqx.debug.breakpoint_if(jnp.any(x > 1e9)) or x**2, (B,)),
        "internal while_loop, checkpointed": (_looped("checkpointed"), (B,)),
        "internal while_loop, bounded": (_looped("bounded"), (B,)),
        "internal while_loop, lax": (_looped("lax"), (B,)),
        "internal scan": (_scanned, (B,)),
    }
    for name, (function, arguments) in (transforms | _own_derivatives()).items():
        yield Case(f"equinox transformations: {name}", function, arguments, ("equinox",))


def _looped(kind: str) -> Callable[..., Any]:
    import equinox.internal as eqxi

    def looped(x: Any) -> Any:
        def body(carry: Any) -> Any:
            i, y = carry
            return i + 1, jnp.sin(y) * x + y

        return eqxi.while_loop(lambda c: c[0] < 5, body, (0, x), kind=kind, max_steps=16)[1]

    return looped


def _scanned(x: Any) -> Any:
    import equinox.internal as eqxi

    def body(carry: Any, row: Any) -> Any:
        return jnp.sin(carry) * row, carry

    return eqxi.scan(body, x, jnp.stack([x, 2 * x, x**2]), kind="checkpointed", checkpoints=2)


def of_flax() -> Iterator[Case]:
    """Yields test programs with modules of flax.linen and flax.nnx."""
    from flax import linen

    class Net(linen.Module):  # type: ignore[misc]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.gelu(linen.Dense(5)(x))
            x = linen.LayerNorm()(x)
            x = linen.MultiHeadDotProductAttention(1)(x[None], x[None])[0]
            return linen.Dense(2)(x)

    class Recurrent(linen.Module):  # type: ignore[misc]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.RNN(linen.GRUCell(3, param_dtype=np.float64))(x[None])

    class Image(linen.Module):  # type: ignore[misc]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.relu(linen.Conv(3, (2, 2))(x.reshape(1, 3, 4, 1)))
            x = linen.BatchNorm(use_running_average=False)(x)
            return linen.avg_pool(x, (2, 2))

    for name, module in (
        ("Dense, LayerNorm, attention", Net()),
        ("RNN", Recurrent()),
        ("Conv, BatchNorm", Image()),
    ):
        variables = jax.tree.map(lambda x: np.asarray(x, np.float64), module.init(jax.random.PRNGKey(0), X))

        def applied(v: Any, x: Any, module: Any = module) -> Any:
            out = module.apply(v, x, mutable=["batch_stats"])[0]
            return out

        yield Case(f"flax.linen: {name}", applied, (variables, X), ("flax",))
    yield from _of_nnx()


def _of_nnx() -> Iterator[Case]:
    from flax import nnx

    class Block(nnx.Module):  # type: ignore[misc]
        def __init__(self, rngs: Any) -> None:
            self.linear = nnx.Linear(4, 5, rngs=rngs)
            self.norm = nnx.LayerNorm(5, rngs=rngs)
            self.out = nnx.Linear(5, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.out(self.norm(nnx.tanh(self.linear(x))))

    graph, state = nnx.split(Block(nnx.Rngs(0)))
    state = jax.tree.map(lambda x: np.asarray(x, np.float64), state)
    yield Case("flax.nnx: split, merge", lambda g, s, x: nnx.merge(g, s)(x), (graph, state, X), ("flax",))
    yield Case(
        "flax.nnx: a module as an argument",
        lambda m, x: m(x),
        (Block(nnx.Rngs(0)), X),
        ("flax",),
        tolerance=1e-5,
    )


def of_haiku() -> Iterator[Case]:
    """Yields test programs with modules of haiku."""
    import haiku as hk

    functions: dict[str, Callable[..., Any]] = {
        "Linear, LayerNorm": lambda x: hk.Linear(2)(hk.LayerNorm(-1, True, True)(jnp.tanh(hk.Linear(5)(x)))),
        "MLP": lambda x: hk.nets.MLP([5, 2])(x),
        "Conv1D": lambda x: hk.Conv1D(2, 2)(x[None]),
        "GRU": lambda x: hk.dynamic_unroll(hk.GRU(3), x, jnp.zeros(3))[0],
        "LSTM": lambda x: hk.dynamic_unroll(hk.LSTM(3), x, hk.LSTM(3).initial_state(None))[0],
        "MultiHeadAttention": lambda x: hk.MultiHeadAttention(2, 2, w_init=hk.initializers.Constant(0.3))(
            x, x, x
        ),
    }
    for name, function in functions.items():
        net = hk.without_apply_rng(hk.transform(function))
        try:
            parameters = net.init(jax.random.PRNGKey(0), X)
        except Exception:  # the installed version of haiku lacks the module
            continue
        parameters = jax.tree.map(lambda x: np.asarray(x, np.float64), parameters)
        yield Case(f"haiku: {name}", net.apply, (parameters, X), ("haiku",))
