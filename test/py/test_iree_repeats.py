"""Tests the pass `repeats`: if a sequence of ops is repeated, each repetition becomes a call of one function.

IREE inlines the calls later, and values do not change.
"""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from harness.edits import after
from harness.sources import source_of
from harness.variants import AVX512, HERE

import tiduc
from tiduc.backends.iree import pipeline
from tiduc.backends.iree.compile import compile_source, compile_until
from tiduc.backends.iree.fast.compile_time import repeats as of_repeats
from tiduc.backends.iree.fast.compile_time.repeats import repeats
from tiduc.backends.iree.modules.repeats import inline_repeats
from tiduc.backends.iree.source import Source
from tiduc.dialect.mlir.context import parse

KIND = "tensor<131x131xf32>"


@pytest.fixture(autouse=True)
def few_ops() -> Iterator[None]:
    """Fixture: changes the limits of the pass, so that functions may have few ops."""
    with patch.multiple(of_repeats, LEAST=4, SAVED=4, LEAST_SAVED=8):
        yield


def network(layers: int) -> str:
    """The text of a network. Each layer has a matrix product, a bias, a tanh, and a constant factor."""
    inputs = ", ".join(f"%w{i}: {KIND}, %b{i}: tensor<131xf32>" for i in range(layers))
    lines = [
        f"""  %p{i} = stablehlo.dot_general %x{i}, %w{i}, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
  %c{i} = stablehlo.broadcast_in_dim %b{i}, dims = [1] : (tensor<131xf32>) -> {KIND}
  %s{i} = stablehlo.add %p{i}, %c{i} : {KIND}
  %t{i} = stablehlo.tanh %s{i} : {KIND}
  %n{i} = stablehlo.constant dense<0.25> : {KIND}
  %x{i + 1} = stablehlo.multiply %t{i}, %n{i} : {KIND}
"""
        for i in range(layers)
    ]
    return f"func.func @main(%x0: {KIND}, {inputs}) -> {KIND} {{\n{''.join(lines)}  return %x{layers} : {KIND}\n}}"


def source(text: str, cpu: str = AVX512) -> Source:
    return source_of(tiduc.load(text), cpu)


def without_repeats(text: str, cpu: str = AVX512) -> Source:
    """The source of a program if the pass `repeats` does not run."""
    entries = tuple(entry for entry in pipeline.PIPELINE if entry.function is not repeats)
    with patch.object(pipeline, "PIPELINE", entries):
        return source(text, cpu)


def test_layers_are_one_function() -> None:
    """The equal layers of a gradient become calls of functions. Values and the number of dispatches do not change."""
    text = tiduc.load(network(6)).vjp().text
    ours, plain = source(text), without_repeats(text)
    assert ours.repeats and not plain.repeats
    functions = ours.text.count(b"func.func private @repeated_")
    assert functions and ours.text.count(b"call @repeated_") > 2 * functions
    rng, inputs = np.random.default_rng(0), tiduc.load(text).signature.inputs
    arguments = [rng.standard_normal(x.type.shape).astype(np.float32) / 12 for x in inputs]
    here, without = source(text, HERE), without_repeats(text, HERE)
    results = tiduc.Executable(compile_source(here, cached=False))(*arguments)
    expected = tiduc.Executable(compile_source(without, cached=False))(*arguments)
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    scheduled, as_before = (compile_until(each, "stream") for each in (ours, plain))
    assert scheduled.count(b"stream.cmd.dispatch") == as_before.count(b"stream.cmd.dispatch")
    assert b"repeated_" not in scheduled  # the functions have been inlined before this phase


def test_no_function_where_ops_are_fused() -> None:
    """Repeated ops that IREE fuses do not become calls, because a call would store an intermediate array."""
    lines = "".join(
        f"  %a{i} = stablehlo.reverse %x{i}, dims = [0] : tensor<4x5xf32>\n"
        f"  %b{i} = stablehlo.transpose %a{i}, dims = [1, 0] : (tensor<4x5xf32>) -> tensor<5x4xf32>\n"
        f"  %c{i} = stablehlo.negate %b{i} : tensor<5x4xf32>\n"
        f"  %x{i + 1} = stablehlo.transpose %c{i}, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>\n"
        for i in range(6)
    )
    module = parse(
        f"func.func @main(%x0: tensor<4x5xf32>) -> tensor<4x5xf32> {{\n{lines}  return %x6 : tensor<4x5xf32>\n}}"
    )
    assert repeats(module) == 0 and "call" not in str(module)


def test_ops_in_regions_read_the_same_values() -> None:
    """Layers that compute exp(p) - p and p - exp(p) do not share a function: values equal NumPy's."""
    lines = "".join(
        f"""  %p{i} = stablehlo.dot_general %x{i}, %w, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
  %e{i} = stablehlo.exponential %p{i} : {KIND}
  %x{i + 1} = stablehlo.subtract {f"%e{i}, %p{i}" if i % 3 else f"%p{i}, %e{i}"} : {KIND}
"""
        for i in range(12)
    )
    text = f"func.func @main(%x0: {KIND}, %w: {KIND}) -> {KIND} {{\n{lines}  return %x12 : {KIND}\n}}"
    assert source(text).repeats
    x, w = np.random.default_rng(0).standard_normal((2, 131, 131)).astype(np.float32) / 131
    (result,) = tiduc.Executable(compile_source(source(text, HERE), cached=False))(x, w)
    for i in range(12):
        product = x @ w
        x = np.exp(product) - product if i % 3 else product - np.exp(product)
    np.testing.assert_allclose(result, x, rtol=1e-4, atol=1e-4)


