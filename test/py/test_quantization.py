"""Frozen weights that are stored as integers and scales: their values, the kernels that read them, training states and
merged weights.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one, selected
from harness.sources import source_of
from harness.variants import AVX512

import tiduc
from tiduc.backends.iree.fast.products.products_in_tiles import products_in_tiles
from tiduc.backends.iree.settings import Settings
from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.models.model import Model, model_of
from tiduc.runtime.weights import read_weights, write_weights
from tiduc.training.lora import merged, with_lora, write_adapters
from tiduc.training.quantization import Quantization, dequantized, quantized
from tiduc.training.step import train_step

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A weight to quantize: the kind of quantization, its rows and columns, the contracted dimension, and the element
    type.
    """

    kind: str
    sizes: tuple[int, int]
    axis: int = 1
    type: str = "f32"

    def model(self) -> Model:
        """A model that multiplies 40 rows by the quantized weight `w`.

        One row and one column of the weight are zero.
        """
        dtype = np.dtype(f"f{int(self.type[1:]) // 8}")
        x, y = (f"tensor<40x{n}x{self.type}>" for n in (self.sizes[self.axis], self.sizes[1 - self.axis]))
        w = f"tensor<{self.sizes[0]}x{self.sizes[1]}x{self.type}>"
        text = f"""func.func @main(%w: {w} {{tidu.name = "w"}}, %x: {x} {{tidu.name = "x"}}) -> {y} {{
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [{self.axis}] : ({x}, {w}) -> {y}
          return %0 : {y}
        }}"""
        weight = RNG.standard_normal(self.sizes).astype(dtype)
        weight[1, :], weight[:, 2] = 0, 0
        return quantized(model_of(parse(text), {"w": weight}), self.kind)


CASES = {
    "rows": Case("int8", (70, 272)),
    "columns": Case("int8", (272, 80), 0),
    "f64": Case("int8:32", (56, 160), 1, "f64"),
    "f64, columns": Case("int8:16", (80, 48), 0, "f64"),
    "groups": Case("int8:16", (90, 176)),
    "4 bits": Case("int4", (80, 160)),
    "4 bits, columns": Case("int4", (96, 64), 0),
    "4 bits in groups": Case("int4:32", (90, 160)),
    "4 bits in groups of columns": Case("int4:32", (96, 64), 0),
}


@pytest.fixture(scope="module")
def products(request: pytest.FixtureRequest) -> tuple[dict[str, Model], Joined]:
    models = {name: CASES[name].model() for name in selected(request, "test_values")}
    return models, compiled_as_one({name: model.text for name, model in models.items()})


@pytest.mark.more
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, products: tuple[dict[str, Model], Joined]) -> None:
    """The product with a quantized weight equals that with the dequantized weight.

    The kernel reads the integers, and the program stores no dequantized weight.
    """
    models, compiled = products
    (rows, columns), axis, model = CASES[name].sizes, CASES[name].axis, models[name]
    source = str(source_of(tiduc.load(model.text), AVX512).stablehlo)
    (dispatch,) = (line for line in source.splitlines() if '"flow.dispatch"(' in line)
    assert "xi8>" in dispatch and f"tensor<{rows}x{columns}xf" not in dispatch
    weight = dequantized(model.weights)["w"]
    x = RNG.standard_normal((40, CASES[name].sizes[axis])).astype(weight.dtype)
    wanted = x.astype(np.float64) @ weight.astype(np.float64).swapaxes(0, axis)
    tolerance = 8 * np.finfo(weight.dtype).eps * abs(wanted).max()
    given = {**model.weights, "x": x}
    (found,) = compiled[name](*(given[port.name] for port in model.inputs))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("count", [8, 64])
