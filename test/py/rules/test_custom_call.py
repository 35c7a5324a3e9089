"""Custom calls: the target selects the rule. Unknown targets are refused unless all results are integers."""

import pytest

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

F, INT = "tensor<3xf64>", "tensor<3xi32>"


def program(result: str, used: str = "") -> str:
    return f"""
    func.func @main(%x: {F}) -> {F} {{
      %0 = stablehlo.custom_call @mine(%x) : ({F}) -> {result}
      {used or f"%1 = stablehlo.convert %0 : ({result}) -> {F}"}
      %2 = stablehlo.multiply %x, %1 : {F}
      return %2 : {F}
    }}"""


def test_an_unknown_target_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="unknown call target: mine"):
        load(program(F, f"%1 = stablehlo.negate %0 : {F}")).jvp()


def test_integer_results_have_no_tangent() -> None:
    p = str(load(program(INT)).vjp())
    assert p.count("@mine") == 1 and p.count("stablehlo.multiply") == 2


def test_active_parts_of_tuples() -> None:
    part = f"%1 = stablehlo.get_tuple_element %0[1] : (tuple<{INT}, {F}>) -> {F}"
    with pytest.raises(Unsupported, match="custom_call"):
        load(program(f"tuple<{INT}, {F}>", part)).jvp()


def test_unknown_targets_of_inactive_calls() -> None:
    text = program(F, f"%1 = stablehlo.negate %0 : {F}").replace("@mine(%x)", "@mine(%y)")
    text = text.replace(f"@main(%x: {F})", f"@main(%x: {F}, %y: {F})")
    assert str(load(text).vjp([0])).count("@mine") == 1
