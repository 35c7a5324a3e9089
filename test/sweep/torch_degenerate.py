"""Compares values and derivatives of orders 1 and 2 with those of `torch.autograd`, at degenerate inputs of functions.

    PYTHONPATH=test/py python test/sweep/torch_degenerate.py RESULTS [--only PATTERN] [--again CATEGORY] [--page]

The functions of PyTorch in `torch_gradients.py` and in the files `degenerate_*.py` run in f64. Each function has inputs
of its own, such as kinks, ties, ends of domains and singular points. It also runs on zeros, on ones, on its inputs
rounded to integers, and on empty inputs.

RESULTS is a file with a line of JSON for each function. Functions in RESULTS do not run again, except those with an
outcome of CATEGORY. Prints failures and counts. The exit status is 1 if an outcome is wrong. The sweep takes about 25
minutes. With `--page`, only writes docs/torch_degenerate.md from RESULTS. Lines of this page for groups that RESULTS
lacks do not change.
"""

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from counts import summary
from degenerate_accepted import ACCEPTED
from degenerate_functions import ELEMENTWISE, INDICES, NORMS, REDUCTIONS
from degenerate_layers import LAYERS, LOSSES, POOLS
from degenerate_matrices import LINEAR
from torch_gradients import GROUPS, Module
from torch_mathematics import Row, draw
from worker import Worker, answer_requests

import tiduc

TOLERANCE = 1e-7
"""The tolerance of errors relative to the largest finite element."""

KINDS: dict[str, Callable[[Any], Any]] = {
    "as given": lambda x: x,
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "integers": lambda x: x if x.is_complex() else torch.round(x) + 0.0,
    "empty": lambda x: x[:0] if x.dim() else x,
}
"""The kinds of inputs. Each is a function that is applied to the inputs of a test case."""


def _by_name(rows: Sequence[Row]) -> dict[str, Row]:
    named = {row[0]: row for row in rows}
    if len(named) < len(rows):
        raise ValueError(f"two rows have one name: {Counter(row[0] for row in rows).most_common(1)}")
    return named


ROWS: dict[str, dict[str, Row]] = {
    group: _by_name(rows)
    for group, rows in {
        "elementwise functions": ELEMENTWISE,
        "norms and deviations": NORMS,
        "reductions": REDUCTIONS,
        "indices": INDICES,
        "linear algebra": LINEAR,
        "losses": LOSSES,
        "pooling and sampling": POOLS,
        "layers": LAYERS,
        **{
            f"{group} of `torch_gradients.py`": rows
            for group, rows in GROUPS.items()
            if group != "control flow"
        },
    }.items()
}

RIGHT, BETTER, OTHER = "right", "finite", "other"
"""Three of the keys of `CATEGORIES`, which says what they mean. The reasons for `OTHER` are in `ACCEPTED`."""

CATEGORIES = {
    RIGHT: "equal to PyTorch's values and derivatives",
    BETTER: "a derivative is finite where PyTorch's is NaN, and equal elsewhere",
    OTHER: "a derivative differs for a reason given below",
    "refused": "tiduc refuses the program",
    "wrong": "a value or a derivative differs",
}
"""The categories of outcomes, and their descriptions on the page."""

ABOUT = """# Functions of PyTorch at degenerate inputs

Derivatives are most often wrong where inputs are special: at zeros, ties, kinks and poles, with indices at both ends,
with every label ignored, without elements. `PYTHONPATH=test/py python test/sweep/torch_degenerate.py RESULTS` runs
functions of `torch`, `torch.nn.functional`, `torch.linalg` and `torch.special` there, and compares values, cotangents
and second derivatives with those of `torch.autograd`, in f64. `--page` writes this page.

"""

PAGE = Path(__file__).parents[2] / "docs" / "torch_degenerate.md"


# ---- functions, many in one program -------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A function of inputs with fixed shapes. `wanted` has PyTorch's results for kinds of inputs of these shapes."""

    name: str
    function: Any
    inputs: Sequence[Any]
    wanted: dict[str, "Reference"]
    found: dict[str, tuple[str, str]]
    """Maps kinds of inputs to the category and the reason. `settle` fills it."""


