"""IREE never merges two marks, which are hidden copies of a value (see emit/marks.py and the pass number_marks).

The tests mark several kinds of values, and add marks before different groups of passes. IREE compiles for a named CPU,
so that its text is equal on all machines.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from harness.sources import source_of
from torch_mlir import ir

import tiduc
from tiduc.backends.iree import legalize_for_iree, pipeline
from tiduc.backends.iree.compile import compile_until
from tiduc.backends.iree.emit.emitter import HIDDEN, rewriting
from tiduc.backends.iree.emit.marks import BARRIER, before_mark, marked
from tiduc.backends.iree.fast.compile_time import repeats as of_repeats
from tiduc.backends.iree.faults.number_marks import number_marks
from tiduc.backends.iree.source import Source
from tiduc.dialect.graph.functions import functions_in, outer_first, symbol
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.mlir.context import parse

CPU = "cpu:x86-64-v3"
PROBE = "tidu.probe"


def probe(module: Any) -> None:
    """Replaces each use of a barrier with the attribute `PROBE` by a separate mark (a hidden copy of the operand)."""
    for op in outer_first(module.operation, (BARRIER,)):
        if PROBE in op.attributes:
            for use in list(op.results[0].uses):
                with rewriting(op) as b:
                    use.owner.operands[use.operand_number] = marked(b, op.operands[0])
            op.erase()


@contextmanager
def probed(group: str, without: Any = None) -> Iterator[None]:
    """Context manager: the pipeline runs `probe` at the start of a group, and skips the pass `without`."""
    entries = [entry for entry in pipeline.PIPELINE if entry.function is not without]
    first = next(i for i, entry in enumerate(entries) if entry.group == group)
    entries.insert(first, pipeline.Entry(group, probe, "Marks.", on="all"))  # type: ignore[arg-type]
    with patch.object(pipeline, "PIPELINE", tuple(entries)):
        yield


NUMBERS: Mapping[str, tuple[str, ...]] = {
    "f32": ("0.0", "1.0", "-0.0"),
    "f64": ("0.0", "1.0"),
    "f16": ("0.0",),
    "bf16": ("0.0",),
    "f8E4M3FN": ("0.0",),
    "i1": ("false", "true"),
    "i8": ("0",),
    "i32": ("0", "1", "-1"),
    "i64": ("0", "1"),
    "ui8": ("0",),
    "ui64": ("0", "1"),
    "complex<f32>": ("(0.0, 0.0)", "(1.0, 0.0)"),
    "complex<f64>": ("(0.0, 0.0)",),
}
"""Constants by element type. IREE folds some of them into other ops, and computes some of them by a fill."""


def marks_of(kind: str, shape: str) -> str:
    """A program that returns two hidden copies of its argument, and two of each constant in `NUMBERS[kind]`."""
    type_ = f"tensor<{shape}{kind}>"
    lines, results = [], []
    for i, number in enumerate(NUMBERS[kind]):
        lines.append(f"%c{i} = stablehlo.constant dense<{number}> : {type_}")
        lines.append(f"%m{i} = stablehlo.optimization_barrier {{{PROBE}}} %c{i} : {type_}")
        results += [f"%m{i}"] * 2
    lines.append(f"%m = stablehlo.optimization_barrier {{{PROBE}}} %x : {type_}")
    results += ["%m", "%m"]
    types = ", ".join([type_] * len(results))
    return f"func.func @main(%x: {type_}) -> ({types}) {{\n" + "\n".join(
        [*lines, f"return {', '.join(results)} : {types}\n}}"]
    )


def results_in(flow: str) -> list[str]:
    """The names of the values that a program returns, in IREE's text after its phase `flow`."""
    return re.findall(r"hal\.tensor\.export (%\S+) ", flow)


def flow_of(source: Source) -> str:
    return compile_until(source, "flow").decode()


