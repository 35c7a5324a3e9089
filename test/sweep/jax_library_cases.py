"""Test programs for `jax_libraries.py`: small versions of examples in the documentation of libraries based on JAX."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Case:
    """A function and its arguments, which are pytrees.

    `needs` are the packages that the function uses, and `without` are the names of comparisons that are left out.
    `twice` is a function with equal derivatives that JAX differentiates twice; by default, it is `function`.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tolerance: float = 0.0
    twice: Callable[..., Any] | None = None


RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4))
A = RNG.standard_normal((4, 4)) + 4 * np.eye(4)
SPD = A @ A.T
B = RNG.standard_normal(4)


def cases() -> Iterator[Case]:
    """Yields all test programs whose libraries are installed."""
    import jax_network_cases as networks
    import jax_solver_cases as solvers

    groups = (
        *(_diffrax, networks.layers, networks.transformations, solvers.roots, solvers.minima),
        *(
            solvers.square_systems,
            solvers.other_systems,
            _optax,
            _losses,
            solvers.of_jaxopt,
            solvers.projections,
        ),
        *(networks.of_flax, networks.of_haiku),
    )
    for group in groups:
        try:
            yield from group()
        except ImportError:
            continue


def _diffrax() -> Iterator[Case]:
    from diffrax_cases import Flow
    from diffrax_cases import cases as of_diffrax

    for name, function, arguments, without in of_diffrax():
        twice = function.direct() if isinstance(function, Flow) else None
        yield Case(f"diffrax {name}", function, arguments, ("diffrax",), without, twice=twice)


def _optax() -> Iterator[Case]:
    import optax

    def energy(p: Any) -> Any:
        return jnp.sum((p["w"] - 1) ** 4) + jnp.sum(p["w"]) * p["b"] ** 2

    start = {"w": B, "b": 0.7}
    optimizers = {
        name: getattr(optax, name)(0.05)
        for name in (
            "adam",
            "adamw",
            "adagrad",
            "adabelief",
            "adamax",
            "sgd",
            "rmsprop",
            "lion",
            "nadam",
            "novograd",
            "radam",
            "yogi",
            "lamb",
            "lars",
            "fromage",
            "amsgrad",
            "adan",
            "sign_sgd",
            "optimistic_gradient_descent",
        )
    }
    optimizers["sgd with momentum"] = optax.sgd(0.05, momentum=0.9, nesterov=True)
    optimizers["adafactor"] = optax.adafactor(0.05)
    optimizers["clipped, with a schedule"] = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(optax.warmup_cosine_decay_schedule(0.01, 0.1, 2, 8))
    )
    for name, optimizer in optimizers.items():

        def trained(p: Any, optimizer: Any = optimizer) -> Any:
            state = optimizer.init(p)
            for _ in range(2):
                updates, state = optimizer.update(jax.grad(energy)(p), state, p)
                p = optax.apply_updates(p, updates)
            return p

        yield Case(f"optax optimizers: {name}", trained, (start,), ("optax",))


def _losses() -> Iterator[Case]:
    import optax

    labels, logits = np.array([0, 2, 1]), RNG.standard_normal((3, 4))
    losses: dict[str, Callable[..., Any]] = {
        "softmax_cross_entropy": lambda z: optax.softmax_cross_entropy(z, jax.nn.one_hot(labels, 4)),
        "softmax_cross_entropy_with_integer_labels": lambda z: (
            optax.softmax_cross_entropy_with_integer_labels(z, labels)
        ),
        "sigmoid_binary_cross_entropy": lambda z: optax.sigmoid_binary_cross_entropy(
            z, jnp.float64(labels[:, None] > 0)
        ),
        "huber_loss": lambda z: optax.huber_loss(z),
        "cosine_distance": lambda z: optax.cosine_distance(z, z[::-1] + 1),
        "log_cosh": lambda z: optax.log_cosh(z),
        "ctc_loss": lambda z: optax.ctc_loss(
            z[None], jnp.zeros((1, 3)), jnp.array([[1, 2]]), jnp.zeros((1, 2))
        ),
        "convex_kl_divergence": lambda z: optax.convex_kl_divergence(
            jax.nn.log_softmax(z), jax.nn.softmax(z[::-1])
        ),
        "perturbations": lambda z: optax.projections.projection_simplex(z[0]),
    }
    for name, loss in losses.items():
        yield Case(f"optax losses: {name}", loss, (logits,), ("optax",))
