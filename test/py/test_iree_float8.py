"""Conversions of floats of 8 and 16 bits, all of them, against NumPy's."""

import ml_dtypes
import numpy as np
import pytest

from tiduc.program import load

FLOAT8 = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "ui8": np.uint8, "ui32": np.uint32}


def converts(n: int, of: str, *to: str) -> str:
    results = ", ".join(f"tensor<{n}x{type_}>" for type_ in to)
    lines = [
        f"%{i} = stablehlo.convert %x : (tensor<{n}x{of}>) -> tensor<{n}x{type_}>"
        for i, type_ in enumerate(to)
    ]
    values = ", ".join(f"%{i}" for i in range(len(to)))
    lines.append(f"return {values} : {results}")
    return f"func.func @main(%x: tensor<{n}x{of}>) -> ({results}) {{\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize("of", FLOAT8)
def test_from_float8(of: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(FLOAT8[of])
    wide = x.astype(np.float64)
    *floats, half = load(converts(256, of, "f32", "f64", "bf16", "f16")).compile()(x)
    for y in floats:
        np.testing.assert_array_equal(y.astype(np.float64), wide)
    np.testing.assert_array_equal(half, x.astype(np.float16))
    for y in load(converts(256, of, *INTEGERS)).compile()(x):
        info = np.iinfo(y.dtype)
        np.testing.assert_array_equal(
            y, np.clip(np.nan_to_num(wide, posinf=1e18, neginf=-1e18), info.min, info.max).astype(np.int64)
        )


@pytest.mark.parametrize("to", FLOAT8)
def test_to_float8(to: str) -> None:
    """Around each number, and half way between two."""
    every = np.arange(256, dtype=np.uint8).view(FLOAT8[to]).astype(np.float32)
    at = np.unique(every[np.isfinite(every)])
    middle = (at[1:] + at[:-1]) / 2
    x = np.concatenate(
        [at, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9))]
    )
    (y,) = load(converts(x.size, "f32", to)).compile()(x)
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(FLOAT8[to]).astype(np.float32))


def test_infinity_of_f16_saturates() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 65504, -65504, 300, -0.9], np.float16)
    i32, ui8 = load(converts(7, "f16", "i32", "ui8")).compile()(x)
    assert i32.tolist() == [2**31 - 1, -(2**31), 0, 65504, -65504, 300, 0]
    assert ui8.tolist() == [255, 0, 0, 255, 0, 255, 0]
