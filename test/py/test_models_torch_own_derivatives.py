"""Functions of PyTorch with derivatives of their own (`torch.autograd.Function`), with dynamic sizes."""

from typing import Any

import numpy as np
import pytest
from harness.compare import compare

import tiduc

torch = pytest.importorskip("torch")
N = torch.export.Dim("n", min=2)


class Step(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """exp(-k/x) if x > 0, else 0. Its derivative toward x is tripled, so that tests see which derivative is used."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: Any) -> Any:
        ctx.save_for_backward(x, k)
        return torch.where(x > 0, torch.exp(-k / torch.where(x > 0, x, 1.0)), 0.0)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        x, k = ctx.saved_tensors
        positive = torch.where(x > 0, x, 1.0)
        y = torch.where(x > 0, torch.exp(-k / positive), 0.0)
        return 3 * ct * y * k / positive**2, -(ct * y / positive).sum(0)


class Energy(torch.nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any, k: Any) -> Any:
        return (Step.apply(x.sin(), k) ** 2).sum()


class Outer(torch.autograd.Function):  # type: ignore[misc,name-defined]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.cat([x, x])

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct.reshape(2, -1).sum(0)


class Doubled(torch.nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        return Outer.apply(x).sum()


def _inputs(rows: int) -> list[Any]:
    random = np.random.default_rng(rows)
    return [torch.from_numpy(x) for x in (random.normal(size=(rows, 3)), random.uniform(0.5, 1.5, 3))]


def test_derivatives_of_two_orders() -> None:
    """A program that was exported with 4 rows gives PyTorch's derivatives at 3 and 6 rows."""
    energy = tiduc.from_torch(Energy(), tuple(_inputs(4)), dynamic_shapes=({0: N}, None))
    assert "?x3xf64" in str(energy.signature)
    gradient = energy.vjp(["x", "k"])
    twice = gradient.vjp(["x", "k"]).compile(engine="xla")
    for rows in (3, 6):
        inputs = [x.requires_grad_() for x in _inputs(rows)]
        y = Energy()(*inputs)
        slopes = torch.autograd.grad(y, inputs, create_graph=True)
        along = [torch.cos(x.detach()) for x in inputs]
        products = torch.autograd.grad(slopes, inputs, along)
        arrays = [x.detach().numpy() for x in inputs]
        seeds = np.array(1.0), np.array(0.0), *(x.numpy() for x in along)
        wanted = [x.detach().numpy() for x in (y, *slopes, *products)]
        compare(twice(*arrays, *seeds), wanted, 1e-12, f"{rows} rows")


def test_a_size_that_no_operand_has() -> None:
    with pytest.raises(
        tiduc.Unsupported, match="Outer has a result of size .*, and no operand has this size"
    ):
        tiduc.from_torch(Doubled(), (torch.ones(4),), dynamic_shapes=({0: N},))
