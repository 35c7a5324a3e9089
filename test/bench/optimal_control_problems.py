"""The problems of optimal_control.py, each written once for JAX and for CasADi.

The function of a problem takes arrays, and an object `m` whose methods operate on arrays. `m` is a `Jax` for arrays of
JAX, and a `Casadi` for NumPy arrays of CasADi's scalars (SX). For problems with networks, it is a `Matrices` for
CasADi's matrices (MX), because users of CasADi write networks with matrices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Problem(NamedTuple):
    """A function of `m` and arrays, its arguments, and the derivative to compute.

    `derivative` is "jacobian" or "gradient" with respect to the arguments in `wrt`, or "" for the function itself. If
    `batch` is not 0, it is the size of an additional first dimension of all arguments, over which the function is
    mapped. With `matrices`, CasADi's function is written with its matrices.
    """

    function: Callable[..., Any]
    arguments: list[Any]
    derivative: str = "jacobian"
    wrt: tuple[int, ...] = (0, 1)
    batch: int = 0
    matrices: bool = False


class Jax:
    """The operations for arrays of JAX."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.np, self.solve, self.jacobian = jnp, jnp.linalg.solve, lambda f, x: jax.jacfwd(f)(x)
        self.laplacian = lambda f, x: jnp.trace(jax.hessian(f)(x))
        self.mapped = jax.vmap


class Scalar:
    """An element of NumPy arrays that holds a scalar of CasADi.

    Ops between NumPy arrays and CasADi's own scalars would return matrices of CasADi.
    """

    def __init__(self, x: Any) -> None:
        self.x = x


def _operator(name: str) -> Callable[[Scalar, Any], Any]:
    def apply(self: Scalar, *other: Any) -> Any:
        if any(isinstance(y, np.ndarray) for y in other):
            return NotImplemented
        given = (y.x if isinstance(y, Scalar) else float(y) for y in other)
        return Scalar(getattr(self.x, name)(*given))

    return apply


for _name in "add radd sub rsub mul rmul truediv rtruediv pow neg".split():
    setattr(Scalar, f"__{_name}__", _operator(f"__{_name}__"))
for _name in ("sin", "cos", "sqrt"):
    setattr(Scalar, _name, _operator(_name))


class Casadi:
    """The operations for NumPy arrays whose elements are scalars of CasADi."""

    np = np

    def solve(self, a: Any, b: Any) -> Any:
        import casadi as ca

        return elements(ca.solve(matrix(a), matrix(b)), np.shape(b))

    def jacobian(self, function: Callable[..., Any], x: Any) -> Any:
        import casadi as ca

        own = ca.SX.sym("x", len(x))
        y = function(elements(own, np.shape(x)))
        found = ca.substitute(ca.jacobian(matrix(y), own), own, matrix(x))
        return elements(found, (*np.shape(y), *np.shape(x)))


class Matrices:
    """The operations for matrices of CasADi."""

    def __init__(self) -> None:
        import casadi as ca

        self.np, self.tanh, self.sum = self, ca.tanh, ca.sum1
        self.concatenate = lambda xs: ca.vertcat(*xs)

    def laplacian(self, function: Callable[..., Any], x: Any) -> Any:
        import casadi as ca

        own = ca.MX.sym("x", x.shape[0])
        hessian, _ = ca.hessian(function(own), own)
        return ca.substitute(ca.trace(hessian), own, x)

    def mapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(points: Any) -> Any:
            import casadi as ca

            return ca.vertcat(*(function(points[i, :].T) for i in range(points.shape[0])))

        return run


def matrix(x: Any) -> Any:
    """Returns the matrix of CasADi for an array of its scalars. A vector becomes a column."""
    import casadi as ca

    rows = np.atleast_1d(np.asarray(x, object))
    of = [[y.x if isinstance(y, Scalar) else float(y) for y in np.ravel(row)] for row in rows]
    return ca.vertcat(*(ca.horzcat(*row) for row in of))


