"""Functions of eager arrays take their parameters in NumPy's order. Each parameter has NumPy's effect or is refused."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness.eager_check import same_gradients

from tiduc.eager import Array, grad

X = np.array([[3.0, -4.0, 1.5], [0.5, 2.0, -1.0]])
F32 = X.astype(np.float32)
BYTES = np.array([[100, -128, 7], [3, 0, -5]], np.int8)
CUBE = np.arange(24.0).reshape(2, 3, 4)
INF = np.inf

pytestmark = pytest.mark.usefixtures("interpreted")


def same(f: Callable[[Any], Any], x: np.ndarray) -> None:
    """Asserts that `f` gives equal values and types for eager and NumPy arrays, or raises errors of the same kind."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = f(x)
        except (TypeError, ValueError) as error:
            with pytest.raises(ValueError if isinstance(error, ValueError) else TypeError):
                f(Array(x))
            return
    actual = f(Array(x))
    pairs = zip(actual, expected, strict=True) if isinstance(expected, list) else [(actual, expected)]
    for ours, numpys in pairs:
        assert isinstance(ours, Array)
        assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
        np.testing.assert_allclose(ours.data, numpys, rtol=1e-6)


# ---- norms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X[0], F32, CUBE, BYTES, np.array(-3.0), X[0] + 2j])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms(x: np.ndarray, keepdims: bool) -> None:
    for axis in (None, 0, -1, (0,), (0, 1), (0, 1, 2)):
        same(lambda x: np.linalg.norm(x, None, axis, keepdims), x)  # noqa: B023
    same(lambda x: np.linalg.norm(x, keepdims=keepdims), x)


@pytest.mark.parametrize("order", [1, 2, INF, -INF])
def test_norms_of_vectors(order: float) -> None:
    same(lambda x: np.linalg.norm(x, order), X[0])
    same(lambda x: np.linalg.norm(x, order, 1), F32)
    same(lambda x: np.linalg.norm(x, ord=order, axis=-1, keepdims=True), BYTES)
    same_gradients(lambda xp, x: xp.linalg.norm(x, order, 0), X)


def test_other_norms() -> None:
    same(lambda x: np.linalg.norm(x, "fro"), X)
    same(lambda x: np.linalg.norm(x, "fro", (2, 0)), CUBE)
    for x, order, axis in (
        (X, 1, None),
        (X, -1, None),
        (X, INF, (0, 1)),
        (X[0], 0, None),
        (X[0], 3, None),
        (X, -1, 0),
    ):
        same(lambda x: np.linalg.norm(x, order, axis), x)  # noqa: B023
        same(lambda x: np.linalg.norm(x, order, axis, True), x)  # noqa: B023
    for x, order, axis in ((X[0], "fro", None), (X, "max", None), (CUBE, 2, None), (CUBE, "fro", (0, 1, 2))):
        with pytest.raises(ValueError, match=r"np\.linalg\.norm"):
            np.linalg.norm(Array(x), order, axis)


# ---- reductions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "cumsum", "max", "min", "any", "all"])
def test_positional_arguments_are_those_of_numpy(name: str) -> None:
    """Reductions take `axis`, then `dtype` if NumPy has it, then `out` by position, as functions and as methods."""
    for x in (F32, BYTES):
        for call in (
            lambda x, *a, **o: getattr(np, name)(x, *a, **o),
            lambda x, *a, **o: getattr(x, name)(*a, **o),
        ):
            same(lambda x: call(x), x)  # noqa: B023
            same(lambda x: call(x, 1), x)  # noqa: B023
            typed = () if name in ("max", "min", "any", "all") else (np.float64,)
            same(lambda x: call(x, 0, *typed), x)  # noqa: B023
            same(lambda x: call(x, 0, *typed, None), x)  # noqa: B023
            if name in ("var", "std"):
                same(lambda x: call(x, 0, np.float64, None, 1, True), x)  # noqa: B023
            elif name != "cumsum":
                same(lambda x: call(x, 0, *typed, out=None, keepdims=True), x)  # noqa: B023
                same(lambda x: getattr(np, name)(x, 0, *typed, None, True), x)  # noqa: B023
            for out in (Array(np.zeros(3)), np.zeros(3)):
                with pytest.raises(TypeError, match="takes no out="):
                    call(Array(x), 0, *typed, out)


