"""Stores the names of function arguments in hand-written text as names of the arguments' locations.

    func.func @main(%x: tensor<f64>)   ->   func.func @main(%arg0: tensor<f64> loc("x"(file.mlir:1:17)))

MLIR's parser does not keep the names of SSA values. If the text states no location for an argument, the parser uses the
argument's position in the text, and this module reads the name at that position.
"""

import re
from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

_NAME = re.compile(rb"%([A-Za-z_$.-][\w$.-]*)")
_PLACE = re.compile(r"(\d+):(\d+)\)")
_POSITIONAL = re.compile(r"arg\d+")
"""Matches names that MLIR's printer generates."""


def name_arguments(module: ir.Module, text: bytes, file: str) -> None:
    """Adds to the location of each function argument the name that the argument has in the text.

    `file` is the file name in locations of the text. A location does not change if it has a name already, if it is in
    another file, if the text has no name at this position, or if MLIR's printer generated the name.
    """
    prefix = str(ir.Location.file(file, 0, 0)).removesuffix("0:0)")
    placed = []
    for function in _functions(module.body):
        for argument in function.regions[0].blocks[0].arguments:
            # The bindings abort on a file name that is not UTF-8, so the location is printed, which escapes the name.
            printed = str(argument.location)
            if printed.startswith(prefix) and (match := _PLACE.fullmatch(printed, len(prefix))):
                placed.append((argument, int(match[1]), int(match[2])))
    starts = _line_starts(text, max((line for _, line, _ in placed), default=0))
    for argument, line, column in placed:
        name_match = _NAME.match(text, starts[line - 1] + column - 1) if 0 < line <= len(starts) else None
        if name_match is not None and not _POSITIONAL.fullmatch(name := name_match[1].decode()):
            argument.set_location(ir.Location.name(name, childLoc=argument.location))


def _line_starts(text: bytes, count: int) -> list[int]:
    """The offsets at which the lines of a text start; at most the first `count` of these offsets."""
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
