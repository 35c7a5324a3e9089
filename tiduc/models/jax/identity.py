"""Keys of functions: functions with equal keys compute equal results.

For each call of a function with a custom derivative, JAX creates new objects: wrapped functions, closures, and stores
of pytree structures. Keys do not depend on the identity of these objects: the key of a closure consists of its code and
the keys of its cells. All calls of a function therefore share one derivative, which is exported once.
"""

import dataclasses
import functools
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

_OF_A_CALL = ("Store", "EqualStore", "TraceTag", "Trace", "DebugInfo")
"""The names of JAX's types whose objects belong to one call or trace, and do not affect the results of a function."""
_VALUES = (bool, int, str, bytes, type(None), type, np.dtype)


class RuleKeys:
    """Computes keys. Keeps each object whose identity is part of a key, so that no new object gets this identity."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def key(self, value: object) -> Hashable:
        """The key of a value, which is a function, a parameter, or a container of these."""
        return self._key(value, ())

    def _key(self, given: object, outer: tuple[int, ...]) -> Hashable:
        value: Any = given
        names = {kind.__name__ for kind in type(value).__mro__}
        if names & set(_OF_A_CALL):
            return None
        if isinstance(value, _VALUES):
            return type(value), value
        if isinstance(value, float | complex):
            return type(value), repr(value)  # distinguishes 0.0 from -0.0
        if id(value) in outer:
            return "outer", len(outer) - outer.index(id(value))  # a function that calls itself
        inner = (*outer, id(value))
        if "WrappedFun" in names:
            transforms = [each for each in value.transforms if not _is_empty(each)]
            rest = [transforms, value.params, value.in_type]
            return self._key(value.f if not any(rest) else [value.f, *rest], inner)
        if type(value).__name__ in ("Unhashable", "Hashable") and hasattr(value, "val"):
            return type(value), self._key(value.val, inner)
        if isinstance(value, tuple | list):
            return type(value), tuple([self._key(each, inner) for each in value])
        if isinstance(value, dict):
            return dict, tuple([(self._key(x, inner), self._key(y, inner)) for x, y in value.items()])
        if isinstance(value, functools.partial):
            return functools.partial, self._key([value.func, value.args, value.keywords], inner)
        if isinstance(value, types.MethodType):
            return types.MethodType, self._key([value.__func__, value.__self__], inner)
        if isinstance(value, types.FunctionType):
            rule = _wrapped_rule(value)
            parts = [value.__defaults__, value.__kwdefaults__, *_cells(value).values()]
            code = value.__code__, id(value.__globals__)
            return self._key(rule, inner) if rule else (*code, self._key(parts, inner))
        declared: Any = getattr(type(value), "__dataclass_params__", None)
        if declared is not None and declared.frozen:
            fields = [getattr(value, each.name, None) for each in dataclasses.fields(value)]
            return type(value), tuple([self._key(field, inner) for field in fields])
        if type(value).__module__.startswith("jax") and type(value).__name__ in ("PyTreeDef", "ShapedArray"):
            return value  # type: ignore[no-any-return]
        self._kept.append(value)
        return type(value), id(value)


def origin(rule: object) -> int:
    """The identity of the object that JAX created for a call. `rule` is this object, or a function that wraps it."""
    while True:
        function = getattr(rule, "f", rule)
        inner = _wrapped_rule(function) if isinstance(function, types.FunctionType) else None
        transforms: Any = getattr(inner, "transforms", ())
        if inner is None or transforms:
            return id(function)
        rule = inner


def _cells(function: types.FunctionType) -> dict[str, Any]:
    """The variables of enclosing functions that a function reads, by name."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            found[name] = None
    return found


def _wrapped_rule(function: types.FunctionType) -> object:
    """The rule inside a function of JAX that only traces the rule, caches it, or calls it with all arguments.

    Returns None for any other function.
    """
    cells = _cells(function)
    if function.__qualname__ == "_memoize.<locals>.memoized":
        traced = _cells(cells["fn"])
        return traced.get("jvp", traced.get("fwd"))
    if (
        function.__qualname__ in ("lift_jvp.<locals>.jvp", "lift_fwd.<locals>.fwd")
        and not cells["num_consts"]
    ):
        return cells.get("jvp_jaxpr_fun", cells.get("fwd_jaxpr_thunk"))
    return None


def _is_empty(transform: tuple[object, tuple[object, ...]]) -> bool:
    """Whether a transformation of a rule has no effect, because no captured array needs a cotangent."""
    function, arguments = transform
    return getattr(function, "__name__", "") == "_handle_consts_in_bwd" and not any(arguments)
