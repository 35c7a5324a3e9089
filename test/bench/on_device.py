"""Times training steps by tiduc and by PyTorch, on one thread: python test/bench/on_device.py [--help]

A step computes the loss, the gradient and the optimizer's update of a network on one batch:

    module       tiduc's module for IREE's runtime
    library      tiduc's static library, built with the C compiler `cc`
    eager        PyTorch: forward, backward and optimizer, op by op

The column `eager` is the processor time of PyTorch's step. The columns `module` and `library` are times divided by this
time: medians over many rounds. In each round, all steps run one after the other, so that other load on the machine
affects all of them. `state` is the size of all weights and of the optimizer's state. `losses` is the largest relative
difference between tiduc's and PyTorch's losses of the first steps. If tiduc's weights are quantized, PyTorch has the
dequantized weights. With --also, other compilers are measured on the same batch (`on_device_peers.py`); `-` means that
a compiler cannot compile the step. JAX's own derivatives are not measured, because the networks would have to be
written again in JAX. With --prepare, prints the processor time of the parts of the preparation, from a .pt2 file to the
module, in a new process. With --write, the tables are written to docs/benchmarks.md.
"""

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # must be set before PyTorch is imported

import numpy as np
from on_device_peers import ORT_OPTIMIZERS, adapted, available, of_ort, of_xla

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
WAYS = "module", "library"
LOSSES = 20
"""The number of first steps whose losses are compared."""
ADAPTED = "*.attention.*", "*.layers.*"


class Net(NamedTuple):
    """A network, the shape of its batch, the number of classes, the optimizer and its learning rate.

    If the input is tokens, `words` is the size of the vocabulary. If `rank` is not 0, only LoRA adapters of the layers
    `ADAPTED` are trained, and `quantize` is the quantization of the other weights.
    """

    make: Callable[[], Any]
    batch: tuple[int, ...]
    classes: int
    optimizer: str
    rate: float
    words: int = 0
    rank: int = 0
    quantize: str = ""


def nets() -> dict[str, Net]:
    """Maps names to networks. They need PyTorch."""
    import torch
    from attention import Text
    from networks import mobilenet
    from torch import nn

    class Classifier(nn.Module):
        """BERT with a linear layer that classifies the first token."""

        def __init__(self) -> None:
            super().__init__()
            self.text, self.head = Text(8192, False, 4, 256), nn.Linear(256, 2)

        def forward(self, tokens: Any) -> Any:
            x = self.text.tokens(tokens) + self.text.places.weight[: tokens.shape[1]]
            return self.head(self.text.norm(self.text.blocks(x))[:, 0])

    def mlp() -> Any:
        first = nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
        return nn.Sequential(*first, nn.Linear(512, 10))

    def cnn() -> Any:
        first = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        second = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(32 * 49, 10))

    def gpt() -> Any:
        return Text(256, True, 2, 256)

    torch.set_num_threads(1)
    text = Net(gpt, (8, 64), 256, "adamw", 1e-3, words=256)
    return {
        "mlp": Net(mlp, (64, 784), 10, "sgd", 0.01),
        "cnn": Net(cnn, (32, 1, 28, 28), 10, "adam", 1e-3),
        "gpt": text,
        "lora": text._replace(rank=8),
        "lora, int8": text._replace(rank=8, quantize="int8"),
        "lora, int4:32": text._replace(rank=8, quantize="int4:32"),
        "mobilenet": Net(mobilenet, (4, 3, 96, 96), 1000, "momentum", 0.01),
        "bert": Net(Classifier, (8, 64), 2, "adamw", 1e-4, words=8192),
    }


def batch(net: Net) -> tuple[Any, Any]:
    """Returns a random batch: the inputs, and the classes."""
    rng = np.random.default_rng(0)
    if not net.words:
        return rng.standard_normal(net.batch, np.float32), rng.integers(
            0, net.classes, net.batch[:1], np.int32
        )
    shape = net.batch if net.classes == net.words else net.batch[:1]
    return rng.integers(0, net.words, net.batch), rng.integers(0, net.classes, shape, np.int32)


def module_of(net: Net) -> Any:
    """Returns the module of a network in training mode. Its random weights are equal in all processes."""
    import torch

    torch.manual_seed(0)
    return net.make().train()


# ---- tiduc ---------------------------------------------------------------------------------------------------------


