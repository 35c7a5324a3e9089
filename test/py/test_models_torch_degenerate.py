"""A sample of `test/sweep/torch_degenerate.py`: PyTorch functions at zeros, ties, kinks and extreme indices."""

from typing import Any

import numpy as np
import pytest

import tiduc

torch = pytest.importorskip("torch")
import torch_degenerate  # noqa: E402  it needs PyTorch
import torch_gradients  # noqa: E402
from torch_gradients import Module  # noqa: E402
from torch_mathematics import draw  # noqa: E402

SAMPLE = {
    "elementwise functions": (
        *(
            f"torch.{name}"
            for name in (
                "acosh",
                "asin",
                "atan2",
                "fmax",
                "angle",
                "copysign",
                "clamp (tensors)",
                "pow (0 to x)",
                "logaddexp2",
                "asinh",
                "digamma",
                "lgamma",
                "logit",
                "sinc",
                "xlogy",
            )
        ),
        *(f"special.{name}" for name in ("entr", "i1", "log_ndtr", "polygamma", "xlog1py")),
        *("special.polygamma (2, negative)", "torch.digamma (negative)"),
        *(
            f"functional.{name}"
            for name in ("elu", "hardsigmoid", "hardswish", "logsigmoid", "prelu", "rrelu")
        ),
    ),
    "norms and deviations": (
        *(f"linalg.vector_norm ({p})" for p in (0, 0.5, 1, 1.5, 3, "inf", "-inf", -1)),
        *("linalg.vector_norm (0.5, complex)", "linalg.vector_norm (3, scalar)", "torch.std"),
        *("torch.dist (0.5)", "torch.cdist (0.5)", "torch.cdist (inf)", "functional.pairwise_distance (1.5)"),
    ),
    "indices": ("torch.put (accumulate)", "torch.take", "functional.embedding_bag (max, empty bags)"),
    "losses": (
        *("functional.binary_cross_entropy (mean)", "functional.multi_margin_loss (p 1, margin 0.0, none)"),
        *(
            "functional.cross_entropy (all ignored, mean)",
            "functional.nll_loss (all ignored, weights zero, mean)",
        ),
        *(
            f"functional.ctc_loss ({lengths}, zero_infinity True, mean)"
            for lengths in ("one possible", "no steps")
        ),
    ),
    "linear algebra": (
        *("linalg.det", "linalg.det (singular)", "linalg.det (4 rows)"),
        *(
            f"linalg.{name} ({triangle})"
            for name in ("eigvalsh", "cholesky")
            for triangle in ("lower", "upper")
        ),
        *(f"linalg.{name}_ex (info)" for name in ("inv", "cholesky", "lu_factor")),
    ),
    "layers": (
        "functional.rms_norm",
        "functional.scaled_dot_product_attention (a row of -inf)",
        "functional.scaled_dot_product_attention (a row without keys)",
    ),
    "reductions": ("torch.median (all)", "torch.nanmedian (all)"),
    "special functions of `torch_gradients.py`": ("special.gammainc", "special.gammaincc"),
    "pooling and sampling": (
        *("functional.lp_pool1d (3.0)", "functional.adaptive_max_pool2d (9x8 to 4x3)"),
        *(
            "functional.interpolate (bicubic, antialias, (3, 2))",
            "functional.grid_sample (bilinear, border, True)",
        ),
        "functional.grid_sample (bilinear, reflection, True)",
    ),
}
"""Functions whose derivatives at degenerate inputs once were wrong or refused."""


@pytest.mark.parametrize("group", SAMPLE)
def test_functions_at_degenerate_inputs(group: str) -> None:
    """Values, cotangents and second derivatives are right at each kind of degenerate input.

    One program computes all functions of a group.
    """
    rows = torch_degenerate.ROWS[group]
    found = torch_degenerate.outcomes([rows[name] for name in SAMPLE[group]])
    for name, of_kinds in zip(SAMPLE[group], found, strict=True):
        assert of_kinds, name
        for kind, (category, why) in of_kinds.items():
            accepted = ("right", "finite", "other", *(["refused"] if kind == "empty" else []))
            assert category in accepted, f"{name}, {kind}: {why}"


