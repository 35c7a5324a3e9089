"""A lock that lets only one thread at a time work on the IR.

    thread 1: load ------> grad ------>          compile (IREE's compiler runs in a process of its own)
    thread 2:              waits      load ----> ...

Graphs of all files share one MLIR context, which threads cannot use concurrently. Each stage therefore holds a lock
(`context.stage`). Compilers and compiled programs run without the lock.
"""

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")

_lock = RLock()


def turn() -> Any:
    """Returns the lock, for a `with` statement. A thread that holds the lock may acquire it again."""
    return _lock


def in_turn(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function to hold the lock while it runs."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with turn():
            return function(*args, **kwargs)

    return run


def _renew() -> None:
    """Creates a new lock in a forked process, because a thread of the parent may hold the old one."""
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class computed_once(Generic[R]):
    """Like `functools.cached_property`, but for functions that acquire the lock of this module.

    In Python 3.11, `functools.cached_property` has a lock of its own. A thread that has that lock and waits for this
    module's lock would deadlock with a thread that has this module's lock and waits for the property.
    """

    def __init__(self, function: Callable[[Any], R]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "computed_once[R]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> R: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with turn():
            known = instance.__dict__
            if self.name not in known:
                known[self.name] = self.function(instance)
            return known[self.name]
