"""Collectives on eight processes with different values.

They are tested as one function of the inputs of all processes. Therefore finite differences change the inputs of all
processes at the same time, and inner products sum over processes. A loss that each process returns counts as several
losses: see `test_a_loss_that_each_process_has`.
"""

import re
from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.devices import COUNT, by_processes

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
PAIRS = "replica_groups = dense<[[0, 4], [5, 1], [2, 6], [7, 3]]> : tensor<4x2xi64>"
FOURS = "replica_groups = dense<[[0, 2, 4, 6], [7, 5, 3, 1]]> : tensor<2x4xi64>"
UNEVEN = "replica_groups = dense<[[0, 2, 4, 6, 1], [3, 5, 7, -1, -1]]> : tensor<2x5xi64>"
ALL = "replica_groups = dense<> : tensor<0x0xi64>"
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
GLOBAL = f"{FOURS}, use_global_device_ids, {CHANNEL}"


def rows(*sizes: int, element: str = "f64") -> Any:
    """A random array for each process, stacked along the first dimension."""
    x = RNG.standard_normal((COUNT, *sizes))
    return x if element == "f64" else x + 1j * RNG.standard_normal((COUNT, *sizes))


def body(op: str, element: str = "f64") -> str:
    t = f"tensor<{element}>"
    return f"""({{
        ^bb0(%p: {t}, %q: {t}):
          %s = stablehlo.{op} %p, %q : {t}
          stablehlo.return %s : {t}
      }})"""


