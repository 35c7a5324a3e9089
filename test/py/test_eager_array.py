"""Eager arrays: NumPy's values, types and shapes; JAX's gradients; views, writes, and what users expect of `grad`."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tiduc.dialect.errors import InputError, RequestError
from tiduc.eager import Array, Interpreter, Session, call, executing, grad, no_grad
from tiduc.eager.elementwise import EMITTERS
from tiduc.program import load

SESSION = Session(Interpreter())

X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
Y = np.array([[0.5, 1.4, 0.8], [-0.6, 1.1, 0.7]])
V = np.array([0.6, -1.3, 0.4])
W = np.array([[0.2, -0.5], [1.1, 0.3], [-0.9, 0.7]])


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with executing(SESSION), jax.enable_x64(True):
        yield


def same_gradients(f: Callable[..., Any], *points: np.ndarray, **tolerance: float) -> None:
    """`f(xp, ...)` and its derivatives, for a random seed, are NumPy's and JAX's."""
    tolerance = {"rtol": 1e-11, "atol": 1e-12, **tolerance}
    arrays = [Array(x, requires_grad=True) for x in points]
    y = f(np, *arrays)
    expected = np.asarray(f(np, *points))
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(y.data, expected, **tolerance)
    seed = np.random.default_rng(0).standard_normal(y.shape)
    found = grad([y], arrays, [seed])
    _, vjp = jax.vjp(lambda *xs: f(jnp, *xs), *map(jnp.asarray, points))
    for ct, wanted, x in zip(found, vjp(jnp.asarray(seed)), points, strict=True):
        assert (ct.shape, ct.dtype) == (x.shape, x.dtype)
        np.testing.assert_allclose(ct.data, wanted, **tolerance)


# ---- universal functions -----------------------------------------------------------------------------------

FLOATS = {
    np.float64: np.array([-1.5, 0.25, 0.75, 2.0]),
    np.int32: np.array([-3, 1, 2, 7], np.int32),
    np.uint8: np.array([3, 1, 2, 7], np.uint8),
    np.bool_: np.array([True, False, True, True]),
    np.complex128: np.array([-1.5 + 0.5j, 0.25, 0.75 - 1j, 2.0]),
}
PLAIN = {"arccosh": 3.0, "power": 2.0, "fmod": 1.0, "remainder": 1.0, "floor_divide": 1.0}


@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_universal_functions(name: str, dtype: Any) -> None:
    """NumPy's result and its type, or NumPy's refusal."""
    ufunc = getattr(np, name)
    operands = [FLOATS[dtype], np.roll(FLOATS[dtype], 1)][: ufunc.nin]
    if dtype is np.int32 and name == "power":
        operands[1] = np.abs(operands[1])
    if dtype is np.bool_ and name in ("floor_divide", "fmod", "reciprocal", "remainder"):
        with pytest.raises(ZeroDivisionError):
            ufunc(*map(Array, operands))
        return
    with np.errstate(all="ignore"):
        try:
            expected = ufunc(*operands)
        except TypeError:
            with pytest.raises(TypeError):
                ufunc(*map(Array, operands))
            return
        if dtype is np.complex128 and name in (
            "greater",
            "greater_equal",
            "less",
            "less_equal",
            "maximum",
            "minimum",
        ):
            return
        found = ufunc(*map(Array, operands))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.data, expected, rtol=2e-3 if expected.dtype == np.float16 else 1e-9)


@pytest.mark.parametrize("name", sorted(set(EMITTERS) - {"invert", "rint"}))
def test_gradients_of_universal_functions(name: str) -> None:
    ufunc = getattr(np, name)
    try:
        if ufunc.resolve_dtypes((*[np.dtype("f8")] * ufunc.nin, None))[-1].kind != "f":
            return
    except TypeError:
        return
    points = [np.array([0.35, 0.6, 0.85]), np.array([0.7, -0.4, 0.55])][: ufunc.nin]
    points = [x + PLAIN.get(name, 0.0) for x in points]
    same_gradients(lambda xp, *xs: getattr(xp, name)(*xs), *points)


def test_broadcasting() -> None:
    same_gradients(lambda xp, x, v: x * v + v, X, V)
    same_gradients(lambda xp, x, w: x[:, :, None] * w, X, W)
    same_gradients(lambda xp, x: x * x[0, 0] - x[:1], X)
    with pytest.raises(ValueError, match="broadcast"):
        Array(X) + Array(W)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int32, np.int8, np.uint8, np.bool_, np.complex64]
)
@pytest.mark.parametrize("other", [2, 2.5, 1j, np.float32(2), np.int64(3), np.ones(3, np.float32), True])
def test_promotion(dtype: Any, other: Any) -> None:
    """As NumPy's: Python numbers take the type of what they meet."""
    x = np.ones(3, dtype)
    for f in (np.add, np.multiply, np.true_divide):
        expected = f(x, other)
        assert f(Array(x), other).dtype == expected.dtype
        assert f(other, Array(x)).dtype == f(other, x).dtype
        np.testing.assert_allclose(f(Array(x), other).data, expected, rtol=1e-6)


