"""The errors of tiduc: a base class and a few subclasses. Each error may have a location in the input."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the runtime imports this file where MLIR is not installed
    from torch_mlir import ir

_OUT_OF_MEMORY = re.compile(
    rb"out of memory|bad_alloc|cannot allocate|failed to map segment|allocation (?:still )?failed|"
    rb"pthread_create failed|std::system_error[^\0]*resource temporarily unavailable|MemoryError|"
    rb"error while loading shared libraries:.*: cannot (?:map|create|change|extend|apply|restore) ",
    re.IGNORECASE,
)
"""Matches the messages by which LLVM, the C and C++ libraries, the dynamic linker and Python report lack of memory."""
_FILE_LINE_COL = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


def describe(location: "ir.Location | None") -> str:
    """The first `file:line:col` of an MLIR location, or "" if it has none.

    If locations are nested (fused, call-site or name locations), this is the innermost, because MLIR prints it first.
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
        """Sets the location of the error if it has none. Returns the error."""
        self.location = self.location or describe(location)
        return self

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"


class ParseError(TiducError):
    """The input text or bytes are not valid IR."""


class ResolveError(TiducError):
    """A reference is unknown, ambiguous or cyclic, or the value does not have the type that the reference expects."""


class RequestError(TiducError):
    """A request does not fit the program. It has, for example, an unknown `wrt` or entry function."""


class Unsupported(TiducError):
    """No derivative rule exists for an op, or for a special case of an op."""


class UnknownSize(Unsupported):
    """A derivative rule needs a dynamic size that no value provides."""


class InvalidIR(TiducError):
    """MLIR's verifier rejects a module that tiduc built. This is a bug of tiduc, or of a user's rules."""


class RuleError(TiducError):
    """A user's rule raised an exception, or returned an invalid result."""


class CompileError(TiducError):
    """The target's compiler rejected the program."""


class InputError(TiducError):
    """The arguments of a compiled module have a wrong count, shape or dtype."""


class TiducWarning(UserWarning):
    """A warning for the user. The command continues."""


class TiducRemark(TiducWarning):
    """A remark for the user about a result that is right, but that could be better."""


def first_line(error: Exception) -> str:
    """The first line of an error's message; its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