def program(
    op: str, attributes: str, before: list[int], after: list[int], region: str = "", element: str = "f64"
) -> str:
    """A program that squares both the operand and the result of the op, so that second derivatives are not zero."""
    t, u = (f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>" for sizes in (before, after))
    return f"""
    func.func @main(%x: {t}) -> {u} {{
      %0 = stablehlo.multiply %x, %x : {t}
      %1 = "stablehlo.{op}"(%0) {region} {{{attributes}}} : ({t}) -> {u}
      %2 = stablehlo.multiply %1, %1 : {u}
      return %2 : {u}
    }}"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("groups", [PAIRS, FOURS, UNEVEN, ALL, GLOBAL])
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_all_reduce(groups: str, element: str) -> None:
    text = program("all_reduce", groups, [3], [3], body("add", element), element)
    check_rule(
        text, rows(3, element=element), order=2 if groups in (FOURS, GLOBAL) and element == "f64" else 1
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [FOURS, UNEVEN, ALL])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extrema(op: str, groups: str) -> None:
    check_rule(program("all_reduce", groups, [3], [3], body(op)), rows(3), order=2 if groups == UNEVEN else 1)


def test_extrema_share_ties() -> None:
    x = np.array([3.0, 1.0, 3.0, 1.0, 2.0, 1.0, 3.0, 1.0])
    ct = RNG.standard_normal(COUNT)
    p = load(f"""
    func.func @main(%x: tensor<f64>) -> tensor<f64> {{
      %0 = "stablehlo.all_reduce"(%x) {body("maximum")} {{{FOURS}}} : (tensor<f64>) -> tensor<f64>
      return %0 : tensor<f64>
    }}""")
    _, cx = run(p.vjp(), [x, ct])
    even, odd = ct[::2].sum() / 3, ct[1::2].sum() / 4
    np.testing.assert_allclose(cx, [even, odd, even, odd, 0, odd, even, odd], atol=1e-14)


def test_products() -> None:
    """Derivatives of products over processes are right, and exact even if some factors are zero."""
    x = rows(3)
    x[2, 0] = x[3, 1] = x[5, 1] = 0
    text = program("all_reduce", PAIRS, [3], [3], body("multiply"))
    check_rule(text, rows(3))
    check_rule(text.replace("multiply %x, %x", "add %x, %x"), x, order=1)


@pytest.mark.parametrize("groups", [UNEVEN, ALL])
def test_products_need_groups_of_one_size(groups: str) -> None:
    with pytest.raises(Unsupported, match="a product needs replica_groups of equal size"):
        load(program("all_reduce", groups, [3], [3], body("multiply"))).jvp()


def test_several_operands() -> None:
    """Derivatives of an all_reduce with several operands are right for each set of active operands.

    The VJP sums the cotangents of both operands by one collective.
    """
    text = f"""
    func.func @main(%x: tensor<2xf64>, %y: tensor<3xf64>, %z: tensor<2xi32>) -> (tensor<2xf64>, tensor<3xf64>) {{
      %0:2 = "stablehlo.all_reduce"(%x, %y) {body("add")} {{{FOURS}}}
        : (tensor<2xf64>, tensor<3xf64>) -> (tensor<2xf64>, tensor<3xf64>)
      return %0#0, %0#1 : tensor<2xf64>, tensor<3xf64>
    }}"""
    check_rule(text, rows(2), rows(3), np.zeros((COUNT, 2), np.int32), order=1)
    assert str(load(text).vjp()).count("stablehlo.all_reduce") == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", [FOURS, GLOBAL])
@pytest.mark.parametrize("dimension", [0, 1])
def test_all_gather(groups: str, dimension: int) -> None:
    after = [2, 3]
    after[dimension] *= 4
    attributes = f"all_gather_dim = {dimension} : i64, {groups}"
    order = 2 if dimension else 1
    check_rule(program("all_gather", attributes, [2, 3], after), rows(2, 3), order=order)


def test_all_gather_of_several() -> None:
    text = f"""
    func.func @main(%x: tensor<2xf64>, %y: tensor<3xf64>) -> (tensor<4xf64>, tensor<6xf64>) {{
      %0:2 = "stablehlo.all_gather"(%x, %y) {{all_gather_dim = 0 : i64, {PAIRS}}}
        : (tensor<2xf64>, tensor<3xf64>) -> (tensor<4xf64>, tensor<6xf64>)
      return %0#0, %0#1 : tensor<4xf64>, tensor<6xf64>
    }}"""
    check_rule(text, rows(2), rows(3), order=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [FOURS, GLOBAL])
@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
def test_reduce_scatter(op: str, groups: str) -> None:
    attributes = f"scatter_dimension = 1 : i64, {groups}"
    order = 2 if groups == GLOBAL else 1
    check_rule(program("reduce_scatter", attributes, [2, 8], [2, 2], body(op)), rows(2, 8), order=order)


@pytest.mark.parametrize(("split", "concat"), [(0, 0), (0, 1), (1, 0)])
def test_all_to_all(split: int, concat: int) -> None:
    after = [4, 8]
    after[split] //= 4
    after[concat] *= 4
    attributes = (
        f"split_dimension = {split} : i64, concat_dimension = {concat} : i64, split_count = 4 : i64, {FOURS}"
    )
    check_rule(program("all_to_all", attributes, [4, 8], after), rows(4, 8))


@pytest.mark.parametrize("pairs", ["[[0, 1], [1, 2], [5, 5], [7, 0]]", "[[3, 6]]"])
def test_collective_permute(pairs: str) -> None:
    count = pairs.count("], [") + 1
    attributes = f"source_target_pairs = dense<{pairs}> : tensor<{count}x2xi64>"
    check_rule(program("collective_permute", attributes, [3], [3]), rows(3))


@pytest.mark.parametrize("groups", [[[2, 0, 5], [4, 3, 1]], [[3], [5]], [[*range(8)]]])
def test_collective_broadcast(groups: list[list[int]]) -> None:
    """The JVP of collective_broadcast contains a second broadcast, for the tangents.

    Its VJP sums the cotangents at the sender. XLA cannot run this op on CPUs, so the test replaces it in the VJP by
    another op.
    """
    attribute = f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>"
    text = f"""
    func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {{
      %0 = "stablehlo.collective_broadcast"(%x) {{{attribute}}} : (tensor<3xf64>) -> tensor<3xf64>
      return %0 : tensor<3xf64>
    }}"""
    p, ct = load(text), rows(3)
    assert len(re.findall("collective_broadcast", str(p.jvp()))) == 2
    transposed = re.sub(
        '"stablehlo.collective_broadcast".*', "stablehlo.negate %arg0 : tensor<3xf64>", str(p.vjp())
    )
    expected = np.zeros_like(ct)
    for group in groups:
        expected[group[0]] = ct[group].sum(0)
    np.testing.assert_allclose(by_processes(transposed, [rows(3), ct])[1], expected, atol=1e-14)


def test_ids_do_not_vary() -> None:
    """A value that is computed from a process id has no derivative: it is constant for that process."""
    text = f"""
    func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {{
      %id = stablehlo.replica_id : tensor<ui32>
      %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f64>
      %w = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f64>) -> tensor<3xf64>
      %0 = stablehlo.multiply %w, %x : tensor<3xf64>
      %1 = "stablehlo.all_reduce"(%0) {body("add")} {{{ALL}}} : (tensor<3xf64>) -> tensor<3xf64>
      return %1 : tensor<3xf64>
    }}"""
    check_rule(text, rows(3), order=1)


def test_promoted_sums() -> None:
    """If an all_reduce adds in a wider type, tangents have the type of the result, and cotangents have the type of the
    operand.
    """
    text = f"""
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf64> {{
      %0 = "stablehlo.all_reduce"(%x) {body("add")} {{{FOURS}}} : (tensor<3xf32>) -> tensor<3xf64>
      return %0 : tensor<3xf64>
    }}"""
    p = load(text)
    assert [str(port.type) for port in p.vjp().outputs] == ["tensor<3xf64>", "tensor<3xf32>"]
    assert [str(port.type) for port in p.jvp().outputs] == ["tensor<3xf64>", "tensor<3xf64>"]


def test_a_loss_that_each_process_has() -> None:
    """If each of eight processes returns the same loss, the seed 1 gives the gradient of eight losses, and the seed 1/8
    that of one.
    """
    text = f"""
    func.func @main(%x: tensor<f64>) -> tensor<f64> {{
      %0 = stablehlo.multiply %x, %x : tensor<f64>
      %1 = "stablehlo.all_reduce"(%0) {body("add")} {{{ALL}}} : (tensor<f64>) -> tensor<f64>
      return %1 : tensor<f64>
    }}"""
    p, x = load(text), rows()
    np.testing.assert_allclose(run(p.grad(), [x])[0], COUNT * 2 * x)
    np.testing.assert_allclose(run(p.vjp(), [x, np.full(COUNT, 1 / COUNT)])[1], 2 * x)
