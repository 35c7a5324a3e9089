"""NumPy functions on eager arrays have the values, types and shapes of NumPy, and the gradients of JAX."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness.eager_check import V, W, X, Y, same_gradients

from tiduc.dialect.errors import InputError
from tiduc.eager import Array, Iree, executing, grad, products, rehearsing
from tiduc.eager.elementwise import EMITTERS

pytestmark = pytest.mark.usefixtures("interpreted")


# ---- universal functions -----------------------------------------------------------------------------------

FLOATS = {
    np.float64: np.array([-1.5, 0.25, 0.75, 2.0]),
    np.int32: np.array([-3, 1, 2, 7], np.int32),
    np.uint8: np.array([3, 1, 2, 7], np.uint8),
    np.bool_: np.array([True, False, True, True]),
    np.complex128: np.array([-1.5 + 0.5j, 0.25, 0.75 - 1j, 2.0]),
}
PLAIN = {"arccosh": 3.0, "power": 2.0, "fmod": 1.0, "remainder": 1.0, "floor_divide": 1.0}


@pytest.mark.sampled(2 * len(EMITTERS))
@pytest.mark.parametrize("name", EMITTERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_universal_functions(name: str, dtype: Any) -> None:
    """A ufunc of eager arrays has NumPy's values and types. If NumPy raises TypeError, so does tiduc."""
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
        actual = ufunc(*map(Array, operands))
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual.data, expected, rtol=2e-3 if expected.dtype == np.float16 else 1e-9)


@pytest.mark.parametrize("name", sorted(set(EMITTERS) - {"invert", "nextafter", "rint"}))
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
    """Type promotion follows NumPy: Python numbers adopt the type of the other operand."""
    x = np.ones(3, dtype)
    for f in (np.add, np.multiply, np.true_divide):
        expected = f(x, other)
        assert f(Array(x), other).dtype == expected.dtype
        assert f(other, Array(x)).dtype == f(other, x).dtype
        np.testing.assert_allclose(f(Array(x), other).data, expected, rtol=1e-6)


def test_unsupported_types() -> None:
    for data in (np.array(["a"]), np.ones(2, np.longdouble), np.array([object()])):
        with pytest.raises(InputError, match="are not supported"):
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
    "cumsum": lambda xp, x: xp.cumsum(x, axis=1) * xp.cumsum(x)[5] + xp.cumsum(x, axis=0),
    "einsum": lambda xp, x: xp.einsum("ij,kj->ik", x, x) @ xp.einsum("ij,ij,kl->li", x, x, x)[:2],
    "einsum of one": lambda xp, x: (
        xp.einsum("ij->ji", x) + xp.einsum("ij->j", x)[:, None] + xp.einsum("ij,i", x, x[:, 0])[:, None]
    ),
    "einsum of diagonals": lambda xp, x: (
        xp.einsum("ii->i", x[:, :2])[:, None] * x
        + xp.einsum("...i,...->...i", x, x[:, 1])
        + xp.einsum("jj", x[:, 1:])
    ),
    "pad": lambda xp, x: xp.pad(x, 1) * xp.pad(x, ((0, 2), (2, 0)), constant_values=3.0),
    "diff": lambda xp, x: xp.diff(x) * xp.diff(x, n=2, axis=1),
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
    "kron": lambda xp, x: xp.kron(x, x[0])[:, :3] + xp.kron(x[:, :1], x[0] * x)[:2],
    "vdot": lambda xp, x: xp.vdot(x, x + 1) * xp.vecdot(x, x) + xp.vecdot(x, 2 * x, axis=0)[0],
    "cumprod": lambda xp, x: xp.cumprod(x, axis=1) * xp.cumulative_prod(x - x[0, 0], axis=0),
    "interp": lambda xp, x: (
        xp.interp(x, xp.sort(x[0]), x[1])
        * xp.interp(x[0], np.array([0.0, 0.2, 1.0]), x[1], left=x[0, 1], right=2.0)
    ),
    "moves": lambda xp, x: (
        xp.rot90(x)[:2, :2] * xp.diag(x[0])[:2, :2]
        + xp.append(x, x[0])[np.array([0, 8])]
        + xp.column_stack([x[:, 0], x])[:, 2:]
    ),
    "vector norms": lambda xp, x: xp.linalg.vector_norm(x, axis=0, ord=3) + xp.linalg.matrix_norm(x, ord=1),
    "cross": lambda xp, x: xp.cross(x, x[::-1] + 1) * xp.linalg.cross(x, x[:1] - 2),
    "masks": lambda xp, x: x[X > 0.2] * 3 + x[np.array([False, True])].sum(),
}


