"""The programs that transform.py differentiates: JAX functions whose number of ops depends on a number of layers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

import models  # noqa: E402  (examples/ is not a package)


class Program(NamedTuple):
    """A scalar function of arrays, and its arguments. The first `wrt` arguments are differentiated."""

    function: Callable[..., Any]
    arguments: list[Any]
    wrt: int


def chain(layers: int) -> Program:
    """Returns a function that repeats x <- sin(x) a + b `layers` times and adds the elements of x."""

    def function(x: Any, a: Any, b: Any) -> Any:
        for _ in range(layers):
            x = jnp.sin(x) * a + b
        return jnp.sum(x)

    return Program(function, [np.ones(4, np.float32)] * 3, 3)


def mlp(layers: int) -> Program:
    """Returns a loss of a multilayer perceptron with `layers` layers, each with separate weights and biases."""

    def function(*arguments: Any) -> Any:
        *params, x = arguments
        for w, bias in zip(params[::2], params[1::2], strict=True):
            x = jnp.tanh(x @ w + bias)
        return jnp.mean(x**2)

    params = [np.ones((8, 8), np.float32), np.ones(8, np.float32)] * layers
    return Program(function, [*params, np.ones((4, 8), np.float32)], 2 * layers)


def transformer(layers: int) -> Program:
    """Returns the loss of the transformer in examples/, with `layers` blocks."""
    first, tokens, targets = models.transformer_inputs(np.random.default_rng(0))
    of_block = [key for key in first if key.startswith(("w", "b", "ln1", "ln2"))]
    shared = [key for key in first if key not in of_block]

    def function(*arguments: Any) -> Any:
        *params, tokens, targets = arguments
        p = dict(zip(shared, params, strict=False))
        x = p["embed"][tokens] + p["position"]
        for i in range(len(shared), len(params), len(of_block)):
            p |= dict(zip(of_block, params[i : i + len(of_block)], strict=True))
            x = x + models.attention(p, models.layer_norm(x, p["ln1_scale"], p["ln1_shift"]))
            h = models.layer_norm(x, p["ln2_scale"], p["ln2_shift"])
            h = jax.nn.gelu(h @ p["w1"] + p["b1"], approximate=False)
            x = x + h @ p["w2"] + p["b2"]
        logits = models.layer_norm(x, p["ln3_scale"], p["ln3_shift"]) @ p["unembed"]
        return models.cross_entropy_gather(logits, targets)

    keys = shared + of_block * layers
    params = [np.asarray(first[key], np.float32) for key in keys]
    return Program(function, [*params, tokens, targets], len(params))


PROGRAMS: dict[str, Callable[[int], Program]] = {"chain": chain, "mlp": mlp, "transformer": transformer}
