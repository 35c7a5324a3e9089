"""Copies references that a branch passes on while they have other uses; IREE's VM would find them null.

A branch of IREE's virtual machine moves an operand out of its register at the operand's last use. If a branch passes
one reference twice, and one of the two block arguments already has the reference's register, the move to the other
argument empties that register, and a buffer is null when it is used (iree-org/iree, pull request 24781). Results of
one conditional or iteration lie in one buffer, so programs with several such results often meet this fault.

    vm.br ^bb3(%b, %b : ...)   ->   %copy = vm.select.ref %never, %null, %b;  vm.br ^bb3(%b, %copy : ...)

`%never` is always 0, but is read from a global variable so that the compiler cannot fold the select.

A reference that is passed to a block is copied, too, if that block or a later one also uses the reference directly:
the block argument and the reference share a register, and the last use of one empties it for the other.

    vm.br ^bb1(%b : ...)                       %copy = vm.select.ref %never, %null, %b
    ^bb1(%c: ...):                      ->     vm.br ^bb1(%copy : ...)
      vm.br ^bb2(%b : ...)  // %c is null    ^bb1(%c: ...):
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.vm.text import BRANCH, declare, each_branch, each_function, require_heads
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.mlir.artifacts import BYTECODE

_JOINS = re.compile(rb"while|case|\bif|\bscf|\bcf")  # parts of op names
# Whole strings, since constants may hold any bytes.
_JOINS_IN_BYTECODE = re.compile(rb"\0(?:while|case|if|scf|cf)\0")
_BLOCK = re.compile(r"^ *(\^bb\d+)(?:\(.*\))?:.*$", re.MULTILINE)
_SUCCESSOR = re.compile(r"\^bb\d+")
_RESULTS = re.compile(r"^ *(%[^ ,:]+(?::\d+)?(?:, %[^ ,:]+)*) = ", re.MULTILINE)
_VALUE = re.compile(r"%[\w$.-]+")
_FLAG = "@_passed_once"


def may_branch(program: bytes) -> bool:
    """Whether a program, as text or bytecode, may have a loop or a conditional."""
    joins = _JOINS_IN_BYTECODE if program.startswith(BYTECODE) else _JOINS
    return joins.search(program) is not None


@wrong(
    "A branch that passes a buffer twice finds null the second time; passes a copy of the reference.",
    "null_reference",
)
def copy_passed_references(text: str) -> str:
    """The text of a VM module in which branches pass copies of the references that have other uses."""
    names = itertools.count()
    copied = each_function(text, lambda function: _in_function(function, names))
    return text if copied == text else declare(copied, f"vm.global.i32 private mutable {_FLAG} : i32")


@dataclass
class _Uses:
    """Liveness in a function: the block that defines each value, the blocks that use it, and block predecessors."""

    blocks: dict[str, str] = field(default_factory=dict)
    used: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    before: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    live: dict[str, set[str]] = field(default_factory=dict)

    def add(self, block: str, arguments: str, body: str) -> None:
        """Adds a block, given its name, the line of its arguments, and its other lines."""
        results = " ".join(_RESULTS.findall(body))
        self.blocks |= dict.fromkeys(_VALUE.findall(arguments) + _VALUE.findall(results), block)
        for x in set(_VALUE.findall(_RESULTS.sub("", body))):
            self.used[x].add(block)
        for other in set(_SUCCESSOR.findall(body)):
            self.before[other].append(block)

    def outlives(self, x: str, block: str) -> bool:
        """Whether a value is live in a block: used there, or after it before the value is defined again."""
        if x not in self.live:
            defined_in = {self.blocks.get(x)}
            starts = self.used[x] - defined_in
            self.live[x] = set(reached(starts, lambda at: {*self.before[at]} - defined_in))
        return block in self.live[x]


def _in_function(function: str, names: Iterator[int]) -> str:
    """The text of a function, or the text before the first one, with copies before its branches."""
    if not BRANCH.search(function):
        return function
    blocks, uses = list(_BLOCK.finditer(function)), _Uses()
    require_heads(function, blocks)
    ends = [*(block.start() for block in blocks), len(function)]
    uses.add("", "", function[: ends[0]])
    for block, end in zip(blocks, ends[1:], strict=True):
        uses.add(block[1], block[0].partition("):")[0], function[block.end() : end])

    def copies(block: str, operands: list[str], types: list[str]) -> Iterator[str]:
        for i, (x, type_) in enumerate(zip(operands, types, strict=True)):
            if type_.startswith("!vm.ref") and (x in operands[:i] or uses.outlives(x, block)):
                n = next(names)
                yield f"%never_{n} = vm.global.load.i32 {_FLAG} : i32"
                yield f"%nothing_{n} = vm.const.ref.zero : {type_}"
                yield f"%copy_{n} = vm.select.ref %never_{n}, %nothing_{n}, {x} : {type_}"
                operands[i] = f"%copy_{n}"

    return each_branch(function, copies)
