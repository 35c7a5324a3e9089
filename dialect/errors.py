"""The errors of tiduc: one base class, a few kinds, each with a location."""

import re
from typing import Any

_OUT_OF_MEMORY = re.compile(
    rb"out of memory|bad_alloc|cannot allocate|failed to map segment|allocation (?:still )?failed|"
    rb"pthread_create failed",
    re.IGNORECASE,
)
_FILE_LINE_COL = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


def describe(location: Any) -> str:
    """The first `file:line:col` of an MLIR location, or "" where it has none.

    Fused, call-site and name locations print their parts, so the first part found is the innermost.
    """
    found = _FILE_LINE_COL.search(str(location)) if location is not None else None
    return ":".join(found.groups()) if found else ""


def out_of_memory(said: bytes) -> bool:
    """Whether a library or a compiler says that memory ran out. The stacks of threads are memory, too."""
    return _OUT_OF_MEMORY.search(said) is not None


class TiducError(Exception):
    """An error that is the input's fault, printed as MLIR prints diagnostics: `file:line:col: error: message`.

    `location` is an `ir.Location`, a ready `file:line:col` string, a file's name, or None where there is none.
    """

    def __init__(self, message: str, location: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location if isinstance(location, str) else describe(location)

    def at(self, location: Any) -> "TiducError":
        """The error, with a location if it has none yet."""
        self.location = self.location or describe(location)
        return self

    def __str__(self) -> str:
        return f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"


class ParseError(TiducError):
    """Text or bytes that are not valid IR."""


class ResolveError(TiducError):
    """A reference that leads nowhere, to two places, to a value of another type, or back to itself."""


class RequestError(TiducError):
    """A request that does not fit the program: an unknown `wrt`, a repeated output, a wrong entry."""


class Unsupported(TiducError):
    """An op, or a case of an op, that has no derivative rule."""


class OpenSize(Unsupported):
    """What a rule asks depends on a size that is known only when the program runs."""


class InvalidIR(TiducError):
    """A module of tiduc's own making that MLIR's verifier refuses: an error of tiduc, or of rules that were given."""


class RuleError(TiducError):
    """A rule that raises, or returns something that no rule may."""


class CompileError(TiducError):
    """The target's compiler rejected the program."""


class InputError(TiducError):
    """An argument of a compiled module with a wrong count, shape or dtype."""


class TiducWarning(UserWarning):
    """A fact that a user should know and that stops nothing."""
