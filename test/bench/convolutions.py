"""Times convolutions and their gradients by IREE, PyTorch and XLA: python test/bench/convolutions.py [--help]

The programs are convolutions (`forward`) and their gradients with respect to the image and to the kernel, for shapes of
ResNet, MobileNet, EfficientNet, ConvNeXt and UNet, in f32. `tiduc compile` and XLA compile the programs. PyTorch runs
them op by op. The figures are the least time of a call in microseconds, tiduc's time divided by the other times, and
the peak memory of a call in KiB, including arguments and results. The calls alternate. With --threads 1, processor time
is measured, which other load on the machine hardly changes. With --write, the table is written to docs/benchmarks.md.

With --drawn COUNT, the shapes are random instead, with sizes that are log-uniform. A second table then has the mean and
the 95th percentile of the ratios for each kind of convolution.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from random import Random
from typing import Any, NamedTuple

if "--threads" in sys.argv and sys.argv[sys.argv.index("--threads") + 1 :][:1] == ["1"]:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import numpy as np
import torch
import torch_functions
from flags import module_of
from jax import lax
from suite import PAGE, agree, allocated, by_xla, machine

import tiduc

MARKS = "<!-- convolutions.py -->", "<!-- end of convolutions.py -->"
DRAWN = "<!-- convolutions.py --drawn -->", "<!-- end of convolutions.py --drawn -->"
TIDUC, TORCH, XLA = "tiduc compile", "PyTorch", "XLA"
WAYS = (TIDUC, TORCH, XLA)
DIRECTIONS = ("forward", "image", "kernel")


class Shape(NamedTuple):
    """The sizes of a convolution of square images with square windows.

    `inputs` and `outputs` are numbers of channels. With `last`, channels are the last dimension.
    """

    batch: int
    size: int
    inputs: int
    outputs: int
    window: int
    stride: int = 1
    groups: int = 1
    dilation: int = 1
    transposed: bool = False
    last: bool = False

    @property
    def kind(self) -> str:
        """The kind of the convolution, for the table of drawn shapes."""
        if self.groups > 1:
            return "depthwise" if self.groups == self.inputs == self.outputs else "grouped"
        return "transposed" if self.transposed else "pointwise" if self.window == 1 else "dense"

    @property
    def work(self) -> float:
        """The approximate number of multiplications."""
        side = self.size if self.transposed else self.size // self.stride
        return self.batch * side**2 * self.inputs * self.outputs // self.groups * self.window**2

    @property
    def padding(self) -> int:
        """The padding on each side.

        For an odd window, it preserves the size of the image at stride 1. For an even window, and for a transposed
        convolution, it is 0.
        """
        return self.dilation * (self.window // 2) if self.window % 2 and not self.transposed else 0


SHAPES = {
    "resnet, first": Shape(1, 224, 3, 64, 7, 2),
    "resnet, 56": Shape(1, 56, 64, 64, 3),
    "resnet, 28": Shape(1, 28, 128, 128, 3),
    "resnet, 14": Shape(1, 14, 256, 256, 3),
    "resnet, 7": Shape(1, 7, 512, 512, 3),
    "resnet, strided": Shape(1, 56, 64, 128, 3, 2),
    "resnet, shortcut": Shape(1, 28, 128, 256, 1, 2),
    "resnet, bottleneck": Shape(1, 56, 64, 256, 1),
    "resnet, 16 by 16, batch of 4": Shape(4, 16, 64, 64, 3),
    "resnet, channels last": Shape(1, 28, 128, 128, 3, last=True),
    "resnet, strided, channels last": Shape(1, 56, 64, 128, 3, 2, last=True),
    "mobilenet, first": Shape(1, 224, 3, 16, 3, 2),
    "mobilenet, expansion": Shape(1, 28, 24, 88, 1),
    "mobilenet, depthwise": Shape(1, 28, 88, 88, 3, groups=88),
    "mobilenet, depthwise, strided": Shape(1, 28, 96, 96, 5, 2, groups=96),
    "efficientnet, depthwise": Shape(1, 28, 240, 240, 5, groups=240),
    "efficientnet, depthwise, channels last": Shape(1, 28, 240, 240, 5, groups=240, last=True),
    "convnext, first": Shape(1, 112, 3, 96, 4, 4),
    "convnext, depthwise": Shape(1, 28, 96, 96, 7, groups=96),
    "unet, 64": Shape(1, 64, 32, 32, 3),
    "unet, transposed": Shape(1, 32, 64, 32, 2, 2, transposed=True),
    "dilated": Shape(1, 28, 64, 64, 3, dilation=2),
    "grouped": Shape(1, 28, 128, 128, 3, groups=32),
}
"""Maps names to shapes of convolutions."""


WORK = 2**18, 2**27
"""The least and the largest number of multiplications of a drawn convolution."""


def drawn(random: Random) -> Shape:
    """Draws a convolution. The batch, the size of the image, and the numbers of channels are log-uniform."""

    def size(least: int, most: int) -> int:
        return round(math.exp(random.uniform(math.log(least), math.log(most))))

    kind = random.choice(("dense", "dense", "pointwise", "grouped", "depthwise", "transposed"))
    window = 1 if kind == "pointwise" else random.choice((2, 3, 3, 3, 4, 5, 7))
    stride = random.choice((1, 1, 2, 3)) if window > 1 else random.choice((1, 1, 1, 2))
    inputs, outputs, groups = size(1, 512), size(1, 512), 1
    if kind == "depthwise":
        inputs = outputs = groups = max(2, inputs)
    if kind == "grouped":
        groups = size(2, 32)
        inputs, outputs = (max(2, n // groups) * groups for n in (inputs, outputs))
    transposed = kind == "transposed"
    dilation = random.choice((1, 1, 1, 2)) if stride == 1 < window and not transposed else 1
    image = size(max(6, dilation * (window - 1) + 1), 112)
    last = not transposed and random.random() < 0.25
    shape = Shape(size(1, 16), image, inputs, outputs, window, stride, groups, dilation, transposed, last)
    return shape if WORK[0] <= shape.work <= WORK[1] else drawn(random)


def described(s: Shape) -> str:
    """Returns the name of a drawn convolution in the table."""
    parts = [f"{s.kind}, {s.batch} of {s.inputs} x {s.size}², {s.outputs} by {s.window}²"]
    parts += [f"stride {s.stride}"] * (s.stride > 1) + [f"dilation {s.dilation}"] * (s.dilation > 1)
    parts += [f"{s.groups} groups"] * (s.kind == "grouped") + ["channels last"] * s.last
    return ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(SHAPES), default=list(SHAPES), metavar="NAME")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="1, or all of the machine")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of calls for each convolution")
    parser.add_argument("--drawn", type=int, metavar="COUNT", help="measure this number of random shapes")
    parser.add_argument("--seed", type=int, default=int(f"{date.today():%Y%m%d}"), help="default: the date")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    chosen = parser.parse_args()
    random = Random(chosen.seed)
    shapes = {name: SHAPES[name] for name in chosen.only}
    if chosen.drawn is not None:
        shapes = {described(s): s for s in (drawn(random) for _ in range(chosen.drawn))}
    jax.config.update("jax_platforms", "cpu")
    torch.set_num_threads(chosen.threads)
    rows = {}
    kinds: dict[str, list[float]] = {}
    for name, s in shapes.items():
        for direction in DIRECTIONS:
            row = measured(
                s, direction, chosen.threads, chosen.seconds, () if chosen.drawn is None else (XLA,)
            )
            rows[f"{name}: {direction}"] = row
            kinds.setdefault(f"{s.kind}, {direction}", []).append(row[TIDUC][0] / row[TORCH][0])
            print(f"{name}: {direction}", *(f"{way} {us:.0f}" for way, (us, _) in row.items()), flush=True)
    lines = table(rows, chosen.threads) if chosen.drawn is None else summary(kinds, rows, chosen)
    report = "\n".join(lines)
    print(report)
    if chosen.write:
        begin, end = MARKS if chosen.drawn is None else DRAWN
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(f"{before}{begin}\n{report}\n{end}{rest.partition(end)[2]}")


def of_jax(s: Shape) -> Callable[[Any, Any], Any]:
    """Returns the convolution in JAX. The kernel has the layout OIHW as in PyTorch or, with channels last, HWIO."""
    numbers = ("NHWC", "HWIO", "NHWC") if s.last else ("NCHW", "OIHW", "NCHW")
    ends = [(s.padding, s.padding)] * 2
    if s.transposed:
        return lambda x, w: lax.conv_transpose(
            x, w, (s.stride,) * 2, "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        )
    return lambda x, w: lax.conv_general_dilated(
        x,
        w,
        (s.stride,) * 2,
        ends,
        rhs_dilation=(s.dilation,) * 2,
        dimension_numbers=numbers,
        feature_group_count=s.groups,
    )


def arguments(s: Shape) -> list[Any]:
    """Returns a random image and a random kernel, in the layout of the convolution in JAX."""
    draw = np.random.default_rng(0).standard_normal
    image, window = [s.size] * 2, [s.window] * 2
    kernel = [s.inputs, s.outputs] if s.transposed else [s.outputs, s.inputs // s.groups]
    if s.last:
        return [draw([s.batch, *image, s.inputs], np.float32), draw([*window, *reversed(kernel)], np.float32)]
    return [draw([s.batch, s.inputs, *image], np.float32), draw([*kernel, *window], np.float32)]


def of_torch(s: Shape, direction: str, given: Sequence[Any]) -> Callable[[], list[Any]]:
    """Returns a function that computes the convolution or its gradient by PyTorch.

    The result has the layout of JAX's result.
    """
    orders = [(0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)]
    tensors = [torch.from_numpy(np.asarray(x)) for x in given]
    if s.last:  # permute changes the order of dimensions, but not of elements in memory
        tensors = [x.permute(order) for x, order in zip(tensors, orders, strict=False)]
    numbers = [s.stride] * 2, [s.padding] * 2, [s.dilation] * 2, s.transposed, [0, 0], s.groups

    def call() -> list[Any]:
        if direction == "forward":
            y = torch.ops.aten.convolution(*tensors, None, *numbers)
        else:
            x, w, ct = tensors
            wanted = [direction == "image", direction == "kernel", False]
            both = torch.ops.aten.convolution_backward(ct, x, w, None, *numbers, wanted)
            y = both[direction == "kernel"]
        if s.last:
            y = y.permute(*((2, 3, 1, 0) if direction == "kernel" else (0, 2, 3, 1)))
        return [y.numpy()]

    return call


def measured(
    s: Shape, direction: str, threads: int, seconds: float, without: Sequence[str] = ()
) -> dict[str, tuple[float, float]]:
    """Maps each engine, except those in `without`, to the time of a call in microseconds and the memory in KiB."""
    given, function = arguments(s), of_jax(s)
    if direction != "forward":
        y = jax.eval_shape(function, *given)
        given.append(np.random.default_rng(1).standard_normal(y.shape, np.float32))
    text = jax.jit(function if direction == "forward" else lambda x, w, ct: (function(x, w) * ct).sum())
    program = tiduc.load(text.lower(*given).as_text())
    if direction != "forward":
        program = program.grad([DIRECTIONS.index(direction) - 1])
    vmfb = module_of(program, threads)
    executable = tiduc.Executable(vmfb)
    theirs = of_torch(s, direction, given)
    calls: dict[str, Callable[[], Any]] = {TIDUC: lambda: executable(*given), TORCH: theirs}
    memory = {TIDUC: allocated(vmfb, given)}
    memory[TORCH] = (torch_functions.allocated(theirs) + sum(x.nbytes for x in given)) / 1024
    if XLA not in without:
        xla = by_xla(program.text, given)
        calls[XLA], memory[XLA] = xla.call, xla.memory
    results = {way: call() for way, call in calls.items()}
    for way in calls:
        assert agree(results[TIDUC], results[way]), (s, direction, way)
    times = least(calls, seconds, time.process_time if threads == 1 else time.perf_counter)
    return {way: (times[way], memory[way]) for way in calls}


def least(
    calls: Mapping[str, Callable[[], Any]], seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Returns the least time of each call in microseconds. The calls alternate."""
    times = dict.fromkeys(calls, math.inf)
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or rounds < 5:
        rounds += 1
        for way, call in calls.items():
            for _ in range(2):  # the first call may be slow because threads of the previous engine still run
                started = clock()
                call()
                times[way] = min(times[way], clock() - started)
    return {way: 1e6 * t for way, t in times.items()}


