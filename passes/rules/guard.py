"""guard: turns an error in a user's rule into a diagnostic with the op, its location, and the line of the rule.

    f.mlir:2:8: error: the rule for foreign.softplus raised TypeError: ... (mine.py:7)

tiduc's own functions are not guarded. A `Verdict` checks the result of a guarded function.
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
"""A function of (b, result, arguments...) that returns why the result is wrong, or None if the result is right."""

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
    """Wraps a user's function of (b, arguments...). Its exceptions and invalid results become `RuleError`s.

    `name` is the op's name. With `symbolic`, constants of zeros in the result become None, because a linear graph
    returns no constants. `of_emitted` also checks the ops that the function emitted: like `verdict`, it returns the
    reason of an error, or None. Raises `TypeError` if `function` is not callable.
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
    """The tangent or cotangent `entry`; None if it is a constant of zeros.

    If `entry` is a function, a function that returns None in place of a constant of zeros.
    """
    if callable(entry):
        return lambda: _symbolic(entry())
    return None if isinstance(entry, Value) and is_zeros(entry) else entry


# ---- what functions must return ----------------------------------------------------------------------------


def of_partial(b: StablehloBuilder, result: Value, *values: Value) -> str | None:
    """Judges a partial derivative of an elementwise op: it must be a value."""
    return _not_a_value(result, "for this operand; pass None in place of the function for a zero derivative")


def of_side(b: StablehloBuilder, result: object, op: Definition, ct: Value, side: int) -> str | None:
    """Judges a transpose of a bilinear op: it must be the cotangent of one operand."""
    return _entry(result, op.operands[side], f"cotangent of operand {side}")


def of_linear(operands: Sequence[int]) -> Verdict:
    """Judges a transpose of a linear op: a list of cotangents, without None for any of `operands`."""

    def verdict(b: StablehloBuilder, result: object, op: Definition, ct: Value) -> str | None:
        return _list(result, op.operands, [i in operands for i in range(len(op.operands))], "operand")

    return verdict


def of_transpose(
    b: StablehloBuilder, result: object, op: Definition, ct: Sequence[Value | None], active: Sequence[bool]
) -> str | None:
    """Judges a transpose rule: a list of cotangents, without None for an active operand."""
    return _list(result, op.operands, active, "operand")


def of_linearize(b: StablehloBuilder, result: object, op: Definition, dx: Sequence[Value]) -> str | None:
    """Judges a linearize rule: a list of tangents, without None for a result that has a tangent type."""
    wanted = [b.tangent_type(y.type) is not None for y in op.results]
    return _list(result, op.results, wanted, "result")


def of_lowering(b: StablehloBuilder, result: Value, op: Definition, *operands: Value) -> str | None:
    """Judges a lowering: a list with a value for each result. A single result may be a bare value."""
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