def outcomes(rows: Sequence[Row]) -> list[dict[str, tuple[str, str]]]:
    """Runs test cases. For each row, returns the category and the reason for each kind of inputs."""
    found: list[dict[str, tuple[str, str]]] = [{} for _ in rows]
    together: dict[tuple[int, bool], list[Case]] = {}
    for row, own in zip(rows, found, strict=True):
        for order, case in cases(row, own):
            # tiduc often refuses functions of empty arrays, and after each refusal, more programs must be compiled
            together.setdefault((order, "empty" in case.wanted), []).append(case)
    for (order, _), some in together.items():
        settle(some, order)
    return found


def cases(row: Row, found: dict[str, tuple[str, str]]) -> list[tuple[int, Case]]:
    """Returns a case for all kinds of inputs of equal shapes that PyTorch accepts, with PyTorch's highest order."""
    name, function, given = row
    grouped: dict[Any, Case] = {}
    for kind, change in KINDS.items():
        inputs = [change(x) for x in given]
        if kind == "empty" and (all(x.numel() for x in inputs) or "pdist" in name):
            continue  # PyTorch's derivative of an empty pdist divides an integer by zero, which ends the process
        try:
            wanted = Reference(function, inputs)
        except Exception:  # noqa: BLE001  PyTorch has no value here
            continue
        key = len(wanted.arguments) // 2, *(x.shape for x in inputs)
        grouped.setdefault(key, Case(name, function, inputs, {}, found)).wanted[kind] = wanted
    return [(key[0], case) for key, case in grouped.items()]


