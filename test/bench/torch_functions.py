"""The functions of functions.py and the losses of the examples' networks, written in PyTorch.

Each function takes the arguments of the JAX function as separate arrays. The parameters of a network are sorted by
name.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functions import FINGERS, JOINTS
from numpy.typing import NDArray
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

HEADS = 4

# ---- the examples' networks --------------------------------------------------------------------------------------


def mlp(b1: Any, b2: Any, b3: Any, w1: Any, w2: Any, w3: Any, x: Any, y: Any) -> Any:
    """Returns the loss of the multilayer perceptron. x: (batch, 16), y: (batch, 4)."""
    h = torch.tanh(torch.addmm(b1, x, w1))
    h = torch.tanh(torch.addmm(b2, h, w2))
    return functional.mse_loss(torch.addmm(b3, h, w3), y)


def convnet(
    b: Any,
    k1: Any,
    k2: Any,
    scale1: Any,
    scale2: Any,
    shift1: Any,
    shift2: Any,
    w: Any,
    images: Any,
    labels: Any,
) -> Any:
    """Returns the loss of the convolutional network.

    images: (batch, 12, 12, 3), k1 and k2: (height, width, in, out).
    """

    def normed(x: Any, kernel: Any, scale: Any, shift: Any) -> Any:
        x = functional.conv2d(x, kernel.permute(3, 2, 0, 1), padding="same")
        return functional.batch_norm(x, None, None, scale, shift, training=True)

    x = normed(images.permute(0, 3, 1, 2), k1, scale1, shift1)
    x = normed(functional.relu(functional.max_pool2d(x, 2)), k2, scale2, shift2)
    x = functional.avg_pool2d(functional.pad(functional.relu(x), (0, 1, 0, 1)), 3, 2)
    return functional.cross_entropy(torch.addmm(b, x.permute(0, 2, 3, 1).flatten(1), w), labels)


def transformer(
    b1: Any,
    b2: Any,
    embed: Any,
    scale1: Any,
    shift1: Any,
    scale2: Any,
    shift2: Any,
    scale3: Any,
    shift3: Any,
    position: Any,
    unembed: Any,
    w1: Any,
    w2: Any,
    w_out: Any,
    w_qkv: Any,
    tokens: Any,
    targets: Any,
) -> Any:
    """Returns the loss of the transformer. tokens, targets: (batch, length)."""
    x = functional.embedding(tokens, embed) + position
    batch, length, width = x.shape
    qkv = functional.layer_norm(x, (width,), scale1, shift1) @ w_qkv
    q, k, v = qkv.reshape(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(batch, length, width) @ w_out
    h = functional.gelu(functional.layer_norm(x, (width,), scale2, shift2) @ w1 + b1)
    x = x + h @ w2 + b2
    logits = functional.layer_norm(x, (width,), scale3, shift3) @ unembed
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# ---- the functions of functions.py ---------------------------------------------------------------------------------


def gmm(weights: Any, means: Any, logs: Any, lower: Any, x: Any) -> Any:
    below = torch.tril(lower, -1)
    roots = torch.diag_embed(torch.exp(logs)) + below
    scaled = torch.einsum("kij,nkj->nki", roots, x[:, None, :] - means)
    terms = weights + logs.sum(1) - 0.5 * (scaled**2).sum(-1)
    prior = 0.5 * torch.exp(2 * logs).sum() + 0.5 * (below**2).sum() - logs.sum()
    return prior + len(x) * torch.logsumexp(weights, 0) - torch.logsumexp(terms, 1).sum()


def lstm(weights: Any, biases: Any, out: Any, text: Any) -> Any:
    layers, hidden = len(weights), len(out)
    states = [(torch.zeros(hidden), torch.zeros(hidden)) for _ in range(layers)]
    losses = []
    for x, following in zip(text[:-1], text[1:], strict=True):
        y = x
        for i, (h, c) in enumerate(states):
            gates = torch.cat([y, h]) @ weights[i] + biases[i]
            forget, into, outof, change = gates.chunk(4)
            c = torch.sigmoid(forget) * c + torch.sigmoid(into) * torch.tanh(change)
            y = torch.sigmoid(outof) * torch.tanh(c)
            states[i] = y, c
        losses.append(-(following * functional.log_softmax(y @ out, 0)).sum())
    return torch.stack(losses).mean()


def kmeans(centres: Any, points: Any) -> Any:
    return ((points[:, None, :] - centres) ** 2).sum(-1).amin(1).sum()


def bundle(cameras: Any, points: Any, weights: Any, of_camera: Any, of_point: Any, seen: Any) -> Any:
    camera, x = cameras[of_camera], points[of_point]
    rotation, moved = camera[:, :3], x - camera[:, 3:6]
    angle = torch.sqrt((rotation**2).sum(1, keepdim=True) + 1e-12)
    axis = rotation / angle
    turned = moved * torch.cos(angle) + torch.linalg.cross(axis, moved) * torch.sin(angle)
    turned = turned + axis * (axis * moved).sum(1, keepdim=True) * (1 - torch.cos(angle))
    flat = turned[:, :2] / turned[:, 2:]
    radius = (flat**2).sum(1, keepdim=True)
    flat = flat * (1 + camera[:, 9:10] * radius + camera[:, 10:11] * radius**2)
    error = weights[:, None] * (camera[:, 6:7] * flat + camera[:, 7:9] - seen)
    return (error**2).sum() + ((1 - weights**2) ** 2).sum()


def ode(initial: Any, rates: Any) -> Any:
    a, b, du, dv = rates

    def slope(y: Any) -> Any:
        (u, v), spread = y, torch.roll(y, 1, 1) - 2 * y + torch.roll(y, -1, 1)
        return torch.stack([a - (b + 1) * u + u * u * v + du * spread[0], b * u - u * u * v + dv * spread[1]])

    y, h = initial, 0.01
    for _ in range(100):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return (y**2).sum()


def hand(pose: Any, base: Any, skin: Any, vertices: Any, seen: Any) -> Any:
    def turn(angles: Any) -> Any:
        (cx, cy, cz), (sx, sy, sz) = torch.cos(angles), torch.sin(angles)
        rows = [cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz]
        rows += [cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz]
        return torch.stack([*rows, -sy, sx * cy, cx * cy]).reshape(3, 3)

    angles = pose[6:].reshape(FINGERS, JOINTS, 3)
    root, place = turn(pose[3:6]), pose[:3]
    rotations, places = [root], [place]
    for i in range(FINGERS):
        rotation, at = root, place
        for j in range(JOINTS):
            at = at + rotation @ base[1 + i * JOINTS + j]
            rotation = rotation @ turn(angles[i, j])
            rotations.append(rotation)
            places.append(at)
    moved = torch.einsum("bij,vj->bvi", torch.stack(rotations), vertices) + torch.stack(places)[:, None]
    return ((torch.einsum("bv,bvi->vi", skin, moved) - seen) ** 2).sum()


def images(first: Any, second: Any, x: Any) -> Any:
    y = functional.relu(functional.conv2d(x, first, padding=1))
    y = functional.conv2d(functional.pad(y, (0, 1, 0, 1)), second, stride=2)  # XLA's "SAME" pads at the end
    return (y**2).mean()


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = torch.einsum("hnd,hmd->hnm", q, k) / math.sqrt(q.shape[-1])
    return (torch.einsum("hnm,hmd->hnd", torch.softmax(scores, -1), v) ** 2).sum()


def ranks(x: Any, weights: Any) -> Any:
    return (torch.sort(x, stable=True).values * weights).sum()


FUNCTIONS = (mlp, convnet, transformer, gmm, lstm, kmeans, bundle, ode, hand, images, attention, ranks)
BY_NAME: dict[str, Callable[..., Any]] = {function.__name__: function for function in FUNCTIONS}

# ---- their gradients -----------------------------------------------------------------------------------------------


def value_and_gradient(
    name: str, arguments: Sequence[NDArray[Any]], wrt: Sequence[int]
) -> Callable[[], list[NDArray[Any]]]:
    """Returns a function without arguments.

    It computes the value and the gradient of `function` by `torch.autograd`.
    """
    function = BY_NAME[name]
    tensors = [torch.from_numpy(x) for x in arguments]
    tensors = [x if x.is_floating_point() else x.long() for x in tensors]
    leaves = [tensors[i].requires_grad_() for i in wrt]

    def call() -> list[NDArray[Any]]:
        loss = function(*tensors)
        return [loss.detach().numpy(), *(dx.numpy() for dx in torch.autograd.grad(loss, leaves))]

    return call


def allocated(call: Callable[[], Any]) -> int:
    """Returns the peak memory of the tensors that PyTorch allocates during a call, in bytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    now = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
