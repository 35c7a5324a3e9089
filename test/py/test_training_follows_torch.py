"""The losses of 200 training steps equal PyTorch's: for a perceptron, batch norm, a GPT, LoRA, and LoRA on quantized
weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiduc
import tiduc.runtime
from tiduc.training.lora import with_lora
from tiduc.training.quantization import dequantized

torch = pytest.importorskip("torch")
functional = torch.nn.functional

STEPS, ROWS, CLASSES, WORDS = 200, 16, 4, 6


def perceptron() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, CLASSES))


def convolutions() -> Any:
    conv, norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
    return torch.nn.Sequential(conv, norm, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, CLASSES))


class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Causal attention with two heads, then a perceptron. Each follows a layer norm and is added to its input."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        q, k, v = (f(y).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A GPT: an embedding, two blocks, and a layer that computes logits."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(CLASSES, width)
        self.places = torch.nn.Parameter(torch.randn(WORDS, width) / 10)
        self.blocks = torch.nn.Sequential(Block(width), Block(width))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.words(x) + self.places)))


class Adapted(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A linear layer with a low-rank adapter, as in peft. Only the adapter is trained."""

    def __init__(self, layer: Any, a: Any, b: Any, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = layer, scale
        self.a, self.b = (torch.nn.Parameter(torch.tensor(x)) for x in (a, b))

    def forward(self, x: Any) -> Any:
        low = functional.linear(functional.linear(x, self.a), self.b)
        return self.layer(x) + low * self.scale


@dataclass(frozen=True)
class Case:
    """A training case: the network, the shape of a row, the optimizer and its learning rate, the layers with adapters,
    and the kind of quantization.
    """

    make: Callable[[], Any]
    row: tuple[int, ...]
    optimizer: str
    rate: float
    adapters: tuple[str, ...] = ()
    quantize: str = ""

    def batches(self, dtype: Any) -> tuple[Any, Any]:
        """The inputs and targets of all steps, in this order."""
        rng, places = np.random.default_rng(0), self.row if self.row == (WORDS,) else ()
        x = rng.standard_normal((STEPS, ROWS, *self.row)).astype(dtype)
        if places:
            x = rng.integers(0, CLASSES, (STEPS, ROWS, *self.row))
        return x, rng.integers(0, CLASSES, (STEPS, ROWS, *places)).astype(np.int32)


CASES = {
    "perceptron": Case(perceptron, (8,), "sgd", 0.1),
    "convolutions": Case(convolutions, (1, 6, 6), "adam", 1e-3),
    "gpt": Case(Gpt, (WORDS,), "adamw", 1e-3),
    "lora": Case(Gpt, (WORDS,), "adamw", 1e-3, ("*.q", "*.v", "*.up")),
    "lora on int8": Case(lambda: Gpt(32), (WORDS,), "adamw", 1e-3, ("*.q", "*.v", "*.up"), "int8"),
    "lora on int4": Case(lambda: Gpt(32), (WORDS,), "adamw", 1e-3, ("*.q", "*.v", "*.up"), "int4:16"),
}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
RANK, ALPHA = 2, 4.0


def losses(case: Case, dtype: Any) -> tuple[Any, Any]:
    """The losses of all steps with tiduc, and with PyTorch."""
    torch.manual_seed(0)
    net = case.make().train().to(getattr(torch, np.dtype(dtype).name))
    x, t = case.batches(dtype)
    model = tiduc.from_torch(net, (torch.tensor(x[0]),), lift_constants=True)
    if case.adapters:
        model = with_lora(model, case.adapters, rank=RANK, alpha=ALPHA)
    step = tiduc.train_step(model, "softmax-cross-entropy", case.optimizer, quantize=case.quantize)
    base = {name: x for name, x in dequantized(step.weights).items() if name in model.weights}
    changed = [name for name, x in base.items() if not np.array_equal(x, model.weights[name])]
    assert bool(changed) == bool(case.quantize)
    with torch.no_grad():
        for name in changed:
            net.get_parameter(name).copy_(torch.tensor(base[name]))
    for name in [
        name.removesuffix(".lora_A.weight") for name in step.weights if name.endswith(".lora_A.weight")
    ]:
        layer = name.removeprefix("base_model.model.")
        a, b = (step.weights[f"{name}.lora_{each}.weight"] for each in "AB")
        net.set_submodule(layer, Adapted(net.get_submodule(layer).requires_grad_(False), a, b, ALPHA / RANK))
    trained = [p for name, p in net.named_parameters() if not case.adapters or name.endswith((".a", ".b"))]
    own = OPTIMIZERS[case.optimizer](trained, lr=case.rate)
    compiled, rate = step.compile(), np.float32(case.rate)
    stored = [port.name for port in step.inputs if port.name in step.weights]
    kept: list[Any] = [step.weights[name] for name in stored]
    found = []
    for i in range(STEPS):
        loss, *new = compiled.keep(*kept, x[i], t[i], rate)
        kept = [*new, *kept[len(new) :]]  # the frozen weights come last, and do not change
        own.zero_grad()
        wanted = functional.cross_entropy(
            net(torch.tensor(x[i])).flatten(0, -2), torch.tensor(t[i]).flatten().long()
        )
        wanted.backward()
        own.step()
        found.append((float(loss), wanted.item()))
    return np.transpose(found)


@pytest.mark.parametrize("name", CASES)
def test_losses(name: str) -> None:
    """The losses differ from PyTorch's by relative errors of at most 1e-6. Each step has a new batch."""
    ours, theirs = losses(CASES[name], np.float32)
    assert np.max(np.abs(ours - theirs) / theirs) <= 1e-6