def test_the_page_keeps_lines_of_groups_without_results() -> None:
    name = next(iter(torch_degenerate.ROWS["indices"]))
    first = torch_degenerate.page({("indices", name): {"zeros": ("refused", ""), "ones": ("right", "")}}, "")
    name = next(iter(torch_degenerate.ROWS["reductions"]))
    second = torch_degenerate.page({("reductions", name): {"zeros": ("wrong", "")}}, first)
    lines = [line for line in second.splitlines() if line.startswith(("| indices |", "- indices: "))]
    assert len(lines) == 2 and set(lines) < set(first.splitlines())
    assert f"- reductions: `{name}`." in second.partition("## Wrong")[2].partition("## Refused")[0]


def test_differences_without_a_reason_are_wrong() -> None:
    """If a NaN is accepted at one element, a different number at that element, or an error in a later array, still
    counts as wrong.
    """
    wanted, nan = [np.ones(2), np.ones(2)], np.array([np.nan, 1])
    for got, category in (
        ([nan, np.ones(2)], "other"),
        ([np.array([3.0, 1]), np.ones(2)], "wrong"),
        ([nan, np.zeros(2)], "wrong"),
    ):
        assert torch_degenerate.judged("linalg.inv_ex", "zeros", [wanted], [got])[0] == category


def test_least_squares_of_dependent_columns() -> None:
    """If the columns are linearly dependent, the least-squares solution by QR and its derivatives are NaN, instead of
    large quotients of rounding errors.
    """
    x, y = torch.ones(2, 4, 3, dtype=torch.float64), torch.ones(2, 4, 1, dtype=torch.float64)
    x[1] += torch.eye(4, 3)
    program = tiduc.from_torch(Module(lambda x, y: torch.linalg.lstsq(x, y).solution), (x, y)).vjp()
    results = program.compile(engine="xla")(x.numpy(), y.numpy(), np.ones((2, 3, 1)))
    for value in results:
        assert np.isnan(value[0]).all() and np.isfinite(value[1]).all()
    np.testing.assert_allclose(results[0][1], torch.linalg.lstsq(x[1], y[1]).solution.numpy(), rtol=1e-12)


def test_numbers_minus_tensors_in_f64() -> None:
    """A Python number in an expression with f64 tensors keeps its precision. torch-mlir alone would round the number to
    f32.
    """
    x = torch.ones(3, dtype=torch.float64)
    program = tiduc.from_torch(
        Module(lambda x: [1 / 3 - x, torch.linspace(-1 / 3, 1 / 3, 3, dtype=x.dtype) * x]), (x,)
    )
    for got, wanted in zip(
        program.compile(engine="reference")(x.numpy()), (1 / 3 - 1, [-1 / 3, 0, 1 / 3]), strict=True
    ):
        np.testing.assert_allclose(got, wanted, atol=1e-16)


def test_qr_where_a_column_has_nothing_below_the_diagonal() -> None:
    """The gradient of QR is right if a column is zero below the diagonal.

    There, Householder reflectors are discontinuous, but Q and R do not depend on them.
    """
    x = torch.eye(4, 3, dtype=torch.float64, requires_grad=True)
    outputs = torch.linalg.qr(x)
    seeds = [draw(4, 3), draw(4, 3)[:3]]
    (wanted,) = torch.autograd.grad(outputs, x, seeds)
    program = tiduc.from_torch(Module(lambda x: list(torch.linalg.qr(x))), (x.detach(),)).vjp()
    *_, got = program.compile(engine="xla")(x.detach().numpy(), *(s.numpy() for s in seeds))
    np.testing.assert_allclose(got, wanted.numpy(), atol=1e-12)


ROLLS = ((0, 0), (3, 0), (-3, 0), (-7, 0), (8, 0), (-4, None), (7, None), ((1, -9), (0, 1)), ((2, 2), (0, 0)))
"""Shifts and dimensions of `torch.roll`.

Shifts that are at least the dimension's size once were refused or had no effect.
"""