def test_types_that_are_not_there() -> None:
    for data in (np.array(["a"]), np.ones(2, np.longdouble), np.array([object()])):
        with pytest.raises(InputError, match="cannot be computed with"):
            Array(data)


def test_powers_of_numbers() -> None:
    x = np.array([-2.0, -0.5, 3.0])
    for exponent in (2, 1, 3, -1, -2, 2.0):
        same_gradients(lambda xp, x, n=exponent: x**n, x)
    same_gradients(lambda xp, x: x**0.5, np.array([0.25, 4.0]))
    same_gradients(lambda xp, x: 2**x, x)
    with pytest.raises(ValueError, match="negative integer powers"):
        Array(np.array([2, 3])) ** -2
    with pytest.raises(ZeroDivisionError):
        Array(np.array([2, 3])) // 0


# ---- NumPy's functions -------------------------------------------------------------------------------------

T = X[None] * Y[:, None, :]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda xp, x: xp.sum(x),
    "sum of an axis": lambda xp, x: xp.sum(x, axis=-1),
    "sum that keeps": lambda xp, x: x.sum(axis=(0, 1), keepdims=True),
    "mean": lambda xp, x: xp.mean(x, axis=0) + x.mean(),
    "prod": lambda xp, x: xp.prod(x, axis=1),
    "max": lambda xp, x: xp.max(x, axis=1) - x.min(),
    "var": lambda xp, x: xp.var(x, axis=0) + x.var(ddof=1) + xp.std(x, axis=1, keepdims=True),
    "norm": lambda xp, x: xp.linalg.norm(x) + xp.linalg.norm(x, axis=0),
    "reduce": lambda xp, x: np.add.reduce(x) if xp is np else xp.sum(x, axis=0),
    "dot": lambda xp, x: xp.dot(x, x.T) + xp.dot(x[0], x[1]) + xp.dot(x, x[0])[:, None],
    "inner": lambda xp, x: xp.inner(x, x) + xp.outer(x[:, 0], x[:, 1]),
    "tensordot": lambda xp, x: xp.tensordot(x, x, axes=([1], [1])) + xp.tensordot(x, x),
    "reshape": lambda xp, x: xp.reshape(x, (3, -1)) * x.reshape(3, 2) + xp.ravel(x)[0],
    "transpose": lambda xp, x: xp.transpose(x) * x.T + xp.swapaxes(x, 0, 1),
    "moveaxis": lambda xp, x: xp.moveaxis(x[None], 0, 2) * xp.expand_dims(x, -1),
    "squeeze": lambda xp, x: xp.squeeze(x[:, None]) * xp.squeeze(x[None], axis=0),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x[0], (4, 3)) * xp.arange(4.0)[:, None],
    "flip": lambda xp, x: xp.flip(x) * xp.flip(x, axis=0) - x,
    "concatenate": lambda xp, x: xp.concatenate([x, x[:1] ** 2, x * 2], axis=0),
    "stack": lambda xp, x: xp.stack([x[0], x[1] ** 2], axis=1),
    "vstack": lambda xp, x: xp.vstack([x, x[0]]) @ xp.hstack([x[0], x[1]])[:3],
    "split": lambda xp, x: xp.split(x, 3, axis=1)[1] * x + xp.array_split(x, 2, axis=1)[0].sum(),
    "where": lambda xp, x: xp.where(x > 0.1, x * x, 2.0),
    "clip": lambda xp, x: xp.clip(x, -0.5, 0.8) * x + xp.clip(x, 0.05, None),
    "take": lambda xp, x: xp.take(x, np.array([2, 0, 2]), axis=1) * xp.take(x, np.array([1, 5, 1])),
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, np.array([[2], [0]]), axis=1),
    "sort": lambda xp, x: xp.sort(x, axis=1) * xp.arange(3.0),
    "diagonal": lambda xp, x: xp.diagonal(x) * xp.trace(x) + xp.diagonal(x, 1),
    "roll": lambda xp, x: xp.roll(x, 1, axis=1) * xp.roll(x, 2),
    "repeat": lambda xp, x: xp.repeat(x, 2, axis=0) * xp.tile(x, (2, 1)),
    "tril": lambda xp, x: xp.tril(x) + xp.triu(x, 1) * 2,
    "argmax": lambda xp, x: x[0, int(xp.argmax(x[1]))] * x,
    "zeros_like": lambda xp, x: xp.zeros_like(x) + xp.ones_like(x) * x,
    "astype": lambda xp, x: x.astype(np.float32).astype(np.float64),
    "indices": lambda xp, x: x[1, 2] * x[0] + x[-1, ::-1] + x[..., 1:2].sum(),
    "steps": lambda xp, x: x[:, ::2] * x[::-1, :2],
    "new axes": lambda xp, x: x[None, :, None, 1] * x[:, None, :1],
    "arrays of indices": lambda xp, x: (
        x[np.array([0, 1, 0]), np.array([2, 2, 2])] * x[:, np.array([0, 0, 1])][0]
    ),
    "masks": lambda xp, x: x[X > 0.2] * 3 + x[np.array([False, True])].sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    tolerance = {"rtol": 1e-6} if name == "astype" else {}
    same_gradients(FUNCTIONS[name], X, **tolerance)


