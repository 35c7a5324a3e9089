"""Three small models. Each is a function from parameters and one batch of data to a scalar loss.

They are ordinary programs of JAX, without any special code for tiduc. The parameters are a dictionary of arrays, and
arrays have the element types of the inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Params = dict[str, Any]


class Model(NamedTuple):
    """A loss, a function that draws its arguments, and one that measures how far activations are from kinks."""

    loss: Callable[..., Any]
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    """Draws the arguments of `loss` with a random generator. All floats are f64."""
    kinks: Callable[..., Any] | None = None
    """Maps arguments of `loss` to the distances of activations from the points where the loss is not differentiable.

    The field is None if the loss is differentiable everywhere.
    """


def dense_init(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normally distributed weights, divided by the square root of the fan-in.

    The fan-in is the product of the sizes of all axes except the last.
    """
    return rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))


def cross_entropy_one_hot(logits, labels):
    """The mean cross-entropy. The log-probability of a label is selected by a product with a one-hot vector."""
    picked = jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.mean(jnp.sum(picked, axis=-1))


def cross_entropy_gather(logits, labels):
    """The mean cross-entropy. The log-probability of a label is selected by a gather."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -jnp.mean(picked)


# --- mlp has two hidden layers with tanh. Its loss is the mean squared error. -----------------------


def mlp_loss(params: Params, x, y):
    """The loss for x: (batch, 16) and y: (batch, 4)."""
    h = jnp.tanh(x @ params["w1"] + params["b1"])
    h = jnp.tanh(h @ params["w2"] + params["b2"])
    return jnp.mean((h @ params["w3"] + params["b3"] - y) ** 2)


def mlp_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    sizes = (16, 64, 64, 4)
    params = {}
    for i, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:], strict=False), start=1):
        params[f"w{i}"] = dense_init(rng, fan_in, fan_out)
        params[f"b{i}"] = 0.1 * rng.standard_normal(fan_out)
    return params, rng.standard_normal((32, sizes[0])), rng.standard_normal((32, sizes[-1]))


# --- convnet has two blocks of convolution, batch norm and pooling, and then a dense layer. ---------


def conv(x, kernel):
    """The convolution of NHWC images with an HWIO kernel, padded so that the size of the images does not change."""
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x, scale, shift, eps=1e-5):
    """Batch normalization as in training: it uses the mean and the variance of the batch."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    var = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * lax.rsqrt(var + eps) * scale + shift


def max_pool(x):
    """Max pooling over 2x2 windows without overlap."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def avg_pool(x):
    """Average pooling over overlapping 3x3 windows. The padding counts as zeros in the average."""
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") / 9


def convnet_layers(params: Params, images):
    """Runs the network. Returns the operand of the max pool, the operands of the two relus, and the logits."""
    normed = batch_norm(conv(images, params["conv1"]), params["scale1"], params["shift1"])
    pre1 = max_pool(normed)
    pre2 = batch_norm(conv(jax.nn.relu(pre1), params["conv2"]), params["scale2"], params["shift2"])
    features = avg_pool(jax.nn.relu(pre2)).reshape(images.shape[0], -1)
    return normed, pre1, pre2, features @ params["w"] + params["b"]


def convnet_loss(params: Params, images, labels):
    """The loss for images: (batch, 12, 12, 3) and labels: (batch,) integers below 10."""
    *_, logits = convnet_layers(params, images)
    return cross_entropy_one_hot(logits, labels)


def convnet_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    batch, classes, c1, c2 = 4, 10, 8, 16
    params = {"conv1": dense_init(rng, 3, 3, 3, c1), "conv2": dense_init(rng, 3, 3, c1, c2)}
    for i, channels in enumerate((c1, c2), start=1):
        params[f"scale{i}"] = 1 + 0.1 * rng.standard_normal(channels)
        params[f"shift{i}"] = 0.1 * rng.standard_normal(channels)
    params["w"] = dense_init(rng, 3 * 3 * c2, classes)
    params["b"] = 0.1 * rng.standard_normal(classes)
    labels = rng.integers(classes, size=batch, dtype=np.int32)
    return params, rng.standard_normal((batch, 12, 12, 3)), labels


def convnet_kinks(params: Params, images, labels):
    """The absolute value of each relu's operand, and the gap between the two largest entries of each pooling window."""
    normed, pre1, pre2, _ = convnet_layers(params, images)
    n, h, w, c = normed.shape
    windows = normed.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 5, 2, 4).reshape(-1, 4)
    ordered = jnp.sort(windows, axis=-1)
    gaps = ordered[:, -1] - ordered[:, -2]
    return jnp.concatenate([gaps, jnp.abs(pre1).ravel(), jnp.abs(pre2).ravel()])


# --- transformer is a language model with one pre-norm block. ---------------------------------------

HEADS = 4


def layer_norm(x, scale, shift, eps=1e-5):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + eps) * scale + shift


def attention(params: Params, x):
    """Multi-head causal self-attention."""
    batch, length, width = x.shape
    q, k, v = jnp.moveaxis((x @ params["w_qkv"]).reshape(batch, length, 3, HEADS, width // HEADS), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // HEADS)
    causal = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return mixed.reshape(batch, length, width) @ params["w_out"]


def transformer_loss(params: Params, tokens, targets):
    """The loss for tokens and targets: (batch, length) integers below the vocabulary's size."""
    x = params["embed"][tokens] + params["position"]
    x = x + attention(params, layer_norm(x, params["ln1_scale"], params["ln1_shift"]))
    h = layer_norm(x, params["ln2_scale"], params["ln2_shift"])
    h = jax.nn.gelu(h @ params["w1"] + params["b1"], approximate=False)
    x = x + h @ params["w2"] + params["b2"]
    logits = layer_norm(x, params["ln3_scale"], params["ln3_shift"]) @ params["unembed"]
    return cross_entropy_gather(logits, targets)


def transformer_inputs(rng: np.random.Generator) -> tuple[Any, ...]:
    batch, length, vocabulary, width, hidden = 2, 16, 48, 32, 128
    params = {
        "embed": rng.standard_normal((vocabulary, width)),
        "position": rng.standard_normal((length, width)),
        "w_qkv": dense_init(rng, width, 3 * width),
        "w_out": dense_init(rng, width, width),
        "w1": dense_init(rng, width, hidden),
        "b1": 0.1 * rng.standard_normal(hidden),
        "w2": dense_init(rng, hidden, width),
        "b2": 0.1 * rng.standard_normal(width),
        "unembed": dense_init(rng, width, vocabulary),
    }
    for i in (1, 2, 3):
        params[f"ln{i}_scale"] = 1 + 0.1 * rng.standard_normal(width)
        params[f"ln{i}_shift"] = 0.1 * rng.standard_normal(width)
    text = rng.integers(vocabulary, size=(batch, length + 1), dtype=np.int32)
    return params, text[:, :-1], text[:, 1:]


MODELS = {
    "mlp": Model(mlp_loss, mlp_inputs),
    "convnet": Model(convnet_loss, convnet_inputs, convnet_kinks),
    "transformer": Model(transformer_loss, transformer_inputs),
}