def settle(some: Sequence[Case], order: int) -> None:
    """Runs one program for all cases, or one for each half if it fails. Stores the outcomes in `Case.found`."""
    try:
        program = compiled(some, order)
        results = {}
        for kind in KINDS:
            if any(kind in case.wanted for case in some):
                now = [case.wanted.get(kind) or next(iter(case.wanted.values())) for case in some]
                groups = zip(*(wanted.arguments for wanted in now), strict=True)
                got = iter(program(*(x for group in groups for own in group for x in own)))
                results[kind] = [
                    [list(islice(got, len(own[i]))) for own in (w.results for w in now)]
                    for i in range(len(now[0].results))
                ]
    except Exception as error:  # noqa: BLE001  an exception other than a TiducError is a bug of tiduc
        if len(some) > 1:
            settle(some[: len(some) // 2], order)
            settle(some[len(some) // 2 :], order)
            return
        category = "refused" if isinstance(error, tiduc.TiducError) else "wrong"
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        some[0].found.update(dict.fromkeys(some[0].wanted, (category, why)))
        return
    for kind, groups in results.items():
        for case, *got in zip(some, *groups, strict=True):
            if kind in case.wanted:
                case.found[kind] = judged(case.name, kind, case.wanted[kind].results, got)


def compiled(some: Sequence[Case], order: int) -> Any:
    """Returns the compiled program that computes all cases and their derivatives up to an order."""
    counts = [len(case.inputs) for case in some]

    def together(*tensors: Any) -> list[Any]:
        rest = iter(tensors)
        return [case.function(*islice(rest, count)) for case, count in zip(some, counts, strict=True)]

    program = tiduc.from_torch(Module(together), tuple(x.clone() for case in some for x in case.inputs))
    for _ in range(order):
        program = program.vjp()
    return program.compile(engine="xla")


class Reference:
    """PyTorch's values of a function and, if PyTorch has them, VJPs and VJPs of VJPs, for random cotangents."""

    def __init__(self, function: Any, inputs: Sequence[Any]) -> None:
        xs = [x.clone().requires_grad_() for x in inputs]
        outputs = torch.utils._pytree.tree_leaves(function(*xs))
        self.arguments, self.results = [arrays(xs)], [arrays(outputs)]
        floats = [y for y in outputs if y.is_floating_point() or y.is_complex()]
        seeds = [seed(y, 0).requires_grad_() for y in floats]
        pairs = [(y, s) for y, s in zip(floats, seeds, strict=True) if y.requires_grad]
        if not pairs:
            return
        cotangents = pulled(pairs, xs, create_graph=True)
        self.arguments.append(arrays(seeds))
        self.results.append(arrays(cotangents))
        of_floats, of_cotangents = ([seed(y, 1) for y in some] for some in (floats, cotangents))
        given = zip((*floats, *cotangents), (*of_floats, *of_cotangents), strict=True)
        try:
            second = pulled([(y, s) for y, s in given if y.requires_grad], [*xs, *seeds])
        except RuntimeError:
            return  # PyTorch lacks the second derivative
        self.arguments += [arrays(of_floats), arrays(of_cotangents)]
        self.results += [arrays(second[: len(xs)]), arrays(second[len(xs) :])]


def pulled(pairs: Sequence[tuple[Any, Any]], inputs: Sequence[Any], create_graph: bool = False) -> Any:
    """Returns the cotangents of the inputs, by PyTorch. `pairs` are pairs of an output and its cotangent."""
    outputs, given = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, inputs, given, create_graph=create_graph, materialize_grads=True)


def seed(y: Any, order: int) -> Any:
    """Returns a random cotangent of y. It differs between orders."""
    part = draw(*y.shape, order + 2)[..., order]
    return (torch.complex(part, draw(*y.shape, order + 3)[..., order]) if y.is_complex() else part).to(
        y.dtype
    )


def arrays(tensors: Sequence[Any]) -> list[Any]:
    return [y.detach().resolve_conj().resolve_neg().numpy() for y in tensors]


def judged(name: str, kind: str, wanted: Sequence[Any], got: Sequence[Any]) -> tuple[str, str]:
    """Compares tiduc's results `got` with PyTorch's results `wanted`. Returns the category and the reason.

    Where PyTorch's value is NaN, the input is outside the function's domain, and derivatives may differ.
    """
    category, why = RIGHT, ""
    outside = np.isnan(wanted[0][0]) if wanted[0] else np.zeros([])
    for group, (expected, actual) in enumerate(zip(wanted, got, strict=True)):
        for i, (y, x) in enumerate(zip(expected, map(np.asarray, actual), strict=True)):
            is_free = (
                np.isnan(y) | (outside.shape == y.shape and outside) if group else np.zeros(y.shape, bool)
            )
            if group > 1 and x.shape == y.shape:
                is_free |= np.isnan(x) & np.isinf(y)
            verdict = difference(x, y, is_free)
            place = f"{PARTS[group]}, array {i}: {verdict}"
            if verdict == BETTER:
                category, why = (BETTER, PARTS[group]) if category == RIGHT else (category, why)
            elif verdict and not is_accepted(name, kind, min(group, 2), x, y, is_free):
                return "wrong", place
            elif verdict:
                category, why = OTHER, place
    return category, why


def is_accepted(name: str, kind: str, order: int, x: Any, y: Any, is_free: Any) -> bool:
    """Returns whether `ACCEPTED` has a reason for a difference between x and y."""
    known = [a for a in ACCEPTED.values() if re.fullmatch(a.pattern, name) and kind in a.kinds]
    return any(
        order >= a.order and (not a.is_nan or difference(x, y, is_free | ~np.isfinite(x)) in ("", BETTER))
        for a in known
    )


PARTS = ("value", "cotangent", "second derivative", "second derivative toward a cotangent")


def difference(x: Any, y: Any, is_free: Any) -> str:
    """Names elements of x that differ from y. Returns "" if none does, `BETTER` if only elements in `is_free` do."""
    if x.shape != y.shape:
        return f"shape {x.shape}, expected {y.shape}"
    finite = np.isfinite(y)
    if y.dtype == bool:
        x, y = x.astype(int), y.astype(int)
    largest = float(np.max(np.abs(y[finite]), initial=1.0))
    with np.errstate(invalid="ignore"):
        is_near = (np.abs(x - y) <= TOLERANCE * largest) | (x == y) | (np.isnan(x) & np.isnan(y))
    is_wrong = ~(is_near | is_free)
    if np.any(is_wrong):
        first = [tuple(map(int, place)) for place in np.argwhere(is_wrong)[:4]]
        return ", ".join(f"{at}: {x[at]:.6g} for {y[at]:.6g}" for at in first)
    return BETTER if np.any(is_free & np.isfinite(x) & ~is_near) else ""


# ---- all functions ------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument(
        "--only",
        default="",
        help='only functions whose group and name, as in "losses: functional.mse_loss", this expression matches',
    )
    parser.add_argument("--again", action="append", default=[], help="rerun functions of this category")
    parser.add_argument("--together", type=int, default=16, help="number of functions in one program")
    parser.add_argument("--page", action="store_true", help="write docs/torch_degenerate.md from the results")
    given = parser.parse_args()
    known = read(given.results)
    if given.page:
        PAGE.write_text(page(known, PAGE.read_text()))
        return 0
    wanted = [
        (group, name)
        for group, rows in ROWS.items()
        for name in rows
        if re.search(given.only, f"{group}: {name}") and is_open(known.get((group, name), {}), given.again)
    ]
    worker = Worker([sys.executable, __file__, "--worker"])
    for start in range(0, len(wanted), given.together):
        some = wanted[start : start + given.together]
        answer = worker.asked(some, 600)
        answers = (
            [worker.asked([each], 300) for each in some] if isinstance(answer, str) else [[a] for a in answer]
        )
        for (group, name), each in zip(some, answers, strict=True):
            (own,) = [{"as given": ("wrong", each)}] if isinstance(each, str) else each
            known[group, name] = own
            with given.results.open("a") as file:
                print(json.dumps({"group": group, "name": name, "outcomes": own}), file=file)
            report(group, name, own)
    worker.close()
    counts = Counter(category for answer in known.values() for category, _ in answer.values())
    print(summary(counts))
    return int(bool(counts["wrong"]))


def page(known: dict[tuple[str, str], dict[str, tuple[str, str]]], before: str) -> str:
    """Returns the page: counts, and refused or wrong functions. Groups without results keep their lines of `before`."""
    lines = [
        "| functions | functions that ran | cases | " + " | ".join(CATEGORIES) + " |",
        "|" + "---|" * (3 + len(CATEGORIES)),
    ]
    named: dict[str, list[str]] = {"wrong": [], "refused": []}
    for group, rows in ROWS.items():
        found = {name: known[group, name] for name in rows if (group, name) in known}
        counts = Counter(category for each in found.values() for category, _ in each.values())
        numbers = " | ".join(str(counts[category]) for category in CATEGORIES)
        own = f"| {group} | {len(found)} of {len(rows)} | {counts.total()} | {numbers} |"
        lines.append(own if found else kept(before, f"| {group} |") or own)
        for category, some in named.items():
            names = [f"`{name}`" for name, each in found.items() if category in dict(each.values())]
            rest = before.partition(TITLES[category])[2].partition("\n## ")[0]
            line = f"- {group}: {', '.join(names)}." if names else kept("" if found else rest, f"- {group}: ")
            some += [line] if line else []
    meaning = "\n".join(f"- {category}: {text}." for category, text in CATEGORIES.items())
    orders = ("value", "first derivative", "second derivative")
    reasons = "\n".join(f"- `{name}`, {orders[a.order]}: {a.reason}." for name, a in ACCEPTED.items())
    lists = "".join(
        f"\n{TITLES[category]}\n\n" + ("\n".join(some) or "none.") + "\n" for category, some in named.items()
    )
    table = "\n".join(lines)
    return f"{ABOUT}{meaning}\n\n{table}\n\n## Derivatives that differ\n\n{reasons}\n{lists}"


TITLES = {"wrong": "## Wrong", "refused": "## Refused"}


def kept(text: str, start: str) -> str:
    """Returns the first line of a text that begins with `start`. Returns "" if there is none."""
    return next((line for line in text.splitlines() if line.startswith(start)), "")


def is_open(found: dict[str, tuple[str, str]], again: Sequence[str]) -> bool:
    return not found or any(category in again for category, _ in found.values())


def report(group: str, name: str, found: dict[str, tuple[str, str]]) -> None:
    """Prints the wrong and refused outcomes of a function. Kinds of inputs with equal reasons share a line."""
    reported: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for kind, (category, why) in found.items():
        if category in ("wrong", "refused"):
            reported.setdefault((category, why.partition(",")[0]), []).append((kind, why))
    for (category, _), some in reported.items():
        print(
            f"{category:8} {group}: {name} ({', '.join(kind for kind, _ in some)}): {some[0][1]}", flush=True
        )


def read(results: Path) -> dict[tuple[str, str], dict[str, tuple[str, str]]]:
    """Maps each pair of a group and a function's name to its last outcomes in a file."""
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {
        (each["group"], each["name"]): each["outcomes"]
        for each in lines
        if each["name"] in ROWS.get(each["group"], {})
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # PyTorch's warnings about functions that it will remove
    if sys.argv[1:] == ["--worker"]:
        answer_requests(lambda request: outcomes([ROWS[group][name] for group, name in request]))
    else:
        sys.exit(main())
