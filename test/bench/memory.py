"""Compares estimates of memory and time with measurements on IREE: python test/bench/memory.py [--help]

The programs compute values and gradients of the functions of suite.py and of some networks of networks.py, in f32. They
are rematerialized for several memory budgets ("none" means no budget). The columns:

    model, IREE    the estimated memory peak, and the peak that IREE allocates, without arguments and results, in KiB
    time           the estimated and the measured processor time of a call, each divided by the time without a budget

With --xla, prints the memory of the gradients of all networks of networks.py without a budget, on IREE and on XLA,
including arguments and results. With --cheap, prints the effect of recomputing cheap values
(`passes/rematerialize/cheap.py`): the time and memory of each program without a budget, divided by the time and memory
without this recomputation. Programs without cheap values are left out. The calls alternate, and run in one thread.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import numpy as np
from convolutions import least
from flags import module_of
from suite import allocated, by_xla, cases, machine

import tiduc
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.resources import inlined
from tiduc.passes.rematerialize import cheap
from tiduc.passes.rematerialize.rematerialize import MemoryEstimate, estimated
from tiduc.pipeline import loops_of, lowering, run_stages

NETWORKS = ("resnet18", "unet", "vit layer", "gpt2 layer", "gpt", "lstm network")
BUDGETS = ("none", "0.5x", "min")


class Row(NamedTuple):
    """The figures of a program. `throughout` is the size in KiB of the arrays that are live during the whole call.

    The other fields map budgets to figures: `model` and `allocated` to the estimated and the allocated peak of other
    arrays in KiB, `estimated` and `measured` to the estimated and the measured time.
    """

    throughout: float
    model: dict[str, float]
    allocated: dict[str, float]
    estimated: dict[str, float]
    measured: dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*cases(), *(NETWORKS if find_spec("torch") is not None else ())]
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of functions and networks")
    parser.add_argument(
        "--budgets", nargs="+", default=BUDGETS, help="the others are compared with the first budget"
    )
    parser.add_argument("--cheap", action="store_true", help="measure the cost of recomputing cheap values")
    parser.add_argument("--xla", action="store_true", help="compare the memory of networks with XLA's")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of calls for each program")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    print(machine())
    if chosen.xla:
        lines = of_xla(chosen.only)
    else:
        chosen.only = chosen.only or known
        lines = of_cheap(chosen.only, chosen.seconds) if chosen.cheap else of_budgets(chosen)
    for line in lines:
        print(line, flush=True)


def of_budgets(chosen: Any) -> Iterator[str]:
    heads = [f"{what}, {budget}" for budget in chosen.budgets for what in ("model", "IREE")]
    heads += [f"time, {budget}" for budget in chosen.budgets[1:]]
    yield from [f"| KiB | throughout | {' | '.join(heads)} |", "|---|" + "---:|" * (1 + len(heads))]
    for name in chosen.only:
        row = measured(name, chosen.budgets, chosen.seconds)
        cells = [f"{row.throughout:.0f}"]
        for budget in chosen.budgets:
            cells += [cell(of.get(budget), 0) for of in (row.model, row.allocated)]
        for budget in chosen.budgets[1:]:
            cells.append(f"{cell(row.estimated.get(budget), 2)}, {cell(row.measured.get(budget), 2)}")
        yield f"| {name} | {' | '.join(cells)} |"


def of_cheap(names: Sequence[str], seconds: float) -> Iterator[str]:
    yield from ["| with / without cheap recomputation | time | memory |", "|---|---:|---:|"]
    for name in names:
        program, arguments = program_of(name)
        text, without = program.text, program.rematerialize("")
        with patch.object(cheap, "_GAIN", 0.0):
            if without.text == text:
                continue
            other, other_bytes = compiled(without, arguments)
        call, bytes_ = compiled(program, arguments)
        times = least({"with": call, "without": other}, seconds, time.process_time)
        ratios = times["with"] / times["without"], bytes_ / other_bytes
        yield f"| {name} | {ratios[0]:.3f} | {ratios[1]:.3f} |"


def of_xla(names: Sequence[str] | None) -> Iterator[str]:
    """Yields the lines of a table with the memory of gradients on IREE and XLA, and the geometric mean of ratios."""
    import networks

    yield from ["| MiB | tiduc compile | XLA | ratio |", "|---|---:|---:|---:|"]
    logarithms = []
    for name in names or networks.NETWORKS:
        module, image = networks.made(name)
        gradient = gradient_of(module, image, value=False)
        arguments = [np.asarray(x) for x in gradient.arguments(image.numpy())]
        ours = compiled(gradient, arguments)[1] / 1024
        with jax.enable_x64(True):
            theirs = by_xla(inlined(gradient.text), arguments).memory
        logarithms.append(np.log(ours / theirs))
        yield f"| {name} | {ours / 1024:.1f} | {theirs / 1024:.1f} | {ours / theirs:.2f} |"
    yield f"\nGeometric mean: {np.exp(np.mean(logarithms)):.2f}"


def cell(x: float | None, digits: int) -> str:
    """Returns the text of a figure. Returns a dash if `x` is None, because the budget is infeasible."""
    return "-" if x is None else f"{x:.{digits}f}"


# ---- programs ------------------------------------------------------------------------------------------------------


def program_of(name: str) -> tuple[tiduc.Program, list[Any]]:
    """Returns the program that computes the value and the gradient of a function or network, and its arguments."""
    if name not in NETWORKS:
        case = cases()[name]
        loss = jax.jit(case.function, keep_unused=True).lower(*case.arguments).as_text()
        return tiduc.load(loss).grad(list(case.wrt), value=True), case.arguments
    module, image = network(name)
    gradient = gradient_of(module, image, value=True)
    return gradient, [np.asarray(x) for x in gradient.arguments(image.numpy())]


def gradient_of(module: Any, image: Any, value: bool) -> tiduc.Program:
    """Returns a program that computes the gradient of a loss with respect to all parameters.

    With `value`, the program also returns the loss.
    """
    names = [name for name, _ in module.named_parameters()]
    return tiduc.from_torch(module, (image,), lift_constants=True).grad(names, value=value)


def network(name: str) -> tuple[Any, Any]:
    """Returns the loss of a network in `NETWORKS`, and the network's input."""
    import networks
    import torch
    from attention import Text, ViT

    torch.manual_seed(0)
    if name == "vit layer":
        return networks.Loss(ViT(depth=1)), torch.randn(1, 3, 224, 224)
    if name == "gpt2 layer":
        return networks.Loss(Text(1000, True, depth=1)), torch.randint(1000, (1, 128))
    if name == "gpt":
        return networks.Loss(Text(65, True, depth=6, width=384)), torch.randint(65, (4, 256))
    return networks.made(name.removesuffix(" network"))


