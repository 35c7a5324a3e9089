"""The errors of tiduc: a base class and a few subclasses. Each error may have a location in the input."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the runtime raises these errors without MLIR
    from torch_mlir import ir

_OUT_OF_MEMORY = re.compile(
    rb"out of memory|bad_alloc|cannot allocate|failed to map segment|allocation (?:still )?failed|"
    rb"pthread_create failed|std::system_error[^\0]*resource temporarily unavailable|MemoryError|"
    rb"error while loading shared libraries:.*: cannot (?:map|create|change|extend|apply|restore) ",
    re.IGNORECASE,
)
"""Matches the messages for exhausted memory of LLVM, the C and C++ libraries, the dynamic linker and Python."""
_FILE_LINE_COL = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


def describe(location: "ir.Location | None") -> str:
    """The first `file:line:col` of an MLIR location, or "" if it has none.

    A fused, call-site or name location contains other locations. The innermost is printed first, and is returned.
    """
    match = _FILE_LINE_COL.search(str(location)) if location is not None else None
    return ":".join(match.groups()) if match else ""


def out_of_memory(said: bytes) -> bool:
    """Whether the output of a library or compiler says that memory or thread stacks ran out."""
    return _OUT_OF_MEMORY.search(said) is not None


class TiducError(Exception):
    """An error in the user's input, printed like an MLIR diagnostic: `file:line:col: error: message`.

    `location` is an `ir.Location`, a `file:line:col` string, a file name, or None.
    """

    def __init__(self, message: str, location: "str | ir.Location | None" = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location if isinstance(location, str) else describe(location)

    def at(self, location: "ir.Location") -> "TiducError":
        """Returns this error. Sets the location if the error has none."""
        self.location = self.location or describe(location)
        return self

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"


class ParseError(TiducError):
    """Text or bytes that are not valid IR."""


class ResolveError(TiducError):
    """A reference that is unknown, ambiguous or cyclic, or that expects another type than the value has."""


class RequestError(TiducError):
    """A request that does not fit the program: an unknown `wrt`, a repeated output, an unknown entry function."""


class Unsupported(TiducError):
    """An op, or a case of an op, that has no derivative rule."""


class UnknownSize(Unsupported):
    """A rule needs a dynamic size that no value provides."""


class InvalidIR(TiducError):
    """A module built by tiduc that MLIR's verifier rejects: a bug of tiduc, or of a user's rules."""


class RuleError(TiducError):
    """A user's rule that raises, or returns an invalid result."""


class CompileError(TiducError):
    """The target's compiler rejected the program."""


class InputError(TiducError):
    """Arguments of a compiled module that have a wrong count, shape or dtype."""


class TiducWarning(UserWarning):
    """A warning for the user. The command continues."""


class TiducRemark(TiducWarning):
    """A remark for the user about a result that is right but could be better."""


def first_line(error: Exception) -> str:
    """The first line of an error's message; its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
