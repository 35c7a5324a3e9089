"""Tests programs in which a result reuses the memory of a donated argument, and other results read the argument."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases.iree_programs import READ_BY_ANOTHER
from harness.one_module import compiled_together
from harness.sources import source_of

from tiduc.dialect.errors import ParseError
from tiduc.loading import load

Array = np.ndarray[Any, np.dtype[np.float32]]

T = "tensor<6x6xf32>"
FIRST, SECOND = "{iree.abi.output = 0 : index}", "{iree.abi.output = 1 : index}"
P, Q, G = (np.random.default_rng(i).standard_normal((6, 6)).astype(np.float32) for i in range(3))
DOT = f"contracting_dims = [1] x [0] : ({T}, {T}) -> {T}"

CROSSED = f"""
func.func @main(%p: {T} {SECOND}, %q: {T} {FIRST}) -> ({T}, {T}, {T}) {{
  return %p, %q, %q : {T}, {T}, {T}
}}
"""
TURNED = f"""
func.func @main(%p: {T} {FIRST}) -> {T} {{
  %0 = stablehlo.transpose %p, dims = [1, 0] : ({T}) -> {T}
  %1 = stablehlo.add %0, %p : {T}
  return %1 : {T}
}}
"""
LAYERS = f"""
func.func @main(%p: {T} {FIRST}, %q: {T} {SECOND}, %g: {T}) -> ({T}, {T}) {{
  %0 = stablehlo.dot_general %g, %p, {DOT}
  %1 = stablehlo.dot_general %0, %q, {DOT}
  %2 = stablehlo.dot_general %1, %p, {DOT}
  %3 = stablehlo.dot_general %1, %q, {DOT}
  %4 = stablehlo.subtract %p, %3 : {T}
  %5 = stablehlo.subtract %q, %2 : {T}
  return %4, %5 : {T}, {T}
}}
"""
UPDATED = f"""
func.func @main(%p: {T} {SECOND}, %u: tensor<1x6xf32>, %i: tensor<i32>) -> ({T}, {T}) {{
  %0 = stablehlo.dynamic_update_slice %p, %u, %i, %i : ({T}, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> {T}
  %1 = stablehlo.negate %0 : {T}
  return %0, %1 : {T}, {T}
}}
"""
FUNCTIONS = f"""
func.func @main(%p: {T} {FIRST}, %g: {T}) -> {T} {{
  %0 = stablehlo.exponential %p : {T}
  %1 = stablehlo.tanh %p : {T}
  %2 = stablehlo.compare LT, %p, %g : ({T}, {T}) -> tensor<6x6xi1>
  %3 = stablehlo.select %2, %0, %1 : tensor<6x6xi1>, {T}
  %4 = stablehlo.sine %3 : {T}
  %5 = stablehlo.add %4, %p : {T}
  return %5 : {T}
}}
"""
# A reduction over no dimension is the array itself, and so is a sum with 0.
THE_SAME = f"""
func.func @main(%p: {T} {SECOND}, %q: {T}) -> ({T}, {T}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [] : ({T}, tensor<f32>) -> {T}
  return %0, %q : {T}, {T}
}}
"""


def _layers(p: Array, q: Array, g: Array) -> tuple[Array, Array]:
    y = g @ p @ q
    return p - y @ q, q - y @ p


def _updated(p: Array, u: Array, i: Any) -> tuple[Array, Array]:
    return (y := np.concatenate([u, p[1:]])), -y


CASES: dict[str, tuple[str, Callable[..., tuple[Array, ...]], tuple[Any, ...]]] = {
    "read by another": (READ_BY_ANOTHER, lambda p, g: (p - g, g @ p), (P, G)),
    "crossed": (CROSSED, lambda p, q: (p, q, q), (P, Q)),
    "turned": (TURNED, lambda p: (p.T + p,), (P,)),
    "layers": (LAYERS, _layers, (P, Q, G)),
    "the same": (THE_SAME, lambda p, q: (p, q), (P, Q)),
    "functions": (FUNCTIONS, lambda p, g: (np.sin(np.where(p < g, np.exp(p), np.tanh(p))) + p,), (P, G)),
    "updated": (UPDATED, _updated, (P, Q[:1], np.array(0, np.int32))),
}


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
def test_donated_arguments_are_read_before_they_are_overwritten(target: str) -> None:
    compiled = compiled_together({name: text for name, (text, *_) in CASES.items()}, target)
    for name, (_, expected, arguments) in CASES.items():
        for _ in range(3):
            for got, y in zip(compiled[name](*arguments), expected(*arguments), strict=True):
                np.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-5, err_msg=name)


def test_an_element_read_in_its_own_place_is_not_copied() -> None:
    text = f"""
func.func @main(%p: {T} {FIRST}, %g: {T}, %r: tensor<f32>) -> {T} {{
  %0 = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> {T}
  %1 = stablehlo.multiply %0, %g : {T}
  %2 = stablehlo.subtract %p, %1 : {T}
  %3 = stablehlo.maximum %2, %p : {T}
  return %3 : {T}
}}
"""
    source = source_of(load(text)).stablehlo
    assert "optimization_barrier" not in str(source)


def test_a_dynamic_array_that_two_results_would_share_is_copied() -> None:
    text = """
func.func @main(%p: tensor<?xf32> {iree.abi.output = 0 : index}, %g: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  return %g, %p : tensor<?xf32>, tensor<?xf32>
}
"""
    main, p, g = load(text).compile(), np.float32([1, 2, 3]), np.float32([4, 5, 6])
    for _ in range(3):
        for got, y in zip(main(p, g), (g, p), strict=True):
            np.testing.assert_array_equal(got, y)


def test_memory_given_to_a_result_that_does_not_exist() -> None:
    t = "tensor<3xf32>"
    text = f"func.func @main(%p: {t} {{iree.abi.output = 9 : index}}) -> {t} {{ return %p : {t} }}"
    with pytest.raises(ParseError, match=r"iree.abi.output = 9, but the function has 1 results"):
        load(text).compile()
