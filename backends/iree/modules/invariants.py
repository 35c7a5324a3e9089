"""invariants: checks of the properties of IREE's IR on which edits rely (`edits.py`)."""

UNEXPECTED = AttributeError, LookupError, TypeError, ValueError
"""The errors that an edit may raise on IR of an unexpected form."""


class Broken(Exception):
    """Raised if a module violates an invariant on which an edit relies. The message states the invariant."""


def require(holds: bool, invariant: str) -> None:
    """Raises `Broken` unless an invariant holds."""
    if not holds:
        raise Broken(invariant)
