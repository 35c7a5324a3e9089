"""Compares gradients of random networks that IREE computes with JAX's gradients.

    PYTHONPATH=test/py python test/sweep/random_networks.py [--large] [--target TARGET] [--first N] [--count N]
        [--journal FILE] [--show SEED]

A seed determines a network for images or sequences. Its layers are those of `network_layers.py`, in sizes to which the
rewrites of `backends/iree/fast` apply. The seed also determines the element type and a mode: the gradient of a loss,
the gradient within a memory budget, or a Hessian-vector product. JAX exports the network. tiduc differentiates and
compiles it, and calls it with two sets of arguments. With `--check-memory`, it calls the program several times with one
set. With `--large`, the networks are those of `large_networks.py`, and outputs and gradients are compared.

The reference is JAX's derivative in f64. A result is wrong if its error exceeds all of three bounds:

- 2e-4 of its largest element for f32, and 1e-9 for f64
- 20 times the error of JAX's derivative in the element type
- twice the change of the reference if its arguments change by about 1e-6 of their values, because rounding can move a
  number across a kink such as that of `relu`

In f64, an error of at most 2^10 roundings of the largest element of all results is ignored. In f32, such errors are
ignored only in results that are zero in exact arithmetic. A network that is wrong in f32 by at most `ROUNDED` is also
compiled in f64, because sums lose digits if their terms cancel, and IREE adds them in another order than XLA.
Categories:

    ok        the results agree
    within rounding
              the results in f32 differ by at most `ROUNDED`, and the network in f64 is ok
    refused   tiduc raises an error before it calls the compiler
    rejected  IREE rejects the program
    wrong     a result differs
    crash     the process dies, or raises another exception
    hang      there is no outcome after SECONDS
"""

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from counts import summary
from harness.exports import exported
from large_networks import LargeNetwork
from memory_checks import MemoryFault, add_option, checks_memory, pass_on, results_in_checked_memory
from network_layers import Function, Images, Layer, Sequences, Shape, activation
from worker import Worker, answer_requests
from xla_flags import XLA_FLAGS

import tiduc
from tiduc.dialect.errors import CompileError, TiducError

SECONDS = 600
MODES = ["grad"] * 6 + ["memory"] * 3 + ["hvp"]
TOLERANCES = {"float32": 2e-4, "float64": 1e-9}
ROUNDED = 1e-2
_LARGEST = 150_000
"""The largest number of elements in the result of a layer."""
_MOVES = 8
"""The number of sets of slightly changed arguments for the third bound."""

Outcome = tuple[str, str]


