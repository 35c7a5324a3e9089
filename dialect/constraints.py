"""Constraints of ops that MLIR's verifier does not check and that rules rely on; a violation is a located error."""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError
from tiduc.dialect.lapack import CALL, check_call
from tiduc.dialect.origins import DYNAMIC, sizes_in


def check_constraints(operation: Any) -> None:
    """`ParseError` for the first op in an operation that violates a constraint."""
    violated: list[ParseError] = []

    def look(op: Any) -> Any:
        check = CONSTRAINTS.get(op.name)
        if check is not None:
            try:
                check(op)
            except ParseError as error:  # which cannot pass through MLIR's walk
                violated.append(error)
                return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    operation.walk(look)
    if violated:
        raise violated[0]


def _fft(op: Any) -> None:
    """The last dimensions of the operand, and of the result, are as long as the transform; half of one is stored."""
    lengths = list(op.attributes["fft_length"])
    kind = str(op.attributes["fft_type"]).split()[-1].rstrip(">")
    stored = [*lengths[:-1], lengths[-1] // 2 + 1] if lengths else []
    of_operand = stored if kind == "IRFFT" else lengths
    of_result = stored if kind == "RFFT" else lengths
    for what, value, expected in (
        ("operand", op.operands[0], of_operand),
        ("result", op.results[0], of_result),
    ):
        sizes = sizes_in(value.type)
        last = sizes[len(sizes) - len(expected) :]
        if len(last) != len(expected) or any(
            n not in (DYNAMIC, m) for n, m in zip(last, expected, strict=True)
        ):
            raise ParseError(
                f"'stablehlo.fft' op fft_length {lengths} needs {what} dimensions {expected}, has {value.type}",
                op.location,
            )


CONSTRAINTS: dict[str, Callable[[Any], None]] = {
    CALL: check_call,
    "stablehlo.fft": _fft,
}
