"""Compiles random products, convolutions, sums and windows for a target, and compares the results with XLA's in f64.

    PYTHONPATH=test/py python test/sweep/random_products.py [--target NAME] [--first N] [--seconds S]

For each seed, `OPS` ops in f16, bf16, f32, f64 or i8 are drawn and compiled as one program. Their sizes are equal or
close to multiples of the sizes of tiles and vectors. Each element of a result is a sum of terms. Let s be the sum of
the terms' absolute values. The error of the element may be a few units in the last place of s, plus the least positive
number of the element type.
"""

import argparse
import math
import os
import re
import sys
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from counts import summary
from harness.xla import by_xla
from memory_checks import add_option, memory_fault, pass_on
from numpy.typing import NDArray
from xla_flags import XLA_FLAGS

import tiduc

OPS = 6
"""The number of ops in a program."""
SIZES = 1, 2, 3, 7, 16, 31, 64, 65, 96, 100, 128, 197, 256, 300, 513, 768, 1024
MOST_PRODUCTS = 2e8
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8}
TOLERANCES = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 2e-6, "f64": 1e-13, "i8": 0}
Array = NDArray[Any]


@dataclass(frozen=True)
class Op:
    """A random op.

    `arrays` are the shapes of its operands, `result` is the shape of its result, `element` and `wide` are the element
    types of operands and result, and `text` is its StableHLO text.
    """

    arrays: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    element: str
    wide: str
    text: str

    def written(self, name: str, f64: bool) -> str:
        """Returns the StableHLO text of the op, with `name` appended to the names of values.

        With `f64`, all types are f64.
        """
        element, wide = ("f64", "f64") if f64 else (self.element, self.wide)
        types = {f"X{i}": tensor(sizes, element) for i, sizes in enumerate(self.arrays)}
        types |= {"Y": tensor(self.result, wide), "E": f"tensor<{wide}>"}
        text = re.sub(r"\b(X\d|Y|E)\b", lambda word: types[word[0]], self.text)
        return re.sub(r"%([a-z]\d?)\b", rf"%\g<1>_{name}", text)

    def arguments(self, rng: np.random.Generator) -> list[Array]:
        """Returns random operands. Integers have any value of their type."""
        dtype = DTYPES[self.element]
        if self.element == "i8":
            return [rng.integers(-128, 128, sizes).astype(dtype) for sizes in self.arrays]
        return [rng.normal(size=sizes).astype(dtype) for sizes in self.arrays]


