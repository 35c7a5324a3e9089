"""Problems of GradBench (https://gradben.ch) for gradbench.py, written in JAX from GradBench's descriptions.

Each function takes arrays of f64. `Problem.inputs` returns small inputs in GradBench's format, for use without
GradBench.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

Array = NDArray[np.float64]
Json = dict[str, Any]

VALUE, GRADIENT, NEWTON, BLOCKS = "value", "gradient", "newton", "blocks"
"""The kinds of results: the objective, its gradient, a step of Newton's method, and blocks of the Jacobian.

A step of Newton's method is the gradient divided by the diagonal of the Hessian. Blocks are for problems in which each
row of the results depends only on one row of each argument, so that the Jacobian is block-diagonal.
"""


Form = Callable[[Json, Sequence[Array]], Any]
"""A function that converts arrays to GradBench's format. Its arguments are the input of the problem and the arrays."""


class Problem(NamedTuple):
    """A problem. `objective` maps an input in GradBench's format to a function of arrays."""

    objective: Callable[[Json], Callable[..., Any]]
    arrays: tuple[str, ...]  # the fields of an input that are the arguments of the objective, in order
    wrt: tuple[int, ...]  # the positions of the differentiated arguments
    functions: dict[str, str]  # GradBench's names of functions -> the kinds of results that they request
    output: Form  # converts a derivative
    inputs: Callable[[np.random.Generator], list[tuple[str, Json]]]
    value: Form = lambda _, results: results[0].tolist()  # converts the value of the objective
    whole: Callable[[Json], Json] = lambda given: (
        given
    )  # repeats the fields that GradBench sends only once for all rows


def flat(_: Json, derivatives: Sequence[Array]) -> list[float]:
    return np.concatenate([derivative.reshape(-1) for derivative in derivatives]).tolist()


def first(_: Json, derivatives: Sequence[Array]) -> Any:
    return derivatives[0].tolist()


# ---- gmm: the posterior of a mixture of Gaussians with a Wishart prior -------------------------------------------


