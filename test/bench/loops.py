"""Measures the time and memory of gradients of loops: python test/bench/loops.py [--help]

The first table has the times of tiduc's and JAX's gradients of a scan over a sequence, an RNN and an LSTM, for two
lengths of the sequence. XLA compiles both gradients, and their calls alternate. The time per iteration is independent
of the length if an iteration copies only the values that it changes.

The second table has the time, and the size of XLA's temporary buffers, for the gradient of a loop and for the gradient
of this gradient (reverse over reverse). Loops store residuals of all iterations in stacks, or have sqrt n or log n
checkpoints.

    us/iteration          the median time of a call divided by the number of iterations, in microseconds
    ours/JAX's            the time of tiduc's gradient divided by the time of JAX's; below 1, tiduc's is faster
    MB                    the size of XLA's temporary buffers, without arguments and results

The script does not check the figures.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import xla_bridge  # JAX has no public way to compile StableHLO text
from jaxlib import xla_client

import tiduc
from tiduc.runtime.arrays import Array

sys.path.append(str(Path(__file__).resolve().parent))

from runtime import by_xla, medians  # noqa: E402, TID251  (runtime.py in this folder)

WIDTH, JAX = 8, "JAX's"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=20, help="number of calls of each program")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    columns = ("length", "loss", "ours", JAX, f"ours/{JAX}")
    print(f"{'program':10}" + "".join(f"{name:>12}" for name in columns))
    for name, function in PROGRAMS.items():
        for length in chosen.lengths:
            arguments = inputs(name, length)
            texts = {"loss": exported(function, arguments)}
            texts["ours"] = tiduc.load(texts["loss"]).grad(value=True).text
            everything = tuple(range(len(arguments)))
            texts[JAX] = exported(jax.value_and_grad(function, everything), arguments)
            times = medians({k: by_xla(text, arguments) for k, text in texts.items()}, chosen.rounds)
            cells = "".join(f"{times[k] / length:12.3f}" for k in texts)
            print(f"{name:10}{length:12}{cells}{times['ours'] / times[JAX]:12.2f}", flush=True)
    print(f"\n{'memory':10}{'order':>6}{'length':>8}{'us/iteration':>14}{'MB':>10}")
    for length in chosen.lengths:
        arguments = inputs("rnn", length)
        gradient = tiduc.load(exported(PROGRAMS["rnn"], arguments)).grad()
        for order, program, given in (
            (1, gradient, arguments),
            (2, gradient.vjp(), [*arguments, *arguments]),
        ):
            for memory in ("stack", "sqrt", "log"):
                text = replace(program, loop_memory=memory).text
                took = medians({memory: by_xla(text, given)}, max(chosen.rounds // 4, 1))[memory]
                cells = f"{memory:10}{order:6}{length:8}{took / length:14.3f}{megabytes(text):10.3f}"
                print(cells, flush=True)


def exported(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def megabytes(text: str) -> float:
    """Returns the size of XLA's temporary buffers for a module, in megabytes."""
    client = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    return float(client.compile_and_load(text, devices).get_compiled_memory_stats().temp_size_in_bytes) / 1e6


# ---- programs ------------------------------------------------------------------------------------------------


def scan(xs: Any, w: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = jnp.tanh(c * w + x)
        return c, c * c

    return jnp.sum(lax.scan(body, jnp.zeros(WIDTH), xs)[1])


def rnn(xs: Any, wx: Any, wh: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        return jnp.tanh(x @ wx + h @ wh), None

    return jnp.sum(lax.scan(cell, jnp.zeros(WIDTH), xs)[0])


def lstm(xs: Any, wx: Any, wh: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ wx + h @ wh, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jnp.sum(lax.scan(cell, (jnp.zeros(WIDTH), jnp.zeros(WIDTH)), xs)[1])


PROGRAMS: dict[str, Callable[..., Any]] = {"scan": scan, "rnn": rnn, "lstm": lstm}


def inputs(name: str, length: int) -> list[Array]:
    random = np.random.default_rng(0)
    outputs = {"scan": None, "rnn": WIDTH, "lstm": 4 * WIDTH}[name]
    weights = [(WIDTH,)] if outputs is None else [(WIDTH, outputs)] * 2
    return [(0.3 * random.standard_normal(s)).astype(np.float32) for s in ((length, WIDTH), *weights)]


if __name__ == "__main__":
    main()
