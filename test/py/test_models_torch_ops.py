"""A sample of `test/sweep/torch_gradients.py`, and PyTorch models that need tiduc's decompositions."""

import re
from typing import Any

import numpy as np
import pytest

import tiduc

torch = pytest.importorskip("torch")
import torch_gradients  # noqa: E402  it needs PyTorch

SAMPLE = (
    *("linalg.eig", "linalg.inv (complex)", "linalg.lu_solve", "fft.irfftn", "special.i0 (large)", "cummax"),
    *("y[:, 1:] = x[:, :-1]", "y[::2] = x", "multilabel_margin_loss", "nn.GRU (batch_first)", "cond", "scan"),
    *("ctc_loss", "ctc_loss (impossible and empty targets)", "histc (range of the data)", "x[[-1, 0]]"),
    *("scatter_reduce (ties)", "scatter_reduce (mean, without self)"),
)
ROWS = {row[0]: row for rows in torch_gradients.GROUPS.values() for row in rows}


@pytest.mark.parametrize("name", SAMPLE)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    if name == "scan" and torch.__version__.startswith("2.10."):
        pytest.skip("PyTorch 2.10 computes zeros for parts of the gradient of a scan")
    torch_gradients.check(ROWS[name])


class Inner(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Outer(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Inner(function)])

    def forward(self, x: Any) -> Any:
        return self.layers[0](2 * x)


FILLED = {
    "comparisons": lambda x: [
        op(torch.full((3,), 1, dtype=dtype), number)
        for op in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
        for dtype in (torch.float32, torch.float64, torch.int32, torch.bool)
        for number in (0, 1, 0.5)
    ],
    "tensors that the program holds": lambda x: [
        op(torch.tensor(value), number)
        for op in (torch.eq, torch.ne, torch.lt, torch.ge)
        for value in (1.0, 1, True, [1.0])
        for number in (0, 1, 0.5)
    ],
    "divisions": lambda x: [
        torch.div(torch.full((3,), -3), 2, rounding_mode="floor"),
        torch.div(torch.full((3,), -3), 2, rounding_mode="trunc"),
        torch.full((3,), -3) % 0.75,
        torch.full((3,), 2.5) % 2,
    ],
    "functions": lambda x: [
        f(torch.full((3,), 2.5)) for f in (torch.trunc, torch.sign, torch.relu, torch.nn.functional.hardswish)
    ],
    "functions that fill": lambda x: [
        *(
            torch.zeros_like(x) + 1,
            torch.ones(2, 3),
            x.new_full((2,), 0.1),
            x.new_ones(2) * 2,
            x.new_zeros(2),
        ),
        *(
            torch.full((), float("-inf")),
            torch.full((2,), 1e-40),
            torch.full((2,), 0.1, dtype=torch.bfloat16).float(),
        ),
        *(torch.full((2,), 3, dtype=torch.uint8), torch.full((2,), 1 + 2j).imag, torch.scalar_tensor(7)),
        *(torch.full_like(x, 3, dtype=torch.int64), torch.ones(2, dtype=torch.bool) + True),
    ],
}
"""Functions with ops on tensors whose elements are all equal, such as comparisons of floats and integers. torch-mlir
folds these ops wrongly.
"""


@pytest.mark.parametrize("name", FILLED)
def test_functions_of_filled_tensors(name: str) -> None:
    function, x = FILLED[name], torch.ones(3)
    compiled = tiduc.from_torch(Inner(function), (x,)).compile()
    for i, (got, wanted) in enumerate(zip(compiled(x.numpy()), function(x), strict=True)):
        np.testing.assert_array_equal(got, np.asarray(wanted), err_msg=str(i))


def test_functions_of_integers() -> None:
    x = torch.tensor([[7, -7, 3], [2, 200, -1]], dtype=torch.int32)

    def function(x: Any) -> Any:
        y = x.to(torch.uint8)
        return (
            *(x << 2, x >> 1, x << y % 5, torch.bitwise_right_shift(y, 1), x | 4, x ^ 1, (x > 2) | True),
            *(torch.fmod(x, 3), x % 3, x % 0.75, x.roll(2), x.roll((1, 2), (0, 1)), torch.isclose(x, x + 1)),
        )

    compiled = tiduc.from_torch(Inner(function), (x,)).compile(engine="reference")
    for i, (got, wanted) in enumerate(zip(compiled(x.numpy()), function(x), strict=True)):
        np.testing.assert_array_equal(got, wanted.numpy(), err_msg=str(i))


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_functions_of_floats_take_integers(dtype: str) -> None:
    """Functions that return floats accept integer tensors, as in models that divide by an integer number of patches or
    compute the mean of a mask.
    """
    x = torch.tensor([[1, 2, 0], [4, 0, 1]]).to(getattr(torch, dtype))

    def function(x: Any) -> Any:
        means = (
            x.mean(dtype=torch.float32),
            x.mean(1, dtype=torch.float64),
            x.mean(0, True, dtype=torch.float32),
        )
        return *means, torch.reciprocal(x), 1.5 / x, torch.special.ndtri(x), torch.special.erfcx(x)

    compiled = tiduc.from_torch(Inner(function), (x,)).compile()
    for i, (got, wanted) in enumerate(zip(compiled(x.numpy()), function(x), strict=True)):
        assert got.dtype == wanted.numpy().dtype
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, err_msg=str(i))


