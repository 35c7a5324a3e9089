"""References that branches of a compiled function pass on twice, each given a name of its own.

A branch of IREE's virtual machine moves an operand out of its register where it is used for the last time. Where the
same reference is passed twice, and once to the register in which it is already, the other place takes it away, and a
buffer is null when it is used (iree-org/iree, pull request 24781). Results of one conditional or iteration lie in one
buffer, so that programs with several of these meet it often.

    vm.br ^bb3(%b, %b : ...)   ->   %copy = vm.select.ref %never, %null, %b;  vm.br ^bb3(%b, %copy : ...)

where `%never` is 0, but read from a global variable, so that nothing can be folded.
"""

import itertools
import re
from collections.abc import Iterator

_JOINS = re.compile(rb"while|case|\bif|\bscf|\bcf")  # names of ops
_JOINS_IN_BYTECODE = re.compile(
    rb"\0(?:while|case|if|scf|cf)\0"
)  # where any bytes may be elements of constants
_MODULE = re.compile(r"^(\s*)vm\.module .*\{$", re.MULTILINE)
_BRANCH = re.compile(r"^( *)vm\.(?:br|cond_br|br_table)\b.*\^bb\d+\(.*$", re.MULTILINE)
_PASSED = re.compile(r"(\^bb\d+\()([^():]*) : ([^()]*)\)")
_FLAG = "_passed_once"


def may_branch(program: bytes) -> bool:
    """Whether a program, as text or bytecode, may hold a loop or a conditional."""
    joins = _JOINS_IN_BYTECODE if program.startswith(b"ML\xefR") else _JOINS
    return joins.search(program) is not None


def passed_once(module: bytes) -> bytes:
    """The text of a module of the VM dialect in which no branch passes a reference twice to one block."""
    names = itertools.count()
    text = module.decode("utf-8", "surrogateescape")
    found = _BRANCH.sub(lambda branch: _behind_copies(branch, names), text)
    if found == text:
        return module
    flag = rf"\g<0>\n\1  vm.global.i32 private mutable @{_FLAG} : i32"
    return _MODULE.sub(flag, found, count=1).encode("utf-8", "surrogateescape")


def _behind_copies(branch: re.Match[str], names: Iterator[int]) -> str:
    """A branch behind the copies that it passes on."""
    indent, lines = branch[1], list[str]()

    def successor(passed: re.Match[str]) -> str:
        operands, types = passed[2].split(", "), passed[3].split(", ")
        for i, (x, type_) in enumerate(zip(operands, types, strict=True)):
            if x in operands[:i] and type_.startswith("!vm.ref"):
                n = next(names)
                lines.append(f"{indent}%never_{n} = vm.global.load.i32 @{_FLAG} : i32")
                lines.append(f"{indent}%null_{n} = vm.const.ref.zero : {type_}")
                lines.append(f"{indent}%copy_{n} = vm.select.ref %never_{n}, %null_{n}, {x} : {type_}")
                operands[i] = f"%copy_{n}"
        return f"{passed[1]}{', '.join(operands)} : {passed[3]})"

    last = _PASSED.sub(successor, branch[0])
    return "\n".join([*lines, last])
