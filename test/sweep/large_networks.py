"""Random networks with large arrays, to which the passes for large programs apply.

A seed determines the layers of a network for images or for sequences, with arrays of 32 KiB to some MiB. The layers are
attention, convolutions (also depthwise or transposed), normalization, pooling, resizing by index arrays as in PyTorch,
gathers, and recurrences. Some layers are repeated, some have a residual connection, which adds their operand to their
result, and some have a dense connection, which concatenates both. A network has several outputs and sometimes a dynamic
batch dimension. The program is the VJP with respect to all parameters and the input. It returns the outputs and the
gradients.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness.exports import exported
from jax import export
from network_layers import Function, Images, Layer, Sequences, Shape, activation, plain

_LARGEST = 700_000
"""The largest number of elements in the result of a layer."""

Kind = Callable[[Random, Shape], Layer]


def bilinear(draw: Random, shape: Shape) -> Layer:
    """Resizes images by bilinear interpolation, with four gathers as in PyTorch.

    An array of images has the dimensions image, channel, row and column. A gather takes one of the four neighbouring
    pixels of each pixel of the result. All four gathers have equal indices of the dimensions image and channel.
    """
    factor = draw.choice([2.0, 2.0, 1.5, 0.5])
    sizes = [max(1, int(n * factor)) for n in shape[2:]]

    def places(size: int, of: int, dtype: Any) -> tuple[Any, Any, Any]:
        at = jnp.clip((jnp.arange(size) + 0.5) * (of / size) - 0.5, 0, of - 1)
        low = jnp.floor(at).astype(jnp.int64)
        return low, jnp.minimum(low + 1, of - 1), (at - low).astype(dtype)

    def call(x: Any) -> Any:
        image = jnp.arange(x.shape[0])[:, None, None, None]
        channel = jnp.arange(x.shape[1])[:, None, None]
        (top, bottom, down), (left, right, across) = (
            places(n, of, x.dtype) for n, of in zip(sizes, shape[2:], strict=True)
        )
        a, b, c, d = (
            x.at[image, channel, rows[:, None], columns].get(mode="clip")
            for rows in (top, bottom)
            for columns in (left, right)
        )
        upper, lower = a + (b - a) * across, c + (d - c) * across
        return upper + (lower - upper) * down[:, None]

    return plain(f"bilinear {factor}", call)


def gathered(draw: Random, shape: Shape) -> Layer:
    """Gathers random elements along the second dimension. Some occur several times, and others do not occur."""
    places = np.array([draw.randrange(shape[1]) for _ in range(shape[1])])
    return plain("gathered", lambda x: x[:, places])


def attended(draw: Random, shape: Shape) -> Layer:
    """Draws a layer of attention over the pixels of small images."""
    batch, channels, height, width = shape
    layer = Sequences().attention(draw, (batch, height * width, channels))

    def call(p: Sequence[Any], x: Any) -> Any:
        y = layer.function(p, x.reshape(batch, channels, -1).swapaxes(1, 2))
        return y.swapaxes(1, 2).reshape(x.shape)

    if height * width > 1024:
        raise ValueError("the scores would be too large")
    return Layer(f"pixels: {layer.name}", layer.shapes, call)


def wide(draw: Random, shape: Shape) -> Layer:
    """Draws a layer that multiplies by a matrix. The matrix is larger than the matrices of `Sequences.dense`."""
    features = draw.choice([128, 192, 256, 384])
    scale = shape[-1] ** -0.5
    return Layer(f"wide {features}", ((shape[-1], features),), lambda p, x: x @ (p[0] * scale))


class LargeNetwork:
    """A random network, which is a function of parameters and an input."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = Random(f"large {seed}")
        self.dtype = draw.choice(["float32"] * 6 + ["float64"])
        self.dynamic = draw.random() < 0.12
        self.names: list[str] = []
        self.shapes: list[Shape] = []
        self.steps: list[tuple[Callable[[Sequence[Any], Any], Any], bool]] = []
        with jax.enable_x64(True):
            shape = self._images() if draw.random() < 0.6 else self._sequences()
        features: Shape = (shape[-1], draw.choice([5, 64, 100]))
        self._append(Layer("features", (features,), lambda p, x: x @ (p[0] * shape[-1] ** -0.5)))

    def _images(self) -> Shape:
        draw, layers = self.draw, Images(False)
        size = draw.choice([24, 32, 48, 64]), draw.choice([24, 32, 33, 64])
        self.input = shape = (draw.choice([1, 2]), draw.choice([8, 16, 24]), *size)
        kinds: list[Kind] = [layers.convolution] * 5 + [activation] * 3 + [layers.normalization] * 3
        if self.dynamic:
            kinds = [layers.convolution] * 4 + [activation] * 2
        else:
            kinds += [layers.pool, layers.transposed, layers.gates, layers.moved, gathered, attended]
            kinds += [layers.resized] + [bilinear] * 3
        return self._stack(kinds, shape, draw.randint(3, 7))

    def _sequences(self) -> Shape:
        draw, layers = self.draw, Sequences()
        self.input = shape = (draw.choice([1, 2]), draw.choice([64, 96, 128]), draw.choice([96, 128, 192]))
        kinds: list[Kind] = [layers.dense, wide, layers.normalization, layers.normalization, activation]
        if not self.dynamic:
            kinds += [layers.attention] * 4 + [layers.perceptron] * 4
            kinds += [layers.recurrence, layers.convolution, layers.moved, gathered]
        return self._stack(kinds, shape, draw.randint(3, 6))

    def _stack(self, kinds: Sequence[Kind], shape: Shape, count: int) -> Shape:
        """Adds `count` random layers, some of them repeated, and returns the shape of the last result.

        The results of some layers become outputs of the network.
        """
        for _ in range(count):
            try:
                layers = [self.draw.choice(kinds)(self.draw, shape)]
                result = layers[0].result(shape)
            except (TypeError, ValueError):
                continue  # the layer does not fit this shape
            if not 0 < np.prod(result) <= _LARGEST or (self.dynamic and result[0] != shape[0]):
                continue
            if result == shape and self.draw.random() < 0.5:
                layers = [_with(layers[0], " + x", lambda x, y: x + y)]
                layers *= self.draw.choice([1, 1, 4, 8]) if layers[0].shapes else 1
            elif result[0] == shape[0] and result[2:] == shape[2:] and self.draw.random() < 0.4:
                layers = [_with(layers[0], " beside x", lambda x, y: jnp.concatenate([x, y], 1))]
            for layer in layers:
                self._append(layer, is_output=self.draw.random() < 0.15)
                shape = layer.result(shape)
        return shape

    def _append(self, layer: Layer, is_output: bool = False) -> None:
        at = slice(len(self.shapes), len(self.shapes) + len(layer.shapes))
        self.names.append(layer.name + " (an output)" * is_output)
        self.shapes += layer.shapes
        self.steps.append((lambda p, x: layer.function(p[at], x), is_output))

    def outputs(self, *arguments: Any) -> tuple[Any, ...]:
        """Returns the outputs of the network: the results of some layers, and last the result of the last layer."""
        *params, x = arguments
        found = []
        for step, is_output in self.steps:
            x = step(params, x)
            found += [x] * is_output
        return (*found, x)

    def arguments(self, seed: int) -> list[np.ndarray[Any, Any]]:
        """Returns random parameters of all layers, and a random input.

        All elements are numbers that f32 can represent.
        """
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (*self.shapes, self.input)]
        return [x.astype(self.dtype) for x in arrays]

    def cotangents(self, seed: int) -> list[np.ndarray[Any, Any]]:
        """Draws cotangents of the outputs."""
        rng = np.random.default_rng([seed, 1])
        given = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.arguments(0)]
        with jax.enable_x64(True):
            outputs = jax.eval_shape(self.outputs, *given)
        return [rng.standard_normal(y.shape).astype(np.float32).astype(y.dtype) for y in outputs]

    @property
    def active(self) -> list[int]:
        """The positions of the differentiated arguments, which are all parameters and the input."""
        return list(range(len(self.shapes) + 1))

    @property
    def text(self) -> str:
        """The StableHLO text that JAX exports. The batch dimension is dynamic if `dynamic` is set."""
        if not self.dynamic:
            return exported(self.outputs, *self.arguments(0))
        with jax.enable_x64(True):
            (batch,) = export.symbolic_shape("batch")
            shapes = [*self.shapes, (batch, *self.input[1:])]
            given = [jax.ShapeDtypeStruct(shape, self.dtype) for shape in shapes]
            return str(export.export(jax.jit(self.outputs))(*given).mlir_module())

    def by_jax(self, arguments: Sequence[Any], vectors: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Returns the outputs and the gradients that JAX computes. `vectors` are the cotangents of the outputs."""

        def both(x: Any, v: Any) -> Any:
            outputs, transpose = jax.vjp(self.outputs, *x)
            cotangents = tuple(u.astype(y.dtype) for u, y in zip(v, outputs, strict=True))
            return *outputs, *transpose(cotangents)

        with jax.enable_x64(True):
            return [np.asarray(y) for y in jax.jit(both)(tuple(arguments), tuple(vectors))]


def _with(layer: Layer, name: str, joined: Callable[[Any, Any], Any]) -> Layer:
    function: Function = layer.function
    return Layer(layer.name + name, layer.shapes, lambda p, x: joined(x, function(p, x)))
