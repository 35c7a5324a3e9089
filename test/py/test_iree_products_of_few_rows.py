"""Tests products of matrices of few rows or columns by kernels on CPUs."""

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import kernels_in
from harness.variants import AVX2, AVX512, SSE4
from test_iree_products_in_tiles import product

RNG = np.random.default_rng(0)

PRODUCTS = {
    "a vector and columns": ("ik,jk->ij", [1, 1003], [65, 1003], "f32"),
    "a vector and rows": ("ik,kj->ij", [1, 503], [503, 131], "f32"),
    "few rows": ("ik,jk->ij", [3, 517], [143, 517], "f32"),
    "few rows and rows": ("ik,kj->ij", [5, 517], [517, 143], "f32"),
    "few columns": ("ik,jk->ij", [143, 517], [2, 517], "f32"),
    "few columns and rows": ("ki,kj->ij", [517, 143], [517, 7], "f32"),
    "few rows by columns": ("ki,jk->ij", [517, 7], [143, 517], "f64"),
    "batches": ("bik,bjk->bij", [3, 1, 130], [3, 201, 130], "f32"),
    "batches in other orders": ("ibk,kbj->bij", [2, 5, 130], [130, 5, 99], "f64"),
    "few rows and few columns": ("ik,jk->ij", [2, 20001], [3, 20001], "f32"),
}
"""For each name: the formula as in `einsum`, the shapes of both operands, and the element type of a product."""


@pytest.fixture(scope="module")
def products() -> Joined:
    """Fixture: all products, compiled as one function."""
    return compiled_as_one({name: product(*each) for name, each in PRODUCTS.items()})


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_few_rows(name: str, products: Joined) -> None:
    """Products of few rows or columns equal NumPy's in f64. An infinite element affects only its row and column."""
    formula, left, right, kind = PRODUCTS[name]
    assert all(kernels_in(product(*PRODUCTS[name]), target) == 1 for target in (AVX512, AVX2, SSE4))
    x, y = (RNG.standard_normal(sizes).astype(kind.replace("f", "float")) for sizes in (left, right))
    expected = np.einsum(formula, x.astype(np.float64), y.astype(np.float64))
    atol = (2e-6 if kind == "f32" else 1e-14) * np.abs(expected).max()
    np.testing.assert_allclose(products[name](x, y)[0], expected, rtol=0, atol=atol)
    y.flat[-1] = np.inf
    with np.errstate(invalid="ignore"):
        affected = ~np.isfinite(np.einsum(formula, x, y))
    ours = np.asarray(products[name](x, y)[0])
    np.testing.assert_array_equal(~np.isfinite(ours), affected)
    assert np.isinf(ours[affected]).all()