def step_of(net: Net, model: Any) -> Any:
    """tiduc's training step of an imported model."""
    from tiduc.training.lora import with_lora
    from tiduc.training.step import train_step

    model = with_lora(model, ADAPTED, rank=net.rank, alpha=16.0) if net.rank else model
    return train_step(model, "softmax-cross-entropy", net.optimizer, quantize=net.quantize)


def of_module(step: Any, x: Any, t: Any, rate: float) -> Callable[[], float]:
    """Returns a function that runs the compiled step and returns the loss. The state remains in the device's memory."""
    from tiduc.runtime.run import Module

    loaded = Module(step.compile().vmfb, devices=["local-sync"])  # one thread
    compiled = loaded["main"]
    stored = [loaded.put(step.weights[port.name]) for port in step.inputs if port.name in step.weights]
    given = [loaded.put(each) for each in (x, t, np.float32(rate))]

    def call() -> float:
        loss, *new = compiled.keep(*stored, *given)
        stored[: len(new)] = new
        return float(loss)

    return call


def of_library(step: Any, x: Any, t: Any, rate: float, folder: Path) -> Callable[[], float]:
    """Returns a function that runs the C function of the step and returns the loss. It updates the state in place."""
    from tiduc.backends.backend import Options
    from tiduc.backends.iree.static.library import compile_library

    library = compile_library(step.lower(), "net", Options("cpu"))
    (folder / "net.o").write_bytes(library.kernels)
    (folder / "net.c").write_text(library.host)
    (folder / "net.h").write_text(library.header)
    files = [str(folder / name) for name in ("net.c", "net.o")]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *files, "-lm", "-o", str(folder / "net.so")], check=True)
    function = ctypes.CDLL(str(folder / "net.so")).net
    state = [step.weights[port.name] for port in step.inputs if port.name in step.weights]
    arrays = [aligned(each) for each in (*state, x, t, np.float32(rate), np.float32(0))]
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in arrays]

    def call() -> float:
        status = function(*pointers)
        assert status == 0, status
        return float(arrays[-1])

    return call


def aligned(x: Any) -> Any:
    """Returns a copy of an array whose address is a multiple of 64, as the C function requires to read it in place."""
    x = np.asarray(x)
    memory = np.empty(x.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


# ---- PyTorch -------------------------------------------------------------------------------------------------------


def of_torch(net: Net, step: Any, x: Any, t: Any, compiled: bool = False) -> Callable[[], float]:
    """Returns a function that runs PyTorch's step and returns the loss.

    Its adapters and dequantized weights are those of tiduc's initial state.
    """
    import torch
    from torch.nn import functional

    from tiduc.training.quantization import dequantized

    module, prefix = module_of(net), "base_model.model."
    weights = dequantized(step.weights)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.tensor(weights[name]))
    if net.rank:
        module.requires_grad_(False)
    adapters = [name.removesuffix(".lora_A.weight") for name in weights if name.endswith(".lora_A.weight")]
    for each in adapters:
        a, b = (weights[f"{each}.lora_{x}.weight"] for x in "AB")
        name = each.removeprefix(prefix)
        module.set_submodule(name, adapted(module.get_submodule(name), a, b, 16 / net.rank))
    of = {
        "sgd": torch.optim.SGD,
        "momentum": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    more = {"momentum": 0.9} if net.optimizer == "momentum" else {}
    optimizer = of[net.optimizer]([p for p in module.parameters() if p.requires_grad], lr=net.rate, **more)
    given, target = torch.tensor(x), torch.tensor(t).flatten().long()
    module = torch.compile(module) if compiled else module

    def call() -> float:
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(given).flatten(0, -2), target)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return call


# ---- measuring -----------------------------------------------------------------------------------------------------


def measured(net: Net, rounds: int, also: list[str]) -> list[str]:
    """Returns the row of the table for a network. `also` are the other compilers to measure."""
    import torch

    import tiduc

    x, t = batch(net)
    model = tiduc.from_torch(module_of(net), (torch.tensor(x),), lift_constants=True)
    step = step_of(net, model)
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "eager": of_torch(net, step, x, t),
            "module": of_module(step, x, t, net.rate),
            "library": of_library(step, x, t, net.rate, Path(folder)),
        }
        ways |= {way: call for way in also if (call := of_peer(way, net, step, x, t)) is not None}
        losses = {way: np.array([call() for _ in range(LOSSES)]) for way, call in ways.items()}
        times = dict(zip(ways, zip(*interleaved(ways, rounds), strict=True), strict=True))
    eager = times["eager"]
    ratios = {
        way: f"{statistics.median(x / y for x, y in zip(of, eager, strict=True)):.2f}"
        for way, of in times.items()
    }
    worst = max(np.max(abs(losses[way] / losses["eager"] - 1)) for way in WAYS)
    size = sum(each.nbytes for each in step.weights.values()) / 1024
    return [
        f"{1e3 * statistics.median(eager):.2f}",
        *(ratios[way] for way in WAYS),
        f"{size:,.0f}",
        f"{worst:.0e}",
        *(ratios.get(way, "-") for way in also),
    ]