def gmm(given: Json) -> Callable[..., Any]:
    d, k, n, m, gamma = (given[name] for name in ("d", "k", "n", "m", "gamma"))
    freedom = d + m + 1
    log_gamma = d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma((freedom - j) / 2) for j in range(d))
    constant = k * (freedom * d * math.log(gamma / math.sqrt(2)) - log_gamma)
    constant -= n * d / 2 * math.log(2 * math.pi)
    columns, rows = np.triu_indices(d, 1)  # the strictly lower triangle, column by column

    def objective(alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:  # noqa: E741  (GradBench's names)
        roots = jnp.exp(q)[:, :, None] * jnp.eye(d)
        roots = roots.at[:, rows, columns].set(l)
        scaled = jnp.einsum("kij,nkj->nki", roots, x[:, None, :] - mu)
        beta = alpha - 0.5 * jnp.sum(scaled**2, axis=-1) + jnp.sum(q, axis=1)
        likelihood = jnp.sum(log_sum_exp(beta)) - n * log_sum_exp(alpha)
        return constant + likelihood - gamma**2 / 2 * jnp.sum(roots**2) + m * jnp.sum(q)

    return objective


def log_sum_exp(x: Any) -> Any:
    """Returns the logarithm of the sum of exponentials over the last axis, computed without overflow."""
    largest = jnp.max(x, axis=-1, keepdims=True)
    return largest[..., 0] + jnp.log(jnp.sum(jnp.exp(x - largest), axis=-1))


def gmm_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    inputs = []
    for d, k in ((2, 5), (10, 10)):
        shapes = {"x": (1000, d), "alpha": (k,), "mu": (k, d), "q": (k, d), "l": (k, d * (d - 1) // 2)}
        arrays = {name: rng.standard_normal(shape).tolist() for name, shape in shapes.items()}
        inputs.append((f"{d}_{k}_1000", {"d": d, "k": k, "n": 1000, "m": 0, "gamma": 1.0, **arrays}))
    return inputs


# ---- kmeans: distances to the nearest centroid, and a step of Newton's method ------------------------------------


def kmeans(_: Json) -> Callable[..., Any]:
    def objective(centroids: Any, points: Any) -> Any:
        return jnp.sum(jnp.min(jnp.sum((points[:, None, :] - centroids) ** 2, axis=-1), axis=1))

    return objective


def kmeans_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    points = rng.uniform(size=(1000, 8)).tolist()
    return [(f"k={k},n=1000,d=8", {"points": points, "centroids": points[-k:]}) for k in (10, 100)]


# ---- llsq: a polynomial fitted to a step ---------------------------------------------------------------------------


def llsq(given: Json) -> Callable[..., Any]:
    t = np.linspace(-1, 1, given["n"])

    def objective(x: Any) -> Any:
        zero = jnp.zeros_like(t, dtype=x.dtype)
        polynomial, _ = lax.scan(lambda y, coefficient: (y * t + coefficient, None), zero, x, reverse=True)
        return 0.5 * jnp.sum((np.sign(t) - polynomial) ** 2)

    return objective


def llsq_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    return [(f"n={n},m=128", {"x": rng.uniform(size=128).tolist(), "n": n}) for n in (128, 1024)]


# ---- lse: the logarithm of a sum of exponentials -------------------------------------------------------------------


def lse(_: Json) -> Callable[..., Any]:
    return log_sum_exp


def lse_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    return [(f"n={n}", {"x": rng.uniform(size=n).tolist()}) for n in (2500, 40000)]


# ---- ode: y_i' = x_i y_(i-1), solved by the Runge-Kutta method up to t = 2 -----------------------------------------


def ode(given: Json) -> Callable[..., Any]:
    h = 2 / given["s"]

    def solution(x: Any) -> Any:
        def slope(y: Any) -> Any:
            return x * jnp.concatenate([jnp.ones(1), y[:-1]])

        def step(y: Any, _: Any) -> tuple[Any, None]:
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return lax.scan(step, jnp.zeros_like(x), None, length=given["s"])[0]

    return solution


def ode_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    sizes = ((1000, 10), (1000, 100))
    return [(f"n={n},s={s}", {"x": rng.uniform(size=n).tolist(), "s": s}) for n, s in sizes]


# ---- lstm: LSTM cells with diagonal weights, applied to the characters of a text -------------------------------------


def lstm(given: Json) -> Callable[..., Any]:
    layers = len(given["state"]) // 2

    def objective(weights: Any, outer: Any, state: Any, sequence: Any) -> Any:
        def step(state: Any, x: Any) -> tuple[Any, Any]:
            y, states = x[0] * outer[0], []
            for i in range(layers):
                hidden, cell = state[2 * i], state[2 * i + 1]
                gates = jnp.concatenate([y, hidden, y, hidden]) * weights[2 * i] + weights[2 * i + 1]
                forget, into, outof, change = jnp.split(gates, 4)
                cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(change)
                y = jax.nn.sigmoid(outof) * jnp.tanh(cell)
                states += [y, cell]
            logits = y * outer[1] + outer[2]
            normal = logits - jnp.log(2 + jnp.sum(jnp.exp(logits)))  # GradBench adds this 2
            return jnp.stack(states), jnp.sum(x[1] * normal)

        total = jnp.sum(lax.scan(step, state, (sequence[:-1], sequence[1:]))[1])
        return -total / ((len(sequence) - 1) * sequence.shape[1])

    return objective


def lstm_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    width, inputs = 14, []
    for layers, length in ((2, 256), (4, 256)):
        arrays = {
            "main_params": rng.uniform(size=(2 * layers, 4 * width)).tolist(),
            "extra_params": rng.uniform(size=(3, width)).tolist(),
            "state": rng.uniform(size=(2 * layers, width)).tolist(),
            "sequence": np.eye(width)[rng.integers(0, width, length)].tolist(),
        }
        inputs.append((f"l={layers},c={length}", arrays))
    return inputs


# ---- det: a determinant by expansion in minors -------------------------------------------------------------------


def det(given: Json) -> Callable[..., Any]:
    """Returns the determinant of a matrix by expansion in minors.

    Begins with the last row, and adds the other rows one by one. After each row, it has the minors of the added rows
    for all sets of columns.
    """
    size = given["ell"]

    def objective(matrix: Any) -> Any:
        rows = matrix.reshape(size, size)
        minors, places = rows[size - 1], {(column,): column for column in range(size)}
        for count in range(2, size + 1):
            sets = list(combinations(range(size), count))
            smaller = np.array([[places[s[:i] + s[i + 1 :]] for i in range(count)] for s in sets])
            signs = np.array([(-1.0) ** i for i in range(count)])
            minors = jnp.sum(signs * rows[size - count][np.array(sets)] * minors[smaller], axis=1)
            places = {columns: i for i, columns in enumerate(sets)}
        return minors[0]

    return objective


def det_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    return [(f"{ell}", {"A": rng.uniform(size=ell * ell).tolist(), "ell": ell}) for ell in (5, 8)]


# ---- ba: bundle adjustment, where p observations see points through cameras ------------------------------------------

CAMERA, POINT = 11, 3


def ba(_: Json) -> Callable[..., Any]:
    """Returns the errors of projections and of weights. Cameras and points have a row for each observation.

    A camera has 11 numbers: rotation vector, center, focal length, principal point, and two coefficients of distortion.
    """

    def errors(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        place = rotated(camera[:, :3], point - camera[:, 3:6])
        plane = place[:, :2] / place[:, 2:]
        square = jnp.sum(plane**2, axis=1)
        distortion = 1 + camera[:, 9] * square + camera[:, 10] * square**2
        projected = plane * (distortion * camera[:, 6])[:, None] + camera[:, 7:9]
        return jnp.concatenate([weight[:, None] * (projected - seen), 1 - weight[:, None] ** 2], axis=1)

    return errors


def rotated(vectors: Any, points: Any) -> Any:
    """Rotates each point around a vector by an angle, which is the vector's length (Rodrigues' formula)."""
    angle = jnp.sqrt(jnp.sum(vectors**2, axis=1, keepdims=True))
    axis = vectors / angle
    along = jnp.sum(axis * points, axis=1, keepdims=True)
    return (
        points * jnp.cos(angle)
        + jnp.cross(axis, points) * jnp.sin(angle)
        + axis * along * (1 - jnp.cos(angle))
    )


def ba_whole(given: Json) -> Json:
    """Returns the input with a camera, a point, a weight and a feature for each observation.

    GradBench sends only one camera, point, weight and feature, which are equal for all observations.
    """
    rows = {name: [given[name]] * given["p"] for name in ("cam", "x", "w", "feat")}
    return {**given, **rows}


def ba_value(_: Json, results: Sequence[Array]) -> Json:
    (errors,) = results
    p, *_ = errors.shape
    return {
        "reproj_error": {"elements": errors[0, :2].tolist(), "repeated": p},
        "w_err": {"element": float(errors[0, 2]), "repeated": p},
    }


def ba_jacobian(given: Json, blocks: Sequence[Array]) -> Json:
    """Returns the Jacobian in GradBench's format: arrays of compressed sparse rows.

    GradBench expects only the part of the first observation, and the last element of each array.
    """
    by_camera, by_point, by_weight = blocks
    rows = np.concatenate([by_camera[0], by_point[0], by_weight[0][:, None]], axis=1)[:2]
    points, weights = CAMERA * given["n"], CAMERA * given["n"] + POINT * given["m"]
    columns = [*range(CAMERA), *range(points, points + POINT), weights]
    width, p = len(columns), given["p"]
    return {
        "rows": [*range(0, 2 * width * width, width), (2 * width + 1) * p],
        "cols": [*columns, *columns, weights + p - 1],
        "vals": [*rows.reshape(-1).tolist(), float(by_weight[-1, 2])],
    }


def ba_inputs(rng: np.random.Generator) -> list[tuple[str, Json]]:
    """Returns an input with a camera that looks at a distant point."""
    camera = np.concatenate([rng.uniform(-1, 1, 3), [3, 4, 50], [400], rng.uniform(-9, 9, 2), [0.09, 0.003]])
    arrays = {"cam": camera.tolist(), "x": rng.uniform(0, 7, 3).tolist(), "feat": [270.0, 830.0]}
    return [
        (f"n={n},m={m},p={p}", {"n": n, "m": m, "p": p, "w": 0.4, **arrays})
        for n, m, p in ((49, 7776, 31843),)
    ]


def _named(_: Json, derivatives: Sequence[Array]) -> Any:
    return {name: array.tolist() for name, array in zip(("alpha", "mu", "q", "l"), derivatives, strict=True)}


PLAIN = {"primal": VALUE, "gradient": GRADIENT}
ADBENCH = {"objective": VALUE, "jacobian": GRADIENT}
PROBLEMS = {
    "gmm": Problem(gmm, ("alpha", "mu", "q", "l", "x"), (0, 1, 2, 3), ADBENCH, _named, gmm_inputs),
    "kmeans": Problem(
        kmeans, ("centroids", "points"), (0,), {"cost": VALUE, "dir": NEWTON}, first, kmeans_inputs
    ),
    "llsq": Problem(llsq, ("x",), (0,), PLAIN, first, llsq_inputs),
    "lse": Problem(lse, ("x",), (0,), PLAIN, first, lse_inputs),
    "ode": Problem(ode, ("x",), (0,), PLAIN, first, ode_inputs),
    "lstm": Problem(
        lstm, ("main_params", "extra_params", "state", "sequence"), (0, 1), ADBENCH, flat, lstm_inputs
    ),
    "det": Problem(det, ("A",), (0,), PLAIN, first, det_inputs),
    "ba": Problem(
        ba,
        ("cam", "x", "w", "feat"),
        (0, 1, 2),
        {"objective": VALUE, "jacobian": BLOCKS},
        ba_jacobian,
        ba_inputs,
        ba_value,
        ba_whole,
    ),
}
