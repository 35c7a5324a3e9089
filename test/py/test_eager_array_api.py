"""Tests the namespace of the Array API standard. `test/sweep/array_api.py` runs the standard's own tests."""

import numpy as np
import pytest

from tiduc.eager import Array, array_api, grad
from tiduc.eager.registry import FUNCTIONS, name_of

pytestmark = pytest.mark.usefixtures("interpreted")
xp = array_api


def test_the_namespace_has_functions_of_eager_arrays() -> None:
    """Each name of the namespace resolves, and the functions of its extensions are implemented for eager arrays."""
    extensions = {"linalg": xp.LINALG, "fft": xp.FFT}
    for name in xp.FUNCTIONS.split():
        assert callable(getattr(xp, name))
    for extension, names in extensions.items():
        for name in names.split():
            function = getattr(getattr(xp, extension), name)
            assert function in FUNCTIONS, name_of(function)
    assert set(dir(xp)) >= {"asarray", "bool", "linalg", "pi", "sort"}
    with pytest.raises(AttributeError, match="median"):
        xp.median  # noqa: B018


def test_a_function_of_any_library() -> None:
    """A function that gets its namespace from `x.__array_namespace__()` can be differentiated."""

    def softmax(x: Array) -> Array:
        own = x.__array_namespace__("2024.12")
        shifted = own.exp(x - own.max(x, axis=-1, keepdims=True))
        return shifted / own.sum(shifted, axis=-1, keepdims=True)

    x = xp.asarray([[1.0, 3.0], [2.0, -1.0]])
    x.requires_grad = True
    y = softmax(x)
    slope = grad([y], x, [np.array([[1.0, 0.0], [0.0, 0.0]])])
    p = y.data[0, 0]
    np.testing.assert_allclose(slope.data, [[p * (1 - p), -p * (1 - p)], [0, 0]])
    with pytest.raises(ValueError, match="version 2000.01"):
        x.__array_namespace__("2000.01")


def test_created_arrays() -> None:
    assert isinstance(xp.linspace(0, 1, 5), Array) and xp.fft.fftfreq(4, dtype=xp.float32).dtype == np.float32
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    assert xp.asarray(x, dtype=xp.float32).dtype == np.float32
    for copied in (
        lambda: xp.asarray(x, dtype=xp.float32, copy=False),
        lambda: xp.from_dlpack(x, copy=False),
    ):
        with pytest.raises(ValueError, match="copies|without a copy"):
            copied()
    np.testing.assert_array_equal(np.from_dlpack(x), x.data)
    assert isinstance(xp.from_dlpack(np.ones(2)), Array)
    assert x.to_device("cpu") is x and x.device == "cpu"
    with pytest.raises(ValueError, match="on the cpu"):
        x.to_device("cuda")


def test_orders() -> None:
    x = xp.asarray([[2.0, 1.0, 2.0], [np.nan, 0.0, 5.0]])
    np.testing.assert_array_equal(xp.argsort(x, descending=True).data, [[0, 2, 1], [0, 2, 1]])
    np.testing.assert_array_equal(xp.sort(x, axis=0, descending=True).data[0], [np.nan, 1, 5])
    np.testing.assert_array_equal(xp.argsort(x, axis=1).data, [[1, 0, 2], [1, 2, 0]])
    assert xp.clip(xp.asarray([1, 9], dtype=xp.int8), 2, 5).dtype == np.int8


def test_parameters_are_those_of_numpy() -> None:
    """Functions take NumPy's parameters by position and by name. The error for an unsupported parameter names it."""
    x = Array([[1.0, 2.0], [3.0, 4.0]])
    assert np.trace(x, 1).item() == np.trace(a=x, offset=1).item() == 2.0
    for call in (
        lambda: np.concatenate([x, x], dtype=np.float32),
        lambda: np.ravel(x, "F"),
        lambda: np.linalg.svd(x, hermitian=True),
        lambda: np.squeeze(x, out=x),
    ):
        with pytest.raises(
            TypeError, match="of eager arrays takes no (dtype|order|hermitian)=|unexpected keyword"
        ):
            call()