MORE = ("cross", "cumprod", "interp", "moves", "vector norms")
"""The functions whose tests are marked `more`, because JAX compiles many ops for them."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.more] if name in MORE else []) for name in FUNCTIONS]
)
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
            expected, actual = f(x, axis=1), f(Array(x), axis=1)
            assert actual.dtype == expected.dtype, (f, dtype)
            np.testing.assert_allclose(actual.data, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="of an empty array"):
        np.max(Array(np.ones((0, 2))), axis=0)


EINSUMS: dict[str, tuple[tuple[int, ...], ...]] = {
    "ii": ((3, 3),),
    "iij->j": ((3, 3, 2),),
    "iii->i": ((3, 3, 3),),
    "iji,j->i": ((3, 2, 3), (2,)),
    "...ii->...i": ((2, 4, 3, 3),),
    "...ij,...jk": ((2, 3, 4), (5, 2, 4, 3)),
    "ij...,jk...->ik...": ((3, 4, 2), (4, 5, 2)),
    "i...->...": ((3, 2),),
    "...": ((3,),),
    ",": ((), ()),
    "ij,ij->i": ((1, 3), (4, 1)),
    "a...,a...": ((2, 3), (2, 1)),
    "ba,b": ((2, 3), (2,)),
    "ij,jk,kl->il": ((3, 9), (9, 2), (2, 5)),
    "ij,i->ij": ((0, 3), (0,)),
}


def test_einsum() -> None:
    """`einsum` equals NumPy's for repeated letters, ellipses and sizes of 1, with each value of `optimize`."""
    for spelled, sizes in EINSUMS.items():
        arrays = [np.random.default_rng(0).standard_normal(each) for each in sizes]
        wanted = np.einsum(spelled, *arrays)
        options: list[Any] = (
            [{}] if len(sizes) < 3 else [{"optimize": each} for each in (False, True, "optimal")]
        )
        for option in options:
            found = np.einsum(spelled, *map(Array, arrays), **option)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.data, wanted, atol=1e-13, err_msg=spelled)


def test_the_order_of_contractions() -> None:
    """With `optimize=True`, a product of two matrices and a vector contracts the vector first.

    The caller may request a single contraction, or another order.
    """
    sizes = dict(zip("ijk", (50, 40, 30), strict=True))
    for optimize, wanted in (
        (True, ((1, 2), (0, 1))),
        (False, ((0, 1, 2),)),
        (["einsum_path", (0, 1), (0, 1)], ((0, 1), (0, 1))),
    ):
        assert products._path(("ij", "jk", "k"), "i", sizes, optimize) == wanted


def test_unsupported_functions_are_refused() -> None:
    for f in (np.median, np.linalg.lstsq, np.trim_zeros):
        with pytest.raises(TypeError, match="no implementation found"):
            f(Array(X), *[X] * (f is np.linalg.lstsq))
    with pytest.raises(TypeError):
        np.frexp(Array(X))
    with pytest.raises(TypeError, match="not ordered"):
        np.less(Array(X + 1j), 2)
    for spelled in ("i", "ij,jk,kl,l", "ij->k", "ijk", "ij->ii", "i...->i", "....ij", "ij...j...", "1i"):
        with pytest.raises(ValueError, match="einsum"):
            np.einsum(spelled, Array(X), *[Array(X)] * spelled.count(","))
    for index in (2, (0, 0, 0), 1.5, Array(1.0), np.array([3])):
        with pytest.raises(IndexError):
            Array(X)[index]
    with pytest.raises(TypeError, match="does not convert"):
        Array(X + 1j).astype(np.float64)


def test_distinct_elements() -> None:
    """`unique_values` can be differentiated: each cotangent goes to the first of the equal elements."""
    x = Array([2.0, 1.0, 2.0, 3.0], requires_grad=True)
    found = np.unique_all(x)
    np.testing.assert_array_equal(found.inverse_indices.data, [1, 0, 1, 2])
    np.testing.assert_array_equal(np.unique_counts(x).counts.data, [1, 2, 1])
    (slope,) = grad([np.sort(np.unique_values(x)) * found.values], [x], [np.array([1.0, 10.0, 100.0])])
    np.testing.assert_array_equal(slope.data, [40, 2, 0, 600])


def test_arrays_without_elements() -> None:
    x = Array(np.ones((4, 0)), requires_grad=True)
    y = x @ np.ones((0, 3))
    assert y.shape == (4, 3) and not y.data.any()
    (y + np.sum(x, axis=1)[:, None]).sum().backward()
    assert x.grad.shape == (4, 0)
    w = Array(W, requires_grad=True)
    (np.ones((0, 3)) @ w[:, :] + w[0]).sum().backward()
    np.testing.assert_array_equal(w.grad.data, np.zeros_like(W))
    assert w[1:1].shape == (0, 2) and w[np.array([], int)].shape == (0, 2)


def test_types_that_the_interpreter_lacks() -> None:
    x = Array(np.ones(2, ml_dtypes.bfloat16))
    assert x.dtype == ml_dtypes.bfloat16
    with pytest.raises(InputError, match="the interpreter does not support arrays of bfloat16"):
        x * x


# ---- by IREE -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_functions_by_iree() -> None:
    """After a rehearsal, IREE compiles all functions of `FUNCTIONS` at once; results equal the interpreter's."""

    def run() -> dict[str, np.ndarray]:
        actual = {}
        for name, f in FUNCTIONS.items():
            x = Array(X, requires_grad=True)
            y = f(np, x)
            actual[name] = y.data
            actual[f"gradient of {name}"] = grad([y], x, [np.cos(np.arange(y.size)).reshape(y.shape)]).data
        return actual

    expected, iree = run(), Iree()
    with executing(iree):
        with rehearsing():
            run()
        compiled = iree.compiled
        actual = run()
    assert iree.compiled == compiled > 100
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-6, atol=1e-12, err_msg=name)
