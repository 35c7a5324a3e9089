"""dispatches: the dispatches of a compiled program, each with the ops that it computes and the bytes that it moves.

    %1 = dot_general ...  loc("tiduc-op":1)        dispatch @main$dispatch_0, which computes ops 1 and 2,
    %2 = exponential %1   loc("tiduc-op":2)   ->   reads %a and %b, and writes %c

`numbered` sets the location of each op to the op's number, because IREE keeps locations. `dispatches` then reads the
texts that IREE's compiler prints after two phases. After the phase that forms dispatches, the text has all ops of each
dispatch. After a later phase, the text has the kernels and the schedule, but only one location for each dispatch. A
scheduled dispatch therefore gets the ops of the formed dispatch with an equal location.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir as iree_ir
from torch_mlir import ir

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.iree.build import build
from tiduc.backends.iree.modules.ops import of_host
from tiduc.dialect.errors import CompileError, describe
from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.context import stage

_FILE = "tiduc-op"
_NUMBER = re.compile(rf'"{_FILE}":(\d+):')

_FORMED, _SCHEDULED = "dispatch-creation", "executable-sources"
"""The phases of IREE's compiler after which the program's text is read."""

_REGIONS = "flow.dispatch.workgroups", "flow.dispatch.region", "flow.dispatch"
_SITE = "stream.cmd.dispatch"
_SHARED = "arith.constant", "tensor.empty", "linalg.fill"
"""IREE merges these ops with equal ops. The location of a merged op may be that of an op in another dispatch."""

_BITS = re.compile(r"\d+")

_Formed = tuple[tuple[int, ...], int | None]
"""The op numbers of a dispatch and the bytes that the dispatch moves; the bytes are None if a size is dynamic."""


@dataclass(frozen=True)
class Dispatch:
    """A dispatch: its kernel's name, the numbers of the ops that it computes, and the bytes that it moves.

    `bytes` is None if a size is dynamic. An array that the dispatch both reads and writes counts twice.
    """

    kernel: str
    ops: tuple[int, ...]
    bytes: int | None


@stage
def numbered(program: Lowered) -> tuple[Lowered, list[str]]:
    """Returns a copy of a program in which each op's location is its number, and a list of the original locations."""
    copy = program.module.operation.clone().operation
    places = [describe(op.location) for op in within(program.module.operation)]
    for i, op in enumerate(within(copy)):
        op.location = ir.Location.file(_FILE, i, 1)
    return Lowered(copy, program.signature, program.name), places


def number_in(place: str) -> int | None:
    """Reads an op's number from a location `file:line:col`. Returns None if `numbered` did not set the location."""
    file, _, rest = place.partition(":")
    return int(rest.partition(":")[0]) if file == _FILE else None


def with_dispatches(program: Lowered, options: Options, folder: str) -> tuple[bytes, list[Dispatch]]:
    """Compiles a program from `numbered`; returns the module, and its dispatches in the order of the scheduled code.

    `folder` receives the intermediate files. Raises the errors of `build`.
    """
    vmfb = build(program, options, ["--mlir-print-debuginfo"], inlines=True, folder=folder)
    return vmfb, dispatches(_text_of(folder, _FORMED), _text_of(folder, _SCHEDULED))


def _text_of(folder: str, phase: str) -> str:
    """Reads the text that the compiler wrote below `folder` after a phase: the last file, if there are several.

    Raises `CompileError` if there is no file.
    """
    files = sorted(Path(folder, "phases").glob(f"*.{phase}.mlir"), key=lambda file: file.stat().st_mtime_ns)
    if not files:
        raise CompileError(f"IREE's compiler printed no text after its phase {phase}")
    return files[-1].read_text(errors="surrogateescape")


def dispatches(formed: str, scheduled: str) -> list[Dispatch]:
    """Reads a program's dispatches from two texts: `formed` has their ops, `scheduled` has their order and kernels."""
    with iree_ir.Context() as context:
        # Without these references, the modules would be freed while their ops are read.
        first, second = (iree_ir.Module.parse(text, context) for text in (formed, scheduled))
        formed_at: dict[str, list[_Formed]] = {}
        for op in _found(first, _REGIONS):
            inside = [inner for inner in of_host(op) if inner.name not in _SHARED]
            ops = {n for inner in (op, *inside) for n in _numbers(str(inner.location))}
            formed_at.setdefault(str(op.location), []).append((tuple(sorted(ops)), _bytes(op)))
        return [_dispatch(site, formed_at) for site in _found(second, (_SITE,))]


def _dispatch(site: iree_ir.Operation, formed_at: dict[str, list[_Formed]]) -> Dispatch:
    """Describes a scheduled dispatch, with the ops and bytes of the formed dispatch that has an equal location.

    `formed_at` maps locations to formed dispatches. Dispatches with equal locations are matched in order: each match
    is removed from `formed_at`, except the last. If there is no match, the ops are those that the location itself
    names, and the bytes are None.
    """
    location = str(site.location)
    known = formed_at.get(location)
    if not known:
        return Dispatch(_kernel(site), _numbers(location), None)
    ops, size = known.pop(0) if len(known) > 1 else known[0]
    return Dispatch(_kernel(site), ops, size)


def _found(module: iree_ir.Module, names: Sequence[str]) -> list[iree_ir.Operation]:
    """Returns the ops in a module that have one of these names, in order."""
    return [op for op in of_host(module.operation) if op.name in names]


def _numbers(location: str) -> tuple[int, ...]:
    return tuple(sorted({int(n) for n in _NUMBER.findall(location)}))


def _kernel(site: iree_ir.Operation) -> str:
    """The name of the function that a dispatch calls."""
    entries = iree_ir.ArrayAttr(site.attributes["entry_points"])
    return str(iree_ir.SymbolRefAttr(entries[0]).value[-1])


def _bytes(op: iree_ir.Operation) -> int | None:
    """Adds up the bytes of the arrays that a dispatch reads or writes. Returns None if a shape is dynamic."""
    total = 0
    for value in (*op.operands, *op.results):
        if isinstance(type_ := value.type, iree_ir.RankedTensorType):
            if not type_.has_static_shape:
                return None
            total += math.prod(type_.shape) * _width(str(type_.element_type))
    return total


def _width(element: str) -> int:
    """Returns the bytes of an element, given the text of its type, such as "f32", "i1" or "complex<f64>".

    Returns 0 if the text has no width, as "index".
    """
    bits = _BITS.search(element)
    return 0 if bits is None else -(-int(bits[0]) // 8) * (2 if element.startswith("complex") else 1)
