"""Static libraries with integers: each op is compiled and run for each type, also at the limits of the type."""

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from harness.scalars import scalars
from harness.static_libraries import run_library
from harness.tensors import tensor

from tiduc.dialect.mlir.context import parse
from tiduc.program import Program, from_module

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler"),
]


def program(arguments: dict[str, str], lines: list[str], results: dict[str, str]) -> Program:
    """A program that consists of these lines. The dictionaries map the names of arguments and results to types."""
    taken, types = ", ".join(f"{x}: {t}" for x, t in arguments.items()), ", ".join(results.values())
    body = "\n".join(lines)
    return from_module(
        parse(f"func.func @main({taken}) -> ({types}) {{\n{body}\nreturn {', '.join(results)} : {types}\n}}")
    )


# ---- integers as arguments, in kernels of arrays ---------------------------------------------------------------


def _quotient(x: int, y: int) -> int:
    """The quotient rounded towards zero. The result of a division by zero is -1, as in XLA."""
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _power(x: int, y: int) -> int:
    return x**y if y >= 0 else (-1 if y % 2 else 1) if x == -1 else int(x == 1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": _quotient,
    "remainder": lambda x, y: x if y == 0 else x - y * _quotient(x, y),
    "maximum": max,
    "minimum": min,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
UNARY: dict[str, Callable[[int], int]] = {"not": lambda x: ~x}
OF_SIGNED: dict[str, Callable[[int], int]] = {
    "negate": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
}
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
}


def wanted(name: str, x: int, y: int, bits: int, signed: bool) -> int:
    """The expected result of an op.

    Sums and products wrap around. A shift by at least the width of the type shifts out all bits.
    """

    def wrap(z: int) -> int:
        z %= 2**bits
        return z - 2**bits if signed and z >= 2 ** (bits - 1) else z

    if name in COMPARISONS:
        return COMPARISONS[name](x, y)
    if name in UNARY | OF_SIGNED:
        return wrap((UNARY | OF_SIGNED)[name](x))
    if name in BINARY:
        return wrap(BINARY[name](x, y))
    if name == "power":
        return wrap(_power(x, y))
    own = x % 2**bits
    if name == "popcnt":
        return own.bit_count()
    if name == "count_leading_zeros":
        return bits - own.bit_length()
    shift = min(y % 2**bits, bits)
    if name == "shift_left":
        return wrap(own << shift)
    if name == "shift_right_logical":
        return wrap(own >> shift)
    return wrap((own - 2**bits if own >= 2 ** (bits - 1) else own) >> shift)