def test_other_operands_are_stored(count: int) -> None:
    """An operand of a product that many additions or another product compute is stored before the kernel reads it."""
    of, codes = "tensor<64x64xf32>", "tensor<64x64xi8>"
    lines = [f"%{i + 1} = stablehlo.add %{i}, %{i} : {of}" for i in range(1, count)]
    text = f"""func.func @main(%x: {of}, %a: {codes}) -> {of} {{
      %1 = stablehlo.convert %a : ({codes}) -> {of}
      {" ".join(lines)}
      %y = stablehlo.dot_general %x, %{count}, contracting_dims = [1] x [0] : ({of}, {of}) -> {of}
      %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({of}, {of}) -> {of}
      return %z : {of}
    }}"""
    module = parse(text)
    assert products_in_tiles(module, Settings(vectors="512x32")) == 2
    first, second = (line for line in str(module).splitlines() if '"flow.dispatch"(' in line)
    assert codes not in first and first.count(of) == second.count(of) == 2


def test_shifts_by_many_bits() -> None:
    """A shift by all 8 bits gives 0.

    The shift is not fused into the kernel of a product, where its result would be undefined.
    """
    of, codes = "tensor<64x64xf32>", "tensor<64x64xi8>"
    for bits in (7, 8):
        module = parse(f"""func.func @main(%x: {of}, %a: {codes}) -> {of} {{
          %c = stablehlo.constant dense<{bits}> : {codes}
          %0 = stablehlo.shift_left %a, %c : {codes}
          %1 = stablehlo.convert %0 : ({codes}) -> {of}
          %y = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : ({of}, {of}) -> {of}
          return %y : {of}
        }}""")
        products_in_tiles(module, Settings(vectors="512x32"))
        assert ("arith.shli" in str(module)) == (bits == 7)