@pytest.mark.parametrize(
    ("x", "y"),
    [(X, W), (X, V), (V, W), (V, V), (T, W), (V, W[None]), (T, T.swapaxes(1, 2)), (X, T.swapaxes(1, 2))],
)
def test_matmul(x: np.ndarray, y: np.ndarray) -> None:
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        with pytest.raises(ValueError, match="matmul of shapes"):
            Array(x) @ Array(y)
        return
    same_gradients(lambda xp, x, y: x @ y, x, y)


def test_reductions_have_numpys_types() -> None:
    for dtype in (np.int8, np.uint8, np.int32, np.bool_, np.float32):
        x = np.array([[1, 0, 1], [1, 1, 1]], dtype)
        for f in (np.sum, np.prod, np.mean, np.max, np.min, np.any, np.all, np.var):
            if f is np.var and dtype is np.bool_:
                continue
            expected, found = f(x, axis=1), f(Array(x), axis=1)
            assert found.dtype == expected.dtype, (f, dtype)
            np.testing.assert_allclose(found.data, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="of no elements"):
        np.max(Array(np.ones((0, 2))), axis=0)


def test_what_is_not_there_is_refused() -> None:
    for f in (np.cumsum, np.linalg.svd, np.fft.fft):
        with pytest.raises(TypeError, match="no implementation found"):
            f(Array(X))
    with pytest.raises(TypeError):
        np.heaviside(Array(X), 0.5)
    with pytest.raises(TypeError, match="no order"):
        np.less(Array(X + 1j), 2)
    with pytest.raises(IndexError):
        Array(X)[2]
    with pytest.raises(IndexError):
        Array(X)[0, 0, 0]
    with pytest.raises(TypeError, match="does not convert"):
        Array(X + 1j).astype(np.float64)


# ---- complex values ----------------------------------------------------------------------------------------


def test_complex_gradients() -> None:
    """Under Re(conj(a) b): |z|^2 has the gradient 2 z, and JAX's is the conjugate."""
    z = Array([1 + 2j, -0.5j], requires_grad=True)
    (np.abs(z) ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.data, 2 * z.data)
    z.grad = None
    np.real(np.exp(z) * np.conjugate(z) ** 3).sum().backward()
    expected = jax.grad(lambda z: jnp.real(jnp.exp(z) * jnp.conjugate(z) ** 3).sum())(jnp.asarray(z.data))
    np.testing.assert_allclose(z.grad.data, np.conjugate(expected))
    with pytest.raises(RequestError, match="only one real number needs no seed"):
        z[0].backward()


# ---- writes and views --------------------------------------------------------------------------------------


def test_values_are_those_that_were_read() -> None:
    """x^2 (x + 1), in which x is written to between its two uses."""
    x = Array(3.0, requires_grad=True)
    y = x * x
    x += 1
    (y * x).backward()
    assert x.grad.item() == 3 * 9 + 2 * 3 and x.item() == 4