def numbers(bits: int, signed: bool) -> list[int]:
    """Test values: the limits of the type and numbers near them, small numbers, and numbers near the type's width in
    bits.
    """
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    some = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 64, most // 3, most - 1, most, least]
    return sorted({*some, *((-1, -2, -3, -7, -bits, least + 1, least // 3) if signed else ())})


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_ops_on_integers(bits: int, signed: bool, tmp_path: Path) -> None:
    """Each op on integers has the expected value for all pairs of test values.

    These include divisions by zero, the least integer divided by -1, and shifts beyond the width. Powers that overflow
    are excluded, because StableHLO does not define them.
    """
    kind, pairs = f"{'' if signed else 'u'}i{bits}", list(product(numbers(bits, signed), repeat=2))
    t, truth, lines, results = tensor([len(pairs)], kind), tensor([len(pairs)], "i1"), [], {}
    shifts = "shift_left", "shift_right_logical", "shift_right_arithmetic"
    names = [*COMPARISONS, *BINARY, *UNARY, *(OF_SIGNED if signed else ()), *shifts, "power", "popcnt"]
    names.append("count_leading_zeros")
    for name in names:
        operands = "%x, %y" if name in BINARY or name in shifts or name == "power" else "%x"
        text = f"stablehlo.{name} {operands} : {t}"
        if name in COMPARISONS:
            order = "SIGNED" if signed else "UNSIGNED"
            text = f"stablehlo.compare {name}, %x, %y, {order} : ({t}, {t}) -> {truth}"
        lines.append(f"%{name} = {text}")
        results[f"%{name}"] = truth if name in COMPARISONS else t
    of = program({"%x": t, "%y": t}, lines, results)
    x, y = np.array(pairs, f"{'' if signed else 'u'}int{bits}").T
    for name, found in zip(names, run_library(of, [x, y], tmp_path), strict=True):
        for (a, b), z in zip(pairs, found.tolist(), strict=True):
            if name != "power" or abs(a) <= 1 or b < 64:
                assert z == wanted(name, a, b, bits, signed), (name, a, b)


# ---- integers that floats determine, in scalar ops -------------------------------------------------------------

BITWISE = "and", "or", "xor", "maximum", "minimum"
TABLES = [0, 3, -3, 1, -2, 7, 5, -7], [1, 0, -1, 6, 2, -5, 3, 4]


def looked_up(name: str, values: list[int], kind: str, count: int) -> list[str]:
    """Lines that compute the integer array `name`: for each element of %x, they select the entry of `values` at the
    rounded element.
    """
    t, f, truth = tensor([count], kind), tensor([count]), tensor([count], "i1")
    lines = [f"{name}{len(values) - 1}_ = stablehlo.constant dense<{values[-1]}> : {t}"]
    for i in reversed(range(len(values) - 1)):
        lines += [
            f"{name}{i}c = stablehlo.constant dense<{values[i]}> : {t}",
            f"{name}{i}b = stablehlo.constant dense<{i + 0.5}> : {f}",
            f"{name}{i}l = stablehlo.compare LT, %x, {name}{i}b : ({f}, {f}) -> {truth}",
            f"{name}{i}_ = stablehlo.select {name}{i}l, {name}{i}c, {name}{i + 1}_ : {truth}, {t}",
        ]
    return lines


def scalar_program(kind: str, count: int) -> Program:
    """A program with ops on integers that %x selects.

    Each result is converted to f64. %x0_ and %y0_ are so small that their sums and products do not overflow. %m0_
    contains the limits of the type.
    """
    limits = [v for v in numbers(int(kind[1:]), True) if v not in range(-8, 8)]
    t, truth, f = tensor([count], kind), tensor([count], "i1"), tensor([count])
    x, y, m = "%x0_", "%y0_", "%m0_"
    tables = {"%x": TABLES[0], "%y": TABLES[1], "%m": [*limits, *limits][:8]}
    lines = [line for name, values in tables.items() for line in looked_up(name, values, kind, count)]
    values = {name: f"stablehlo.{name} {x}, {y} : {t}" for name in ("add", "subtract", "multiply")}
    values |= {f"{name}_{z[1]}": f"stablehlo.{name} {z}, {y} : {t}" for name in BITWISE for z in (x, m)}
    values["clamp"] = f"stablehlo.clamp {y}, {m}, {x} : {t}"
    for i, (name, (a, b)) in enumerate(product(COMPARISONS, ((x, y), (m, y), (x, m)))):
        lines.append(f"%flag{i} = stablehlo.compare {name}, {a}, {b} : ({t}, {t}) -> {truth}")
        values[f"chosen{i}"] = f"stablehlo.select %flag{i}, {m}, {x} : {truth}, {t}"
    for i, name in enumerate(("and", "or", "xor", "not")):
        operands = f"%flag{i}" if name == "not" else f"%flag{i}, %flag{i + 5}"
        lines.append(f"%truth_{name} = stablehlo.{name} {operands} : {truth}")
        values[f"number_{name}"] = f"stablehlo.convert %truth_{name} : ({truth}) -> {t}"
    lines += [f"%{name} = {text}" for name, text in values.items()]
    types = dict.fromkeys(values, t)
    for to in ("i8", "i16", "i32", "i64"):
        types[f"to_{to}"] = tensor([count], to)
        lines.append(f"%to_{to} = stablehlo.convert {x} : ({t}) -> {types[f'to_{to}']}")
    lines += [f"%f_{name} = stablehlo.convert %{name} : ({of}) -> {f}" for name, of in types.items()]
    return program({"%x": f}, lines, {f"%f_{name}": f for name in types})


@pytest.mark.parametrize("count", [3, 8])
@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64"])
def test_scalar_ops_on_integers(kind: str, count: int, tmp_path: Path) -> None:
    """The compiled library has the values of the reference engine.

    Small counts give scalar code, larger ones vector code.
    """
    of = scalar_program(kind, count)
    found = scalars(of)
    assert found is not None and found.places == (count if count > 3 else 1)
    given = np.where(np.arange(count) == 2, np.nan, np.arange(count) * 5 % 8)
    exact = of.compile(engine="reference")(given)
    for i, (x, y) in enumerate(zip(run_library(of, [given], tmp_path), exact, strict=True)):
        np.testing.assert_array_equal(x, y, err_msg=of.signature.outputs[i].name)