class Network:
    """A random network, whose loss is a function of parameters, inputs and labels."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(seed)
        self.mode, self.dtype = draw.choice(MODES), draw.choice(["float32"] * 6 + ["float64"])
        self.names: list[str] = []
        self.shapes: list[Shape] = []
        self.steps: list[Callable[[Sequence[Any], Any], Any]] = []
        self.words, self.classes = 0, draw.choice([5, 10, 33])
        images = draw.random() < 0.6
        shape = self._images() if images else self._sequences()
        self.labels: Shape = shape[:1] if images else shape[:2]

    def _images(self) -> Shape:
        draw, layers = self.draw, Images(self.draw.random() < 0.3)
        size = draw.choice([7, 12, 16, 23, 28, 32]), draw.choice([8, 14, 16, 31, 32])
        channels = draw.choice([3, 8, 16, 24])
        shape = (draw.choice([1, 1, 2, 3, 4]), *((*size, channels) if layers.last else (channels, *size)))
        self.input = shape
        kinds = [layers.convolution] * 6 + [activation] * 4 + [layers.normalization] * 3
        kinds += [layers.pool, layers.transposed, layers.gates, layers.resized, layers.moved]
        shape = self._stack(kinds, shape, draw.randint(3, 9))
        if draw.random() < 0.6:
            space = layers.space
            shape = self._add(Layer("mean", (), lambda _, x: jnp.mean(x, space)), shape)
        else:
            shape = self._add(Layer("flatten", (), lambda _, x: x.reshape(x.shape[0], -1)), shape)
        return self._classified(shape)

    def _sequences(self) -> Shape:
        draw, layers = self.draw, Sequences()
        batch, steps, width = (
            draw.choice([1, 2, 4]),
            draw.choice([5, 16, 33, 64]),
            draw.choice([32, 48, 64, 96]),
        )
        self.input = shape = (batch, steps, width)
        if draw.random() < 0.5:
            self.words, self.input = draw.choice([17, 100, 257]), (batch, steps)
            self._append(Layer(f"embedding {self.words}", ((self.words, width),), lambda p, x: p[0][x]))
        kinds = [layers.dense] * 2 + [layers.normalization] * 4 + [layers.attention] * 3
        kinds += [layers.perceptron] * 3 + [layers.recurrence, layers.convolution, layers.moved, activation]
        shape = self._stack(kinds, shape, draw.randint(2, 7))
        return self._classified(shape)

    def _stack(self, kinds: Sequence[Callable[[Random, Shape], Layer]], shape: Shape, count: int) -> Shape:
        """Adds `count` random layers, some of them with a residual connection, and returns the shape of the result."""
        for _ in range(count):
            layer = self.draw.choice(kinds)(self.draw, shape)
            try:
                result = layer.result(shape)
            except (TypeError, ValueError):
                continue  # the windows do not fit
            if not 0 < np.prod(result) <= _LARGEST:
                continue
            if result == shape and self.draw.random() < 0.4:
                layer = Layer(f"{layer.name} + x", layer.shapes, _residual(layer.function))
            shape = self._add(layer, shape)
        return shape

    def _classified(self, shape: Shape) -> Shape:
        weights: Shape = (shape[-1], self.classes)
        return self._add(Layer("classes", (weights,), lambda p, x: x @ p[0] * shape[-1] ** -0.5), shape)

    def _add(self, layer: Layer, shape: Shape) -> Shape:
        self._append(layer)
        return layer.result(shape)

    def _append(self, layer: Layer) -> None:
        at = slice(len(self.shapes), len(self.shapes) + len(layer.shapes))
        self.names.append(layer.name)
        self.shapes += layer.shapes
        self.steps.append(lambda p, x: layer.function(p[at], x))

    def loss(self, *arguments: Any) -> Any:
        """Returns the mean cross entropy of the network's scores and the labels.

        Arguments are parameters, input and labels.
        """
        *params, x, labels = arguments
        for step in self.steps:
            x = step(params, x)
        scores = jax.nn.log_softmax(x)
        return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(labels, self.classes, dtype=x.dtype), -1))

    def arguments(self, seed: int, dtype: str | None = None) -> list[np.ndarray[Any, Any]]:
        """Returns random parameters, a random input and labels. All elements are numbers that f32 can represent."""
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in self.shapes]
        if self.words:
            arrays.append(rng.integers(0, self.words, self.input, np.int32))
        else:
            arrays.append(rng.standard_normal(self.input).astype(np.float32))
        arrays.append(rng.integers(0, self.classes, self.labels, np.int32))
        return [x.astype(dtype or self.dtype) if x.dtype.kind == "f" else x for x in arrays]

    @property
    def active(self) -> list[int]:
        """The positions of the differentiated arguments: all parameters, and the input if its elements are floats."""
        return list(range(len(self.shapes) + (0 if self.words else 1)))


def _residual(function: Function) -> Function:
    return lambda p, x: x + function(p, x)


def derived(network: Network) -> tiduc.Program:
    """tiduc's program for the network's mode: the gradient, the gradient within a memory budget, or a Hessian-vector
    product."""
    program = tiduc.load(exported(network.loss, *network.arguments(0)))
    wrt = network.active
    if network.mode == "hvp":
        return program.hvp(wrt)
    gradient = program.grad(wrt)
    budget = network.draw.choice(["min", "0.4x", "0.6x"])
    if network.mode != "memory":
        return gradient
    try:
        fitted = gradient.rematerialize(budget)
        _ = fitted.module
        return fitted
    except TiducError:
        return gradient.rematerialize("min")  # the budget is below the lowest possible memory peak


def by_jax(network: Network, arguments: Sequence[Any], vectors: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """JAX's gradient or Hessian-vector product, in the element type of the arguments."""
    gradient = jax.grad(network.loss, network.active)
    with jax.enable_x64(True):
        if network.mode != "hvp":
            return [np.asarray(x) for x in jax.jit(gradient)(*arguments)]
        rest = arguments[len(vectors) :]
        found = jax.jit(lambda x, v: jax.jvp(lambda *x: gradient(*x, *rest), x, v)[1])(
            tuple(arguments[: len(vectors)]), tuple(vectors)
        )
        return [np.asarray(x) for x in found]


