"""Loops on IREE are correct even if loop-carried values alias arguments, constants or each other."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from harness.xla import by_xla
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.emit.marks import BARRIER, hidden_of
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage

Array = NDArray[Any]
M, R, INDEX = "tensor<2x4xi32>", "tensor<1x2xi32>", "tensor<i32>"
X = np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.int32)
TABLE = "stablehlo.constant dense<[[6, 3, 0, 4], [0, 7, 0, -1]]> : " + M


class Loop(NamedTuple):
    """A loop of %n iterations that carries %a, %b, and so on.

    The initial values may be %x, the constant %t, %d = 2 %x, or the slice %u of an array.
    """

    initial: str
    body: str
    new: str
    results: str
    after: str = ""

    def text(self, name: str) -> str:
        initial, results = self.initial.split(), self.results.split()
        types = ", ".join([INDEX] + [M] * len(initial))
        bound = ", ".join(f"%{a} = {x}" for a, x in zip("abc", initial, strict=False))
        returned = ", ".join([M] * len(results))
        return f"""func.func @{name}(%x: {M}, %n: {INDEX}) -> ({returned}) {{
          %zero = stablehlo.constant dense<0> : {INDEX}
          %one = stablehlo.constant dense<1> : {INDEX}
          %t = {TABLE}
          %d = stablehlo.add %x, %x : {M}
          %y:{len(initial) + 1} = stablehlo.while(%i = %zero, {bound}) : {types}
          cond {{
            %less = stablehlo.compare LT, %i, %n : ({INDEX}, {INDEX}) -> tensor<i1>
            stablehlo.return %less : tensor<i1>
          }} do {{
            %j = stablehlo.add %i, %one : {INDEX}
            {self.body}
            stablehlo.return %j, {", ".join(self.new.split())} : {types}
          }}
          {self.after}
          return {", ".join(results)} : {returned}
        }}"""


def part(name: str, x: str) -> str:
    return f"{name} = stablehlo.slice {x} [0:1, 0:2] : ({M}) -> {R}\n"


def put(name: str, x: str, row: str) -> str:
    types = f"({M}, {R}, {INDEX}, {INDEX}) -> {M}"
    return f"{name} = stablehlo.dynamic_update_slice {x}, {row}, %i, %i : {types}\n"


def chosen(name: str, x: str, y: str) -> str:
    return f"""{name} = "stablehlo.case"(%i) ({{ stablehlo.return {x} : {M} }}, {{
        %other = stablehlo.optimization_barrier {y} : {M}
        stablehlo.return %other : {M} }}) : ({INDEX}) -> {M}\n"""


def sorted_twice(x: str) -> str:
    return f"""%s:2 = "stablehlo.sort"({x}, {x}) <{{dimension = 1 : i64, is_stable = true}}> ({{
      ^bb0(%p: {INDEX}, %q: {INDEX}, %r: {INDEX}, %o: {INDEX}):
        %before = stablehlo.compare LT, %p, %q : ({INDEX}, {INDEX}) -> tensor<i1>
        stablehlo.return %before : tensor<i1>
      }}) : ({M}, {M}) -> ({M}, {M})\n"""


LOOPS = {
    "turned": Loop("%x %t %t", "", "%c %a %c", "%y#1 %y#2"),
    "turned, one wanted": Loop("%x %t %t", "", "%c %a %c", "%y#2"),
    "turned, computed": Loop("%x %d %d", "", "%c %a %c", "%y#2 %y#1 %d"),
    "constant, then argument": Loop("%t %x", "", "%x %a", "%y#1 %y#2"),
    "constant each time": Loop("%x %d", "", "%t %a", "%y#1 %y#2 %x"),
    "one array twice": Loop("%d %x", part("%u", "%b") + put("%v", "%a", "%u"), "%v %v", "%y#1 %y#2"),
    "chosen, then updated": Loop(
        "%d", chosen("%o", "%x", "%d") + part("%u", "%a") + put("%v", "%o", "%u"), "%v", "%y#1 %x"
    ),
    "from an argument through a loop": Loop(
        "%x",
        "",
        "%a",
        "%v %x",
        f"%i = stablehlo.negate %one : {INDEX}\n" + part("%u", "%t") + put("%v", "%y#1", "%u"),
    ),
    "sorted constant": Loop("%x", sorted_twice("%t") + f"%v = stablehlo.add %s#1, %a : {M}", "%v", "%y#1"),
    "sorted argument": Loop("%x", sorted_twice("%x") + f"%v = stablehlo.add %s#1, %a : {M}", "%v", "%y#1 %x"),
    "a barrier of a carry": Loop(
        "%x %d", f"%v:2 = stablehlo.optimization_barrier %b, %a : {M}, {M}", "%v#0 %v#1", "%y#1 %y#2"
    ),
    "a barrier of a carry that a constant chooses": Loop(
        "%x %d",
        f"""%yes = stablehlo.constant dense<true> : tensor<i1>
        %s = stablehlo.select %yes, %b, %t : tensor<i1>, {M}
        %v = stablehlo.optimization_barrier %s : {M}
        %w = stablehlo.add %a, %v : {M}""",
        "%w %a",
        "%y#1 %y#2",
    ),
}

FOLDED = {
    "a carry": "",
    "a constant predicate": f"%yes = stablehlo.constant dense<true> : tensor<i1>\n"
    f"%s = stablehlo.select %yes, %a, %t : tensor<i1>, {M}",
    "a scalar predicate": f"%p = stablehlo.compare LT, %i, %one : ({INDEX}, {INDEX}) -> tensor<i1>\n"
    f"%s = stablehlo.select %p, %t, %a : tensor<i1>, {M}",
    "an added zero": f"%o = stablehlo.constant dense<0> : {M}\n%s = stablehlo.add %a, %o : {M}",
    "a branch": f"""%p = stablehlo.compare LT, %zero, %one : ({INDEX}, {INDEX}) -> tensor<i1>
        %s = "stablehlo.if"(%p) ({{
            stablehlo.return %a : {M} }}, {{
            stablehlo.return %t : {M} }}) : (tensor<i1>) -> {M}""",
    "equal operands": f"%s = stablehlo.maximum %a, %a : {M}",
    "several ops": f"%o = stablehlo.constant dense<1> : {M}\n%r = stablehlo.multiply %o, %a : {M}\n"
    f"%s = stablehlo.or %r, %r : {M}",
}
"""For each name, ops that compute %s. IREE may fold %s to the carried value %a."""
NEW = {
    "a product": f"%s = stablehlo.multiply %a, %t : {M}",
    "a sum with an array": f"%s = stablehlo.add %a, %x : {M}",
    "another value": f"%yes = stablehlo.constant dense<false> : tensor<i1>\n"
    f"%s = stablehlo.select %yes, %a, %d : tensor<i1>, {M}",
}
"""For each name, ops that compute %s. IREE cannot fold %s to the carried value %a."""


def symbol(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")


@pytest.mark.parametrize("name", [*FOLDED, *NEW])
def test_barriers_get_copies_of_carries(name: str) -> None:
    """An optimization barrier in a loop reads a copy if IREE would fold the barrier's operand to the carried value %a.

    Without the copy, IREE would compute the carried value too late.
    """
    body = (FOLDED | NEW)[name]
    barrier = (
        f"%v = stablehlo.optimization_barrier {'%s' if body else '%a'} : {M}\n%w = stablehlo.add %v, %a : {M}"
    )
    assert _reads_copy(Loop("%x", f"{body}\n{barrier}", "%w", "%y#1").text("main")) == (name in FOLDED)


@stage
def _reads_copy(text: str) -> bool:
    """Whether the optimization barrier of a program reads a copy that tiduc's passes for IREE have added."""
    module = parse(text)
    legalize_for_iree(module)
    barriers = outer_first(module.operation, (BARRIER,))
    (barrier,) = (op for op in barriers if str(op.operands[0].type) == M)
    return hidden_of(barrier.operands[0]) is not None


@stage
def prepared(target: str) -> str:
    """The text of a module with all loops, after the passes for IREE on this target."""
    module = parse(
        "\n".join(loop.text(name.replace(" ", "_").replace(",", "")) for name, loop in LOOPS.items())
    )
    legalize_for_iree(module, cpu=target.startswith("cpu"), spirv=target.startswith("vulkan"))
    return str(module)


@pytest.fixture(scope="module", params=["cpu-threads"])
def compiled(request: pytest.FixtureRequest) -> tuple[bytes, str]:
    return compile_module(prepared(request.param), request.param), request.param


@pytest.mark.parametrize("name", LOOPS)
def test_values(compiled: tuple[bytes, str], name: str) -> None:
    vmfb, target = compiled
    run = tiduc.Executable(vmfb, target, entry=symbol(name))
    for n in (0, 1, 3, 2):
        arguments = [X.copy(), np.array(n, np.int32)]
        expected = by_xla(LOOPS[name].text("main"), arguments)
        for y, right in zip(run(*arguments), expected, strict=True):
            np.testing.assert_array_equal(y, right, err_msg=f"{n} iterations")
        np.testing.assert_array_equal(arguments[0], X)
