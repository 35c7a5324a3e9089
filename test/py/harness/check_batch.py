"""Checks the batching rules. A batched program must return the stacked results of calls of the program.

Every subset of a program's inputs is tested. The inputs in the subset get a batched dimension of size 3. The other
inputs are the same in all calls. An output that does not depend on the subset has no batched dimension.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.check_rule import run
from harness.compare import compare
from tiduc.dialect.mlir.context import stage
from tiduc.loading import load
from tiduc.passes.batch import batch
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort
from tiduc.program import Program

SIZE = 3


@stage
def batched(program: Program, positions: Sequence[int], size: int = SIZE) -> Program:
    """Returns the program with a batched dimension in the inputs at these positions."""
    keys = [program.inputs[i].key for i in positions]
    outputs = [port.value for port in program.outputs]
    graph = batch(program.view, list(dict.fromkeys(outputs)), keys, size, OPSET)
    of = dict(zip(dict.fromkeys(outputs), graph.outputs, strict=True))
    inputs = list(program.inputs)
    for i, (key, x) in zip(positions, graph.inputs.items(), strict=True):
        inputs[i] = InputPort(inputs[i].name, x.type, key)
    results = tuple(OutputPort(port.name, of[port.value].type, of[port.value]) for port in program.outputs)
    return replace(program, inputs=tuple(inputs), outputs=results)


def varied(x: Any, rng: np.random.Generator) -> Any:
    """Stacks `SIZE` variations of x.

    Floats are shifted at random by at most 0.05. Integers and booleans are permuted, and a single boolean is negated in
    every second variation.
    """
    x = np.asarray(x)
    if x.dtype.kind in "fc":
        off = rng.uniform(-0.05, 0.05, (SIZE, *x.shape))
        return (x + off * (1 + 1j if x.dtype.kind == "c" else 1)).astype(x.dtype)
    rows = [x.reshape(-1)[rng.permutation(x.size)].reshape(x.shape) for _ in range(SIZE)]
    if not x.ndim and x.dtype.kind == "b":
        rows = [np.logical_xor(x, i % 2) for i in range(SIZE)]
    return np.stack(rows).astype(x.dtype)


def check_batch(text: str | Program, *arguments: Any, subsets: bool = True, rtol: float = 1e-12) -> None:
    """Compares the batched program with calls of the program for every subset of the inputs.

    If `subsets` is False, the subsets are each single input and all inputs.
    """
    program = text if isinstance(text, Program) else load(text)
    rng = np.random.default_rng(0)
    point = [np.asarray(x) for x in arguments]
    many = [varied(x, rng) for x in point]
    count = len(point)
    sizes = range(1, count + 1) if subsets else sorted({1, count})
    for at in itertools.chain.from_iterable(itertools.combinations(range(count), n) for n in sizes):
        of_batch = batched(program, at)
        actual = run(of_batch, [many[i] if i in at else x for i, x in enumerate(point)])
        rows = [
            run(program, [many[i][j] if i in at else x for i, x in enumerate(point)]) for j in range(SIZE)
        ]
        for y, *expected in zip(actual, *rows, strict=True):
            wanted: Any = np.stack(expected)
            if y.ndim < wanted.ndim:
                assert all(np.array_equal(v, wanted[0], equal_nan=y.dtype.kind in "fc") for v in wanted)
                wanted = wanted[0]
            if y.dtype.kind in "fc":
                assert y.shape == wanted.shape and y.dtype == wanted.dtype
                compare([y], [wanted], rtol, f"batched {at}")
            else:
                np.testing.assert_array_equal(y, wanted, f"batched {at}")