def elements(x: Any, shape: tuple[int, ...]) -> Any:
    """Returns the array of this shape with the elements of a matrix of CasADi."""
    found = np.empty(x.shape, dtype=object)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found[i, j] = Scalar(x[i, j])
    return found.reshape(shape)


def runge_kutta(f: Callable[..., Any], x: Any, u: Any, h: float) -> Any:
    a = f(x, u)
    b = f(x + h / 2 * a, u)
    c = f(x + h / 2 * b, u)
    return x + h / 6 * (a + 2 * b + 2 * c + f(x + h * c, u))


def pendulum(m: Any, x: Any, u: Any) -> Any:
    """Returns the state of a pendulum of six links after a time step.

    x has angles and angular velocities, u the torques.
    """
    n = 6
    i = np.arange(n)
    masses = (n - np.maximum(i[:, None], i)) * 1.0

    def slope(x: Any, u: Any) -> Any:
        q, v = x[:n], x[n:]
        d = q[:, None] - q[None, :]
        forces = u - (masses * m.np.sin(d)) @ v**2 - 9.81 * (n - i) * m.np.sin(q)
        return m.np.concatenate([v, m.solve(masses * m.np.cos(d), forces)])

    return runge_kutta(slope, x, u, 0.01)


def cross(m: Any, a: Any, b: Any) -> Any:
    return m.np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def quadrotor(m: Any, x: Any, u: Any) -> Any:
    """Returns the state of a quadrotor after a time step. u has the thrusts of the four rotors.

    The state consists of position, quaternion, velocity and angular velocity.
    """
    inertia, arm, drag = np.array([0.01, 0.012, 0.02]), 0.17, 0.016

    def slope(x: Any, u: Any) -> Any:
        w, a, v, rates = x[3], x[4:7], x[7:10], x[10:13]
        up = m.np.stack(
            [2 * (a[0] * a[2] + w * a[1]), 2 * (a[1] * a[2] - w * a[0]), 1 - 2 * (a[0] ** 2 + a[1] ** 2)]
        )
        torque = m.np.stack([arm * (u[1] - u[3]), arm * (u[2] - u[0]), drag * (u[0] - u[1] + u[2] - u[3])])
        turn = (torque - cross(m, rates, inertia * rates)) / inertia
        force = up * (u[0] + u[1] + u[2] + u[3]) - np.array([0, 0, 9.81]) - 0.1 * v
        spin = m.np.concatenate([m.np.stack([-0.5 * (a @ rates)]), 0.5 * (w * rates + cross(m, a, rates))])
        return m.np.concatenate([v, spin, force, turn])

    return runge_kutta(slope, x, u, 0.02)


def stage(m: Any, z: Any, after: Any) -> Any:
    """Returns the values of a stage of model predictive control of a car.

    They are the cost, its gradient and Gauss-Newton Hessian, and the constraints and their Jacobian.

    z has the state (position, heading, speed, steering angle) and the inputs (acceleration, steering rate).
    """

    def step(z: Any) -> Any:
        def slope(x: Any, u: Any) -> Any:
            turn = x[3] * m.np.sin(x[4]) / (1.0 + 0.1 * x[3] ** 2)
            return m.np.stack([x[3] * m.np.cos(x[2]), x[3] * m.np.sin(x[2]), turn, u[0] - 0.1 * x[3], u[1]])

        return runge_kutta(slope, z[:5], z[5:], 0.1)

    def residual(z: Any) -> Any:
        return m.np.stack(
            [
                z[0] - 1.0,
                z[1] - m.np.sin(z[0]),
                z[3] - 2.0,
                m.np.sin(z[2]),
                0.1 * z[4],
                0.3 * z[5],
                0.2 * z[6],
            ]
        )

    def constraints(z: Any) -> Any:
        obstacle = (z[0] - 2.0) ** 2 + (z[1] - 1.0) ** 2 - 0.25
        grip = 1.0 - z[5] ** 2 - (z[3] * z[4]) ** 2
        return m.np.concatenate([step(z) - after, m.np.stack([obstacle, grip])])

    r, slopes = residual(z), m.jacobian(residual, z)
    return 0.5 * (r @ r), slopes.T @ r, slopes.T @ slopes, constraints(z), m.jacobian(constraints, z)