def of_peer(way: str, net: Net, step: Any, x: Any, t: Any) -> Callable[[], float] | None:
    """Returns a function that runs the step of another compiler.

    Returns None if the compiler does not support the step.
    """
    if way == "compile":
        return of_torch(net, step, x, t, compiled=True)
    if way == "xla":
        return of_xla(step, x, t, net.rate)
    if net.rank or net.optimizer not in ORT_OPTIMIZERS:
        return None
    return of_ort(module_of(net), net.optimizer, net.rate, x, t)


def interleaved(ways: dict[str, Callable[[], float]], rounds: int) -> Iterator[list[float]]:
    """Yields, for each round of about 20 ms of calls of each way, the mean processor time of the calls."""
    counts = {}
    for way, call in ways.items():
        start = time.process_time()
        call()
        counts[way] = max(1, round(0.02 / max(time.process_time() - start, 1e-5)))
    for _ in range(rounds):
        row = []
        for way, call in ways.items():
            start = time.process_time()
            for _ in range(counts[way]):
                call()
            row.append((time.process_time() - start) / counts[way])
        yield row


PARTS = "packages", "model", "step", "module", "library", "both"


def prepared(net: Net, file: str) -> None:
    """Prints the processor time of each of `PARTS`. The first part begins at the start of this process."""
    seen = [0.0]

    def ends() -> None:
        now = sum(sum(resource.getrusage(of)[:2]) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        now += sum(map(spent, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
        print(f"{now - sum(seen):.1f}")
        seen.append(now - sum(seen))

    from tiduc.backends.backend import Options
    from tiduc.backends.iree.build import build
    from tiduc.backends.iree.static.library import compile_library
    from tiduc.models.files import import_model

    ends()
    model = import_model(file, lift_constants=True)
    ends()
    lowered = step_of(net, model).lower()
    ends()
    build(lowered, Options("cpu", cached=False))
    ends()
    for beside_module in (False, True):
        compile_library(lowered, "net", Options("cpu", cached=False), beside_module=beside_module)
        ends()


def spent(pid: str) -> float:
    """Returns the processor time of a running process and its child processes, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def preparation(net: Net) -> list[str]:
    """Prepares a step in a new process. Returns the processor time of each part, and their sum up to the module."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "net.pt2")
        torch.export.save(torch.export.export(module_of(net), (torch.tensor(batch(net)[0]),)), file)
        run = [sys.executable, __file__, "--of", file, net.optimizer, str(net.rank), net.quantize]
        whole = {**os.environ, "TIDUC_CACHE": "off"}
        told = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=whole).stdout.split()
    return [*told[:4], f"{sum(map(float, told[:4])):.1f}", *told[4:]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help="by default all")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--also", nargs="*", default=[], choices=available(), help="other compilers")
    parser.add_argument("--prepare", action="store_true", help="measure the preparation, not the steps")
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks.md")
    parser.add_argument("--of", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.of:
        file, optimizer, rank, quantize = chosen.of
        prepared(Net(None, (), 0, optimizer, 0.0, rank=int(rank), quantize=quantize), file)
        return
    every = nets()
    rows = {}
    for name in chosen.nets or every:
        net = every[name]
        rows[name] = preparation(net) if chosen.prepare else measured(net, chosen.rounds, chosen.also)
        print(name, *rows[name], flush=True)
    names = (
        [*PARTS[:4], "sum", *PARTS[4:]]
        if chosen.prepare
        else [
            *("eager, ms", *WAYS, "state, KiB", "losses"),
            *chosen.also,
        ]
    )
    report = "\n".join(table(["net", *names], [[name, *row] for name, row in rows.items()]))
    print(report)
    if chosen.write:
        mark = f"on_device.py{' --prepare' * chosen.prepare} -->"
        begin, end = f"<!-- {mark}", f"<!-- end of {mark}"
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(f"{before}{begin}\n\n{report}\n\n{end}{rest.partition(end)[2]}")


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