def outcome(seed: int, large: bool = False, target: str = "cpu") -> Outcome:
    """Returns the category of the network of a seed, and a detail."""
    kind = LargeNetwork if large else Network
    network: Network | LargeNetwork = kind(seed)
    category, detail, error = compared(network, target)
    if category == "wrong" and network.dtype == "float32" and error <= ROUNDED:
        network = kind(seed)
        network.dtype = "float64"
        if compared(network, target)[0] == "ok":
            return "within rounding", detail
    return category, detail


def compared(network: Network | LargeNetwork, target: str) -> tuple[str, str, float]:
    """Runs a network and compares it with JAX. Returns the category, a detail, and the largest relative error.

    The error is infinite if the program uses memory that it must not use.
    """
    try:
        if isinstance(network, LargeNetwork):
            program = tiduc.load(network.text).vjp(network.active)
        else:
            program = derived(network)
        _ = program.text
    except TiducError as error:
        return "refused", str(error), 0
    sets, vectors = [network.arguments(i) for i in (0, 1)], list[Any]()
    if isinstance(network, LargeNetwork):
        vectors, reference = network.cotangents(2), network.by_jax
    else:
        reference = partial(by_jax, network)
        if network.mode == "hvp":
            vectors = network.arguments(2)[: len(network.active)]
    tolerance = TOLERANCES[network.dtype]
    try:
        found = _results(program, target, [[*x, *vectors] for x in sets])
    except CompileError as error:
        return "rejected", str(error), 0
    except MemoryFault as fault:
        return "wrong", str(fault), math.inf
    worst = [_worst(reference, tolerance, x, y, vectors) for x, y in zip(sets, found, strict=False)]
    detail = next((detail for detail, _ in worst if detail), "")
    return "wrong" if detail else "ok", detail, max(error for _, error in worst)


