"""Small PyTorch programs, one for each feature of the files that `torch.export.save` writes."""

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

F = torch.nn.functional
Pair = namedtuple("Pair", ["first", "second"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="cases.Pair")

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Function(nn.Module):  # type: ignore[misc,name-defined]
    """A module whose forward function is `function`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


class Tied(nn.Module):  # type: ignore[misc,name-defined]
    """A module with two layers that share a weight, and with a buffer that is a view of this weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("row", self.first.weight.detach()[1])

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).tanh()) + self.row


class Buffers(nn.Module):  # type: ignore[misc,name-defined]
    """A module with buffers that are updated, not persistent, of integers, or views, and with a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(2))
        self.register_buffer("scale", torch.full((4,), 0.5), persistent=False)
        self.register_buffer("places", torch.tensor([3, 0, 2, 1]))
        self.register_buffer("same", torch.ones(1).expand(4))
        self.frozen = nn.Parameter(torch.arange(4.0), requires_grad=False)

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        table = torch.tensor([[1, 2, 3, 4]])
        return (x * self.scale)[:, self.places] + table * self.same + self.frozen, self.count * 2


class Named(nn.Module):  # type: ignore[misc,name-defined]
    """A module whose submodules have unusual names, and whose inputs are in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({"a layer-1": nn.Linear(4, 2), "input": nn.Linear(4, 2)})

    def forward(self, input: Any, rest: Any, *, scale: Any, mode: str = "plain", none: Any = None) -> Any:
        y = self.layers["a layer-1"](input) + self.layers["input"](rest["x"][0]) * scale
        return {"y": y, "z": [y + 1, (rest["x"][1],)], "none": none, "pair": Pair(y, 2)}


class WithoutGradient(nn.Module):  # type: ignore[misc,name-defined]
    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = (x * 2).sin()
        return x * y + x.detach()


class Blocks(nn.Module):  # type: ignore[misc,name-defined]
    """A network that updates running means of a batch normalization in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(1, 2, 3, padding=1), norm=nn.BatchNorm2d(2), act=nn.ReLU())
        )
        self.head = nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        return self.head(F.max_pool2d(self.body(x), 2).flatten(1))


class Square(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """A square with a custom derivative. It is 3 x, so that tests can tell it from the correct derivative 2 x."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        return 3 * ctx.saved_tensors[0] * ct


def _loop(x: Any) -> Any:
    return torch._higher_order_ops.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x)
    )


def _scan(x: Any) -> Any:
    return torch._higher_order_ops.scan(lambda c, row: (c + row, c * row), x[0], x)


def _branches(x: Any) -> Any:
    inner = lambda y: torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,))  # noqa: E731
    return torch.cond(x.sum() > 0, lambda y: inner(y) + 1, lambda y: y * 2, (x,))


def _asserted(x: Any) -> Any:
    torch._check(x.shape[0] > 2)
    return x[2:].sum(0) * x.shape[0]


