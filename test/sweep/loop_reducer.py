"""Reduces a StableHLO program that fails to a smaller program that fails, too.

The following steps are tried, from the end of the program to its beginning:

- remove a result of the function
- replace the results of a loop by its initial values, or the results of a branch op by those of one branch
- replace a result of an op by a new argument of the function, by an operand of the op, or by zeros
- replace an operand of an op by zeros
- make the body of a loop return a carried value unchanged

After each step, dead code is removed, and also carried values that a loop only returns unchanged. A step is kept if the
program is shorter and still fails.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.dialect.errors import TiducError
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import parse, run_passes, stage

Step = tuple[str, int, int]
"""The name of a step, the index of an op in text order, and the index of an operand, region or result of the op."""

_STRUCTURAL = ("func.func", "func.return", "stablehlo.return", "builtin.module")
_CLEAN = "builtin.module(inline,symbol-dce,canonicalize,cse)"


def reduced(text: str, fails: Callable[[str], bool], seconds: float) -> str:
    """Returns the smallest program that is found within `seconds` and for which `fails` is true.

    `fails` must be true for `text`.
    """
    end = time.monotonic() + seconds
    cleaned = _cleaned(text)
    text = cleaned if cleaned is not None and fails(cleaned) else text
    has_changed = True
    while has_changed:
        has_changed = False
        steps, at = _steps(text), 0
        while at < len(steps) and time.monotonic() < end:
            smaller = _applied(text, steps[at])
            if smaller is not None and len(smaller) < len(text) and fails(smaller):
                text, has_changed = smaller, True
                steps = _steps(text)
                at = min(at, len(steps))
            else:
                at += 1
    return text


@stage
def _cleaned(text: str) -> str | None:
    """Returns the text of the program after inlining, canonicalization and CSE."""
    module = parse(text)
    run_passes(module.operation, _CLEAN)
    return str(module)


@stage
def _steps(text: str) -> list[Step]:
    """Returns all steps for a program, those for its last ops first."""
    module = parse(text)  # the module must live as long as its ops
    ops = outer_first(module.operation)
    return [step for i in reversed(range(len(ops))) for step in _of_op(ops[i], i)]


def _of_op(op: Any, i: int) -> Iterator[Step]:
    numbers = range(len(op.operands))
    if op.name == "func.return" and len(numbers) > 1:
        yield from (("drop", i, j) for j in numbers)
    if op.name == "stablehlo.while":
        yield "skip", i, 0
        yield from (("keep", i, j) for j in numbers)
    if op.name in ("stablehlo.if", "stablehlo.case"):
        yield from (("take", i, j) for j in range(len(op.regions)))
    if op.name not in (*_STRUCTURAL, "stablehlo.constant"):
        if len(op.results) == 1 and op.parent.name == "func.func":
            yield "argument", i, 0
        yield from (("operand", i, j) for j in numbers if len(op.results) == 1)
        yield "zero", i, 0
    if op.name not in ("func.func", "func.return"):
        yield from (("no operand", i, j) for j in numbers)


@stage
def _applied(text: str, step: Step) -> str | None:
    """Returns the text of the program after a step. Returns None if the program would be invalid."""
    kind, i, j = step
    try:
        module = parse(text)
        op = outer_first(module.operation)[i]
        _STEPS[kind](op, j)
        _without_unread(module)
        module.operation.verify()
        return str(module)
    except (TiducError, ir.MLIRError, ValueError, IndexError):
        return None


def _drop(op: Any, j: int) -> None:
    """Removes a result of the function. `op` is its terminator."""
    function, kept = op.parent, [x for i, x in enumerate(op.operands) if i != j]
    ir.Operation.create("func.return", operands=kept, ip=ir.InsertionPoint(op), loc=op.location)
    op.erase()
    _retype(function, [x.type for x in kept])
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]


def _argument(op: Any, j: int) -> None:
    """Replaces the result of an op by a new argument of the function."""
    function = op.parent
    x = function.regions[0].blocks[0].add_argument(op.results[0].type, op.location)
    _replace(op, [x])
    _retype(function, list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results))
    if "arg_attrs" in function.attributes:
        each = [*function.attributes["arg_attrs"], ir.DictAttr.get({})]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(each)


def _retype(function: Any, results: list[Any]) -> None:
    """Sets the type of a function. The argument types are those of its block, and `results` are the result types."""
    arguments = [x.type for x in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, results))


def _skip(op: Any, j: int) -> None:
    """Replaces the results of a loop by its initial values."""
    _replace(op, list(op.operands))


def _take(op: Any, j: int) -> None:
    """Replaces a branch op by the ops of its region `j`."""
    _replace(op, Emitter(ir.InsertionPoint(op), op.location).inlined(op.regions[j], []))


def _operand(op: Any, j: int) -> None:
    """Replaces the result of an op by its operand `j`. Raises `ValueError` if their types differ."""
    if op.operands[j].type != op.results[0].type:
        raise ValueError
    _replace(op, [op.operands[j]])


def _zero(op: Any, j: int) -> None:
    """Replaces the results of an op by zeros."""
    b = Emitter(ir.InsertionPoint(op), op.location)
    _replace(op, [b.constant(0, y.type) for y in op.results])


def _no_operand(op: Any, j: int) -> None:
    """Replaces operand `j` of an op by zeros. Raises `ValueError` if the operand is a constant already."""
    x = op.operands[j]
    if not isinstance(x.owner, ir.Block) and x.owner.name == "stablehlo.constant":
        raise ValueError
    op.operands[j] = Emitter(ir.InsertionPoint(op), op.location).constant(0, x.type)


def _keep(op: Any, j: int) -> None:
    """Makes the body of a loop return carried value `j` unchanged."""
    body = op.regions[1].blocks[0]
    list(operations(body))[-1].operands[j] = body.arguments[j]


def _replace(op: Any, values: list[Any]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _without_unread(module: Any) -> None:
    """Removes ops whose results are not read, and carried values that loops only return unchanged."""
    has_changed = True
    while has_changed:
        has_changed = False
        for op in outer_first(module.operation)[::-1]:
            if op.name not in _STRUCTURAL and not any(list(y.uses) for y in op.results):
                op.erase()
                has_changed = True
                break
            if op.name == "stablehlo.while" and _without_carries(op):
                has_changed = True
                break


def _without_carries(loop: Any) -> bool:
    """Removes the carried values that are read only where the body returns them unchanged.

    Returns whether the loop had such values.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    end = list(operations(body))[-1]

    def is_read(i: int) -> bool:
        outside = [*loop.results[i].uses, *condition.arguments[i].uses]
        inside = (use for use in body.arguments[i].uses if (use.owner, use.operand_number) != (end, i))
        return bool(outside) or any(inside)

    kept = [i for i in range(len(loop.operands)) if is_read(i)]
    if not kept or len(kept) == len(loop.operands):
        return False
    b = Emitter(ir.InsertionPoint(loop), loop.location)

    def copied(block: Any, returned: list[int]) -> Callable[..., list[Any]]:
        def fill(b: Emitter, *carries: Any) -> list[Any]:
            values = dict(zip((block.arguments[i] for i in kept), carries, strict=True))
            for op in list(operations(block))[:-1]:
                b.copied(op, values)
            results = list(operations(block))[-1].operands
            return [values.get(results[i], results[i]) for i in returned]

        return fill

    types = [loop.operands[i].type for i in kept]
    regions = [b.region(types, copied(condition, [0])), b.region(types, copied(body, kept))]
    new = b.emit_all("stablehlo.while", [loop.operands[i] for i in kept], types, None, regions)
    for i, y in zip(kept, new, strict=True):
        loop.results[i].replace_all_uses_with(y)
    loop.erase()
    return True


_STEPS: dict[str, Callable[[Any, int], None]] = {
    "argument": _argument,
    "drop": _drop,
    "keep": _keep,
    "no operand": _no_operand,
    "operand": _operand,
    "skip": _skip,
    "take": _take,
    "zero": _zero,
}
