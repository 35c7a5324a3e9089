"""Random networks whose arrays are large enough for the passes that rewrite large programs.

A seed draws layers of images or of sequences, with arrays of 32 KiB to some MiB. The layers are attention, (depthwise
or transposed) convolutions, normalization, pooling, resizing by index arrays as in PyTorch, gathers, and recurrences.
They form blocks of equal layers, residuals, and dense connections, which concatenate an operand with its result. A
network has several outputs and sometimes a dynamic batch. The compared program is the VJP toward all parameters and
real inputs, with values and gradients.
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
"""The largest number of elements between two layers."""

Kind = Callable[[Random, Shape], Layer]


def bilinear(draw: Random, shape: Shape) -> Layer:
    """Resizes images by four gathers, whose index arrays have the shape of the result and equal first parts.

    The last two of the four dimensions are the rows and columns of images. An index array has the numbers of image,
    channel, row and column.
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
    """Selects channels or steps in random order, some several times and others not at all."""
    places = np.array([draw.randrange(shape[1]) for _ in range(shape[1])])
    return plain("gathered", lambda x: x[:, places])


def attended(draw: Random, shape: Shape) -> Layer:
    """Attention over the pixels of small images."""
    batch, channels, height, width = shape
    layer = Sequences().attention(draw, (batch, height * width, channels))

    def call(p: Sequence[Any], x: Any) -> Any:
        y = layer.function(p, x.reshape(batch, channels, -1).swapaxes(1, 2))
        return y.swapaxes(1, 2).reshape(x.shape)

    if height * width > 1024:
        raise ValueError("the scores would be too large")
    return Layer(f"pixels: {layer.name}", layer.shapes, call)


def wide(draw: Random, shape: Shape) -> Layer:
    """A product with a matrix larger than those of `Sequences.dense`."""
    features = draw.choice([128, 192, 256, 384])
    scale = shape[-1] ** -0.5
    return Layer(f"wide {features}", ((shape[-1], features),), lambda p, x: x @ (p[0] * scale))


class LargeNetwork:
    """A random network: a function from parameters and an input to outputs."""

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
        """Adds layers and blocks of equal layers. The results of some layers become outputs."""
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
        """The results of the layers that are marked as outputs, followed by the result of the last layer."""
        *params, x = arguments
        found = []
        for step, is_output in self.steps:
            x = step(params, x)
            found += [x] * is_output
        return (*found, x)

    def arguments(self, seed: int) -> list[np.ndarray[Any, Any]]:
        """Random parameters of all layers, and the input. All elements are exact in f32, whatever the type is."""
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (*self.shapes, self.input)]
        return [x.astype(self.dtype) for x in arrays]

    def cotangents(self, seed: int) -> list[np.ndarray[Any, Any]]:
        """Random cotangents of the outputs."""
        rng = np.random.default_rng([seed, 1])
        given = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self.arguments(0)]
        with jax.enable_x64(True):
            outputs = jax.eval_shape(self.outputs, *given)
        return [rng.standard_normal(y.shape).astype(np.float32).astype(y.dtype) for y in outputs]

    @property
    def active(self) -> list[int]:
        """The positions of parameters and of the input."""
        return list(range(len(self.shapes) + 1))

    @property
    def text(self) -> str:
        """The program as JAX exports it, with a dynamic batch if the seed drew one."""
        if not self.dynamic:
            return exported(self.outputs, *self.arguments(0))
        with jax.enable_x64(True):
            (batch,) = export.symbolic_shape("batch")
            shapes = [*self.shapes, (batch, *self.input[1:])]
            given = [jax.ShapeDtypeStruct(shape, self.dtype) for shape in shapes]
            return str(export.export(jax.jit(self.outputs))(*given).mlir_module())

    def by_jax(self, arguments: Sequence[Any], vectors: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The outputs and the gradients by JAX, in the element type of the arguments."""

        def both(x: Any, v: Any) -> Any:
            outputs, transpose = jax.vjp(self.outputs, *x)
            cotangents = tuple(u.astype(y.dtype) for u, y in zip(v, outputs, strict=True))
            return *outputs, *transpose(cotangents)

        with jax.enable_x64(True):
            return [np.asarray(y) for y in jax.jit(both)(tuple(arguments), tuple(vectors))]


def _with(layer: Layer, name: str, joined: Callable[[Any, Any], Any]) -> Layer:
    function: Function = layer.function
    return Layer(layer.name + name, layer.shapes, lambda p, x: joined(x, function(p, x)))