def test_writes() -> None:
    def f(xp: Any, x: Any, v: Any) -> Any:
        w = x * 1.0
        if xp is jnp:
            w = w.at[0].set(v).at[1, 1].multiply(3.0).at[:, ::2].add(v[0]).at[w > 0.35].set(v[1])
            return (w * x).at[np.array([1, 1]), np.array([0, 0])].set(x[0, 1:])
        mask = X > 0.35
        w[0] = v
        w[1, 1] *= 3.0
        w[:, ::2] += v[0]
        w[mask] = v[1]
        w = w * x
        w[np.array([1, 1]), np.array([0, 0])] = x[0, 1:]
        return w

    same_gradients(f, X, V)


def test_writes_convert_and_broadcast() -> None:
    x = Array(np.zeros((2, 3), np.float32))
    x[0] = 1
    x[1] = np.array([[1.5, 2.5, 3.5]])
    x += np.float64(1)
    np.testing.assert_array_equal(x.data, np.array([[2, 2, 2], [2.5, 3.5, 4.5]], np.float32))
    counts = Array(np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="cannot be written"):
        counts += 0.5
    with pytest.raises(ValueError, match="cannot be written"):
        x += np.ones((4, 2, 3))
    with pytest.raises(ValueError):
        x[0] = np.ones(4)


def views(x: Any) -> list[Any]:
    """Writes through views, and reads of views written behind their back; the same for NumPy's arrays."""
    row, column, turned, line, late = x[0], x[:, 1:], x.T, x.reshape(-1), x[1:]
    row[1] = 10.0
    column[1, 0] += 5.0
    turned[2, 0] = -1.0
    line[3] = 7.0
    late[0][2] = 0.5
    x[1, 1] *= 2.0
    inner = column[:, 1:][::-1]
    inner[0] = 99.0
    copy = x.copy()
    copy[:] = 0.0
    taken = x[np.array([0, 1])]
    taken[0, 0] = -50.0
    number = x[0, 0]
    number += 1000.0
    return [x, row, column, turned, line, late, inner, copy, taken, number]


def test_views_are_numpys() -> None:
    for found, expected in zip(views(Array(X * 1.0)), views(X * 1.0), strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_writes_through_views_are_differentiated() -> None:
    x = Array(X, requires_grad=True)
    y = x * 2.0
    y.T[1, 0] = y[1, 2] ** 2
    (y[0] * V).sum().backward()
    expected = np.zeros_like(X)
    expected[0, [0, 2]] = 2 * V[[0, 2]]
    expected[1, 2] = V[1] * 8 * X[1, 2]
    np.testing.assert_allclose(x.grad.data, expected)


def test_versions() -> None:
    x = Array(X)
    view = x[0]
    assert x.version == 0
    view[0] = 1.0
    assert (x.version, view.version) == (1, 1)


def test_scalars_are_names_of_numbers() -> None:
    x = Array([1.0, 2.0], requires_grad=True)
    total = first = x.sum()
    total += 10.0
    assert (first.item(), total.item()) == (3.0, 13.0)
    with pytest.raises(TypeError):
        first[...] = 1.0


# ---- what `grad` is ----------------------------------------------------------------------------------------


def test_gradients_accumulate_only_if_asked() -> None:
    x = Array([1.0, 2.0], requires_grad=True)
    for accumulate, expected in ((False, [2, 4]), (False, [2, 4]), (True, [4, 8]), (True, [6, 12])):
        (x * x).sum().backward(accumulate=accumulate)
        np.testing.assert_array_equal(x.grad.data, expected)
    other = Array(1.0, requires_grad=True)
    (other * 2).backward()
    np.testing.assert_array_equal(x.grad.data, [6, 12])  # which `other` does not depend on
    np.floor(x).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [0, 0])


def test_order_three() -> None:
    x = Array(2.0, requires_grad=True)
    y = x**3 * np.sin(x)
    found = []
    for _ in range(3):
        y = grad(y, x, create_graph=True)
        found.append(y.item())
    f = lambda x: x**3 * jnp.sin(x)  # noqa: E731
    for value in found:
        f = jax.grad(f)
        np.testing.assert_allclose(value, f(2.0), rtol=1e-12)


def test_backward_that_is_recorded() -> None:
    """A penalty on a gradient: sum (d/dx sum x^3)^2 = sum 9 x^4."""
    x = Array([1.0, 2.0], requires_grad=True)
    np.sum(x**3).backward(create_graph=True)
    np.sum(x.grad**2).backward()
    np.testing.assert_allclose(x.grad.data, [36, 288])