def table(rows: Mapping[str, Mapping[str, tuple[float, float]]], threads: int) -> Iterator[str]:
    """Yields the lines of the report in Markdown: a description of the machine, means of ratios, and the table."""
    yield f"\n{machine()}; {threads} threads\n"
    for way in (TORCH, XLA):
        ratios = {name: row[TIDUC][0] / row[way][0] for name, row in rows.items()}
        mean, worst = (
            math.exp(sum(map(math.log, ratios.values())) / len(ratios)),
            max(ratios, key=ratios.__getitem__),
        )
        memory = math.exp(sum(math.log(row[TIDUC][1] / row[way][1]) for row in rows.values()) / len(rows))
        yield (
            f"- {TIDUC} / {way}: geometric mean **{mean:.2f}** of {len(ratios)}, at most {ratios[worst]:.2f} "
            f"({worst}); of memory {memory:.2f}"
        )
    yield f"\n| µs a call | {' | '.join(WAYS)} | / {TORCH} | / {XLA} | KiB: {' | '.join(WAYS)} |"
    yield "|---|" + "---:|" * (2 * len(WAYS) + 2)
    for name, row in rows.items():
        times, sizes = ([row[way][i] for way in WAYS] for i in range(2))
        cells = (
            [f"{t:.0f}" for t in times]
            + [f"{times[0] / t:.2f}" for t in times[1:]]
            + [f"{m:.0f}" for m in sizes]
        )
        yield f"| {name} | {' | '.join(cells)} |"


