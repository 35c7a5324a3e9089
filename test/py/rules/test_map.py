"""map: regions of elementwise ops, with constants inside and outside the region, and regions that are refused."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
S = "tensor<f64>"


def program(*lines: str, count: int = 2, returned: str = "%r", sizes: str = "2x3x", before: str = "") -> str:
    """A program with a map of `count` operands %x0, %x1, .... In the region, their elements are %a0, %a1, ...."""
    t, numbers = f"tensor<{sizes}f64>", range(count)
    dimensions = str(list(range(sizes.count("x"))))[1:-1]
    dimensions = f"array<i64{':' if dimensions else ''} {dimensions}>"
    body = "\n          ".join(lines)
    return f"""
    func.func @main({", ".join(f"%x{i}: {t}" for i in numbers)}) -> {t} {{
      {before}
      %0 = "stablehlo.map"({", ".join(f"%x{i}" for i in numbers)}) ({{
        ^bb0({", ".join(f"%a{i}: {S}" for i in numbers)}):
          {body}
          stablehlo.return {returned} : {S}
      }}) {{dimensions = {dimensions}}} : ({", ".join([t] * count)}) -> {t}
      return %0 : {t}
    }}"""


def point(*sizes: int, count: int = 2) -> Any:
    return [RNG.standard_normal(sizes) for _ in range(count)]


@pytest.mark.parametrize("op", ["multiply", "divide", "maximum", "atan2"])
def test_one_op(op: str) -> None:
    check_rule(program(f"%r = stablehlo.{op} %a0, %a1 : {S}"), *point(2, 3))


def test_several_ops() -> None:
    lines = [
        f"%c = stablehlo.constant dense<1.5> : {S}",
        f"%s = stablehlo.sine %a0 : {S}",
        f"%p = stablehlo.compare GT, %a0, %a1 : ({S}, {S}) -> tensor<i1>",
        f"%m = stablehlo.multiply %s, %c : {S}",
        f"%t = chlo.square %a1 : {S} -> {S}",
        f"%r = stablehlo.select %p, %m, %t : tensor<i1>, {S}",
    ]
    check_rule(program(*lines), *point(2, 3))


def test_other_element_types_inside() -> None:
    lines = [
        f"%c = stablehlo.complex %a0, %a1 : {'tensor<complex<f64>>'}",
        f"%e = stablehlo.exponential %c : {'tensor<complex<f64>>'}",
        f"%r = stablehlo.imag %e : ({'tensor<complex<f64>>'}) -> {S}",
    ]
    check_rule(program(*lines), *point(2, 3))


def test_an_argument_as_it_is() -> None:
    check_rule(program(returned="%a1"), *point(2, 3))


def test_the_same_operand_twice() -> None:
    text = program(f"%r = stablehlo.multiply %a0, %a1 : {S}").replace('map"(%x0, %x1)', 'map"(%x0, %x0)')
    check_rule(text, *point(2, 3))


@pytest.mark.parametrize("sizes", [(), (1,), (0, 3)])
def test_sizes(sizes: tuple[int, ...]) -> None:
    line = f"%r = stablehlo.multiply %a0, %a1 : {S}"
    check_rule(program(line, sizes="".join(f"{n}x" for n in sizes)), *point(*sizes))


def test_a_constant_from_outside() -> None:
    before = f"%c = stablehlo.constant dense<2.5> : {S}"
    lines = [f"%s = stablehlo.cosine %a0 : {S}", f"%r = stablehlo.multiply %s, %c : {S}"]
    check_rule(program(*lines, count=1, before=before), *point(2, 3, count=1))


def test_an_active_value_from_outside_is_refused() -> None:
    before = "%c = stablehlo.reshape %x1 : (tensor<1xf64>) -> tensor<f64>"
    text = program(f"%r = stablehlo.multiply %a0, %c : {S}", sizes="1x", before=before)
    with pytest.raises(Unsupported, match="its region reads an active value from outside"):
        load(text).jvp()


def test_a_region_that_is_not_elementwise_is_refused() -> None:
    lines = [
        f"%z = stablehlo.constant dense<0.0> : {S}",
        f"%r = stablehlo.reduce(%a0 init: %z) applies stablehlo.add across dimensions = [] : ({S}, {S}) -> {S}",
    ]
    with pytest.raises(Unsupported, match="its region holds stablehlo.reduce, which is not elementwise"):
        load(program(*lines)).jvp()