def test_remainders_and_tolerances() -> None:
    x = torch.tensor([2.5, -2.5, float("nan"), float("inf")])

    def function(x: Any) -> Any:
        z = torch.nan_to_num(x, 1.0, 3.0)
        return (
            *(torch.fmod(z, 2), z % 2, 2.5 % z, torch.remainder(z, torch.tensor([2, 3, -2, 5]))),
            *(torch.isclose(x, x + 1e-6), torch.isclose(x, x, equal_nan=True), torch.isclose(x, 2 * x)),
        )

    compiled = tiduc.from_torch(Inner(function), (x,)).compile(engine="reference")
    for i, (got, wanted) in enumerate(zip(compiled(x.numpy()), function(x), strict=True)):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, err_msg=str(i))


def test_concatenations_with_empty_tensors() -> None:
    x = torch.arange(6.0).reshape(2, 3)

    def function(x: Any) -> Any:
        vector, wide = torch.zeros(0), torch.zeros(2, 0, dtype=torch.float64)
        return (
            torch.cat([x[:0], vector, x]),
            torch.cat([vector, x, wide], -1),
            torch.cat([vector, x[:, :0], wide], 1),
            torch.cat([x[:0], x[2:]], 1),
        )

    compiled = tiduc.from_torch(Inner(function), (x,)).compile()
    for got, wanted in zip(compiled(x.numpy()), function(x), strict=True):
        assert got.dtype == wanted.numpy().dtype
        np.testing.assert_array_equal(got, wanted.numpy())


def test_filled_tensors_of_dynamic_sizes() -> None:
    batch = torch.export.Dim("batch", min=2)

    def function(x: Any) -> Any:
        return x * (torch.ones_like(x) != 1), torch.full((x.shape[0],), 2.5) - x[:, 0]

    x = torch.randn(3, 2)
    program = tiduc.from_torch(Inner(function), (x,), dynamic_shapes={"x": {0: batch}})
    for n in (2, 5):
        y = torch.randn(n, 2)
        for got, wanted in zip(program.compile()(y.numpy()), function(y), strict=True):
            np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6)


def test_an_op_that_pytorch_lacks() -> None:
    """tiduc's table of decompositions omits ops that the installed PyTorch lacks, so that models with other ops can
    still be imported.
    """
    from tiduc.models.torch.ops.framework import Absent, aten
    from tiduc.models.torch.ops.table import TABLE

    assert isinstance(aten.no_such_op.default, Absent)
    assert not any(isinstance(overload, Absent) for overload in TABLE)


REFUSED = {
    "x[mask]": (lambda x: x[x > 0], r"the result of x\[mask\] depends on data; use torch.where"),
    "unique": (torch.unique, "the result of torch.unique depends on data; use torch.sort"),
    "a function": (
        torch.special.bessel_j0,
        "torch.aten.special_bessel_j0 .* write the function in other ops",
    ),
    "a branch": (lambda x: x if x.sum() > 0 else -x, "cannot export .* use torch.where, torch.cond"),
    "packed sequences": (
        lambda x: torch.nn.utils.rnn.pack_padded_sequence(x[:, None], [2]).data,
        "pack_padded_sequence .* give the layer the padded sequences",
    ),
    "an alias": (lambda x: torch.cond(x.sum() > 0, lambda y: y, lambda y: 2 * y, (x,)), "clone one of them"),
}


