"""The parser refuses attributes, types and locations whose text without aliases would take exponential space."""

import io
from itertools import pairwise

import pytest
from torch_mlir import ir

import tiduc
from tiduc.dialect.mlir.aliases import MOST
from tiduc.dialect.mlir.context import context, parse

PROGRAM = """func.func @main(%x: tensor<f32>ARGUMENT) -> tensor<f32> attributes {FUNCTION} {
  %0 = stablehlo.sine %x {OP} : tensor<f32> LOCATION
  return %0 : tensor<f32>
}"""
ARRAYS = "#a0 = [1]\n", "#a{} = [#a{}, #a{}]\n"
DICTIONARIES = "#a0 = {a = 1}\n", "#a{} = {{a = #a{}, b = #a{}}}\n"
TUPLES = "!a0 = tuple<i32>\n", "!a{} = tuple<!a{}, !a{}>\n"
FUNCTIONS = "!a0 = () -> i32\n", "!a{} = (!a{}) -> !a{}\n"
FUSED = '#loc0 = loc("f":1:1)\n', '#loc{} = loc(fused[#loc{}, "x"(#loc{})])\n'
CALLS = '#loc0 = loc("f":1:1)\n', "#loc{} = loc(callsite(#loc{} at #loc{}))\n"
PLACES = {
    "of an op": (ARRAYS, "OP", "tidu.z = #a{}"),
    "of a function": (ARRAYS, "FUNCTION", "tidu.z = #a{}"),
    "dictionaries": (DICTIONARIES, "OP", "tidu.z = #a{}"),
    "type in an attribute": (TUPLES, "OP", "tidu.z = !a{}"),
    "type of an argument": (TUPLES, "ARGUMENT", ", %y: !a{}"),
    "types of functions": (FUNCTIONS, "FUNCTION", "tidu.z = !a{}"),
    "fused locations": (FUSED, "LOCATION", "loc(#loc{})"),
    "locations of calls": (CALLS, "LOCATION", "loc(#loc{})"),
}


def program(place: str, depth: int) -> str:
    """A program with an attribute, type or location of 2^depth parts. Aliases keep the program's text short."""
    (first, further), at, use = PLACES[place]
    aliases = first + "".join(further.format(i, before, before) for before, i in pairwise(range(depth + 1)))
    text = PROGRAM.replace(at, use.format(depth))
    for other in ("ARGUMENT", "FUNCTION", "OP", "LOCATION"):
        text = text.replace(other, "")
    return f"{text}\n{aliases}" if at == "LOCATION" else aliases + text


@pytest.mark.parametrize("place", PLACES)
def test_aliases_that_name_aliases(place: str) -> None:
    with pytest.raises(tiduc.ParseError, match=f"consists of more than {MOST} others"):
        tiduc.load(program(place, 40))
    parse(program(place, 10))


@pytest.mark.parametrize("place", PLACES)
def test_bytecode(place: str) -> None:
    """The limit also holds for bytecode, which has no aliases but stores each attribute only once."""
    with context():
        written = io.BytesIO()
        ir.Module.parse(program(place, 40)).operation.write_bytecode(written)
    with pytest.raises(tiduc.ParseError, match=f"consists of more than {MOST} others"):
        parse(written.getvalue())


def test_definitions_in_one_line() -> None:
    text = program("of an op", 40).replace("]\n", "] ").replace("#a5 =", '// #a9 = [\n#b = "#a8 = [" #a5 =')
    with pytest.raises(tiduc.ParseError, match="consists of more than"):
        tiduc.load(text)


def test_many_uses() -> None:
    """A program is accepted if 201 ops use one large attribute, because the attribute counts only once."""
    aliases, _, rest = program("of an op", 12).partition("func.func")
    op = next(line for line in rest.splitlines() if "sine" in line)
    ops = "\n".join([op, *(op.replace("%0", f"%y{i}") for i in range(200))])
    parse(f"{aliases}func.func{rest.replace(op, ops)}")
