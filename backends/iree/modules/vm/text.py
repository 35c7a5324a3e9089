"""The text of IREE's VM modules: rewrites functions and branches, and adds declarations."""

import itertools
import re
from collections.abc import Callable, Iterable

from tiduc.backends.iree.modules.invariants import require

BRANCH = re.compile(r"^( *)vm\.(?:br|cond_br|br_table)\b.*\^bb\d+\(.*$", re.MULTILINE)
"""A branch that passes operands; group 1 is the indentation."""

_PASSED = re.compile(r"(\^bb\d+)\(([^():]*) : ([^()]*)\)")
_FUNCTION = re.compile(r"^ *vm\.(?:func|initializer)\b", re.MULTILINE)
_HEAD = re.compile(r"^ *\^bb\d+", re.MULTILINE)
_MODULE = re.compile(r"^(\s*)vm\.module .*\{$", re.MULTILINE)


def require_known(text: str, op: str, forms: Iterable[re.Match[str]], operands: int) -> None:
    """Checks that a pattern matches all calls of an imported function, and that each has this many operands."""
    found = [len(form["operands"].split(", ")) for form in forms]
    require(found == [operands] * text.count(f"vm.call @{op}("), f"calls of {op} have {operands} operands")


def require_heads(function: str, heads: Iterable[object]) -> None:
    """Checks that these are as many as the heads of blocks in a function's text."""
    require(
        len(list(heads)) == len(_HEAD.findall(function)), "a block begins with its name and its arguments"
    )


def each_function(text: str, rewrite: Callable[[str], str]) -> str:
    """The text of a module whose functions, and whose text before the first one, are rewritten."""
    starts = [0, *(function.start() for function in _FUNCTION.finditer(text)), len(text)]
    return "".join(rewrite(text[start:end]) for start, end in itertools.pairwise(starts))


def each_branch(function: str, change: Callable[[str, list[str], list[str]], Iterable[str]]) -> str:
    """The text of a function whose branches pass other operands.

    `change(block, operands, types)` changes the operands that a branch passes to a block and their types, in place.
    It gives the ops that compute the new operands.
    """

    def rewritten(branch: re.Match[str]) -> str:
        lines = list[str]()

        def successor(passed: re.Match[str]) -> str:
            operands, types = passed[2].split(", "), passed[3].split(", ")
            require(len(operands) == len(types), "a branch passes one operand of each type")
            lines.extend(branch[1] + line for line in change(passed[1], operands, types))
            return f"{passed[1]}({', '.join(operands)} : {', '.join(types)})"

        last = _PASSED.sub(successor, branch[0])
        is_known = len(_PASSED.findall(last)) == last.count("(")
        require(is_known, "a branch passes lists of operands and their types to blocks")
        return "\n".join([*lines, last])

    return BRANCH.sub(rewritten, function)


def declare(text: str, declaration: str) -> str:
    """The text of a module that begins with a declaration."""
    return _MODULE.sub(rf"\g<0>\n\1  {declaration}", text, count=1)