WITHOUT_STABLEHLO = {
    "reciprocal.default": (
        torch.reciprocal,
        "torch-mlir lowers no torch.aten.reciprocal with operands of these types to StableHLO",
    ),
    "mean.dim": (
        lambda x: x.mean(-1, dtype=torch.float32),
        "torch-mlir does not lower to StableHLO one of: torch.aten.mean.dim",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_STABLEHLO)
def test_a_refusal_names_the_op_where_torch_mlir_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If torch-mlir cannot lower an op, the diagnostic names the op and its line. torch-mlir's own error names only a
    C++ class, or a list of dimensions.
    """
    from tiduc.models.torch.ops.table import TABLE

    op, overload = name.split(".")
    monkeypatch.delitem(TABLE, getattr(getattr(torch.ops.aten, op), overload))
    function, message = WITHOUT_STABLEHLO[name]
    with pytest.raises(tiduc.TiducError, match=f"{message} .*; write the function in other ops") as raised:
        tiduc.from_torch(Inner(function), (torch.tensor([1, 2, 3]),))
    assert raised.value.location is not None and "test_models_torch_ops.py:" in str(raised.value)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_line_the_module_and_a_way_out(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(tiduc.TiducError, match=message) as raised:
        tiduc.from_torch(Outer(function), (torch.randn(3, 3),))
    assert "layers.0, Inner" in str(raised.value)
    assert "test_models_torch_ops.py:" in str(raised.value)


class Attention(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Attention as in GPT-2.

    The exported program omits `contiguous`, because PyTorch's kernel for attention already stores its result in that
    memory layout.
    """

    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (y.view(batch, length, 2, 4).transpose(1, 2) for y in self.projection(x).split(8, 2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).contiguous().view(batch, length, 8)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    """GELU and its gradient equal PyTorch's.

    The program keeps the op for erf or tanh, so that its derivative is exact, instead of the derivative of an
    approximation.
    """

    def gelu(x: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate=approximate)

    for kind in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.linspace(-12, 12, 49, dtype=kind, requires_grad=True)
        gradient = tiduc.from_torch(Inner(lambda x: gelu(x).sum()), (x,)).grad(value=True)
        function = {"none": "chlo.erf", "tanh": "stablehlo.tanh"}[approximate]
        assert gradient.text.count(function) == 1
        gelu(x).sum().backward()
        if kind == torch.bfloat16:  # NumPy has no bfloat16
            continue
        value, slope = gradient.compile()(x.detach().numpy())
        tolerance = 1e-12 if kind == torch.float64 else 1e-5
        np.testing.assert_allclose(value, gelu(x).sum().detach(), rtol=tolerance)
        np.testing.assert_allclose(slope, x.grad, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "groups", "kind"),
    [((2, 6, 5, 3), 3, torch.float32), ((3, 4), 2, torch.float64), ((1, 8, 7), 8, torch.bfloat16)],
)
def test_group_norm(shape: tuple[int, ...], groups: int, kind: Any) -> None:
    """GroupNorm equals PyTorch's.

    The program computes means and variances in the input's type or in f32, and has no gathers.
    """
    module = torch.nn.GroupNorm(groups, shape[1], affine=kind != torch.float64).to(kind)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_()
    x = (5 + 3 * torch.randn(shape)).to(kind)
    program = tiduc.from_torch(module, (x,))
    assert "gather" not in program.text
    assert bool(re.search(r"\dx\d+xf64", program.text)) == (kind == torch.float64)
    if kind != torch.bfloat16:  # NumPy has no bfloat16
        (y,) = program.compile()(*program.arguments(x.numpy()))
        np.testing.assert_allclose(y, module(x).detach(), rtol=1e-5, atol=1e-5)


def test_erf_of_integers() -> None:
    """erf of integers equals PyTorch's, which computes it in the default float type."""
    x = torch.arange(-2, 3)
    value = tiduc.from_torch(Inner(torch.erf), (x,)).compile()(x.numpy())[0]
    np.testing.assert_allclose(value, torch.erf(x), rtol=1e-6)


def test_attention_with_a_dynamic_batch() -> None:
    module, x = Attention(), torch.randn(3, 5, 8)
    sizes = ({0: torch.export.Dim("batch", min=2)},)
    (y,) = tiduc.from_torch(module, (x,), dynamic_shapes=sizes).compile()(x.numpy())
    np.testing.assert_allclose(y, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_attention_in_bfloat16() -> None:
    module, x = Attention(), torch.randn(2, 5, 8)

    class Automatic(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(x)

    (y,) = tiduc.from_torch(Automatic(), (x,)).compile(engine="xla")(x.numpy())
    np.testing.assert_allclose(y.astype(np.float32), module(x).detach().numpy(), rtol=0.05, atol=0.05)


def test_a_recurrent_network_is_a_loop() -> None:
    texts = [
        tiduc.from_torch(torch.nn.LSTM(3, 4), (torch.zeros(steps, 2, 3),)).text.splitlines()
        for steps in (5, 50)
    ]
    assert len(texts[0]) == len(texts[1]) < 100
