"""Compares `torch.compile(backend="tiduc")` and `tiduc.grad` with PyTorch without compilation."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.dialect.errors import RequestError, Unsupported

torch = pytest.importorskip("torch")

from cases.torch_exports import Square  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tiduc.live import torch_graphs  # noqa: E402
from tiduc.live.torch_graphs import backend  # noqa: E402

functional = torch.nn.functional
STRICT = {"fallback": False}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Fixture: removes PyTorch's graphs of earlier tests, because it stops compiling a function after eight graphs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=backend, options=STRICT, **options)


def stops(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
    return y * x, y, x.view(-1), x.detach(), y[0]


def views(x: Any) -> Any:
    y = torch.sin(x)
    return y, y.t(), [y[0], {"size": x.shape[0]}]


def chunks(x: Any) -> Any:
    first, second = torch.sin(x.t()).chunk(2)
    return first, second, torch.cos(x.t())


def in_place(x: Any, w: Any) -> Any:
    y = x * 1
    y.add_(w.sum())
    y[0] = torch.sin(w)
    return y * x, y[1]


def broken(x: Any) -> Any:
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return (y * y).sum()


def branching(x: Any) -> Any:
    return x * 2 if x.sum() > 1000 else torch.cos(x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "stops": stops,
    "views": views,
    "chunks": chunks,
    "in place": lambda x: in_place(x, x[0]),
    "a graph break": broken,
    "a branch": branching,
    "a function with its own derivative": lambda x: Square.apply(x).sum(),
    "a checkpoint": lambda x: checkpoint(lambda z: torch.sin(z) * 2, x, use_reentrant=False),
    "integers": lambda x: (x.argmax(-1), *torch.sort(x, -1)),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
    "vmap": torch.func.vmap(lambda x: torch.tanh(x) * x.sum()),
}


def outcome(function: Any, x: Any) -> list[Any]:
    """The results of a function, and the gradient of a weighted sum of the results that require gradients."""
    x = x.clone().requires_grad_()
    results = torch.utils._pytree.tree_leaves(function(x))
    smooth = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
    weights = [torch.arange(1.0, y.numel() + 1).reshape(y.shape) for y in smooth]
    if smooth:
        sum((y * w).sum() for y, w in zip(smooth, weights, strict=True)).backward()
    return [*results, x.grad]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_gradients_and_views(name: str) -> None:
    x = torch.randn(6, 4)
    for found, expected in zip(outcome(compiled(PROGRAMS[name]), x), outcome(PROGRAMS[name], x), strict=True):
        if not isinstance(expected, torch.Tensor):
            assert found == expected
            continue
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        assert found.requires_grad == expected.requires_grad
        assert found.stride() == expected.stride()


def test_outputs_share_memory_as_in_pytorch() -> None:
    def function(x: Any) -> Any:
        y = torch.sin(x)
        return x.t(), y, y[1:]

    x = torch.randn(3, 4)
    turned, y, rest = compiled(function)(x)
    x.zero_()
    assert not turned.any()
    y.fill_(5)
    assert (rest == 5).all()


def test_inputs_that_change_in_place() -> None:
    def function(x: Any, w: Any) -> Any:
        x.add_(w.sum())
        return x * 2, x[0]

    results = []
    for f in (function, compiled(function)):
        x, w = torch.zeros(3, 4), torch.ones(3, requires_grad=True)
        doubled, row = f(x, w)
        (doubled.sum() + row.sum() + x.sum()).backward()
        results.append((x.detach(), doubled.detach(), row.detach(), w.grad))
    for found, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, expected)
    shared = torch.ones(4)
    f = compiled(lambda x, y: (x.mul_(2), y * 3)[1])
    assert torch.equal(
        f(shared, shared.view(4)), torch.full((4,), 6.0)
    )  # the inputs overlap, so PyTorch runs the function


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )


def test_training_follows_pytorch() -> None:
    x, target = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
    runs = []
    for is_compiled in (False, True):
        net = network()
        f = compiled(net) if is_compiled else net
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = functional.cross_entropy(f(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            runs.append((losses, f(x[:7]), [*net.buffers()]))
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=1e-5)
    torch.testing.assert_close(runs[1][1:], runs[0][1:], rtol=1e-4, atol=1e-4)


def test_dropout_draws_from_the_generator_of_pytorch() -> None:
    f, x = compiled(torch.nn.Dropout(0.5)), torch.ones(1000, requires_grad=True)
    torch.manual_seed(1)
    y = f(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert 0.9 < y.mean() < 1.1
    other = f(x)
    torch.manual_seed(1)
    assert torch.equal(f(x), y)
    assert torch.equal(f(x), other)
    assert not torch.equal(other, y)


def test_autocast_around_a_call() -> None:
    layer, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(layer)(x), layer(x), rtol=1e-2, atol=1e-2)


def test_shapes_that_change() -> None:
    f = compiled(lambda x: (torch.sin(x).sum(0), x.shape[0] * 2))
    for n in (3, 4, 5, 3):
        x = torch.randn(n, 2)
        found, size = f(x)
        torch.testing.assert_close(found, torch.sin(x).sum(0))
        assert size == 2 * n


def test_a_graph_has_a_limited_number_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_graphs, "MOST", 1)
    f = torch.compile(lambda x: torch.sin(x), backend=backend, dynamic=True)
    f(torch.randn(3))
    with pytest.warns(UserWarning, match="over 1 combinations of shapes"):
        x = torch.randn(4)
        assert torch.equal(f(x), torch.sin(x))


def test_refusals_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_graphs, "MOST", 0)
    run = torch_graphs.CompiledGraph(torch.fx.symbolic_trace(lambda x: (torch.sin(x),)), fallback=True)
    with pytest.warns(UserWarning, match="over 0 combinations of shapes"):
        for n in (3, 4):
            run(torch.randn(n))
    assert not run._programs


def test_graphs_that_tiduc_refuses() -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(x) + torch.nonzero(torch.ones(2)).sum()

    x = torch.randn(3)
    with pytest.warns(UserWarning, match="PyTorch runs a graph that tiduc refuses: .*bessel_j0"):
        assert torch.equal(torch.compile(function, backend=backend)(x), function(x))
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match="bessel_j0"):
        compiled(function)(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="the backend tiduc has no option 'speed'"):
        torch.compile(function, backend=backend, options={"speed": 1})(x)


@pytest.mark.parametrize("name", ["hessian", "per sample", "unequal sizes"])
def test_gradients_of_torch_func_inside_a_graph(name: str) -> None:
    net = network()
    weights = {key: x.detach() for key, x in net.named_parameters() if key.startswith(("0", "5"))}
    kernel = torch.randn(4, 2, 3, 2)

    def loss(weights: Any, x: Any, target: Any) -> Any:
        y = functional.max_pool2d(functional.conv2d(x[None], weights["0.weight"], padding=1), 2)
        return functional.cross_entropy(y.flatten(1) @ weights["5.weight"].T, target[None])

    x, images, targets = torch.randn(5), torch.randn(3, 1, 8, 8), torch.randint(0, 10, (3,))
    function, arguments = {
        "hessian": (torch.func.hessian(lambda x: (torch.sin(x) * torch.tanh(x @ x)).sum()), (x,)),
        "per sample": (
            torch.func.vmap(torch.func.grad(loss), (None, 0, 0)),
            (weights, images, targets),
        ),
        "unequal sizes": (
            torch.func.grad(lambda w, x: functional.conv2d(x, w, stride=2, groups=2).square().sum(), (0, 1)),
            (kernel, torch.randn(2, 4, 9, 8)),
        ),
    }[name]
    torch.testing.assert_close(compiled(function)(*arguments), function(*arguments), rtol=1e-4, atol=1e-4)


def test_gradients_of_torch_func_of_inputs_that_require_one() -> None:
    f = compiled(torch.func.grad(lambda x: torch.sin(x).sum()))
    with pytest.raises(Unsupported, match="an input requires a gradient"):
        f(torch.randn(3, requires_grad=True))


def test_second_derivatives() -> None:
    def function(x: Any) -> Any:
        return torch.tanh(x @ x.t()).sum()

    results = []
    for f in (function, compiled(function)):
        torch.manual_seed(0)
        x = torch.randn(3, 3, requires_grad=True)
        (first,) = torch.autograd.grad(f(x), x, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(results[1], results[0])


def test_grad() -> None:
    def function(p: Any, x: Any) -> Any:
        return (torch.sin(x) * p["w"]).sum(), x * 2

    p, x = {"w": torch.randn(5), "b": torch.ones(2)}, torch.randn(5)
    torch.testing.assert_close(
        tiduc.grad(function, (0, 1), has_aux=True)(p, x),
        torch.func.grad(function, (0, 1), has_aux=True)(p, x),
    )
    assert not tiduc.grad(function, has_aux=True)(p, x)[0]["w"].requires_grad


def test_grad_of_grad() -> None:
    def twice(grad: Any) -> Any:
        return grad(lambda x: grad(lambda x: torch.sin(x * x).sum())(x).square().sum())

    x = torch.randn(5)
    torch.testing.assert_close(twice(tiduc.grad)(x), twice(torch.func.grad)(x))


def test_grad_reads_modules_that_change_between_calls() -> None:
    net, x = torch.nn.Linear(5, 1), torch.randn(5)
    gradient = tiduc.grad(lambda x: torch.tanh(net(x)).sum())
    for _ in range(2):
        expected = torch.func.grad(lambda x: torch.tanh(net(x)).sum())(x)
        torch.testing.assert_close(gradient(x), expected)
        with torch.no_grad():
            net.weight.mul_(2)
    gradient(x).square().sum().backward()
    found, net.weight.grad = net.weight.grad, None
    torch.func.grad(lambda x: torch.tanh(net(x)).sum())(x).square().sum().backward()
    torch.testing.assert_close(found, net.weight.grad)


def test_grad_refuses() -> None:
    x = torch.randn(3)
    with pytest.raises(RequestError, match=r"real scalar tensor, not \[3\]"):
        tiduc.grad(torch.sin)(x)
    with pytest.raises(RequestError, match="argument 0 has a leaf that is not a tensor of floats: 1"):
        tiduc.grad(lambda n: n)(1)
    with pytest.raises(RequestError, match="compile the whole transform"):
        torch.func.vmap(tiduc.grad(lambda x: x.sum()))(torch.randn(2, 3))


SCRIPT = """
import sys, torch
model = torch.compile(torch.nn.Linear(3, 2), backend="tiduc", options={"fallback": False})
y = model(torch.ones(4, 3))
y.sum().backward()
assert "tiduc.models.from_torch" in sys.modules
"""


def test_the_backend_is_found_by_its_name_and_leaves_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_tiduc_imports_no_pytorch() -> None:
    code = "import sys, tiduc; tiduc.grad; tiduc.jit; assert not {'torch', 'jax'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
