"""Tests products whose operand is converted to f32 on IREE: large unsigned integers stay positive, true becomes 1."""

from typing import Any

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one

PRODUCTS = {
    "batching_dims = [0] x [0], contracting_dims = [2] x [1]": ((3, 4, 5), (3, 5, 6), "bij,bjk->bik"),
    "batching_dims = [0] x [0], contracting_dims = [1] x [1]": ((4, 5), (4, 5), "bi,bi->b"),
    "contracting_dims = [0, 1] x [0, 1]": ((4, 5), (4, 5), "ij,ij->"),
    "contracting_dims = [0] x [0]": ((5,), (5, 6), "i,ij->j"),
    "contracting_dims = [1] x [0]": ((4, 5), (5, 6), "ij,jk->ik"),
    "contracting_dims = [1] x [1]": ((4, 5), (6, 5), "ij,kj->ik"),
    "contracting_dims = [] x []": ((4,), (5,), "i,j->ij"),
}
"""The dimensions of a `dot_general`, the shapes of its operands, and the formula of the product for `np.einsum`."""

RNG = np.random.default_rng(0)
SOURCES = {"ui8": (np.uint8, 255), "ui16": (np.uint16, 60000), "i1": (np.bool_, 2)}


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def widened(element: str) -> tuple[str, list[Any], list[Any]]:
    """A program with all products, its arguments, and the expected results.

    Each product is computed twice, with the converted operand on the left and on the right.
    """
    dtype, most = SOURCES[element]
    parameters, body, results, arguments, expected = [], "", {}, [], []
    for number, (dims, (lhs, rhs, einsum)) in enumerate((*PRODUCTS.items(), *PRODUCTS.items())):
        narrow, x, y = number < len(PRODUCTS), f"%x{number}", f"%y{number}"
        shapes, elements = (lhs, rhs), (element, "f32") if narrow else ("f32", element)
        parameters += [f"{v}: {tensor(s, e)}" for v, s, e in zip((x, y), shapes, elements, strict=True)]
        wide = [tensor(s, "f32") for s in shapes]
        v, shape = (x, lhs) if narrow else (y, rhs)
        body += f"%w{number} = stablehlo.convert {v} : ({tensor(shape, element)}) -> {tensor(shape, 'f32')}\n"
        values = [
            RNG.integers(0, most, s).astype(dtype) if e == element else RNG.normal(size=s).astype(np.float32)
            for s, e in zip(shapes, elements, strict=True)
        ]
        product = np.einsum(einsum, *(value.astype(np.float32) for value in values))
        operands = f"%w{number}, {y}" if narrow else f"{x}, %w{number}"
        results[f"%r{number}"] = type_ = tensor(product.shape, "f32")
        body += f"%r{number} = stablehlo.dot_general {operands}, {dims} : ({', '.join(wide)}) -> {type_}\n"
        arguments += values
        expected.append(product)
    types = ", ".join(results.values())
    text = f"func.func @main({', '.join(parameters)}) -> ({types}) {{\n{body}return {', '.join(results)} : {types}\n}}"
    return text, arguments, expected


@pytest.fixture(scope="module")
def compiled() -> Joined:
    return compiled_as_one({element: widened(element)[0] for element in SOURCES})


@pytest.mark.parametrize("element", SOURCES)
def test_widened_operand(compiled: Joined, element: str) -> None:
    _, arguments, expected = widened(element)
    for y, product in zip(compiled[element](*arguments), expected, strict=True):
        np.testing.assert_allclose(y, product, rtol=1e-4, atol=1e-2)
