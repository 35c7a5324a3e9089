"""PyTorch modules: outputs and VJPs equal PyTorch's. These tests need the extra `tiduc[torch]`."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.cli import run

torch = pytest.importorskip("torch")
nn = torch.nn


class Cnn(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4 * 2 * 2, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.pool(torch.relu(self.norm(self.conv(x)))).flatten(1))


class Tied(nn.Module):  # type: ignore[misc,name-defined]
    """A module with a matrix that has two names, a buffer that is not in the `state_dict`, and a buffer of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.ones(3, 3).tril(), persistent=False)
        self.register_buffer("shift", torch.tensor([1, 2, 3]))

    def forward(self, tokens: Any) -> Any:
        return self.head(self.mask @ self.embedding(tokens + self.shift) + torch.tensor([1.0, 2, 3, 4]))


def against_autograd(module: Any, *inputs: Any) -> tuple["tiduc.Model", Any]:
    """Compares the outputs and all gradients with PyTorch's.

    Returns the imported model, and the module after its forward pass.
    """
    model = tiduc.from_torch(module, inputs, lift_constants=True)
    parameters = [name for name in model.weights if name in dict(module.named_parameters())]
    floats = [x.clone().requires_grad_() for x in inputs if x.is_floating_point()]
    names = [p.name for p in model.inputs if p.name not in model.weights and "f32" in str(p.type)]
    vjp = model.vjp([*parameters, *names])
    after = copy.deepcopy(module)
    y = after(*floats or inputs)
    seed = torch.randn(y.shape)
    of = [dict(after.named_parameters())[name] for name in parameters]
    expected = torch.autograd.grad(y, [*of, *floats], seed)
    rest = [np.zeros(p.type.shape, np.float32) for p in model.outputs[1:] if "f32" in str(p.type)]
    results = vjp.compile()(*vjp.arguments(*[x.numpy() for x in inputs], seed.numpy(), *rest))
    np.testing.assert_allclose(results[0], y.detach().numpy(), rtol=1e-5, atol=1e-5)
    for name, got, wanted in zip([*parameters, *names], results[len(model.outputs) :], expected, strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-5, atol=1e-5, err_msg=name)
    for port, updated in zip(model.outputs[1:], results[1:], strict=False):
        buffer = dict(after.named_buffers())[port.name.removesuffix(".updated")]
        np.testing.assert_allclose(updated, buffer.numpy(), rtol=1e-5, atol=1e-5, err_msg=port.name)
    return model, after


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_a_convolutional_network() -> None:
    model, _ = against_autograd(Cnn().eval(), torch.randn(2, 2, 4, 4))
    assert [port.name for port in model.inputs] == [
        *("conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"),
        *("norm.running_mean", "norm.running_var", "x"),
    ]


def test_batch_normalization_that_trains() -> None:
    model, _ = against_autograd(Cnn().train(), torch.randn(2, 2, 4, 4))
    assert [port.name for port in model.outputs] == [
        *("result0", "norm.running_mean.updated", "norm.running_var.updated"),
        "norm.num_batches_tracked.updated",
    ]


def test_a_transformer_layer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    against_autograd(layer.eval(), torch.randn(2, 5, 8))


def test_tied_weights_are_one_input() -> None:
    model, _ = against_autograd(Tied(), torch.tensor([1, 2, 3]))
    assert list(model.weights) == ["embedding.weight"]


def test_a_tensor_in_place_of_a_tuple_is_refused() -> None:
    """A tensor as example inputs is refused, because its rows would become the inputs of the module."""
    with pytest.raises(tiduc.TiducError, match=r"expects a tuple .* \(x,\)"):
        tiduc.from_torch(nn.Linear(3, 2), torch.ones(1, 3))


class Kinks(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        f = nn.functional
        return torch.stack(
            [f.relu(x), f.leaky_relu(x, 0.25), f.relu6(x), f.hardtanh(x), x.clamp(-1, 1), x.clamp(min=0)]
            + [x.clamp(max=1), x.abs(), f.elu(x, 2.0), f.selu(x), f.celu(x, 2.0), f.hardswish(x)]
            + [torch.maximum(x, torch.ones(10)), f.max_pool1d(x[None], 2).repeat_interleave(2)]
            + [y.repeat_interleave(2) for y in (x.reshape(5, 2).norm(dim=1), x.reshape(5, 2).std(1))]
        )


def test_derivatives_at_kinks_are_those_of_pytorch() -> None:
    against_autograd(Kinks(), torch.tensor([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 6.0, 7.0, -0.5, 0.5]))


class Stopping(nn.Module):  # type: ignore[misc,name-defined]
    """A module with all ways to stop a gradient:

    `detach` (also in place), `no_grad`, and the padding row of an embedding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(5, 3, padding_idx=1)

    def forward(self, x: Any) -> Any:
        rounded = x + (x.round() - x).detach()
        with torch.no_grad():
            mean, count = x.mean(0), (x > 0).sum()
        scaled = x * 3
        scaled.detach_()
        return rounded * (x - mean) + scaled * x * count + self.rows(torch.tensor([[0, 1], [1, 4]])).sum(0)


def test_gradients_that_stop() -> None:
    against_autograd(Stopping(), torch.randn(2, 3))


class Steered(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """A rounding function. Its custom derivative depends on an argument that is not a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: Any, slope: float) -> Any:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.round() * k, x > 0

    @staticmethod
    def backward(ctx: Any, ct: Any, _: Any) -> Any:
        return ct * ctx.slope * ctx.saved_tensors[0].cos(), None, None