def _autocast(x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.T


N = torch.export.Dim("n", min=3, max=64)
M = torch.export.Dim("m", min=2)

Case = tuple[Any, tuple[Any, ...], dict[str, Any], Any]
"""A module, its positional and keyword arguments, and the dynamic shapes of the export."""


def _case(module: Any, *arguments: Any, shapes: Any = None, **keywords: Any) -> Case:
    if not isinstance(module, nn.Module):
        module = Function(module)
    return module, arguments, keywords, shapes


REFUSED = ("a multiple of a size", "a size of another")
"""The names of programs that PyTorch cannot decompose after it has loaded them from a file."""


def cases() -> dict[str, Case]:
    """Maps names to programs. All weights are drawn from one seed."""
    torch.manual_seed(0)
    return {**_of_sizes(), **_of_modules(), **_of_functions()}


def _of_sizes() -> dict[str, Case]:
    """Returns the programs with dynamic sizes."""
    rows = {0: N}
    sequence = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return {
        "a dynamic batch": _case(nn.Linear(4, 2), X, shapes={"input": rows}),
        "two dynamic sizes": _case(
            lambda x, y: x.flatten() * 2 + torch.cat([x, y]).reshape(-1)[: x.numel()],
            *(X, X),
            shapes={"arguments": ({0: N, 1: M}, {0: N, 1: M})},
        ),
        "a size of another": _case(
            lambda x, y: x[:-1] + y, X, X[1:], shapes={"arguments": (rows, {0: N - 1})}
        ),
        "a multiple of a size": _case(
            lambda x, y: x.reshape(-1, 2, 4).sum(1) + y,
            *(torch.ones(6, 4), torch.ones(3, 4)),
            shapes={"arguments": ({0: 2 * M}, {0: M})},
        ),
        "quotients of sizes": _case(
            lambda x: x.sum(0) * (x.shape[0] // 2) + x.unfold(0, 2, 2).sum(),
            *(torch.ones(8, 4),),
            shapes={"arguments": (rows,)},
        ),
        "asserted sizes": _case(
            _asserted, torch.ones(5, 4), shapes={"arguments": ({0: torch.export.Dim("k", min=4)},)}
        ),
        "numbers of sizes": _case(
            lambda x: x / x.shape[0] + torch.arange(x.shape[0])[:, None] + torch.full((x.shape[0], 4), 2.5),
            *(torch.ones(5, 4),),
            shapes={"arguments": (rows,)},
        ),
        "evaluation": _case(Blocks().eval(), torch.ones(2, 1, 8, 8), shapes={"x": {0: M}}),
        "no gradient, dynamic": _case(WithoutGradient(), torch.ones(5, 4), shapes={"x": rows}),
        "attention, dynamic": _case(sequence, torch.ones(3, 5, 4), shapes={"src": {0: M}}),
    }


def _of_modules() -> dict[str, Case]:
    """Returns the programs with weights, buffers or control flow."""
    ints = torch.tensor([[1, 0, 2]])
    sequence = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return {
        "linear": _case(nn.Linear(4, 2), X),
        "tied weights": _case(Tied(), X),
        "buffers": _case(Buffers(), X),
        "names and containers": _case(Named(), X, {"x": (X, X[0])}, scale=torch.tensor(2.0), mode="other"),
        "numbers as inputs": _case(lambda x, n, r, flag: x * n + r if flag else x, X, 3, 0.5, True),
        "training": _case(Blocks().train(), torch.ones(2, 1, 8, 8)),
        "dropout": _case(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), X),
        "no gradient": _case(WithoutGradient(), X),
        "a derivative of its own": _case(lambda x: Square.apply(x) + x, X),
        "autocast": _case(_autocast, X),
        "branches": _case(_branches, X),
        "a loop": _case(_loop, X),
        "scan": _case(_scan, X),
        "map": _case(lambda x: torch._higher_order_ops.map(lambda row: row.sin() * 2, x), X),
        "vmap": _case(lambda x: torch.vmap(lambda row: row * row.sum())(x), X),
        "jvp": _case(lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1], X),
        "lstm": _case(nn.LSTM(4, 3, batch_first=True), torch.ones(2, 5, 4)),
        "gru, two layers": _case(nn.GRU(4, 3, 2, bidirectional=True), torch.ones(5, 2, 4)),
        "attention": _case(sequence.eval(), torch.ones(2, 5, 4)),
        "embedding": _case(nn.Embedding(5, 3, padding_idx=0), ints),
        "embedding bag": _case(nn.EmbeddingBag(5, 3, mode="sum"), ints),
    }


def _of_functions() -> dict[str, Case]:
    """Returns the programs that consist of one function."""
    return {
        "constants": _case(lambda x: x @ torch.eye(4) + torch.tensor([1, 2, 3, 4.5]) + torch.tensor(2), X),
        "changes in place": _case(lambda x: x.clone().mul_(2).add_(1)[1:].zero_() + x[1:], X),
        "an input that changes": _case(lambda x: x.add_(1) * 2, X),
        "assignments": _case(lambda x: torch.stack([x, x]).index_put((torch.tensor([0]),), x[None] * 2), X),
        "texts": _case(
            lambda x: (
                F.gelu(x, approximate="tanh")
                + torch.div(x, 0.3, rounding_mode="floor")
                + F.pad(x[:, 1:], (1, 0))
            ),
            X,
        ),
        "einsum": _case(lambda x, y: torch.einsum("ij,kj->ik", x, y), X, X),
        "complex numbers": _case(
            lambda x: torch.fft.rfft(x).abs() + torch.view_as_real(torch.polar(x, x)).sum(), X
        ),
        "element types": _case(
            lambda x: (
                x.half() + 1,
                x.bfloat16() * 2,
                x.double().sin(),
                x.int() // 2,
                x > 0,
                x.to(torch.uint8),
            ),
            X,
        ),
        "half weights": _case(nn.Linear(4, 2).bfloat16(), X.bfloat16()),
        "infinities": _case(
            lambda x: x.masked_fill(x > 0, float("-inf")).clamp(-1e30, float("inf")).nan_to_num(0.0), X
        ),
        "several results": _case(lambda x: (*x.max(1), *x.split(2, 1), x.unbind(0)[1], *torch.topk(x, 2)), X),
        "formats of memory": _case(
            nn.Conv2d(1, 2, 3).to(memory_format=torch.channels_last),
            torch.ones(2, 1, 8, 8).to(memory_format=torch.channels_last),
        ),
        "interpolation": _case(lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), X),
        "groups and norms": _case(
            nn.Sequential(nn.Conv1d(4, 4, 1, groups=2), nn.GroupNorm(2, 4)), torch.ones(2, 4, 3)
        ),
        "no tensors of a module": _case(lambda: torch.ones(2) * 3),
        "a loss": _case(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), X, torch.tensor([0, 1, 2])),
    }


def exported(name: str, decomposed: bool = False) -> Any:
    """Exports the program `name` with `torch.export.export`."""
    module, arguments, keywords, shapes = cases()[name]
    program = torch.export.export(module, arguments, keywords, dynamic_shapes=shapes, strict=False)
    return program.run_decompositions() if decomposed else program