def _results(program: tiduc.Program, target: str, sets: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Returns the results for each set of arguments.

    With `--check-memory`, only the results for the first set, from `check_memory`. This function calls the program
    itself, so that the program does not have to be compiled once more.
    """
    if checks_memory():
        return [results_in_checked_memory(program, target, sets[0])]
    call = program.compile(target, cached=False)
    return [call(*arguments) for arguments in sets]


def _worst(
    reference: Callable[[Sequence[Any], Sequence[Any]], list[Any]],
    tolerance: float,
    arguments: Sequence[Any],
    found: Sequence[Any],
    vectors: Sequence[Any],
) -> tuple[str, float]:
    """Returns a message about the wrong results for one set of arguments, and the largest error of these results.

    The message is "" if all results are right.
    """

    def exact(x: Any) -> Any:
        return x.astype(np.float64) if x.dtype.kind == "f" else x

    directions = [exact(x) for x in vectors]
    wanted = reference([exact(x) for x in arguments], directions)
    bad = [
        (i, e) for i, (x, y) in enumerate(zip(found, wanted, strict=True)) if (e := _error(x, y)) > tolerance
    ]
    largest = max(float(np.max(np.abs(y), initial=0)) for y in wanted)
    bad = [(i, e) for i, e in bad if not _is_rounded(found[i], wanted[i], largest)]
    if not bad:
        return "", 0.0
    rounded = reference(arguments, vectors)
    bad = [(i, e) for i, e in bad if not e <= 20 * _error(rounded[i], wanted[i])]
    if bad:
        rng = np.random.default_rng(0)
        moved = [reference([_moved(exact(x), rng) for x in arguments], directions) for _ in range(_MOVES)]
        bad = [(i, e) for i, e in bad if not e <= 2 * max(_error(x[i], wanted[i]) for x in moved)]
    detail = ", ".join(f"result {i} of shape {wanted[i].shape}: {error:.1e}" for i, error in bad)
    return detail, max((error for _, error in bad), default=0.0)


def _is_rounded(x: Any, y: Any, largest: float) -> bool:
    """Returns whether a result differs from the reference only by rounding errors.

    These are the rounding errors of the largest element of all results.

    In f64, the reference has such errors, too. In f32, only results that are zero in exact arithmetic may have them,
    such as the gradient of a bias before a normalization.
    """
    wide, own = (2**10 * np.finfo(each).eps * largest for each in (np.float64, x.dtype))
    allowed = own if np.max(np.abs(y), initial=0) <= wide else wide
    return bool(np.max(np.abs(x - y), initial=0) <= allowed)


def _moved(x: Any, rng: np.random.Generator) -> Any:
    """Returns the argument, with random relative changes of about 1e-6 if its elements are floats."""
    return x * (1 + 1e-6 * rng.standard_normal(x.shape)) if x.dtype.kind == "f" else x


def _error(x: Any, y: Any) -> float:
    """Returns the largest difference, relative to the largest element of y.

    It is infinite if x has a NaN or an infinity.
    """
    assert x.shape == y.shape
    if not np.all(np.isfinite(x)):
        return np.inf
    largest = max(float(np.max(np.abs(y), initial=0)), 1e-6)
    return float(np.max(np.abs(x.astype(np.float64) - y), initial=0)) / largest


def tried(seed: int, large: bool = False, target: str = "cpu") -> Outcome:
    try:
        return outcome(seed, large, target)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"


def sweep(seeds: Sequence[int], journal: Path | None = None, options: Sequence[str] = ()) -> Counter[str]:
    """Runs the networks that are not in the journal. Prints those that are not ok, and returns the counts."""
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    worker, counts = Worker([sys.executable, __file__, "--work", *options]), Counter[str]()
    lines = journal.read_text().splitlines() if journal is not None and journal.exists() else []
    known: dict[int, list[str]] = {seed: rest for seed, *rest in map(json.loads, lines)}
    for seed in seeds:
        answer = known.get(seed) or worker.asked(seed, SECONDS)
        category, detail = (answer, "") if isinstance(answer, str) else answer
        counts[category] += 1
        if seed not in known and journal is not None:
            with journal.open("a") as file:
                file.write(json.dumps([seed, category, detail[:1000]]) + "\n")
        if category != "ok":
            print(f"{category:9}{seed:<7}{detail[:300]}", flush=True)
    worker.close()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    add_option(parser)
    parser.add_argument("--journal", type=Path, help="file for outcomes; a later run continues it")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the layers of a network")
    parser.add_argument("--large", action="store_true", help="networks with larger arrays")
    parser.add_argument("--target", default="cpu", help="the target; cpu by default")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    pass_on(options)
    if options.work:
        answer_requests(partial(tried, large=options.large, target=options.target))
    elif options.show is not None:
        network = LargeNetwork(options.show) if options.large else Network(options.show)
        print(network.dtype, network.input, *network.names, sep="\n")
    else:
        given = [*["--large"] * options.large, "--target", options.target]
        counts = sweep(range(options.first, options.first + options.count), options.journal, given)
        print(summary(counts))
        sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
