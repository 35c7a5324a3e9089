"""Fourier transforms: all kinds, ranks 1 to 3, even and odd sizes, and batches."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule
from jax.numpy import fft as jfft

RNG = np.random.default_rng(0)


def random(sizes: list[int], is_complex: bool = True) -> Any:
    x = RNG.standard_normal(sizes)
    return x + 1j * RNG.standard_normal(sizes) if is_complex else x


def tensor(sizes: list[int], is_complex: bool) -> str:
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{'complex<f64>' if is_complex else 'f64'}>"


def program(kind: str, sizes: list[int], count: int, square: bool = False) -> str:
    """A program with a transform over the last `count` dimensions.

    `sizes` is the shape of the operand or result, whichever is real or larger.
    """
    half = [*sizes[:-1], sizes[-1] // 2 + 1]
    x = tensor(half if kind == "IRFFT" else sizes, kind != "RFFT")
    y = tensor(half if kind == "RFFT" else sizes, kind != "IRFFT")
    length = ", ".join(map(str, sizes[len(sizes) - count :]))
    after = f"%1 = stablehlo.multiply %0, %0 : {y}" if square else ""
    return f"""
    func.func @main(%x: {x}) -> {y} {{
      %0 = stablehlo.fft %x, type = {kind}, length = [{length}] : ({x}) -> {y}
      {after}
      return %{1 if square else 0} : {y}
    }}"""


def point(kind: str, sizes: list[int]) -> Any:
    return random([*sizes[:-1], sizes[-1] // 2 + 1] if kind == "IRFFT" else sizes, kind != "RFFT")


CASES = [
    ([1], 1),
    ([2], 1),
    ([3], 1),
    ([4], 1),
    ([7], 1),
    ([3, 4], 1),
    ([2, 3, 5], 1),
    ([3, 4], 2),
    ([4, 3], 2),
    ([2, 3, 4], 2),
    ([3, 2, 5], 3),
    ([2, 3, 2, 4], 3),
    ([1, 1, 1], 3),
    ([0, 4], 1),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(("sizes", "count"), CASES)
def test_transforms(kind: str, sizes: list[int], count: int) -> None:
    check_rule(program(kind, sizes, count), point(kind, sizes))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(("sizes", "count"), [([5], 1), ([3, 4], 2)])
def test_squares(kind: str, sizes: list[int], count: int) -> None:
    check_rule(program(kind, sizes, count, square=True), point(kind, sizes))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize(("sizes", "count"), [([6], 1), ([5], 1), ([2, 3, 4], 2), ([2, 4, 3], 3)])
def test_as_jax(kind: str, sizes: list[int], count: int) -> None:
    function = {"FFT": jfft.fftn, "IFFT": jfft.ifftn, "RFFT": jfft.rfftn, "IRFFT": jfft.irfftn}[kind]
    axes = list(range(len(sizes) - count, len(sizes)))
    length = [sizes[i] for i in axes]
    check_rule(
        program(kind, sizes, count),
        point(kind, sizes),
        order=1,
        jax_function=lambda x: function(x, s=length, axes=axes),
    )
