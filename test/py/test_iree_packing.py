"""Tests loops with about as many arrays as one IREE dispatch can have, or more.

A stack is a loop-carried array of which each iteration writes a slice. If a loop has too many arrays, its stacks are
packed into one array.
"""

import numpy as np
import pytest
from cases.looping import drawn, looping
from harness.sources import source_of
from harness.variants import HERE
from harness.xla import by_xla

import tiduc
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.fast.loops.packing import pack
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage


def reading(count: int) -> str:
    """The text of a loop that reads `count` arrays. The first is the initial value of the loop-carried value."""
    takes = ", ".join(f"%x{i}: tensor<3xf32>" for i in range(count))
    names = ["%a", *(f"%s{i}" for i in range(count))]
    sums = "\n".join(f"%s{i} = stablehlo.add {names[i]}, %x{i} : tensor<3xf32>" for i in range(count))
    text = looping("tensor<3xf32>", f"{sums}\n%p = stablehlo.tanh {names[-1]} : tensor<3xf32>")
    return text.replace("(%a0: tensor<3xf32>)", f"({takes})").replace("%a = %a0", "%a = %x0")


def test_a_dispatch_has_32_arrays() -> None:
    """A loop that reads 30 arrays becomes a dispatch and gives XLA's values; a loop that reads 31 does not become one.

    A dispatch with more arrays than the limit would not load.
    """
    arguments = drawn(reading(30))
    actual, expected = tiduc.load(reading(30)).compile()(*arguments), by_xla(reading(30), arguments)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-6)
    sources = [source_of(tiduc.load(reading(count))).stablehlo for count in (30, 31)]
    assert ["flow.dispatch" in str(text) for text in sources] == [True, False]


def test_converted_constants_are_not_arrays() -> None:
    """Constant initial values of type i1 and ui8 remain constants when tiduc converts these types to signed integers.

    Otherwise they would be arrays of the dispatch.
    """
    kinds = ["i1", "ui8"] * 8
    starts = "\n".join(
        f"%s{i} = stablehlo.constant dense<{'true' if kind == 'i1' else 200 + i}> : tensor<3x{kind}>"
        for i, kind in enumerate(kinds)
    )
    carries = ", ".join(f"%c{i} = %s{i}" for i in range(16))
    news = "\n".join(
        f"%d{i} = stablehlo.{'xor' if kind == 'i1' else 'add'} %c{i}, %c{(i + 2) % 16} : tensor<3x{kind}>"
        for i, kind in enumerate(kinds)
    )
    types = ", ".join(f"tensor<3x{kind}>" for kind in kinds)
    results = ", ".join(f"%y#{i + 1}" for i in range(16))
    text = f"""func.func @main(%n: tensor<i32>) -> ({types}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      {starts}
      %y:17 = stablehlo.while(%i = %zero, {carries}) : tensor<i32>, {types}
      cond {{
        %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        {news}
        stablehlo.return %j, {", ".join(f"%d{i}" for i in range(16))} : tensor<i32>, {types}
      }}
      return {results} : {types}
    }}"""
    program, count = tiduc.load(text), np.int32(3)
    assert str(source_of(program).stablehlo).count("flow.dispatch.region") == 1
    for y, expected in zip(program.compile()(count), by_xla(text, [count]), strict=True):
        np.testing.assert_array_equal(y, expected)