class Calling(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        y, positive = Steered.apply(x.sin(), torch.tensor(3.0), 5.0)
        return torch.where(positive, y, x) + Steered.apply(x, y.sum(), 7.0)[0]


class Dirty(torch.autograd.Function):  # type: ignore[misc,name-defined]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return ct


class CallingDirty(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        return Dirty.apply(x + 1)


def test_functions_keep_their_own_derivatives() -> None:
    against_autograd(Calling(), 2 * torch.randn(5))
    exported = torch.export.export(Calling(), (torch.ones(2),))
    assert tiduc.from_torch(exported).compile()(np.ones(2, np.float32))[0].shape == (2,)
    with pytest.raises(tiduc.Unsupported, match="mark_dirty is not supported"):
        tiduc.from_torch(CallingDirty(), (torch.ones(2),))
    with pytest.raises(tiduc.Unsupported, match="scale_grad_by_freq"):
        tiduc.from_torch(nn.Embedding(5, 3, scale_grad_by_freq=True), (torch.tensor([1, 1]),))


class Grouped(nn.Module):  # type: ignore[misc,name-defined]
    """Multiplies each group of rows of x by a different matrix (`grouped_mm`), and selects columns of x by indices from
    a buffer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.tensor([1, 0, 2, 2]))

    def forward(self, x: Any, w: Any) -> Any:
        ends = torch.tensor([2, 5, 8], dtype=torch.int32)
        rows = nn.functional.grouped_mm(x, w, offs=ends)
        return rows.square().sum() + x[:, self.order].sin().sum()


def test_products_of_groups() -> None:
    against_autograd(Grouped(), torch.randn(8, 4), torch.randn(3, 4, 4))


class Pools(nn.Module):  # type: ignore[misc,name-defined]
    """Pooling with windows that extend beyond the padding (`ceil_mode`)."""

    def forward(self, x: Any) -> Any:
        largest = nn.functional.max_pool2d(x, 3, 2, 1, ceil_mode=True)
        mean = nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True)
        inside = nn.functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        return largest + 2 * mean + 3 * inside


def test_pooling_of_rounded_up_sizes() -> None:
    against_autograd(Pools(), torch.randn(1, 2, 6, 8))
    with pytest.raises(tiduc.Unsupported, match="ceil_mode and indices"):
        tiduc.from_torch(nn.MaxPool2d(2, ceil_mode=True, return_indices=True), (torch.randn(1, 1, 5, 5),))


class Wrapping(nn.Module):  # type: ignore[misc,name-defined]
    """Computes remainders with the sign of the divisor, and circular padding, which copies into an uninitialized
    array.
    """

    def forward(self, x: Any) -> Any:
        whole = torch.remainder((4 * x).to(torch.int32), 3)
        return torch.remainder(x, 0.3) * whole + nn.functional.pad(x, (1, 1), mode="circular")[..., 1:-1]


def test_remainders_and_circular_padding() -> None:
    against_autograd(Wrapping(), torch.randn(1, 2, 5))


def test_three_lines() -> None:
    net, x, ct = Cnn().eval(), torch.randn(2, 2, 4, 4), torch.randn(2, 3)
    vjp = tiduc.from_torch(net, (x,)).vjp().compile()
    y, dx = vjp(x.numpy(), ct.numpy())
    (expected,) = torch.autograd.grad(net(x.requires_grad_()), x, ct)
    np.testing.assert_allclose(dx, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_the_model_keeps_its_own_weights() -> None:
    net = nn.Linear(3, 2)
    before = net.weight.detach().numpy().copy()
    model = tiduc.from_torch(net, (torch.zeros(1, 3),), lift_constants=True)
    with torch.no_grad():
        net.weight.zero_()
    np.testing.assert_array_equal(model.weights["weight"], before)


def test_element_types() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        net = nn.Linear(3, 2).to(dtype)
        model = tiduc.from_torch(net, (torch.zeros(1, 3, dtype=dtype),), lift_constants=True)
        np.testing.assert_array_equal(
            model.weights["weight"].astype(np.float64), net.weight.detach().double().numpy()
        )


def test_a_file_of_torch_export(tmp_path: Path) -> None:
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    file = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(net, (x,)), file)
    model = tiduc.import_model(file, lift_constants=True)
    assert str(model.signature) == "(weight: 2x3xf32, bias: 2xf32, input: 4x3xf32) -> (result0: 4x2xf32)"
    (y,) = model.compile()(*model.arguments(x.numpy()))
    np.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("arguments", [["run", "--input", "random"], ["reduce", "--test", "false"]])
def test_commands_that_read_other_files_read_a_file_of_torch_export(
    arguments: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "relu.pt2"
    torch.export.save(torch.export.export(nn.ReLU(), (torch.randn(2),)), file)
    assert run([*arguments, str(file)]) == 0


def test_a_file_with_a_container_of_another_package(tmp_path: Path) -> None:
    """A saved program whose result has a container type that is not registered is imported.

    Models of transformers return such containers, which only that package registers.
    """

    class Result(tuple[Any, ...]):
        pass

    class Inner(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return Result([x * x])

    pytree = torch.utils._pytree
    of_context = {"to_dumpable_context": lambda c: c, "from_dumpable_context": lambda c: c}
    pytree.register_pytree_node(
        Result,
        lambda y: (list(y), None),
        lambda y, _: Result(y),
        serialized_type_name="a.Result",
        **of_context,
    )
    file, x = tmp_path / "inner.pt2", torch.ones(3)
    torch.export.save(torch.export.export(Inner(), (x,)), file)
    pytree._deregister_pytree_node(Result)
    assert str(tiduc.from_torch(file).vjp().signature).endswith("-> (result0: 3xf32, x.cotangent: 3xf32)")


def test_a_dynamic_batch() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.LayerNorm(3))
    sizes = ({0: torch.export.Dim("batch")},)
    model = tiduc.from_torch(net, (torch.randn(5, 4),), lift_constants=True, dynamic_shapes=sizes)
    vjp = model.vjp(["0.weight"])
    compiled = vjp.compile()
    for batch in (2, 7):
        x, seed = torch.randn(batch, 4), torch.randn(batch, 3)
        y, dw = compiled(*vjp.arguments(x.numpy(), seed.numpy()))
        (expected,) = torch.autograd.grad(net(x), net[0].weight, seed)
        np.testing.assert_allclose(dw, expected.numpy(), rtol=1e-5, atol=1e-5)


class Weighted(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        return (x * torch.arange(n)).sum() + torch.arange(1, n, 3).sum() + x.cumsum(0).std()


def test_functions_along_a_dynamic_dimension() -> None:
    size = ({0: torch.export.Dim("n", min=5)},)
    model = tiduc.from_torch(Weighted(), (torch.randn(6),), dynamic_shapes=size)
    assert "f64" not in model.text  # the program counts elements with integers, not floats
    gradient = model.grad(value=True).compile()
    for n in (5, 8):
        x = torch.randn(n, requires_grad=True)
        y = Weighted()(x)
        got, dx = gradient(x.detach().numpy())
        np.testing.assert_allclose(got, y.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(dx, torch.autograd.grad(y, x)[0].numpy(), rtol=1e-5, atol=1e-6)


class NoStablehlo(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        return torch.special.bessel_j0(x)


class Sampled(nn.Module):  # type: ignore[misc,name-defined]
    """A module for which torch-mlir reports an error at a constant without a line: the operand of `multinomial`."""

    def forward(self, x: Any) -> Any:
        return x.sum() + torch.multinomial(x, 2).sum()


@pytest.mark.parametrize(
    ("module", "operator"), [(NoStablehlo, "special_bessel_j0"), (Sampled, "multinomial")]
)
def test_ops_without_stablehlo_are_refused_at_their_lines(module: Any, operator: str) -> None:
    with pytest.raises(
        tiduc.TiducError, match=f"torch.aten.{operator}.*in the module {module.__name__}"
    ) as raised:
        tiduc.from_torch(module(), (torch.ones(2),))
    assert "test_models_torch.py" in str(raised.value)


def test_enlarged_images() -> None:
    against_autograd(nn.Upsample(scale_factor=2), torch.randn(1, 2, 3, 4))


def test_modules_pytorch_cannot_export_are_refused() -> None:
    class Branching(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    class OfFourRows(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x + torch.ones(4)

    with pytest.raises(tiduc.TiducError, match="PyTorch cannot export"):
        tiduc.from_torch(Branching(), (torch.ones(2),))
    with pytest.raises(tiduc.TiducError, match="specialized it to be a constant.*; leave out dynamic_shapes"):
        tiduc.from_torch(OfFourRows(), (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(tiduc.TiducError, match="expects a torch.nn.Module"):
        tiduc.from_torch(torch.relu, (torch.ones(2),))


def test_inputs_that_are_not_tensors() -> None:
    class Scaled(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, by: int, table: dict[str, Any]) -> Any:
            return x * by + table["b"]

    model = tiduc.from_torch(Scaled(), (torch.ones(2), 3, {"b": torch.ones(2)}))
    (y,) = model.compile()(np.ones(2, np.float32), np.ones(2, np.float32))
    np.testing.assert_array_equal(y, [4, 4])