def rolls(x: Any) -> list[Any]:
    return [torch.roll(x, shifts, dims) for shifts, dims in ROLLS]


def test_rolls() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    program = tiduc.from_torch(Module(rolls), (x,))
    for got, wanted, shift in zip(program.compile()(x.numpy()), rolls(x), ROLLS, strict=True):
        np.testing.assert_array_equal(got, wanted.numpy(), err_msg=str(shift))


def test_rolls_along_a_dynamic_dimension() -> None:
    """`torch.roll` along a dynamic dimension has the right values and gradients.

    If a shift exceeds the size, the lowering of torch-mlir alone gives an array that is too long.
    """
    sizes = ({0: torch.export.Dim("n", min=2)},)

    def function(x: Any) -> list[Any]:
        return [torch.roll(x, shifts, dims) for shifts, dims in ROLLS if dims is not None]

    vjp = tiduc.from_torch(
        Module(lambda *xs: function(xs[0])), (torch.ones(3, 2),), dynamic_shapes=(sizes,)
    ).vjp()
    compiled = vjp.compile()
    for n in (2, 5, 8):
        x = torch.randn(n, 2, requires_grad=True)
        wanted = function(x)
        seeds = [torch.randn(n, 2) for _ in wanted]
        wanted += torch.autograd.grad(wanted, x, seeds)
        got = compiled(x.detach().numpy(), *(s.numpy() for s in seeds))
        for y, expected in zip(got, wanted, strict=True):
            np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_norms_on_the_default_engine() -> None:
    """IREE's f32 gradients of norms equal PyTorch's at zero vectors and at zero components."""

    def function(x: Any) -> Any:
        norms = [torch.linalg.vector_norm(x, p, 1) for p in (0.5, 1, 1.5, 2, 3, float("inf"))]
        return torch.stack(norms).sum()

    x = torch.tensor([[0.0, 0, 0, 0], [0, 1, -2, 0], [3, 3, -3, 1], [0, 0, 0, 2]], requires_grad=True)
    (wanted,) = torch.autograd.grad(function(x), x)
    (got,) = tiduc.from_torch(Module(function), (x,)).grad().compile()(x.detach().numpy())
    np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_one_tensor_as_two_example_inputs() -> None:
    """If a tensor is given as two example inputs, the imported program reads both inputs.

    PyTorch's export alone would use only the last one.
    """
    x = torch.ones(2)
    program = tiduc.from_torch(Module(lambda x, y: 2 * x + 3 * y), (x, x))
    (y,) = program.compile(engine="reference")(np.array([1, 2], np.float32), np.array([10, 20], np.float32))
    np.testing.assert_array_equal(y, [32, 64])


def inter_union(x: Any, y: Any) -> Any:
    """The area of intersections of boxes, computed by a masked assignment as in torchvision's losses."""
    mask = y > x
    area = torch.zeros_like(x)
    area[mask] = (y[mask] - x[mask]) * y[mask]
    return area


def kept(x: Any) -> Any:
    """Computes square roots and logarithms only inside masks, where they are defined."""
    rows = torch.zeros_like(x)
    mask = x[:, 0] > 0
    rows[mask] = torch.sqrt(x[mask].abs()) * torch.ones(3, dtype=x.dtype)
    y = 2 * x
    is_large = y > 0
    y[is_large] = torch.log(y[is_large])
    is_small = x < 0.5
    y[is_small] = torch.masked_select(x, is_small) + y[is_small]
    return rows + y


def overwritten(x: Any) -> Any:
    """Reads masked elements of x, then overwrites both x and the elements that were read."""
    x, y = x * 1, torch.zeros_like(x)
    mask = x > 0
    part = x[mask] * 3
    x.zero_()
    part.mul_(2)
    y[mask] = part
    return y + x