def scanned(count: int, read: bool = False) -> str:
    """Two loops like those of the gradient of a JAX scan.

    The first loop writes a row of each of `count` arrays in each iteration, and the second loop reads these rows. If
    `read` is set, the first loop also reads one of the arrays.
    """
    stack, row, v, index = "tensor<7x6xf32>", "tensor<1x6xf32>", "tensor<6xf32>", "tensor<i32>"
    update, ids = f"({stack}, {row}, {index}, {index}) -> {stack}", range(count)
    carries = ", ".join(f"%s{k} = %{'x' if k % 5 == 1 else 'zeros'}" for k in ids)
    types = ", ".join([index, v, *[stack] * count])
    writes = "\n".join(
        f"""%c{k} = stablehlo.constant dense<{k}.5> : {row}
        %r{k} = stablehlo.multiply %row, %c{k} : {row}
        %t{k} = stablehlo.dynamic_update_slice %s{k}, %r{k}, %i, %zero : {update}
        {f"%u{k} = stablehlo.dynamic_update_slice %t{k}, %row, %zero, %zero : {update}" if k % 2 else ""}"""
        for k in ids
    )
    old = f"%old = stablehlo.dynamic_slice %s0, %i, %zero, sizes = [1, 6] : ({stack}, {index}, {index}) -> {row}"
    news = ", ".join(f"%{'u' if k % 2 else 't'}{k}" for k in ids)
    reads = "\n".join(
        f"""%d{k} = stablehlo.dynamic_slice %y#{k + 2}, %i, %zero, sizes = [1, 6] : ({stack}, {index}, {index}) -> {row}
        %e{k + 1} = stablehlo.add %e{k}, %d{k} : {row}"""
        for k in ids
    )
    return f"""func.func @main(%x: {stack}, %a0: {v}) -> ({v}, {row}, {stack}) {{
      %zero = stablehlo.constant dense<0> : {index}
      %one = stablehlo.constant dense<1> : {index}
      %seven = stablehlo.constant dense<7> : {index}
      %zeros = stablehlo.constant dense<0.0> : {stack}
      %e = stablehlo.constant dense<0.0> : {row}
      %y:{count + 2} = stablehlo.while(%i = %zero, %a = %a0, {carries}) : {types}
      cond {{
        %less = stablehlo.compare LT, %i, %seven : ({index}, {index}) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      }} do {{
        {old if read else f"%old = stablehlo.reshape %a : ({v}) -> {row}"}
        %b = stablehlo.sine %a : {v}
        %this = stablehlo.reshape %b : ({v}) -> {row}
        %row = stablehlo.add %this, %old : {row}
        {writes}
        %j = stablehlo.add %i, %one : {index}
        stablehlo.return %j, %b, {news} : {types}
      }}
      %z:2 = stablehlo.while(%i = %zero, %e0 = %e) : {index}, {row}
      cond {{
        %less = stablehlo.compare LT, %i, %seven : ({index}, {index}) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      }} do {{
        {reads}
        %j = stablehlo.add %i, %one : {index}
        stablehlo.return %j, %e{count} : {index}, {row}
      }}
      return %y#1, %z#1, %y#3 : {v}, {row}, {stack}
    }}"""


@pytest.mark.parametrize("read", [pytest.param(False, marks=pytest.mark.slow), True])
def test_stacks_are_packed(read: bool) -> None:
    """Two loops that share 35 arrays become two dispatches, although a dispatch binds at most 32 arrays.

    tiduc joins the arrays to one, and values equal XLA's.
    """
    text = scanned(35, read)
    source, arguments = source_of(tiduc.load(text)), drawn(text)
    assert isinstance(source.stablehlo, str) and source.stablehlo.count("flow.dispatch.region") == 2
    assert f"tensor<{34 if read else 35}x7x6xf32>" in source.stablehlo
    executable = tiduc.Executable(compile_source(source_of(tiduc.load(text), HERE)))
    for y, expected in zip(executable(*arguments), by_xla(text, arguments), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_few_stacks_stay() -> None:
    source = source_of(tiduc.load(scanned(3))).stablehlo
    assert "tensor<3x7x6xf32>" not in str(source) and str(source).count("flow.dispatch.region") == 2


@stage
def test_packing_is_undone() -> None:
    module = parse(scanned(35))
    before = str(module)
    packing = pack(next(op for op in outer_first(module.operation) if op.name == "stablehlo.while"))
    assert packing is not None and module.operation.verify()
    assert "tensor<35x7x6xf32>" in str(module)
    packing.undo()
    assert str(module) == before