def test_inputs_that_are_equal_in_some_copies() -> None:
    """Values are right if two inputs of a function are different in the first call and equal in all other calls.

    IREE would merge inputs that it finds to be equal.
    """
    lines = "".join(
        f"""  %p{i} = stablehlo.dot_general %{"xy"[not i]}{i}, %w, contracting_dims = [1] x [0]
    : ({KIND}, {KIND}) -> {KIND}
  %q{i} = stablehlo.dot_general %x{i}, %p{i}, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
  %r{i} = stablehlo.dot_general %q{i}, %w, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
  %s{i} = stablehlo.add %r{i}, %w : {KIND}
  %x{i + 1} = stablehlo.tanh %s{i} : {KIND}
"""
        for i in range(6)
    )
    text = f"func.func @main(%x0: {KIND}, %y0: {KIND}, %w: {KIND}) -> {KIND} {{\n{lines}  return %x6 : {KIND}\n}}"
    assert source(text).repeats
    x, y, w = np.random.default_rng(0).standard_normal((3, 131, 131)).astype(np.float32) / 14
    (result,) = tiduc.Executable(compile_source(source(text, HERE), cached=False))(x, y, w)
    for i in range(6):
        x = np.tanh(x @ ((y if i == 0 else x) @ w) @ w + w)
    np.testing.assert_allclose(result, x, rtol=1e-2, atol=1e-3)


ONE_VALUE = {
    "an op that changes nothing": f"%a = stablehlo.maximum %p5, %p5 : {KIND}",
    "a computed constant": f"""%c = stablehlo.constant dense<0.25> : {KIND}
      %a = stablehlo.add %c, %c : {KIND}
      %b = stablehlo.constant dense<0.5> : {KIND}""",
}
"""For each name, ops that compute %a. IREE can prove that %a equals %b, or %p5 if the ops do not define %b."""


@pytest.mark.parametrize("name", ONE_VALUE)
def test_inputs_that_iree_finds_to_be_equal(name: str) -> None:
    """The last of six repetitions does not become a call if IREE can prove that two of its inputs are equal."""
    left, right = "%a", "%b" if "constant" in name else "%p5"
    lines = "".join(
        f"""  %d{i} = stablehlo.dot_general %x{i}, {left if i == 5 else f"%p{i}"}, contracting_dims = [1] x [0]
    : ({KIND}, {KIND}) -> {KIND}
  %t{i} = stablehlo.tanh %d{i} : {KIND}
  %e{i} = stablehlo.dot_general %t{i}, {right if i == 5 else f"%q{i}"}, contracting_dims = [1] x [0]
    : ({KIND}, {KIND}) -> {KIND}
  %x{i + 1} = stablehlo.sine %e{i} : {KIND}
"""
        for i in range(6)
    )
    names = ["x0", *(f"{letter}{i}" for i in range(6) for letter in "pq")]
    head = ", ".join(f"%{each}: {KIND}" for each in names)
    text = f"func.func @main({head}) -> {KIND} {{\n{ONE_VALUE[name]}\n{lines}  return %x6 : {KIND}\n}}"
    assert source(text).text.count(b"call @repeated_0(") == 5
    arrays = np.random.default_rng(0).random((13, 131, 131), np.float32) / 65
    (result,) = tiduc.Executable(compile_source(source(text, HERE), cached=False))(*arrays)
    x, *weights = arrays
    weights[-2:] = [np.full_like(x, 0.5)] * 2 if "constant" in name else [weights[-2]] * 2
    for p, q in zip(weights[::2], weights[1::2], strict=True):
        x = np.sin(np.tanh(x @ p) @ q)
    np.testing.assert_allclose(result, x, rtol=1e-4, atol=1e-4)


CALLS = """module {
  util.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0:2 = util.call @f(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %1:2 = util.call @f(%0#1, %0#0) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %3 = flow.dispatch @a::@b(%1#1, %0#0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    util.return %3 : tensor<4xf32>
  }
  util.func private @f(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) \
attributes {inlining_policy = #util.inline.never} {
    %0:2 = flow.dispatch @a::@c(%arg1) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    util.return %0#1, %arg0 : tensor<4xf32>, tensor<4xf32>
  }
}
"""


def test_functions_of_repeats_are_inlined() -> None:
    text = after(inline_repeats, CALLS)
    assert text is not None
    assert [line.strip() for line in text.splitlines()][2:-2] == [
        "%0:2 = flow.dispatch @a::@c(%arg0) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
        "%1:2 = flow.dispatch @a::@c(%0#1) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)",
        "%2 = flow.dispatch @a::@b(%arg0, %0#1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
        "util.return %2 : tensor<4xf32>",
    ]


def test_other_functions_stay() -> None:
    assert after(inline_repeats, CALLS.replace("util.inline.never", "util.inline.always")) is None