def test_types_of_reductions() -> None:
    same(lambda x: np.sum(x, 0, np.int8), BYTES)
    same(lambda x: np.cumsum(x, 1, np.float32), BYTES)
    same(lambda x: x.mean(dtype=np.float32), X)
    for dtype in (np.int32, np.complex64):
        with pytest.raises(TypeError, match=r"np\.var of eager arrays is not computed in"):
            np.var(Array(X), 0, dtype)
    for name in ("sum", "mean", "cumsum", "std"):
        with pytest.raises(TypeError, match="does not convert"):
            getattr(np, name)(Array(X + 1j), 0, np.float64)


def test_unsupported_parameters_of_reductions() -> None:
    for f in (np.sum, np.prod, np.max):
        with pytest.raises(TypeError, match=rf"np\.{f.__name__} .* takes no initial="):
            f(Array(X), initial=2.0)
    with pytest.raises(TypeError, match=r"np\.mean .* takes no where="):
        Array(X).mean(where=X > 0)
    with pytest.raises(TypeError, match="out"):
        np.sum(X, 0, None, Array(np.zeros(3)))


@pytest.mark.parametrize("ddof", [0, 0.5, 2, 3, 5])
def test_more_degrees_of_freedom_than_elements(ddof: float) -> None:
    for x in (X, np.ones((2, 2)), BYTES):
        same(lambda x: np.var(x, 0, ddof=ddof), x)
        same(lambda x: x.std(ddof=ddof, axis=1), x)


def test_cumulated_sums_as_a_method() -> None:
    for x in (X, BYTES):
        same(lambda x: x.cumsum(), x)
        same(lambda x: x.cumsum(0), x)
    same_gradients(lambda xp, x: x.cumsum(axis=1) * x, X)


# ---- shapes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, [1], [1, 3], [3, 1], [], [9], np.array([2])])
def test_splits(parts: Any) -> None:
    x = np.arange(8.0).reshape(4, 2)
    same(lambda x: np.split(x, parts), x)
    same(lambda x: np.array_split(x, parts), x)


def test_unequal_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="equal division"):
        np.split(Array(np.arange(5.0)), 2)
    with pytest.raises(ValueError, match="equal division"):
        np.split(Array(X), 2, axis=1)
    assert [x.shape for x in np.array_split(Array(np.arange(5.0)), 2)] == [(3,), (2,)]


@pytest.mark.parametrize(
    "axes",
    [
        (0, 1, 2),
        (2, 0, 1),
        (-1, 0, 1),
        (0, 1, 3),
        (3, 0, 1),
        (-4, 0, 1),
        (0, 1, 1),
        (0, 1),
        (0, 1, 2, 0),
        (),
        (1,),
    ],
)
def test_axes_of_transpose(axes: tuple[int, ...]) -> None:
    same(lambda x: np.transpose(x, axes), CUBE)
    same(lambda x: x.transpose(axes), CUBE)
    same(lambda x: x.transpose(list(axes)), CUBE)
    same(lambda x: x.transpose(*axes), CUBE)
    same(lambda x: x.transpose(None), CUBE)
    same(lambda x: x.transpose(np.array(axes, int)), CUBE)


def test_axes_out_of_range_are_refused() -> None:
    for axes in ((0, 1, 3), (-4, 0, 1), (0, 1), (0, 1, 1), ()):
        with pytest.raises(ValueError):
            np.transpose(Array(CUBE), axes)
    same(lambda x: x.transpose(0), X[0])
    same(lambda x: x.transpose(np.int64(0)), X[0])
    same(lambda x: x.transpose(()), np.array(2.0))


