"""`stacks_in_place`: loops on the host update their stacks in place, and nothing else that has the same value."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from xla import by_xla

import tiduc
from tiduc.dialect.context import parse, stage
from tiduc.passes.iree import legalize_for_iree
from tiduc.passes.iree.in_place import stacks_in_place
from tiduc.runtime.compile import compile_module

Array = NDArray[Any]
S, R, INDEX = "tensor<6x4xf32>", "tensor<1x4xf32>", "tensor<i32>"
X = np.arange(24, dtype=np.float32).reshape(6, 4) + 1


class Loop(NamedTuple):
    """Five iterations over stacks %a, %b, ...; the body has rows %row of %x and its negative, %minus.

    `chosen` are those that are updated in place.
    """

    initial: str
    body: tuple[str, ...]
    new: str
    chosen: int
    results: str = "%y#1"
    before: str = ""
    after: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        initial, new, results = self.initial.split(), self.new.split(), self.results.split()
        types = ", ".join([INDEX] + [S] * len(initial))
        bound = ", ".join(f"%{a} = {x}" for a, x in zip("abc", initial, strict=False))
        returned = ", ".join([S] * len(results))
        return f"""func.func @{name}(%x: {S}) -> ({returned}) {{
          %zero = stablehlo.constant dense<0> : {INDEX}
          %one = stablehlo.constant dense<1> : {INDEX}
          %n = stablehlo.constant dense<5> : {INDEX}
          %zeros = stablehlo.constant dense<0.0> : {S}
          {self.before}
          %y:{len(initial) + 1} = stablehlo.while(%i = %zero, {bound}) : {types}
          cond {{
            %less = stablehlo.compare LT, %i, %n : ({INDEX}, {INDEX}) -> tensor<i1>
            stablehlo.return %less : tensor<i1>
          }} do {{
            %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 4] : ({S}, {INDEX}, {INDEX}) -> {R}
            %minus = stablehlo.negate %row : {R}
            %j = stablehlo.add %i, %one : {INDEX}
            {" ".join(self.body)}
            stablehlo.return %j, {", ".join(new)} : {types}
          }}
          {" ".join(self.after)}
          return {", ".join(results)} : {returned}
        }}"""


def put(made: str, x: str, row: str, place: str = "%i") -> str:
    return f"{made} = stablehlo.dynamic_update_slice {x}, {row}, {place}, %zero : ({S}, {R}, {INDEX}, {INDEX}) -> {S}\n"


def row_of(made: str, x: str) -> str:
    return (
        f"{made} = stablehlo.dynamic_slice {x}, %i, %zero, sizes = [1, 4] : ({S}, {INDEX}, {INDEX}) -> {R}\n"
    )


def add(made: str, x: str, y: str, type_: str = R) -> str:
    return f"{made} = stablehlo.add {x}, {y} : {type_}\n"


BOTH = (put("%p", "%a", "%row"), put("%q", "%b", "%minus"))
LOOPS = {
    "same_beginning": Loop("%zeros %zeros", BOTH, "%p %q", 2, "%y#1 %y#2"),
    "of_argument": Loop("%x", BOTH[:1], "%p", 1, "%y#1 %x"),
    "twice_of_argument": Loop("%x %x", BOTH, "%p %q", 2, "%y#1 %y#2 %x"),
    "exchanged": Loop("%zeros %x", BOTH, "%q %p", 0, "%y#1 %y#2"),
    "read_before": Loop(
        "%zeros",
        (
            row_of("%o", "%a"),
            put("%r", "%a", "%minus"),
            add("%s", "%o", "%minus"),
            put("%p", "%r", "%s", "%j"),
        ),
        "%p",
        0,
    ),
    "beginning_read_after": Loop("%z", BOTH[:1], "%p", 1, "%y#1 %z", add("%z", "%x", "%x", S)),
    "beginning_read_inside": Loop(
        "%z",
        (
            put("%r", "%a", "%minus"),
            row_of("%o", "%z"),
            add("%s", "%o", "%minus"),
            put("%p", "%r", "%s", "%zero"),
        ),
        "%p",
        1,
        before=add("%z", "%x", "%x", S),
    ),
    "given_twice": Loop("%zeros %x", BOTH[:1], "%p %p", 0, "%y#1 %y#2"),
    "old_kept": Loop("%zeros %x", BOTH[:1], "%p %a", 0, "%y#1 %y#2"),
    "updated_after": Loop(
        "%zeros",
        BOTH[:1],
        "%p",
        0,
        "%y#1 %u",
        after=(f"%rows = stablehlo.slice %x [2:3, 0:4] : ({S}) -> {R}\n", put("%u", "%y#1", "%rows", "%one")),
    ),
    "twice_a_turn": Loop(
        "%zeros %zeros %x",
        (*BOTH, put("%r", "%c", "%minus"), put("%s", "%r", "%row", "%zero")),
        "%p %q %s",
        3,
        "%y#1 %y#2 %y#3 %x",
    ),
}


@stage
def prepared(text: str) -> tuple[str, int]:
    """A program as IREE is to have it, and how many stacks are updated in place."""
    module = parse(text)
    legalize_for_iree(module)
    count = stacks_in_place(module)
    return str(module), count


@pytest.fixture(scope="module")
def compiled() -> bytes:
    """All loops, which compile faster together."""
    text = "\n".join(loop.text(name) for name, loop in LOOPS.items())
    return compile_module(prepared(text)[0], "cpu-threads")


@pytest.mark.parametrize("name", LOOPS)
def test_which_stacks_are_updated_in_place(name: str) -> None:
    assert prepared(LOOPS[name].text(name))[1] == LOOPS[name].chosen


@pytest.mark.parametrize("name", LOOPS)
def test_values(compiled: bytes, name: str) -> None:
    x = X.copy()
    found = tiduc.Executable(compiled, entry=name)(x)
    for y, expected in zip(found, by_xla(LOOPS[name].text("main"), [X]), strict=True):
        np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(x, X)


def test_what_compile_gives_iree() -> None:
    """Of a program whose loop is no dispatch; where that does not compile, the loop as it was."""
    text = LOOPS["same_beginning"].text("main")
    source = tiduc.load(text).source("cpu-threads")
    assert str(source.stablehlo).count("flow.tensor.transfer") == 4
    assert source.otherwise is not None and "flow." not in str(source.otherwise.stablehlo)
    for y, expected in zip(tiduc.load(text).compile("cpu-threads")(X), by_xla(text, [X]), strict=True):
        np.testing.assert_array_equal(y, expected)