def summary(kinds: Mapping[str, Sequence[float]], rows: Mapping[str, Any], chosen: Any) -> Iterator[str]:
    """Yields the report on drawn shapes: statistics of tiduc's time divided by PyTorch's, and the slowest rows."""
    yield f"\n{machine()}; {chosen.threads} threads; seed {chosen.seed}\n"
    yield f"| {TIDUC} / {TORCH} | rows | geometric mean | 95th percentile | largest |"
    yield "|---|" + "---:|" * 4
    every = [ratio for ratios in kinds.values() for ratio in ratios]
    for kind, ratios in {**{kind: kinds[kind] for kind in sorted(kinds)}, "all": every}.items():
        mean, tail = math.exp(np.mean(np.log(ratios))), np.percentile(ratios, 95)
        yield f"| {kind} | {len(ratios)} | {mean:.2f} | {tail:.2f} | {max(ratios):.2f} |"
    yield f"\n| slowest rows | µs: {TIDUC} | {TORCH} | ratio |"
    yield "|---|" + "---:|" * 3
    times = {name: (row[TIDUC][0], row[TORCH][0]) for name, row in rows.items()}
    for name in sorted(times, key=lambda name: -times[name][0] / times[name][1])[:8]:
        ours, theirs = times[name]
        yield f"| {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |"


if __name__ == "__main__":
    main()