def tensor(sizes: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"


def product(draw: Random, element: str, wide: str) -> Op:
    batch = draw.choice([(), (), (3,), (12,)])
    rows, columns, terms = (draw.choice(SIZES) for _ in range(3))
    while math.prod(batch) * rows * columns * terms > MOST_PRODUCTS:
        terms = max(1, terms // 2)
    swapped = draw.random() < 0.5, draw.random() < 0.5
    x = (*batch, *((terms, rows) if swapped[0] else (rows, terms)))
    y = (*batch, *((columns, terms) if swapped[1] else (terms, columns)))
    summed = [len(batch) + (0 if swapped[0] else 1)], [len(batch) + (1 if swapped[1] else 0)]
    batching = "batching_dims = [0] x [0], " if batch else ""
    numbers = f"{batching}contracting_dims = {summed[0]} x {summed[1]}"
    text = f"%y = stablehlo.dot_general %x0, %x1, {numbers} : (X0, X1) -> Y"
    return Op((x, y), (*batch, rows, columns), element, wide, text)


def convolution(draw: Random, element: str, wide: str) -> Op:
    batch, features, outputs = (
        draw.choice([1, 2, 4]),
        draw.choice([1, 3, 8, 32, 64]),
        draw.choice([1, 8, 16, 64, 96]),
    )
    groups = draw.choice([1, 1, 1, features])
    outputs *= groups
    window = draw.choice([1, 2, 3, 5, 7]), draw.choice([1, 3])
    stride, pad = draw.choice([1, 1, 2]), draw.choice([0, 1, 2])
    image = draw.choice([7, 8, 14, 28, 31, 56]), draw.choice([7, 8, 14, 28])
    places = tuple((n + 2 * pad - k) // stride + 1 for n, k in zip(image, window, strict=True))
    text = f"""%y = stablehlo.convolution(%x0, %x1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {{stride = [{stride}, {stride}], pad = [[{pad}, {pad}], [{pad}, {pad}]]}}
      {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : (X0, X1) -> Y"""
    arrays = (batch, features, *image), (outputs, features // groups, *window)
    return Op(arrays, (batch, outputs, *places), element, wide, text)


def total(draw: Random, element: str, _: str) -> Op:
    sizes, along = (draw.choice(SIZES), draw.choice(SIZES) * draw.choice([1, 4])), draw.choice([0, 1])
    text = f"""%z = stablehlo.constant dense<0> : E
    %y = stablehlo.reduce(%x0 init: %z) applies stablehlo.add across dimensions = [{along}] : (X0, E) -> Y"""
    if element != "i8":
        text = text.replace("dense<0>", "dense<0.0>")
    return Op((sizes,), (sizes[1 - along],), element, element, text)


def windows(draw: Random, element: str, _: str) -> Op:
    size, stride = draw.choice([2, 3, 4]), draw.choice([1, 2])
    sizes = max(size, draw.choice(SIZES)), draw.choice([4, 16, 33, 64])
    text = f"""%z = stablehlo.constant dense<0.0> : E
    %y = "stablehlo.reduce_window"(%x0, %z) <{{window_dimensions = array<i64: {size}, {size}>,
      window_strides = array<i64: {stride}, {stride}>}}> ({{
    ^bb0(%a: E, %b: E):
      %c = stablehlo.add %a, %b : E
      stablehlo.return %c : E
    }}) : (X0, E) -> Y"""
    return Op((sizes,), tuple((n - size) // stride + 1 for n in sizes), element, element, text)


def drawn(draw: Random) -> Op:
    """Draws a random op."""
    kind = draw.choice([product, product, convolution, convolution, total, windows])
    element = draw.choice(
        ["f32", "f32", "f16", "bf16", "f64", *(["i8"] if kind in (product, convolution) else [])]
    )
    to_f32 = element in ("f16", "bf16") and draw.random() < 0.4
    return kind(draw, element, "i32" if element == "i8" else "f32" if to_f32 else element)


def program(ops: list[Op], f64: bool = False) -> str:
    """Returns the text of a function that computes all ops. It takes their operands and returns their results."""
    arrays = [
        f"%x{j}_{i}: {tensor(sizes, 'f64' if f64 else op.element)}"
        for i, op in enumerate(ops)
        for j, sizes in enumerate(op.arrays)
    ]
    types = ", ".join(tensor(op.result, "f64" if f64 else op.wide) for op in ops)
    lines = [op.written(str(i), f64) for i, op in enumerate(ops)]
    names = ", ".join(f"%y_{i}" for i in range(len(ops)))
    body = "\n".join(lines).replace("dense<0>", "dense<0.0>" if f64 else "dense<0>")
    return f"func.func @main({', '.join(arrays)}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"


def failures(seed: int, target: str) -> list[str]:
    """Runs the program of a seed. Returns a line for each wrong result, or one line for an error."""
    draw = Random(seed)
    ops = [drawn(draw) for _ in range(OPS)]
    rng = np.random.default_rng(seed)
    arguments = [x for op in ops for x in op.arguments(rng)]
    try:
        compiled = tiduc.load(program(ops))
        results = compiled.compile(target)(*arguments)
        if fault := memory_fault(compiled, target, arguments):
            return [f"seed {seed}: {fault}"]
    except tiduc.TiducError as error:
        return [f"seed {seed}: {str(error).splitlines()[0]}"]
    exact = [x.astype(np.float64) for x in arguments]
    wanted, sizes = (by_xla(program(ops, f64=True), values) for values in (exact, [*map(np.abs, exact)]))
    wrong = []
    for op, found, value, size in zip(ops, results, wanted, sizes, strict=True):
        error = np.abs(found.astype(np.float64) - value)
        is_integer = np.issubdtype(found.dtype, np.integer)
        least = 0.0 if is_integer else float(ml_dtypes.finfo(found.dtype).smallest_subnormal)
        if not np.all(error <= TOLERANCES[op.element] * size + least):
            worst = np.max(error / np.maximum(size, 1e-30))
            wrong.append(f"seed {seed}: wrong by {worst:.1e}: {op}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--first", type=int, default=0)
    add_option(parser)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    pass_on(options)
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    seed, failed, end = options.first, 0, time.monotonic() + options.seconds
    while time.monotonic() < end:
        lines = failures(seed, options.target)
        print("\n".join(lines), end="\n" if lines else "", flush=True)
        failed += bool(lines)
        seed += 1
    print(summary({"ok": seed - options.first - failed, "wrong": failed}))
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main()
