"""Widens 32-bit block arguments to 64 bits in blocks that also have 64-bit arguments.

IREE's virtual machine has 32-bit registers; a 64-bit number takes two. A branch moves its operands one after the
other, and the compiler keeps a register until it has been read. But for a 64-bit number the compiler checks the first
register only, so the second may overwrite an operand that is still to be moved. A loop's induction variable then
becomes half of a size, and the loop ends early.

    vm.br ^bb1(%i, %n : i32, i64)            %wide = vm.ext.i32.i64.u %i
    ^bb1(%j: i32, %m: i64):            ->    vm.br ^bb1(%wide, %n : i64, i64)
                                             ^bb1(%wider: i64, %m: i64):
                                               %j = vm.trunc.i64.i32 %wider
"""

import itertools
import re
from collections.abc import Iterator

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.modules.vm.text import each_branch, each_function, require_heads

_BLOCK = re.compile(r"^( *)(\^bb\d+)\(([^()]*)\):(.*)$", re.MULTILINE)
_PLAIN = re.compile(r"^ *\^bb\d+:", re.MULTILINE)
_GIVEN = re.compile(r"\byieldable .*-> *(\^bb\d+)")  # blocks that follow a call


@wrong(
    "A branch may overwrite a 32-bit operand by half of a 64-bit one; passes all operands as 64 bits.",
    "threads/counter_beside_sizes",
)
def widen_block_arguments(text: str) -> str:
    """The text of a VM module in which no branch passes both 32-bit and 64-bit numbers to one block."""
    names = itertools.count()
    return each_function(text, lambda function: _widened(function, names))


def _widened(function: str, names: Iterator[int]) -> str:
    """The text of a function, or the text before the first one, whose blocks have arguments of one width."""
    require_heads(function, [*_BLOCK.finditer(function), *_PLAIN.finditer(function)])
    given = set(_GIVEN.findall(function))
    blocks = {block[2] for block in _BLOCK.finditer(function) if _is_mixed(block[3])} - given
    if not blocks:
        return function

    def extensions(block: str, operands: list[str], types: list[str]) -> Iterator[str]:
        for i, (x, type_) in enumerate(zip(operands, types, strict=True)):
            if block in blocks and type_ == "i32":
                operands[i], types[i] = f"%wide_{next(names)}", "i64"
                yield f"{operands[i]} = vm.ext.i32.i64.u {x} : i32 -> i64"

    function = _BLOCK.sub(
        lambda block: _narrowed_in(block, names) if block[2] in blocks else block[0], function
    )
    return each_branch(function, extensions)


def _is_mixed(arguments: str) -> bool:
    types = {argument.split(": ", 1)[1] for argument in arguments.split(", ")}
    return "i32" in types and bool(types & {"i64", "f64"})


def _narrowed_in(block: re.Match[str], names: Iterator[int]) -> str:
    """The head of a block that takes 64-bit arguments and truncates them to the 32-bit values that the block uses."""
    arguments, lines = block[3].split(", "), list[str]()
    for i, argument in enumerate(arguments):
        name, type_ = argument.split(": ", 1)
        if type_ == "i32":
            wide = f"%wide_{next(names)}"
            arguments[i] = f"{wide}: i64"
            lines.append(f"\n{block[1]}  {name} = vm.trunc.i64.i32 {wide} : i64 -> i32")
    return f"{block[1]}{block[2]}({', '.join(arguments)}):{block[4]}{''.join(lines)}"