def arm(m: Any, q: Any, v: Any, a: Any) -> Any:
    """Returns the torques of an arm with seven joints, by the recursive Newton-Euler algorithm.

    The axes of the joints are alternately z and y.
    """
    rng = np.random.default_rng(1)
    mass, inertia = rng.uniform(0.5, 3, 7), rng.uniform(0.01, 0.1, (7, 3))
    center, place = rng.uniform(-0.1, 0.1, (7, 3)), rng.uniform(0.05, 0.3, (7, 3))

    def turned(i: int, x: Any, sign: float) -> Any:
        c, s = m.np.cos(q[i]), sign * m.np.sin(q[i])
        if i % 2 == 0:
            return m.np.stack([c * x[0] - s * x[1], s * x[0] + c * x[1], x[2]])
        return m.np.stack([c * x[0] + s * x[2], x[1], c * x[2] - s * x[0]])

    rates, turn, force = np.zeros(3), np.zeros(3), np.array([0, 0, 9.81])
    wrenches = []
    for i in range(7):
        axis = np.eye(3)[2 if i % 2 == 0 else 1]
        force = turned(i, force + cross(m, turn, place[i]) + cross(m, rates, cross(m, rates, place[i])), -1)
        rates, turn = turned(i, rates, -1), turned(i, turn, -1)
        turn = turn + axis * a[i] + cross(m, rates, axis * v[i])
        rates = rates + axis * v[i]
        push = mass[i] * (force + cross(m, turn, center[i]) + cross(m, rates, cross(m, rates, center[i])))
        wrenches.append((push, inertia[i] * turn + cross(m, rates, inertia[i] * rates)))
    torques, below, moment = [], np.zeros(3), np.zeros(3)
    for i in reversed(range(7)):
        push, own = wrenches[i]
        lifted = cross(m, place[i + 1], below) if i < 6 else np.zeros(3)
        moment = own + moment + cross(m, center[i], push) + lifted
        below = below + push
        torques.append(moment[2 if i % 2 == 0 else 1])
        below, moment = turned(i, below, 1), turned(i, moment, 1)
    return m.np.stack(torques[::-1])


def reprojection(m: Any, camera: Any, point: Any) -> Any:
    """Returns the position of a point in the image of a camera.

    The camera has a rotation vector, a position, the focal length, and two coefficients of distortion.
    """
    axis, place = camera[:3], camera[3:6]
    angle = m.np.sqrt(axis @ axis)
    unit = axis / angle
    c, s = m.np.cos(angle), m.np.sin(angle)
    x = c * point + s * cross(m, unit, point) + (1 - c) * (unit @ point) * unit + place
    image = -x[:2] / x[2]
    radius = image @ image
    return camera[6] * (1 + radius * (camera[7] + camera[8] * radius)) * image


def physics(m: Any, a: Any, p: Any, b: Any, q: Any, c: Any, points: Any) -> Any:
    """Returns the loss of a physics-informed network.

    It is the mean of r² over the points. The residual r is the sum of the network's Laplacian and the network's value.
    """

    def value(x: Any) -> Any:
        return m.np.sum(c * m.np.tanh(b @ m.np.tanh(a @ x + p) + q))

    residuals = m.mapped(lambda x: m.laplacian(value, x) + value(x))(points)
    return m.np.sum(residuals**2) / points.shape[0]


