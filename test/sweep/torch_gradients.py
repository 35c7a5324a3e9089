"""Imports functions by `tiduc.from_torch` and compares their values and gradients with those of PyTorch, in f64.

    PYTHONPATH=test/py python test/sweep/torch_gradients.py [--only PATTERN] [--table]

Prints each function that is refused or wrong, and the counts. With `--table`, prints the table of docs/models.md
instead. The exit status is 1 if a value or a gradient is wrong, or if an exception is not a `TiducError`. The sweep
takes about five minutes.
"""

import argparse
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from counts import summary
from harness.compare import compare
from torch_layers import ARRAYS, CONTROL, NETWORKS, RECURRENT
from torch_mathematics import COMPLEX, FFT, LINALG, SPECIAL, Row, draw

import tiduc

TOLERANCE, NARROW_TOLERANCE = 1e-7, 1e-5
"""The tolerances of errors relative to the largest element, for functions in f64 and in f32 (such as `grouped_mm`).

The first one is not smaller because PyTorch's `hardsigmoid` computes 1/6 in f32.
"""

GROUPS: dict[str, list[Row]] = {
    "torch.linalg": LINALG,
    "torch.fft": FFT,
    "complex numbers": COMPLEX,
    "special functions": SPECIAL,
    "arrays": ARRAYS,
    "networks": NETWORKS,
    "recurrent networks": RECURRENT,
    "control flow": CONTROL,
}


class Module(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def check(row: Row) -> None:
    """Raises `TiducError` if tiduc refuses the function, and `AssertionError` if a value or gradient is wrong."""
    name, function, inputs = row
    model = tiduc.from_torch(Module(function), tuple(inputs))
    inputs = [x.clone().requires_grad_() for x in inputs]
    outputs = torch.utils._pytree.tree_leaves(function(*inputs))
    floats = [y for y in outputs if y.is_floating_point() or y.is_complex()]
    seeds = [(draw(*y.shape) + (1j * draw(*y.shape) if y.is_complex() else 0)).to(y.dtype) for y in floats]
    pairs = [(y, seed) for y, seed in zip(floats, seeds, strict=True) if y.requires_grad]
    program, expected = model, [y.detach().resolve_conj() for y in outputs]
    if pairs:
        program = model.vjp()
        active, given = zip(*pairs, strict=True)
        expected += torch.autograd.grad(active, inputs, given, materialize_grads=True)
    arrays = [x.detach().numpy() for x in [*inputs, *(seeds if pairs else ())]]
    tolerance = NARROW_TOLERANCE if any(x.dtype == torch.float32 for x in inputs) else TOLERANCE
    compare(
        program.compile(engine="xla")(*arrays), [y.resolve_conj().numpy() for y in expected], tolerance, name
    )


def outcome(row: Row) -> tuple[str, str]:
    """Returns the outcome ("right", "refused", "wrong" or "crashed") and its reason."""
    try:
        check(row)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except tiduc.TiducError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001  any other exception is a bug of tiduc
        return "crashed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "right", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only functions whose names match this regular expression")
    parser.add_argument("--table", action="store_true", help="print the table of docs/models.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # PyTorch's warnings about functions that it will remove
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    refused: dict[str, list[str]] = defaultdict(list)
    for group, rows in GROUPS.items():
        for row in rows:
            if not re.search(given.only, row[0]):
                continue
            category, why = outcome(row)
            counts[group][category] += 1
            if category != "right":
                refused[group].append(row[0])
                if not given.table:
                    print(f"{category:8} {row[0]}: {why}", flush=True)
    for group, count in counts.items():
        if given.table:
            names = ", ".join(f"`{name}`" for name in refused[group]) or "none"
            print(f"| {group} | {count['right']} of {count.total()} | {names} |")
        else:
            print(group, dict(count))
    if not given.table:
        print(summary(sum(counts.values(), Counter())))
    return int(any(count["wrong"] or count["crashed"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
