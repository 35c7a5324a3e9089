"""Patterns by the target of the custom call that they replace."""

from collections.abc import Callable

from tiduc.backends.iree.emitter import Pattern

CALLS: dict[str, Pattern] = {}
"""What a custom call of that target is replaced by."""


def legalize_call(*targets: str) -> Callable[[Pattern], Pattern]:
    """Registers a pattern for custom calls of these targets."""

    def register(pattern: Pattern) -> Pattern:
        for target in targets:
            assert target not in CALLS, target
            CALLS[target] = pattern
        return pattern

    return register
