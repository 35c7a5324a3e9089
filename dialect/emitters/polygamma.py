"""Emits the polygamma functions of positive and negative numbers."""

from math import pi
from typing import Never

from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps


def polygamma(b: StablehloOps[V, Never], n: int, x: V) -> V:
    """polygamma(n, x) for n >= 1.

    For negative x, uses the reflection formula (`of_cotangent`), because the expansion of `chlo.polygamma` is wrong
    there. Subtracts the nearest integer from x before it computes cot(pi x), so that the poles are exact.
    """
    is_left = b.compare(x, b.zeros_like(x), "LT")
    left = b.select(is_left, x, b.constant(-0.5, x))
    turn = b.multiply(b.constant(pi, x), b.subtract(left, b.round_nearest_even(left)))
    cotangent = b.divide(b.cosine(turn), b.sine(turn))
    coefficients = of_cotangent(n)
    total, squared = b.constant(coefficients[-1], x), b.multiply(cotangent, cotangent)
    for coefficient in coefficients[-3::-2]:
        total = b.add(b.multiply(total, squared), b.constant(coefficient, x))
    if len(coefficients) % 2 == 0:
        total = b.multiply(total, cotangent)
    mirrored = b.subtract(b.constant(1, x), left)
    right = b.polygamma(b.constant(n, x), b.select(is_left, mirrored, x))
    return b.select(is_left, (b.subtract if n % 2 else b.add)(total, right), right)


def of_cotangent(n: int) -> list[float]:
    """The coefficients c of polygamma(n, x) = (-1)^n polygamma(n, 1 - x) + sum_k c_k cot(pi x)^k, DLMF 5.15.6.

    The sum is minus pi times the n-th derivative of cot(pi x). Every second coefficient is zero, and the others have
    the same sign.
    """
    coefficients = [0.0, -pi]
    for _ in range(n):
        slopes = [k * c for k, c in enumerate(coefficients)][1:]
        padded = zip([*slopes, 0.0, 0.0], [0.0, 0.0, *slopes], strict=True)
        coefficients = [-pi * (first + second) for first, second in padded]
    return coefficients
