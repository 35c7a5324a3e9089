"""The functions that suite.py differentiates, written in JAX. Most are typical for benchmarks of differentiation.

Each function is written as a user would write it, without adjustments for a differentiator or a compiler. A gradient
takes between tens of microseconds and tens of milliseconds on a laptop.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp


class Function(NamedTuple):
    """A scalar function of arrays with its arguments.

    The function is differentiated with respect to the arguments at the listed positions.
    """

    function: Callable[..., Any]
    arguments: Callable[[np.random.Generator], list[Any]]
    wrt: tuple[int, ...]


# ---- gmm: the log-likelihood of a mixture of Gaussians -----------------------------------------------------


def gmm(weights: Any, means: Any, logs: Any, lower: Any, x: Any) -> Any:
    """Returns the negative log-likelihood of a mixture of k Gaussians. weights: (k,), means: (k, d), x: (n, d).

    The Cholesky factors of the precision matrices have the logarithms of their diagonals in `logs`: (k, d), and their
    strictly lower triangles in `lower`: (k, d, d).
    """
    roots = jnp.exp(logs)[:, :, None] * jnp.eye(x.shape[1], dtype=x.dtype) + jnp.tril(lower, -1)
    centred = x[:, None, :] - means
    scaled = jnp.einsum("kij,nkj->nki", roots, centred)
    terms = weights + jnp.sum(logs, axis=1) - 0.5 * jnp.sum(scaled**2, axis=-1)
    prior = 0.5 * jnp.sum(jnp.exp(2 * logs)) + 0.5 * jnp.sum(jnp.tril(lower, -1) ** 2) - jnp.sum(logs)
    return prior + len(x) * logsumexp(weights) - jnp.sum(logsumexp(terms, axis=1))


def gmm_arguments(rng: np.random.Generator) -> list[Any]:
    n, k, d = 1000, 10, 8
    normal = rng.standard_normal
    return [normal(k), normal((k, d)), 0.1 * normal((k, d)), 0.3 * normal((k, d, d)), normal((n, d))]


# ---- lstm: a language model with two LSTM layers ------------------------------------------------------------


def lstm(weights: Any, biases: Any, out: Any, text: Any) -> Any:
    """Returns the loss of a language model. `text` has a one-hot row for each character.

    weights: (layers, 2 h, 4 h), biases: (layers, 4 h), out: (h, h), text: (length, h).
    """
    hidden = out.shape[0]

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        states, y = [], x[0]
        for i in range(weights.shape[0]):
            h, c = state[i]
            gates = jnp.concatenate([y, h]) @ weights[i] + biases[i]
            forget, into, outof, change = jnp.split(gates, 4)
            c = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(into) * jnp.tanh(change)
            y = jax.nn.sigmoid(outof) * jnp.tanh(c)
            states.append(jnp.stack([y, c]))
        logits = y @ out
        return jnp.stack(states), -jnp.sum(x[1] * jax.nn.log_softmax(logits))

    start = jnp.zeros((weights.shape[0], 2, hidden), weights.dtype)
    return jnp.mean(lax.scan(step, start, (text[:-1], text[1:]))[1])


def lstm_arguments(rng: np.random.Generator) -> list[Any]:
    layers, hidden, length = 2, 32, 101
    text = np.eye(hidden)[rng.integers(0, hidden, length)]
    weights = rng.standard_normal((layers, 2 * hidden, 4 * hidden)) / np.sqrt(2 * hidden)
    return [weights, 0.1 * rng.standard_normal((layers, 4 * hidden)), np.eye(hidden), text]


# ---- kmeans: distances to the nearest centre ----------------------------------------------------------------


def kmeans(centres: Any, points: Any) -> Any:
    """Returns the sum of the squared distances of points to their nearest centres. centres: (k, d), points: (n, d)."""
    distances = jnp.sum((points[:, None, :] - centres) ** 2, axis=-1)
    return jnp.sum(jnp.min(distances, axis=1))


def kmeans_arguments(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((16, 8)), rng.standard_normal((2000, 8))]


# ---- bundle: bundle adjustment, the error of reprojected points in all views -----------------------------------


def bundle(cameras: Any, points: Any, weights: Any, of_camera: Any, of_point: Any, seen: Any) -> Any:
    """Returns the error of reprojected points.

    View i shows the point `of_point[i]` of camera `of_camera[i]` at `seen[i]`.

    A camera has 11 numbers: rotation vector, centre, focal length, principal point, and radial distortion.
    """
    camera, x = cameras[of_camera], points[of_point]
    rotation, centre = camera[:, :3], camera[:, 3:6]
    squared = jnp.sum(rotation**2, axis=1, keepdims=True)
    angle = jnp.sqrt(squared + 1e-12)
    axis = rotation / angle
    moved = x - centre
    turned = moved * jnp.cos(angle) + jnp.cross(axis, moved) * jnp.sin(angle)
    turned = turned + axis * jnp.sum(axis * moved, axis=1, keepdims=True) * (1 - jnp.cos(angle))
    flat = turned[:, :2] / turned[:, 2:]
    radius = jnp.sum(flat**2, axis=1, keepdims=True)
    flat = flat * (1 + camera[:, 9:10] * radius + camera[:, 10:11] * radius**2)
    projected = camera[:, 6:7] * flat + camera[:, 7:9]
    error = weights[:, None] * (projected - seen)
    return jnp.sum(error**2) + jnp.sum((1 - weights**2) ** 2)


def bundle_arguments(rng: np.random.Generator) -> list[Any]:
    cameras, points, views = 20, 300, 2000
    camera = 0.1 * rng.standard_normal((cameras, 11)) + np.array([0, 0, 0, 0, 0, -5, 1, 0, 0, 0, 0])
    return [
        camera,
        rng.standard_normal((points, 3)),
        rng.uniform(0.5, 1, views),
        rng.integers(0, cameras, views, dtype=np.int32),
        rng.integers(0, points, views, dtype=np.int32),
        rng.standard_normal((views, 2)),
    ]


# ---- ode: a reaction-diffusion equation on a line, solved by the Runge-Kutta method -----------------------------


def ode(initial: Any, rates: Any) -> Any:
    """Returns the sum of the squares of the solution after 100 steps. initial: (2, n), rates: (4,)."""

    def slope(y: Any) -> Any:
        u, v = y
        a, b, du, dv = rates

        def spread(w: Any) -> Any:
            return jnp.roll(w, 1) - 2 * w + jnp.roll(w, -1)

        return jnp.stack([a - (b + 1) * u + u * u * v + du * spread(u), b * u - u * u * v + dv * spread(v)])

    def step(y: Any, _: Any) -> tuple[Any, None]:
        h = 0.01
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jnp.sum(lax.scan(step, initial, None, length=100)[0] ** 2)


def ode_arguments(rng: np.random.Generator) -> list[Any]:
    return [1 + 0.1 * rng.standard_normal((2, 128)), np.array([1.0, 2.0, 0.5, 0.2])]


# ---- hand: hand tracking, the error of the vertices of a hand with linear blend skinning --------------------------

FINGERS = 5
JOINTS = 4


def hand(pose: Any, base: Any, skin: Any, vertices: Any, seen: Any) -> Any:
    """Returns the sum of the squared distances between the vertices of a posed hand and the observed points.

    `seen` are the observed points, of shape (v, 3).

    pose: (6 + 3 * 20,) has position and rotation, then three angles for each joint. base: (21, 3) has the offsets of
    bones, skin: (21, v) the weights of skinning, and vertices: (v, 3) the vertices, relative to a bone.
    """

    def turn(angles: Any) -> Any:
        (cx, cy, cz), (sx, sy, sz) = jnp.cos(angles), jnp.sin(angles)
        return jnp.stack(
            [
                jnp.stack([cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz]),
                jnp.stack([cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz]),
                jnp.stack([-sy, sx * cy, cx * cy]),
            ]
        )

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
    moved = jnp.einsum("bij,vj->bvi", jnp.stack(rotations), vertices) + jnp.stack(places)[:, None]
    return jnp.sum((jnp.einsum("bv,bvi->vi", skin, moved) - seen) ** 2)


def hand_arguments(rng: np.random.Generator) -> list[Any]:
    bones, vertices = 1 + FINGERS * JOINTS, 500
    skin = rng.uniform(0, 1, (bones, vertices))
    return [
        0.2 * rng.standard_normal(6 + 3 * (bones - 1)),
        rng.standard_normal((bones, 3)),
        skin / skin.sum(axis=0),
        rng.standard_normal((vertices, 3)),
        rng.standard_normal((vertices, 3)),
    ]


# ---- programs on which IREE was slow -------------------------------------------------------------------------------


def images(first: Any, second: Any, x: Any) -> Any:
    """Returns the mean square after two convolutions with channels first. x: (8, 3, 32, 32).

    first: (16, 3, 3, 3), second: (32, 16, 3, 3).
    """
    numbers = ("NCHW", "OIHW", "NCHW")
    y = jax.nn.relu(lax.conv_general_dilated(x, first, (1, 1), "SAME", dimension_numbers=numbers))
    y = lax.conv_general_dilated(y, second, (2, 2), "SAME", dimension_numbers=numbers)
    return jnp.mean(y**2)


def images_arguments(rng: np.random.Generator) -> list[Any]:
    normal = rng.standard_normal
    return [0.2 * normal((16, 3, 3, 3)), 0.1 * normal((32, 16, 3, 3)), normal((8, 3, 32, 32))]


def attention(q: Any, k: Any, v: Any) -> Any:
    """Returns the sum of the squares of multi-head attention over a long text. q, k, v: (heads, n, d)."""
    scores = jnp.einsum("hnd,hmd->hnm", q, k) / np.float32(np.sqrt(q.shape[-1]))
    return jnp.sum(jnp.einsum("hnm,hmd->hnd", jax.nn.softmax(scores), v) ** 2)


def attention_arguments(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((4, 256, 32)) for _ in range(3)]


def ranks(x: Any, weights: Any) -> Any:
    """Returns a weighted sum of sorted values, as in estimates of financial risk. x, weights: (n,)."""
    return jnp.sum(jnp.sort(x) * weights)


def ranks_arguments(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal(10_000), rng.standard_normal(10_000)]


FUNCTIONS: dict[str, Function] = {
    "gmm": Function(gmm, gmm_arguments, (0, 1, 2, 3)),
    "lstm": Function(lstm, lstm_arguments, (0, 1, 2)),
    "kmeans": Function(kmeans, kmeans_arguments, (0,)),
    "bundle": Function(bundle, bundle_arguments, (0, 1, 2)),
    "ode": Function(ode, ode_arguments, (0, 1)),
    "hand": Function(hand, hand_arguments, (0,)),
    "images": Function(images, images_arguments, (0, 1)),
    "attention": Function(attention, attention_arguments, (0, 1, 2)),
    "ranks": Function(ranks, ranks_arguments, (0,)),
}
