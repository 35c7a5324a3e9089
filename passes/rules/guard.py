"""guard: turns an error in a user's rule into a diagnostic with the op, its location, and the line of the rule.

    f.mlir:2:8: error: the rule for foreign.softplus raised TypeError: ... (mine.py:7)

Only functions that users register are guarded. A `Verdict` checks the result of such a function.
"""

import functools
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RuleError, TiducError
from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.graph.graph import Definition, Value

Verdict = Callable[..., str | None]
"""A function (b, result, arguments...) that returns why the result is wrong, or None if the result is right."""

_OURS = str(Path(__file__).parents[1])
_PASSED = (TiducError, RecursionError, MemoryError, ir.MLIRError)
_ZERO = "where the derivative is zero, return zeros"


def guarded(
    function: Any,
    name: str,
    verdict: Verdict,
    symbolic: bool = False,
    of_emitted: Callable[[StablehloBuilder, Sequence[Definition], Sequence[object]], str | None]
    | None = None,
) -> Any:
    """Wraps a user's function of (b, arguments...), so that exceptions and invalid results become `RuleError`s.

    Returns tiduc's own functions unchanged. `name` is the op's name. With `symbolic`, constants of zeros in the result
    become None, because a linear graph returns no constants. `of_emitted` checks the ops that the function emitted:
    like `verdict`, it returns the reason of an error, or None. Raises `TypeError` if `function` is not callable.
    """
    if not callable(function):
        raise TypeError(f"a rule for {name} is {function!r}, which is not a function")
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (None, None)
    if file is not None and file.startswith(_OURS):
        return function

    @functools.wraps(function)
    def call(b: StablehloBuilder, *arguments: Definition | Value) -> Any:
        place = f"{file}:{line}" if file is not None else repr(function)
        before = len(b.graph.definitions)
        try:
            result = function(b, *arguments)
        except _PASSED:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            inside = [frame.lineno for frame in frames if frame.filename == file]
            place = f"{file}:{inside[-1]}" if inside else place
            message = f"the rule for {name} raised {type(error).__name__}: {error} ({place})"
            raise RuleError(message, b.location) from error
        wrong = verdict(b, result, *arguments)
        if wrong is None and of_emitted is not None:
            wrong = of_emitted(b, b.graph.definitions[before:], result)
        if wrong is not None:
            raise RuleError(f"the rule for {name} {wrong} ({place})", b.location)
        if not symbolic:
            return result
        return [_symbolic(x) for x in result] if isinstance(result, list | tuple) else _symbolic(result)

    return call


def _symbolic(entry: Any) -> Any:
    """Returns None if the tangent or cotangent `entry` is a constant of zeros, else `entry`.

    If `entry` is a function, wraps it in a function that treats its result in the same way.
    """
    if callable(entry):
        return lambda: _symbolic(entry())
    return None if isinstance(entry, Value) and is_zeros(entry) else entry


# ---- verdicts on results; they return an error message, or None for a valid result -------------------------


def of_partial(b: StablehloBuilder, result: Value, *values: Value) -> str | None:
    """Checks a partial derivative of an elementwise op: it must be a value."""
    return _not_a_value(result, "for this operand; pass None in place of the function for a zero derivative")


def of_side(b: StablehloBuilder, result: object, op: Definition, ct: Value, side: int) -> str | None:
    """Checks the result of a transpose of a bilinear op: it must be the cotangent of one operand."""
    return _entry(result, op.operands[side], f"cotangent of operand {side}")


def of_linear(operands: Sequence[int]) -> Verdict:
    """Returns a check of a linear op's transpose: its result must list cotangents, without None for `operands`."""

    def verdict(b: StablehloBuilder, result: object, op: Definition, ct: Value) -> str | None:
        return _list(result, op.operands, [i in operands for i in range(len(op.operands))], "operand")

    return verdict


def of_transpose(
    b: StablehloBuilder, result: object, op: Definition, ct: Sequence[Value | None], active: Sequence[bool]
) -> str | None:
    """Checks the result of a transpose rule: it must list cotangents, without None for an active operand."""
    return _list(result, op.operands, active, "operand")


def of_linearize(b: StablehloBuilder, result: object, op: Definition, dx: Sequence[Value]) -> str | None:
    """Checks the result of a linearize rule: it must list tangents, without None if a result has a tangent type."""
    wanted = [b.tangent_type(y.type) is not None for y in op.results]
    return _list(result, op.results, wanted, "result")


def of_lowering(b: StablehloBuilder, result: Value, op: Definition, *operands: Value) -> str | None:
    """Checks the result of a lowering: it must list a value for each result, or be the value of a single result."""
    if len(op.results) == 1 and not isinstance(result, list | tuple):
        return _entry(result, op.result, "result")
    return _list(result, op.results, [True] * len(op.results), "result")


def _list(result: object, values: Sequence[Value], wanted: Sequence[bool], kind: str) -> str | None:
    if result is None:
        return f"returns nothing; expects a list with an entry for each {kind}"
    if not isinstance(result, list | tuple):
        return f"returns {_kind(result)}; expects a list with an entry for each {kind}"
    if len(result) != len(values):
        return f"returns {len(result)} entries for {len(values)} {kind}{'s' * (len(values) != 1)}"
    for i, (entry, x, is_wanted) in enumerate(zip(result, values, wanted, strict=True)):
        if (is_wanted or entry is not None) and not callable(entry):
            if (wrong := _entry(entry, x, f"entry {i}")) is not None:
                return wrong
    return None


def _entry(entry: object, like: Value, position: str) -> str | None:
    if not isinstance(entry, Value):
        return _not_a_value(entry, f"as {position}; {_ZERO}, b.zeros_like(x)")
    if entry.type != like.type:
        return f"returns {entry.type} as {position}; expects {like.type}"
    return None


def _not_a_value(result: object, where: str) -> str | None:
    if result is None:
        return f"returns nothing {where}"
    return None if isinstance(result, Value) else f"returns {_kind(result)}; expects a value"


def _kind(result: object) -> str:
    return f"a value of Python's type {type(result).__name__}"
