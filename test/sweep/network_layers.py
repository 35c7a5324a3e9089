"""Random layers of networks as JAX functions: convolutions, normalization, pooling, attention, recurrences.

A layer has a function of parameters and an array, and the shapes of the parameters. The function computes in the
element type of its arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Shape = tuple[int, ...]
Function = Callable[[Sequence[Any], Any], Any]


@dataclass(frozen=True)
class Layer:
    """A function of an array and of parameters with the shapes `shapes`. `name` describes the layer."""

    name: str
    shapes: tuple[Shape, ...]
    function: Function

    def result(self, shape: Shape) -> Shape:
        """Returns the shape of the layer's result for an array of this shape.

        Raises ValueError or TypeError if the layer cannot be applied to this shape.
        """
        of = [jax.ShapeDtypeStruct(x, "float32") for x in (*self.shapes, shape)]
        return tuple(jax.eval_shape(lambda *x: self.function(x[:-1], x[-1]), *of).shape)


def plain(name: str, function: Callable[[Any], Any]) -> Layer:
    """Returns a layer without parameters."""
    return Layer(name, (), lambda _, x: function(x))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "relu6": lambda x: jnp.clip(x, 0, 6),
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "tanh": jnp.tanh,
    "hardswish": lambda x: x * jnp.clip(x + 3, 0, 6) / 6,
    "leaky": jax.nn.leaky_relu,
    "softplus": jax.nn.softplus,
}


def activation(draw: Random, _: Shape) -> Layer:
    """Returns a random activation function."""
    name = draw.choice(sorted(ACTIVATIONS))
    return plain(name, ACTIVATIONS[name])


def normalized(x: Any, axes: Sequence[int], centred: bool = True) -> Any:
    """Returns the array minus its mean, divided by its standard deviation along these dimensions.

    Without `centred`, the mean is not subtracted, and the divisor is the root of the mean square.
    """
    axes = tuple(axes)
    x = x - jnp.mean(x, axes, keepdims=True) if centred else x
    return x * lax.rsqrt(jnp.mean(x * x, axes, keepdims=True) + 1e-3)


def _scaled(name: str, channels: int, position: int, rank: int, function: Callable[[Any], Any]) -> Layer:
    """Returns a layer that applies a function, and then a scale and an offset for each channel."""
    shape = [1] * rank
    shape[position] = channels

    def call(p: Sequence[Any], x: Any) -> Any:
        return function(x) * (1 + p[0].reshape(shape)) + p[1].reshape(shape)

    return Layer(name, ((channels,), (channels,)), call)


@dataclass(frozen=True)
class Images:
    """Layers of images. The dimensions are batch, channels, height and width. With `last`, channels are last."""

    last: bool

    @property
    def channel(self) -> int:
        return 3 if self.last else 1

    @property
    def space(self) -> tuple[int, int]:
        return (1, 2) if self.last else (2, 3)

    @property
    def _numbers(self) -> tuple[str, str, str]:
        return ("NHWC", "HWIO", "NHWC") if self.last else ("NCHW", "OIHW", "NCHW")

    def convolution(self, draw: Random, shape: Shape) -> Layer:
        """Draws a convolution with random windows, strides, padding, dilation and groups, and usually a bias."""
        channels = shape[self.channel]
        groups = draw.choice(
            [1, 1, 1, channels, draw.choice([g for g in (2, 3, 4) if channels % g == 0] or [1])]
        )
        features = groups * max(1, draw.choice([8, 16, 17, 24, 32, 40, 64]) // groups)
        if groups == channels:
            features = channels * draw.choice([1, 1, 1, 2])
        size = draw.choice([(1, 1), (1, 1), (2, 2), (3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (1, 3), (3, 1)])
        strides = draw.choice([(1, 1), (1, 1), (1, 1), (2, 2), (3, 3), (2, 1)])
        dilation = draw.choice([(1, 1), (1, 1), (1, 1), (2, 2)])
        padding: Any = draw.choice(["SAME", "SAME", "SAME", "VALID", "drawn"])
        if padding == "drawn":
            padding = [(draw.randint(0, k), draw.randint(0, k)) for k in size]
        inputs = channels // groups
        kernel = (*size, inputs, features) if self.last else (features, inputs, *size)
        offset = [features if i == self.channel else 1 for i in range(4)]
        scale = (inputs * size[0] * size[1]) ** -0.5

        def call(p: Sequence[Any], x: Any) -> Any:
            y = lax.conv_general_dilated(
                x, p[0] * scale, strides, padding, None, dilation, self._numbers, groups
            )
            return y + p[1].reshape(offset) if len(p) > 1 else y

        name = f"convolution {kernel} strides {strides} padding {padding} dilation {dilation} groups {groups}"
        return Layer(name, (kernel, (features,)) if draw.random() < 0.6 else (kernel,), call)

    def transposed(self, draw: Random, shape: Shape) -> Layer:
        """Draws a transposed convolution."""
        channels, features = shape[self.channel], draw.choice([8, 12, 16, 32])
        size, stride = draw.choice([(2, 2), (3, 2), (4, 2), (3, 1), (3, 3)])
        padding = draw.choice(["SAME", "VALID"])
        kernel = (size, size, channels, features) if self.last else (channels, features, size, size)
        numbers = ("NHWC", "HWIO", "NHWC") if self.last else ("NCHW", "IOHW", "NCHW")

        def call(p: Sequence[Any], x: Any) -> Any:
            return lax.conv_transpose(
                x, p[0] * channels**-0.5 / size, (stride, stride), padding, dimension_numbers=numbers
            )

        return Layer(f"transposed {kernel} stride {stride} {padding}", (kernel,), call)

    def normalization(self, draw: Random, shape: Shape) -> Layer:
        """Draws a batch, instance, layer or group normalization."""
        kind, channels = draw.choice(["batch", "batch", "instance", "layer", "group"]), shape[self.channel]
        axes = {"batch": (0, *self.space), "instance": self.space, "layer": (self.channel,)}
        if kind != "group":
            return _scaled(kind, channels, self.channel, 4, lambda x: normalized(x, axes[kind]))
        groups = draw.choice([g for g in (1, 2, 4, 8) if channels % g == 0])
        split = [*shape]
        split[self.channel : self.channel + 1] = [groups, channels // groups]
        over = [i for i in range(1, 5) if i != self.channel]

        def call(x: Any) -> Any:
            return normalized(x.reshape(split), over).reshape(x.shape)

        return _scaled(f"group {groups}", channels, self.channel, 4, call)

    def pool(self, draw: Random, _: Shape) -> Layer:
        """Max pooling or mean pooling. Windows often overlap, or are single elements with gaps between them."""
        size, stride = draw.choice([(2, 2), (3, 2), (3, 1), (2, 1), (3, 3), (1, 2), (1, 3)])
        window = [size if i in self.space else 1 for i in range(4)]
        strides = [stride if i in self.space else 1 for i in range(4)]
        padding = draw.choice(["SAME", "VALID"])
        if draw.random() < 0.6:
            return plain(
                f"max_pool {size} {stride} {padding}",
                lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding),
            )
        return plain(
            f"mean_pool {size} {stride} {padding}",
            lambda x: lax.reduce_window(x, 0.0, lax.add, window, strides, padding) / size**2,
        )

    def gates(self, draw: Random, shape: Shape) -> Layer:
        """Squeeze and excitation: each channel is scaled by a function of the means of all channels."""
        channels, inner = shape[self.channel], draw.choice([4, 6, 8])
        name = draw.choice(["relu", "silu"])

        def call(p: Sequence[Any], x: Any) -> Any:
            means = jnp.mean(x, self.space)
            gate = jax.nn.sigmoid(ACTIVATIONS[name](means @ p[0]) @ p[1])
            return x * jnp.expand_dims(gate, self.space)

        return Layer(f"gates {inner} {name}", ((channels, inner), (inner, channels)), call)

    def resized(self, draw: Random, shape: Shape) -> Layer:
        """Doubles height and width, by repetition of pixels or by bilinear interpolation."""
        if draw.random() < 0.5:
            return plain("repeat", lambda x: jnp.repeat(jnp.repeat(x, 2, self.space[0]), 2, self.space[1]))
        sizes = [n * 2 if i in self.space else n for i, n in enumerate(shape)]
        return plain("bilinear", lambda x: jax.image.resize(x, sizes, "bilinear"))

    def moved(self, draw: Random, shape: Shape) -> Layer:
        """Pads, crops or mirrors images, or turns blocks of pixels into channels."""
        a, b = self.space
        kind = draw.choice(["pad", "crop", "mirror", "reflect", "blocks"])
        around = [(1, 2) if i in self.space else (0, 0) for i in range(4)]
        if kind == "pad":
            return plain(kind, lambda x: jnp.pad(x, around))
        if kind == "reflect":
            return plain(kind, lambda x: jnp.pad(x, around, mode="reflect"))
        if kind == "mirror":
            return plain(kind, lambda x: jnp.flip(x, b))
        if kind == "blocks" and shape[a] % 2 == shape[b] % 2 == 0:
            return plain(kind, self._blocks)
        cut = tuple(slice(1, -1) if i in self.space else slice(None) for i in range(4))
        return plain("crop", lambda x: x[cut])

    def _blocks(self, x: Any) -> Any:
        """Turns each block of two by two pixels into one pixel with four times as many channels."""
        if not self.last:
            return jnp.moveaxis(CHANNELS_LAST._blocks(jnp.moveaxis(x, 1, 3)), 3, 1)
        n, h, w, c = x.shape
        x = x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5)
        return x.reshape(n, h // 2, w // 2, 4 * c)


CHANNELS_LAST = Images(True)


@dataclass(frozen=True)
class Sequences:
    """Draws layers of sequences. The dimensions of a sequence are batch, steps and features."""

    def dense(self, draw: Random, shape: Shape) -> Layer:
        """Draws a layer that multiplies by a matrix and usually adds a bias."""
        features = draw.choice([24, 32, 48, 64, 65, 96, 128])
        shapes = ((shape[-1], features), (features,))
        scale = shape[-1] ** -0.5

        def call(p: Sequence[Any], x: Any) -> Any:
            y = x @ (p[0] * scale)
            return y + p[1] if len(p) > 1 else y

        return Layer(f"dense {features}", shapes if draw.random() < 0.7 else shapes[:1], call)

    def normalization(self, draw: Random, shape: Shape) -> Layer:
        """Layer normalization, or root mean square normalization."""
        centred = draw.random() < 0.6
        return _scaled(
            "layer" if centred else "root_mean_square",
            shape[-1],
            2,
            3,
            lambda x: normalized(x, (2,), centred),
        )

    def attention(self, draw: Random, shape: Shape) -> Layer:
        """Multi-head attention with a residual connection. It may be causal, and heads may share keys and values."""
        batch, steps, width = shape
        size, heads = draw.choice([8, 16, 24, 32]), draw.choice([1, 2, 4])
        shared, causal = draw.choice([1, 1, 2]) if heads > 1 else 1, draw.random() < 0.6
        keys = heads // shared * size
        shapes = ((width, heads * size), (width, keys), (width, keys), (heads * size, width))

        def call(p: Sequence[Any], x: Any) -> Any:
            q, k, v = ((x @ w * width**-0.5).reshape(batch, steps, -1, size) for w in p[:3])
            k, v = (jnp.repeat(y, shared, 2) for y in (k, v))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * size**-0.5
            if causal:
                scores = jnp.where(jnp.tri(steps, dtype=bool), scores, -1e9)
            y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
            return x + y.reshape(batch, steps, -1) @ p[3] * (heads * size) ** -0.5

        return Layer(f"attention {size} x {heads} / {shared} {causal}", shapes, call)

    def perceptron(self, draw: Random, shape: Shape) -> Layer:
        """Draws a layer of two matrix products with an activation between them, and a residual connection.

        The activation may be gated.
        """
        width, inner = shape[-1], draw.choice([32, 64, 100, 128])
        name, gated = draw.choice(sorted(ACTIVATIONS)), draw.random() < 0.4
        function = ACTIVATIONS[name]

        def call(p: Sequence[Any], x: Any) -> Any:
            h = x @ p[0] * width**-0.5
            h = function(h[..., :inner]) * h[..., inner:] if gated else function(h + p[2])
            return x + h @ p[1] * inner**-0.5

        shapes = ((width, inner * (2 if gated else 1)), (inner, width), (inner,))
        return Layer(f"perceptron {inner} {name}", shapes[:2] if gated else shapes, call)

    def recurrence(self, draw: Random, shape: Shape) -> Layer:
        """Draws a layer with a loop over the steps.

        It is a plain or gated recurrent network, or an exponential moving average.
        """
        width, kind = draw.choice([16, 24, 32]), draw.choice(["plain", "gated", "decay"])
        if kind == "decay":
            return Layer("decay", ((shape[-1],),), self._decay)
        many = 1 if kind == "plain" else 2
        shapes = ((shape[-1], many * width), (width, many * width))

        def call(p: Sequence[Any], x: Any) -> Any:
            def step(h: Any, x: Any) -> tuple[Any, Any]:
                z = x @ p[0] * shape[-1] ** -0.5 + h @ p[1] * width**-0.5
                a = jnp.tanh(z[:, :width])
                h = a if many == 1 else h + jax.nn.sigmoid(z[:, width:]) * (a - h)
                return h, h

            first = jnp.zeros((shape[0], width), x.dtype)
            return lax.scan(step, first, x.swapaxes(0, 1))[1].swapaxes(0, 1)

        return Layer(f"recurrence {kind} {width}", shapes, call)

    @staticmethod
    def _decay(p: Sequence[Any], x: Any) -> Any:
        kept = jax.nn.sigmoid(p[0])

        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = kept * h + (1 - kept) * x
            return h, h

        return lax.scan(step, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))[1].swapaxes(0, 1)

    def convolution(self, draw: Random, shape: Shape) -> Layer:
        """Draws a convolution along the steps, which is often depthwise and causal."""
        width, size = shape[-1], draw.choice([2, 3, 4])
        groups = draw.choice([1, width])
        padding = draw.choice([[(size - 1, 0)], "SAME"])

        def call(p: Sequence[Any], x: Any) -> Any:
            w = p[0] * (size * width // groups) ** -0.5
            return lax.conv_general_dilated(
                x, w, (1,), padding, dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=groups
            )

        return Layer(f"convolution {size} groups {groups}", ((size, width // groups, width),), call)

    def moved(self, draw: Random, _: Shape) -> Layer:
        """Rolls, reverses or accumulates the steps, or applies rotary position embedding."""
        kind = draw.choice(["roll", "flip", "cumsum", "rotary"])
        functions: dict[str, Callable[[Any], Any]] = {
            "roll": lambda x: x + jnp.roll(x, 1, 1),
            "flip": lambda x: jnp.flip(x, 1),
            "cumsum": lambda x: jnp.cumsum(x, 1) / x.shape[1],
            "rotary": self._rotated,
        }
        return plain(kind, functions[kind])

    @staticmethod
    def _rotated(x: Any) -> Any:
        half = x.shape[2] // 2
        rates = 100.0 ** (-jnp.arange(half) / half)
        angles = (jnp.arange(x.shape[1])[:, None] * rates).astype(x.dtype)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        c, s = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([a * c - b * s, a * s + b * c, rest], 2)