# ---- measures ------------------------------------------------------------------------------------------------------


def measured(name: str, budgets: Sequence[str], seconds: float) -> Row:
    """Returns the figures of a program for all feasible budgets."""
    program, arguments = program_of(name)
    row = Row(0.0, {}, {}, {}, {})
    calls: dict[str, Callable[[], Any]] = {}
    for budget in budgets:
        within = program if budget == "none" else program.rematerialize(budget)
        try:
            estimate = estimate_of(within)
        except RequestError:
            continue
        calls[budget], bytes_ = compiled(within, arguments)
        row = row._replace(throughout=estimate.throughout / 1024)
        row.model[budget] = (estimate.peak - estimate.throughout) / 1024
        row.allocated[budget] = bytes_ / 1024 - row.throughout
        row.estimated[budget] = estimate.time
    times = least(calls, seconds, time.process_time)
    first = times[next(iter(times))]
    row.measured.update((budget, t / first) for budget, t in times.items())
    return row


def estimate_of(program: tiduc.Program) -> MemoryEstimate:
    """Returns the estimated memory and time of a program that has been rematerialized for its budget."""
    structured = run_stages(program, lowering("structure")[1:], program.merged)
    return estimated(program.view, structured, program.memory, loops_of(program))


def compiled(program: tiduc.Program, arguments: Sequence[Any]) -> tuple[Callable[[], Any], float]:
    """Returns a function that runs the program in one thread, and the number of bytes that IREE allocates for a run."""
    vmfb = module_of(program, cached=True)
    executable = tiduc.Executable(vmfb)
    executable(*arguments)
    return lambda: executable(*arguments), 1024 * allocated(vmfb, arguments)


if __name__ == "__main__":
    main()