def rows(x: Any, row: Any, lead: Any) -> Any:
    """Assigns a scalar, a row or a matrix to all positions of a mask, as models do for embeddings of special tokens."""
    places, firsts, seconds = x[..., 0] > 0, x[:, 0, 0] > 0, x[0, :, 0] > 0
    y = [x * factor for factor in range(1, 9)]
    y[0][places] = row
    y[1][firsts] = x[0] * row
    y[2][:, seconds] = row
    y[3][:, seconds] = lead
    y[4][:, :, x[0, 0] > 0] = 2.5
    y[5][places] = row[None]
    y[6] = y[6].index_put((places,), row, accumulate=True)
    y[7][x > 0] = row[:1]
    return torch.stack(y)


MASKED = {
    "rows": (rows, [draw(4, 2, 3), draw(3), draw(4, 1, 3)]),
    "inter_union": (inter_union, [draw(4, 3), draw(5, 3)[1:]]),
    "kept": (kept, [draw(6, 3)]),
    "overwritten": (overwritten, [draw(4, 3)]),
}


@pytest.mark.parametrize("name", MASKED)
def test_assignments_to_a_mask(name: str) -> None:
    torch_gradients.check((name, *MASKED[name]))


def through_a_view(x: Any) -> Any:
    y, mask = torch.zeros_like(x), x > 0
    part = x[mask] * 3
    part[1:].zero_()
    y[mask] = part
    return y


def other_mask(x: Any) -> Any:
    y, mask = torch.zeros_like(x), x > 0
    part = x[mask] * 3
    mask.logical_not_()
    y[mask] = part[: mask.sum()]
    return y


@pytest.mark.parametrize("function", [through_a_view, other_mask, lambda x: x[x > 0].cumsum(0).sum()])
def test_other_uses_of_a_mask_are_refused(function: Any) -> None:
    with pytest.raises(tiduc.TiducError, match="depends on data"):
        tiduc.from_torch(Module(function), (draw(5),))


LAYER = torch.nn.Linear(4, 4).double()
TARGETS = torch.tensor([[1, 2, 2], [3, 1, 0]])
FUNCTIONS: list[Any] = [
    ("topk", lambda x: torch.topk(x, 2, sorted=False)[0].sum(-1), [draw(3, 5)]),
    ("topk (smallest)", lambda x: torch.topk(x, 2, 0, False, False)[0].sum(0), [draw(3, 5)]),
    (
        "ctc_loss of a layer",
        lambda x: torch.nn.functional.ctc_loss(LAYER(x).log_softmax(-1), TARGETS, (6, 5), (3, 2)),
        [draw(6, 2, 4)],
    ),
    ("to (device)", lambda x: torch.polar(torch.ones_like(x), x).to(x.device).real, [draw(4)]),
    (
        "to (complex64)",
        lambda x: torch.complex(x, x).to(torch.complex64).imag.double(),
        [draw(4).float().double()],
    ),
    (
        "to (complex128, real)",
        lambda x: torch.complex(x, x).to(torch.complex128).to(torch.float64),
        [draw(4)],
    ),
    (
        "gaussian_nll_loss",
        torch.nn.functional.gaussian_nll_loss,
        [draw(3, 4), draw(4, 4)[:3], torch.tensor([[0.0, 1e-9, 0.5, 2]] * 3).double()],
    ),
    ("put", lambda x, y: x.put(torch.tensor([0, -1, 3]), y), [draw(3, 4), draw(3)]),
    (
        "adaptive_max_pool3d",
        lambda x: torch.nn.functional.adaptive_max_pool3d(x, (2, 3, 2), return_indices=True),
        [draw(1, 1, 3, 5, 4)],
    ),
    *(
        (
            f"interpolate ({mode}, {corners})",
            lambda x, m=mode, c=corners: torch.nn.functional.interpolate(
                x, (3, 9), mode=m, antialias=True, align_corners=c
            ),
            [draw(1, 2, 6, 7)],
        )
        for mode, corners in (("bilinear", False), ("bicubic", True))
    ),
]


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row[0])
def test_functions_that_were_refused(row: Any) -> None:
    torch_gradients.check(row)