def test_retained_intermediates() -> None:
    x = Array(2.0, requires_grad=True)
    y = x * x
    y.retain_grad()
    (y * 3.0).backward()
    assert (y.grad.item(), x.grad.item()) == (3.0, 12.0)
    assert x.is_leaf and not y.is_leaf


def test_detached() -> None:
    x = Array(3.0, requires_grad=True)
    (x * x.detach()).backward()
    assert x.grad.item() == 3.0
    with no_grad():
        y = x * x
    assert not y.requires_grad and x.requires_grad
    with pytest.raises(RequestError, match="depends on nothing that requires grad"):
        y.backward()


def test_a_step_of_a_parameter() -> None:
    w = Array([1.0, 2.0], requires_grad=True)
    losses = []
    for _ in range(3):
        loss = np.sum(w * w)
        loss.backward()
        with no_grad():
            w -= 0.25 * w.grad
        losses.append(loss.item())
    assert losses == [5.0, 1.25, 0.3125] and w.is_leaf and w.requires_grad


def test_what_would_lose_a_derivative() -> None:
    x = Array(X, requires_grad=True)
    with pytest.raises(RequestError, match="it requires grad, and NumPy's arrays do not"):
        np.asarray(x)
    with pytest.raises(TypeError, match="derivative would be lost"):
        np.add(x, 1.0, out=np.zeros_like(X))
    with no_grad():
        np.testing.assert_array_equal(np.asarray(x), X)
    with pytest.raises(ValueError):
        x.data[0, 0] = 5.0
    with pytest.raises(RequestError, match="no derivative"):
        Array([1, 2], requires_grad=True)
    with pytest.raises(RequestError, match="computed from others"):
        (x * 2).requires_grad = False
    with pytest.raises(RequestError, match="does not require grad"):
        grad(x.sum(), Array(1.0))
    with pytest.raises(RequestError, match="only one real number needs no seed"):
        x.backward()


def test_released_traces() -> None:
    x = Array(3.0, requires_grad=True)
    y = x * x
    y.backward(retain=True)
    y.backward()
    with pytest.raises(RequestError, match="released by an earlier backward"):
        y.backward()


def test_zero_derivatives_are_explicit() -> None:
    x, y = Array(X, requires_grad=True), Array(V, requires_grad=True)
    dx, dy = grad(np.sum(x), [x, y])
    np.testing.assert_array_equal(dx.data, np.ones_like(X))
    np.testing.assert_array_equal(dy.data, np.zeros_like(V))


# ---- whole programs, control flow, executors ---------------------------------------------------------------


def test_a_program_as_one_invocation() -> None:
    p = load("func.func @main(%x: tensor<3xf64>, %n: tensor<i32>) -> (tensor<3xf64>, tensor<i32>) {\n"
             "  %0 = stablehlo.tanh %x : tensor<3xf64>\n  return %0, %n : tensor<3xf64>, tensor<i32>\n}")  # fmt: skip
    x = Array(V, requires_grad=True)
    y, n = call(p, x * 2.0, np.int32(4))
    assert n.item() == 4 and not n.requires_grad
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * (1 - np.tanh(2 * V) ** 2))
    with pytest.raises(InputError, match=r"takes \(x: 3xf64, n: i32\)|takes \(arg0: 3xf64"):
        call(p, x, 4)


def newton(x: Any) -> Any:
    """The square root, by as many steps as it takes."""
    y = x
    while abs(float(y * y - x)) > 1e-13:
        y = (y + x / y) / 2
    return y


def test_python_control_flow() -> None:
    x = Array(2.0, requires_grad=True)
    newton(x).backward()
    np.testing.assert_allclose(x.grad.data, 0.5 / np.sqrt(2), rtol=1e-12)


def test_both_executors_agree() -> None:
    """One network, forward, gradient and Hessian-vector product."""
    from tiduc.eager import Iree

    def run() -> list[np.ndarray]:
        w = Array(W, requires_grad=True)
        loss = np.mean(np.tanh(X @ w)[:, 0] ** 2)
        (dw,) = grad([loss], [w], create_graph=True)
        hvp = grad(np.sum(dw * W), w)
        return [loss.data, dw.data, hvp.data]

    expected = run()
    iree = Iree()
    with executing(iree):
        first, compiled = run(), iree.compiled
        run()
    assert iree.compiled == compiled
    for found, wanted in zip(first, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
