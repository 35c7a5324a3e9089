"""Keeps the names that hand-written text gives to the arguments of functions, as names of locations.

    func.func @main(%x: tensor<f64>)   ->   func.func @main(%arg0: tensor<f64> loc("x"(file.mlir:1:17)))

MLIR's parser forgets the names of SSA values. An argument without a location gets one with the argument's name.
"""

import re
from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

_NAME = re.compile(rb"%([A-Za-z_$.-][\w$.-]*)")
_PLACE = re.compile(r"(\d+):(\d+)\)")
_POSITIONAL = re.compile(r"arg\d+")
"""Names that MLIR's printer generates."""


def name_arguments(module: ir.Module, text: bytes, file: str) -> None:
    """Names the location of each argument of a function after the argument's name in the text.

    `file` is the file name in locations of the text. A location stays if it has a name already, if it is in another
    file, or if the text has no argument name at the location.
    """
    prefix = str(ir.Location.file(file, 0, 0)).removesuffix("0:0)")
    placed = []
    for function in _functions(module.body):
        for argument in function.regions[0].blocks[0].arguments:
            # The bindings abort on a file name that is not UTF-8; the printed location escapes the name.
            printed = str(argument.location)
            if printed.startswith(prefix) and (match := _PLACE.fullmatch(printed, len(prefix))):
                placed.append((argument, int(match[1]), int(match[2])))
    starts = _line_starts(text, max((line for _, line, _ in placed), default=0))
    for argument, line, column in placed:
        name_match = _NAME.match(text, starts[line - 1] + column - 1) if 0 < line <= len(starts) else None
        if name_match is not None and not _POSITIONAL.fullmatch(name := name_match[1].decode()):
            argument.set_location(ir.Location.name(name, childLoc=argument.location))


def _line_starts(text: bytes, count: int) -> list[int]:
    """The offsets of the first lines of a text, at most `count` of them."""
    starts = [0]
    while len(starts) < count and (end := text.find(b"\n", starts[-1])) >= 0:
        starts.append(end + 1)
    return starts


def _functions(block: ir.Block) -> Iterator[Any]:
    """The functions with a body in a module's block, and in modules nested in it, at any depth."""
    waiting = list(block.operations)[::-1]
    while waiting:
        op = waiting.pop().operation
        if op.name == "builtin.module":
            waiting += list(op.regions[0].blocks[0].operations)[::-1]
        elif op.name == "func.func" and len(op.regions[0].blocks):
            yield op