# ---- division ----------------------------------------------------------------------------------------------

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, INF, -INF, np.nan])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floor_division_at_the_edges(dtype: Any) -> None:
    x, y = EDGES[:, None].astype(dtype), EDGES.astype(dtype)
    same(lambda x: x // y, x)
    same(lambda y: x // y, y)
    same(lambda x: x // 0.0, x)
    same(lambda x: x % y, x)
    same(lambda x: np.floor_divide(x, 0.1), np.linspace(-1, 1, 41).astype(dtype))


def test_floor_division_of_integers() -> None:
    for dtype in (np.int8, np.int64, np.uint8):
        x = np.array([0, 1, 7, 8, 9, -7, -8, -9]).astype(dtype)
        for y in (1, 3, 4, -4, -3):
            if y > 0 or dtype is not np.uint8:
                same(lambda x: x // y, x)  # noqa: B023


def test_the_derivative_of_floor_division_is_zero() -> None:
    x, y = Array([1.0, -1.0, 5.0, 0.0], requires_grad=True), Array([0.0, 0.0, 2.0, 0.0], requires_grad=True)
    for ct in grad(x // y, [x, y], [np.ones(4)]):
        np.testing.assert_array_equal(ct.data, np.zeros(4))


# ---- lists in place of arrays ------------------------------------------------------------------------------

LISTS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda xp, x: xp.where(x > 0, [1, 2, 3], x),
    "where not": lambda xp, x: xp.where(x > 0, x, ([0.5], [7.5])),
    "where of lists": lambda xp, x: xp.where(x > 0, [1, 2, 3], [4.5, 5, 6]),
    "where of a list": lambda xp, x: xp.where([True, False, True], x, 2),
    "where of numbers": lambda xp, x: xp.where(x > 0, 1, 2.5),
    "where of booleans": lambda xp, x: xp.where(x > 0, True, x),
    "clip": lambda xp, x: xp.clip(x, [-1, 0, 1], [1.0, 1.0, 2.0]),
    "clip below": lambda xp, x: xp.clip(x, [-1, 0, 1], None),
    "clip between": lambda xp, x: xp.clip(x, [[0], [1]], 2),
    "clip between arrays": lambda xp, x: xp.clip(x, np.float32(0.25), np.array([1, 2, 3])),
    "clip by name": lambda xp, x: xp.clip(x, min=-1, max=[1, 2, 3]),
    "clip by one name": lambda xp, x: xp.clip(x, max=1),
    "clip by no bound": lambda xp, x: xp.clip(x, None, None),
    "method": lambda xp, x: x.clip(-1, 2),
    "method of lists": lambda xp, x: x.clip([-1, 0, 1], [1, 2, 3]),
    "method by name": lambda xp, x: x.clip(max=1),
    "method by names": lambda xp, x: x.clip(min=0, max=1),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(name: str) -> None:
    for x in (X, F32, BYTES):
        same(lambda x: LISTS[name](np, x), x)


def test_derivatives_through_lists() -> None:
    same_gradients(lambda xp, x: xp.where(x > 0, np.array([1.0, 2.0, 3.0]), x) * x, X)
    x = Array(X, requires_grad=True)
    actual = grad(np.clip(x, [-1, 0, 1], [1, 1, 2]), x, [np.ones_like(X)])
    np.testing.assert_array_equal(actual.data, [[0, 0, 1], [1, 0, 0]])
    clipped = x.clip(None, None)
    clipped[:] = 0.0
    np.testing.assert_array_equal(x.data, X)


def test_unsupported_parameters_of_clip() -> None:
    for options in ({"out": np.zeros(3)}, {"where": True}):
        with pytest.raises(TypeError, match=r"np\.clip of eager arrays"):
            np.clip(Array(X), 0, 1, **options)
    with pytest.raises(ValueError, match="or min and max"):
        np.clip(Array(X), 0, 1, max=2)