@pytest.mark.parametrize("kind, axis", [("int8", 0), ("int8:16", 1), ("int4:8", 0), ("int4", 1)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_codes(kind: str, axis: int, dtype: str) -> None:
    """Each weight differs from its quantized value by at most half a scale. A group of zeros stays zero."""
    weight = (RNG.standard_normal((32, 48)) * np.logspace(-2, 0, 48)).astype(dtype)
    weight[:16] = 0
    quantization = Quantization.named(kind)
    codes, scales = quantization.coded(weight, axis)
    assert codes.dtype == np.int8 and codes.nbytes == weight.size * quantization.bits // 8
    assert scales.shape[axis] == weight.shape[axis] // (quantization.group or weight.shape[axis])
    found = dequantized({f"w.int{quantization.bits}": codes, "w.scales": scales, "b": weight})
    assert found["w"].dtype == weight.dtype and found["b"] is weight and set(found) == {"w", "b"}
    half = np.repeat(scales.astype(float), weight.shape[axis] // scales.shape[axis], axis) / 2
    rounding = np.finfo(weight.dtype).eps * abs(weight.astype(float)).max() * quantization.most
    assert np.all(abs(found["w"].astype(float) - weight.astype(float)) <= half * (1 + 1e-6) + rounding)
    largest = abs(dequantized({f"w.int{quantization.bits}": codes, "w.scales": scales * 0 + 1})["w"]).max()
    assert largest == quantization.most


LAYERS = """func.func @main(%a: tensor<64x32xf32> {tidu.name = "first.weight"},
    %b: tensor<16x64xf32> {tidu.name = "second.weight"}, %c: tensor<16x16xf32> {tidu.name = "table"},
    %x: tensor<8x32xf32> {tidu.name = "x"}) -> tensor<8x16xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  %2 = stablehlo.transpose %b, dims = [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0]
    : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %4 = stablehlo.slice %c [0:8, 0:16] : (tensor<16x16xf32>) -> tensor<8x16xf32>
  %5 = stablehlo.add %3, %4 : tensor<8x16xf32>
  return %5 : tensor<8x16xf32>
}"""


def layers() -> Model:
    """Two linear layers, and a matrix that no product reads."""
    sizes = {"first.weight": (64, 32), "second.weight": (16, 64), "table": (16, 16)}
    return model_of(parse(LAYERS), {n: RNG.standard_normal(size, np.float32) for n, size in sizes.items()})


def test_state() -> None:
    """Only frozen matrices that products read are quantized. Merged weights have the names of the matrices."""
    model = layers()
    step = train_step(model, freeze=["first*", "table"], quantize="int4:16")
    kinds = {name: (x.dtype.name, x.shape) for name, x in step.weights.items()}
    codes = {"first.weight.int4": ("int8", (64, 16)), "first.weight.scales": ("float32", (64, 2))}
    assert kinds == {"second.weight": ("float32", (16, 64)), "table": ("float32", (16, 16)), **codes}
    assert {step.held[name] for name in codes} == {"quantized"}
    step = train_step(
        with_lora(model, ["second"], rank=2),
        optimizer="adam",
        quantize="int8",
        infer=with_lora(model, ["second"], rank=2),
    )
    assert {name for name, x in step.weights.items() if x.dtype == np.int8} == {
        "first.weight.int8",
        "second.weight.int8",
    }
    assert "infer" in step.further
    b = np.ones((16, 2), np.float32)
    weights = merged({**step.weights, "base_model.model.second.lora_B.weight": b})
    assert set(weights) == set(model.weights)
    added = 4 * b @ step.weights["base_model.model.second.lora_A.weight"]
    for name, x in (("first.weight", 0), ("second.weight", added), ("table", 0)):
        scale = step.weights.get(f"{name}.scales", 0)
        assert np.all(abs(weights[name] - x - model.weights[name]) <= scale / 2 + 1e-5)


def test_refused() -> None:
    for text, message in (
        ("int5", "unknown quantization 'int5'; there are int8, int4, int8:GROUP and int4:GROUP"),
        ("int4:4", "a group of 'int4:4' has at least 8 elements, not 4"),
    ):
        with pytest.raises(RequestError, match=message):
            train_step(layers(), freeze=["first*"], quantize=text)
    taken = {**layers().weights, "first.weight.scales": np.zeros(2, np.float32)}
    text = LAYERS.replace("%x:", '%d: tensor<2xf32> {tidu.name = "first.weight.scales"}, %x:')
    with pytest.raises(RequestError, match="the model has an input 'first.weight.scales'"):
        train_step(model_of(parse(text), taken), freeze=["first*"], quantize="int8")
    for freeze, kind in (("table", "int8"), ("first*", "int8:24")):
        with pytest.raises(RequestError, match="no matrix is left to quantize"):
            train_step(layers(), freeze=[freeze], quantize=kind)
    with pytest.raises(
        RequestError, match="only weights with values can be quantized, and the model has none"
    ):
        train_step(tiduc.load(LAYERS), train=["second*"], quantize="int8")
    model = layers()
    weights = {**model.weights, "first.weight": np.full((64, 32), np.inf, np.float32)}
    with pytest.raises(RequestError, match="'first.weight' has numbers that are not finite"):
        train_step(model.with_weights(weights), freeze=["first*"], quantize="int8")


@pytest.mark.more
def test_trained_and_exported(tmp_path: Any, capsys: Any) -> None:
    """`train-step` trains adapters of quantized weights.

    The exported weights give the outputs of the module that `--infer` writes.
    """
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 16))
    file, state, step = (str(tmp_path / name) for name in ("net.pt2", "state.safetensors", "step.vmfb"))
    torch.export.save(torch.export.export(net, (torch.ones(32, 64),)), file)
    options = ["--lora", "2", "--rank", "2", "--quantize", "int4:16", "--optimizer", "adam"]
    assert cli(["train-step", file, *options, "--infer", file, "--state", state, "-o", step]) == 0
    assert "0.weight.int4 (quantized), 0.weight.scales (quantized)" in capsys.readouterr().err
    data = {
        "x": RNG.standard_normal((96, 64), np.float32),
        "target": RNG.standard_normal((96, 16), np.float32),
    }
    data[next(n for n in signature(step) if n not in ("target", "rate"))] = data.pop("x")
    run = tiduc.training.fit(step, data, state=read_weights(state), rate=0.01, epochs=4)
    write_weights(tmp_path / "trained.npz", run.state)
    out = str(tmp_path / "new.pt2")
    assert cli(["export", file, str(tmp_path / "trained.npz"), "-o", out]) == 0
    x = next(x for name, x in data.items() if name != "target")[:32]
    with tiduc.runtime.load(step) as module:
        infer = module["infer"]
        given = {
            **run.state,
            **{port.name: x for port in infer.signature.inputs if port.name not in run.state},
        }
        (y,) = infer(*(given[port.name] for port in infer.signature.inputs))
    wanted = torch.export.load(out).module()(torch.tensor(x)).detach()
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)
    assert np.abs(net(torch.tensor(x)).detach() - wanted).max() > 1e-2


