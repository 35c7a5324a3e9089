"""Patterns for custom calls, by call target."""

from collections.abc import Callable

from tiduc.backends.iree.emitter import Pattern

CALLS: dict[str, Pattern] = {}
"""The pattern that replaces custom calls, by call target."""


def legalize_call(*targets: str) -> Callable[[Pattern], Pattern]:
    """Registers a pattern for custom calls with these call targets."""

    def register(pattern: Pattern) -> Pattern:
        for target in targets:
            assert target not in CALLS, target
            CALLS[target] = pattern
        return pattern

    return register