SHAPES = {"scalar": "", "small": "3x", "large": "524288x"}
CASES = [*product(NUMBERS, ["small"], [True]), *product(["f32", "i64"], ["scalar", "large"], [True, False])]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "size", "fast"), [*CASES, ("i32", "small", False), ("f64", "scalar", True)])
def test_two_marks_are_two_values(kind: str, size: str, fast: bool) -> None:
    text = marks_of(kind, SHAPES[size])
    with probed("legal"):
        source = source_of(tiduc.load(text), CPU, fast=fast)
    results = results_in(flow_of(source))
    assert len(results) == len(set(results)) == 2 * (len(NUMBERS[kind]) + 1)


@pytest.mark.more
@pytest.mark.parametrize("fast", [True, False])
def test_marks_have_the_elements_that_they_copy(fast: bool) -> None:
    kinds = ("f32", "i1", "i8", "i64", "ui64", "complex<f32>", "f16")
    for kind in kinds if fast else kinds[:2]:
        with probed("legal"):
            run = tiduc.load(marks_of(kind, "3x")).compile(fast=fast)
        argument = np.array([1, 0, 2]).astype(run.signature.inputs[0].type.dtype)
        *constants, x, y = run(argument)
        np.testing.assert_array_equal(x, argument)
        np.testing.assert_array_equal(y, argument)
        for i, number in enumerate(NUMBERS[kind]):
            part = number.strip("()").split(",")[0]
            value = {"true": 1.0, "false": 0.0}.get(part) if part[0] in "tf" else float(part)
            for mark in constants[2 * i : 2 * i + 2]:
                np.testing.assert_array_equal(mark, np.full(3, value).astype(mark.dtype))
                np.testing.assert_array_equal(np.signbit(mark.real), np.full(3, number == "-0.0"))


@pytest.mark.parametrize("stage", ["speed", "legal", "regions"])
def test_marks_stay_two_after_the_passes_of_each_stage(stage: str) -> None:
    """If five hidden copies of constants are added before a group of passes, IREE returns five distinct values.

    The constants have different types and equal bytes. One of them is reshaped.
    """
    types = "tensor<4096xf32>, tensor<4096xf32>, tensor<4096xi32>, tensor<4096xi32>, tensor<64x64xf32>"
    text = f"""func.func @main(%x: tensor<4096xf32>) -> ({types}) {{
      %f = stablehlo.constant dense<0.0> : tensor<4096xf32>
      %i = stablehlo.constant dense<0> : tensor<4096xi32>
      %p = stablehlo.optimization_barrier {{{PROBE}}} %f : tensor<4096xf32>
      %q = stablehlo.optimization_barrier {{{PROBE}}} %i : tensor<4096xi32>
      %r = stablehlo.reshape %f : (tensor<4096xf32>) -> tensor<64x64xf32>
      %s = stablehlo.optimization_barrier {{{PROBE}}} %r : tensor<64x64xf32>
      return %p, %p, %q, %q, %s : {types}
    }}"""
    with probed(stage):
        source = source_of(tiduc.load(text), CPU)
    results = results_in(flow_of(source))
    assert len(results) == len(set(results)) == 5


def layers(count: int) -> str:
    """The text of layers that differ only in their weights.

    Each layer computes a matrix product, and multiplies one hidden copy of it by the tanh of another hidden copy.
    """
    type_ = "tensor<131x131xf32>"
    product = f"contracting_dims = [1] x [0] : ({type_}, {type_}) -> {type_}"
    lines = [
        f"""%p{i} = stablehlo.dot_general %x{i}, %w{i}, {product}
        %m{i} = stablehlo.optimization_barrier {{{PROBE}}} %p{i} : {type_}
        %t{i} = stablehlo.tanh %m{i} : {type_}
        %x{i + 1} = stablehlo.multiply %t{i}, %m{i} : {type_}"""
        for i in range(count)
    ]
    given = ", ".join([f"%x0: {type_}", *(f"%w{i}: {type_}" for i in range(count))])
    body = "\n".join(lines)
    return f"func.func @main({given}) -> {type_} {{\n{body}\nreturn %x{count} : {type_}\n}}"


