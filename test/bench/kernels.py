"""Times functions of random shapes and their gradients by IREE and PyTorch: python test/bench/kernels.py [--help]

A seed, by default the date, draws functions of each kind (products, reductions, normalizations, softmax, attention,
resizing, pooling, embeddings, elementwise functions, and ops that move data), their sizes, which are log-uniform, and
their dimensions. No kernel can be tuned for them. A function is measured in two directions: `forward`, and `gradient`,
which is the function and its gradient with respect to all arrays of floats, in f32 and on one thread. PyTorch runs the
function op by op. `tiduc compile` compiles the program that PyTorch exports. The figures are the least processor times
of a call in microseconds, and tiduc's time divided by PyTorch's. The calls alternate. With --write, the tables are
written to docs/benchmarks.md.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
import torch
from convolutions import least
from flags import module_of
from kernel_cases import KINDS, Case, Draw
from suite import PAGE, machine
from torch import nn

import tiduc

BEGIN, END = "<!-- kernels.py -->", "<!-- end of kernels.py -->"
TIDUC, TORCH = "tiduc compile", "PyTorch"
DIRECTIONS = ("forward", "gradient")
ERROR = 0.02
"""The largest norm of an error, relative to the norm of PyTorch's result."""


class Of(nn.Module):
    """A module that applies a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def measured(case: Case, direction: str, seconds: float) -> dict[str, float]:
    """Maps each way to the time of a call in microseconds. Raises an error if the results differ."""
    tensors = [torch.from_numpy(x).clone() for x in case.arguments]
    program = tiduc.from_torch(Of(case.function), tuple(tensors))
    floats = [i for i, x in enumerate(tensors) if x.is_floating_point()]
    arguments = [x.numpy() for x in tensors]  # aligned by PyTorch, so that tiduc does not copy them
    if direction == "gradient":
        shape = case.function(*tensors).shape
        cotangent = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        arguments.append(cotangent.numpy())
        program = program.vjp(floats)
    executable = tiduc.Executable(module_of(program))

    def theirs() -> list[Any]:
        if direction == "forward":
            with torch.inference_mode():
                return [case.function(*tensors).numpy()]
        given = [x.detach().requires_grad_(i in floats) for i, x in enumerate(tensors)]
        y = case.function(*given)
        found = torch.autograd.grad(y, [given[i] for i in floats], cotangent)
        return [y.detach().numpy(), *(x.numpy() for x in found)]

    def ours() -> list[Any]:
        found = executable(*arguments)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    # The norm of an error is compared, because single elements may differ at a kink, or if sorted elements are equal.
    for x, y in zip(ours(), theirs(), strict=True):
        assert np.linalg.norm(x - y) <= ERROR * np.linalg.norm(y), f"{case.name}: {direction}: values differ"
    return least({TIDUC: ours, TORCH: theirs}, seconds, time.process_time)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--count", type=int, default=8, help="number of functions of each kind")
    parser.add_argument("--seed", type=int, default=int(f"{date.today():%Y%m%d}"), help="default: the date")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds of calls of each program")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for kind in chosen.only:
        draw = Draw(chosen.seed * 100 + list(KINDS).index(kind))
        for case in (KINDS[kind](draw) for _ in range(chosen.count)):
            for direction in DIRECTIONS:
                try:
                    row = measured(case, direction, chosen.seconds)
                except Exception as error:
                    print(
                        "FAILED",
                        kind,
                        case.name,
                        direction,
                        type(error).__name__,
                        str(error)[:300],
                        flush=True,
                    )
                    continue
                rows[f"{kind}, {direction}", f"{case.name}: {direction}"] = row
                texts = (f"{way} {us:.0f}" for way, us in row.items())
                print(f"{row[TIDUC] / row[TORCH]:.2f}", kind, case.name, direction, *texts, flush=True)
    report = "\n".join(tables(rows, chosen.seed))
    print(report)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")


def tables(rows: Mapping[tuple[str, str], Mapping[str, float]], seed: int) -> Iterator[str]:
    """Yields the lines of the report in Markdown: statistics of each kind, and the slowest rows."""
    yield f"\n{machine()}; 1 thread; seed {seed}\n"
    yield f"| {TIDUC} / {TORCH} | rows | geometric mean | 95th percentile | largest |"
    yield "|---|" + "---:|" * 4
    ratios = {key: row[TIDUC] / row[TORCH] for key, row in rows.items()}
    groups = {kind: [r for key, r in ratios.items() if key[0] == kind] for kind, _ in ratios}
    for kind, of in {**groups, "all": list(ratios.values())}.items():
        mean, tail = math.exp(np.mean(np.log(of))), np.percentile(of, 95)
        yield f"| {kind} | {len(of)} | {mean:.2f} | {tail:.2f} | {max(of):.2f} |"
    yield f"\n| slowest rows | µs: {TIDUC} | {TORCH} | ratio |"
    yield "|---|" + "---:|" * 3
    for key in sorted(ratios, key=lambda key: -ratios[key])[:12]:
        cells = [f"{rows[key][way]:.0f}" for way in (TIDUC, TORCH)]
        yield f"| {key[1]} | {' | '.join(cells)} | {ratios[key]:.2f} |"


if __name__ == "__main__":
    main()