@pytest.mark.more
@pytest.mark.parametrize("scaled", ["weight", "product"])
def test_adapters_on_the_integers_of_a_file(scaled: str, tmp_path: Any) -> None:
    """If a model computes its weights from integers, as torchao's models do, training adapters gives PyTorch's losses.

    The scales multiply the weight, as with `IntxWeightOnlyConfig`, or the product, as with `Int8WeightOnlyConfig`.
    """
    torch = pytest.importorskip("torch")

    class Integers(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, rows: int, columns: int) -> None:
            super().__init__()
            self.register_buffer("codes", torch.randint(-8, 8, (rows, columns), dtype=torch.int8))
            self.register_buffer("zeros", torch.randint(-2, 2, (rows, 1), dtype=torch.int8))
            self.scales = torch.nn.Parameter(torch.rand(rows, 1) / 8, requires_grad=False)
            self.bias = torch.nn.Parameter(torch.zeros(rows))

        def forward(self, x: Any) -> Any:
            if scaled == "product":
                return torch.mm(x, self.codes.T.float()) * self.scales.flatten() + self.bias
            weight = (self.codes.float() - self.zeros.float()) * self.scales
            return torch.nn.functional.linear(x, weight, self.bias)

    torch.manual_seed(0)
    net = torch.nn.ModuleDict({"first": Integers(96, 64), "second": Integers(16, 96)})
    net.forward = lambda x: net["second"](torch.tanh(net["first"](x)))
    x, target = torch.randn(64, 64), torch.randn(64, 16)
    model = tiduc.from_torch(net, (x,), lift_constants=True)
    with pytest.raises(RequestError, match="the layers are first, second"):
        with_lora(model, ["third"])
    step = train_step(with_lora(model, ["*"], rank=4, alpha=8.0), "mse", "adam")
    prefix = "base_model.model."
    lora = {
        n: torch.nn.Parameter(torch.tensor(x))
        for n, x in step.weights.items()
        if n.endswith(("A.weight", "B.weight"))
    }
    assert len(lora) == 4 and lora[f"{prefix}first.lora_A.weight"].shape == (4, 64)
    optimizer = torch.optim.Adam(lora.values(), lr=3e-3)

    def adapted(name: str, y: Any) -> Any:
        a, b = (lora[f"{prefix}{name}.lora_{each}.weight"] for each in "AB")
        return net[name](y) + 2 * y @ a.T @ b.T

    compiled, state = step.compile(), dict(step.weights)
    for _ in range(20):
        given = [state[name] for name in step.weights]
        loss, *new = compiled(*given, x.numpy(), target.numpy(), np.float32(3e-3))
        state |= {port.name: y for port, y in zip(step.outputs[1:], new, strict=True)}
        optimizer.zero_grad()
        wanted = torch.nn.functional.mse_loss(adapted("second", torch.tanh(adapted("first", x))), target)
        wanted.backward()
        optimizer.step()
        assert abs(loss - wanted.item()) <= 1e-6 * wanted.item()
    write_adapters(state, tmp_path)
    assert set(read_weights(tmp_path / "adapter_model.safetensors")) == set(lora)
    with pytest.raises(RequestError, match="the weight of 'first' is integers in the model's file"):
        merged(state)


def signature(step: str) -> list[str]:
    """The names of the last three inputs of a compiled step, which are not part of the step's state."""
    with tiduc.runtime.load(step) as module:
        return [port.name for port in module["step"].signature.inputs][-3:]