def test_marks_stay_two_in_functions_of_repeats() -> None:
    """If equal layers become calls of one function, each call passes two hidden numbers that no other call passes."""
    few = patch.multiple(of_repeats, LEAST=4, SAVED=4, LEAST_SAVED=8)
    with probed("legal"), few:
        source = source_of(tiduc.load(layers(6)), CPU)
    assert source.repeats
    calls = re.findall(r"call @repeated_0\((.*?)\)", source.text.decode())
    numbers = [number for call in calls for number in re.findall(r"%\d+#\d+", call)]
    assert len(numbers) == len(set(numbers)) == 2 * len(calls) > 4


CALLED = """
func.func VISIBILITY @f(%a: !T) -> !T {
  %c = stablehlo.constant dense<1> : !T
  %m = stablehlo.optimization_barrier {tidu.probe} %c : !T
  return %m : !T
}
func.func private @g(%a: !T) -> (!T, !T) {
  %0 = func.call @f(%a) : (!T) -> !T
  %1 = func.call @f(%a) : (!T) -> !T
  return %0, %1 : !T, !T
}
func.func private @h(%a: !T) -> (!T, !T, !T, !T) {
  %0:2 = func.call @g(%a) : (!T) -> (!T, !T)
  %1:2 = func.call @g(%a) : (!T) -> (!T, !T)
  return %0#0, %0#1, %1#0, %1#1 : !T, !T, !T, !T
}
func.func @main(%a: !T) -> (!T, !T, !T, !T, !T, !T, !T, !T) {
  %0:4 = func.call @h(%a) : (!T) -> (!T, !T, !T, !T)
  %1:4 = func.call @h(%a) : (!T) -> (!T, !T, !T, !T)
  return %0#0, %0#1, %0#2, %0#3, %1#0, %1#1, %1#2, %1#3 : !T, !T, !T, !T, !T, !T, !T, !T
}""".replace("!T", "tensor<2xi64>")


@pytest.mark.parametrize("visibility", ["private", ""])
def test_marks_of_two_calls_are_two_values(visibility: str) -> None:
    """The hidden copies in two calls of one function, which IREE inlines, remain distinct values.

    This also holds if more hidden copies are added and the pass `number_marks` runs again.
    """
    module = parse(CALLED.replace("VISIBILITY", visibility))
    with probed("legal"):
        legalize_for_iree(module)
    main = next(op for op in functions_in(module) if symbol(op) == "main").regions[0].blocks[0]
    with module.context, ir.Location.unknown(), rewriting(terminator(main)) as b:
        for i in range(2):
            terminator(main).operands[i] = marked(b, terminator(main).operands[i])
    number_marks(module)
    module.operation.verify()
    assert not any(HIDDEN in op.attributes for op in outer_first(module.operation))
    flow = flow_of(Source(str(module), CPU))
    entry = flow[flow.index("util.func public @main(") :]
    assert len(set(results_in(entry)[:8])) == 8
    assert ("util.func public @f(" in flow) == (not visibility)


def test_before_mark() -> None:
    """`before_mark` maps a hidden copy to the copied value, and maps the result of an ordinary `select` to itself."""
    module = parse("""func.func @main(%x: tensor<2xf32>, %p: tensor<2xi1>) -> tensor<2xf32> {
      %0 = stablehlo.select %p, %x, %x : tensor<2xi1>, tensor<2xf32>
      return %0 : tensor<2xf32>
    }""")
    block = functions_in(module)[0].regions[0].blocks[0]
    select, last = block.operations[0], block.operations[1]
    with module.context, ir.Location.unknown(), rewriting(last) as b:
        assert before_mark(marked(b, block.arguments[0])) == block.arguments[0]
    assert before_mark(select.results[0]) == select.results[0]