def kalman(m: Any, x: Any, p: Any, z: Any) -> Any:
    """Returns a step of an extended Kalman filter for a target that turns in space.

    The state has position, velocity and turn rate. The measurement has range and angles.
    """

    def move(x: Any) -> Any:
        h, w = 0.1, x[6]
        c, s = m.np.cos(w * h), m.np.sin(w * h)
        east, north = c * x[3] - s * x[4], s * x[3] + c * x[4]
        return m.np.stack([x[0] + h * east, x[1] + h * north, x[2] + h * x[5], east, north, x[5], w])

    def sight(x: Any) -> Any:
        flat = x[0] ** 2 + x[1] ** 2
        return m.np.stack([m.np.sqrt(flat + x[2] ** 2), x[1] / x[0], x[2] / m.np.sqrt(flat)])

    f = m.jacobian(move, x)
    x, p = move(x), f @ p @ f.T + 0.01 * np.eye(7)
    h = m.jacobian(sight, x)
    s = h @ p @ h.T + 0.1 * np.eye(3)
    gain = m.solve(s, h @ p).T
    return x + gain @ (z - sight(x)), p - gain @ (h @ p)


def chain(m: Any, x: Any, u: Any) -> Any:
    """Returns the state of a chain of masses after a time step.

    Springs join five free masses and an end with velocity u.
    """

    def slope(x: Any, u: Any) -> Any:
        places, rates = x[:18].reshape(6, 3), x[18:].reshape(5, 3)
        before = m.np.concatenate([np.zeros((1, 3)), places[:5]])
        d = places - before
        length = m.np.sqrt(m.np.sum(d**2, axis=1))
        force = (0.1 / 0.03) * (1 - 0.033 / length)[:, None] * d
        pull = (force[1:] - force[:5]) / 0.03 - np.array([0, 0, 9.81])
        return m.np.concatenate([rates.reshape(15), u, pull.reshape(15)])

    return runge_kutta(slope, x, u, 0.05)


def network(m: Any, x: Any, u: Any) -> Any:
    """Returns the state after a time step, predicted by a network with two layers of 32 units. x: (8,), u: (2,)."""
    rng = np.random.default_rng(2)
    y, sizes = m.np.concatenate([x, u]), (10, 32, 32, 8)
    for i, (n, k) in enumerate(zip(sizes, sizes[1:], strict=False)):
        y = (rng.standard_normal((k, n)) / np.sqrt(n)) @ (m.np.tanh(y) if i else y)
    return x + 0.1 * y


def problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal
    turned = np.concatenate([normal(3), [0.9, 0.1, 0.3, 0.3], normal(6)])
    links = np.linspace(0.2, 1.2, 18).reshape(6, 3) + 0.01 * normal((6, 3))
    camera = np.concatenate(
        [0.3 * normal((64, 3)), normal((64, 3)), 500 + normal((64, 1)), 0.01 * normal((64, 2))], 1
    )
    weights = [normal((16, 2)), normal(16), normal((16, 16)) / 4, normal(16), normal(16)]
    spread = normal((7, 7))
    return {
        "pendulum": Problem(pendulum, [np.linspace(0.1, 1, 12), np.linspace(-1, 1, 6)]),
        "quadrotor": Problem(quadrotor, [turned, np.array([2.4, 2.5, 2.6, 2.3])]),
        "MPC, 20 stages": Problem(stage, [normal((20, 7)), normal((20, 5))], "", (), 20),
        "arm": Problem(arm, [normal(7), normal(7), normal(7)], wrt=(0, 1, 2)),
        "bundle adjustment": Problem(reprojection, [camera, normal((64, 3)) - np.array([0, 0, 8])], batch=64),
        "PINN": Problem(physics, [*weights, normal((8, 2))], "gradient", (0, 1, 2, 3, 4), matrices=True),
        "Kalman filter": Problem(
            kalman,
            [np.array([3.0, 2, 1, 0.5, 0.2, 0.1, 0.3]), spread @ spread.T + np.eye(7), normal(3)],
            "",
            (),
        ),
        "chain of masses": Problem(chain, [np.concatenate([links.ravel(), 0.1 * normal(15)]), normal(3)]),
        "network": Problem(network, [normal(8), normal(2)], matrices=True),
    }
