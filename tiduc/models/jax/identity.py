"""Keys of functions: functions with equal keys compute equal results.

For each call of a function with a custom derivative, JAX creates new objects: wrapped functions, closures, and stores
of pytree structures. Keys do not depend on the identity of these objects: the key of a closure consists of its code and
the keys of its cells, and the key of a jaxpr consists of its equations. All calls of a function therefore share one
derivative, which is exported once, and the derivative of order n calls the functions of lower orders.
"""

import dataclasses
import enum
import functools
import types
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from tiduc.models.jax.static import is_module

if TYPE_CHECKING:
    import jax

_OF_A_CALL = ("Store", "EqualStore", "TraceTag", "Trace", "DebugInfo", "Flatten")
"""The names of types of JAX and equinox whose objects belong to one call or trace, and do not affect its results."""
_VALUES = (bool, int, str, bytes, type(None), type, np.dtype, enum.Enum)
_PRUNED = {"dce_jvp_jaxpr_thunk": "jvp_jaxpr_fun", "dce_fwd_jaxpr_thunk": "fwd_jaxpr_thunk", "dce_bwd": "bwd"}
"""Functions of JAX that leave out unused results of a rule, with the variables that hold the rule."""
_DESCRIPTIONS = ("ShapedArray", "ShapeDtypeStruct")
"""The names of JAX's types whose objects are equal if they describe arrays of one type."""
_LARGEST = 1 << 16
"""The maximum size in bytes of an array whose elements are its key. The key of a larger array is its identity."""


class RuleKeys:
    """Computes keys. Keeps each object whose identity is part of a key, so that no new object gets this identity."""

    def __init__(self) -> None:
        self._kept: list[object] = []
        self._jaxprs: dict[int, Hashable] = {}
        self._numbers: dict[Hashable, int] = {}

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
        if isinstance(value, set | frozenset):
            return type(value), frozenset([self._key(each, inner) for each in value])
        if isinstance(value, dict):
            return dict, tuple([(self._key(x, inner), self._key(y, inner)) for x, y in value.items()])
        if isinstance(value, functools.partial):
            return functools.partial, self._key([value.func, value.args, value.keywords], inner)
        if isinstance(value, types.MethodType):
            return types.MethodType, self._key([value.__func__, value.__self__], inner)
        if isinstance(value, types.FunctionType):
            rule = _wrapped_rule(value) or _rule_of_used_results(value)
            parts = [value.__defaults__, value.__kwdefaults__, *_cells(value).values()]
            code = value.__code__, id(value.__globals__)
            return self._key(rule, inner) if rule else (*code, self._key(parts, inner))
        declared: Any = getattr(type(value), "__dataclass_params__", None)
        if is_module(value) or (declared is not None and declared.frozen):
            fields = [getattr(value, each.name, None) for each in dataclasses.fields(value)]
            return type(value), tuple([self._key(field, inner) for field in fields])
        return self._key_of_jax(value, type(value).__name__, inner)

    def _key_of_jax(self, given: object, name: str, inner: tuple[int, ...]) -> Hashable:
        """The key of an object of JAX, or of an array. The key of any other object is its identity."""
        value: Any = given
        if isinstance(given, Hashable) and name in _DESCRIPTIONS:
            return given
        if name == "PyTreeDef":
            children = [self._key(child, inner) for child in value.children()]
            return name, value.num_leaves, self._key(value.node_data(), inner), tuple(children)
        is_array = isinstance(value, np.ndarray | np.generic) or name == "ArrayImpl"
        if is_array and value.nbytes <= _LARGEST and value.dtype.kind in "biufc":
            kind = str(value.dtype), value.shape, getattr(value, "weak_type", False)
            return (name, *kind, np.asarray(value).tobytes())
        if name == "ClosedJaxpr":
            return name, self._key(value.jaxpr, inner), self._key(value.consts, inner)
        if name == "Jaxpr":
            return self._key_of_jaxpr(value)
        self._kept.append(value)
        return type(value), id(value)

    def _key_of_jaxpr(self, jaxpr: "jax.extend.core.Jaxpr") -> Hashable:
        """The key of a jaxpr: a number, which is the same for jaxprs that differ only in the names of variables.

        The key of a jaxpr that contains itself, through the cells of functions, is its identity.
        """
        if id(jaxpr) not in self._jaxprs:
            self._kept.append(jaxpr)
            self._jaxprs[id(jaxpr)] = "within", id(jaxpr)
            places: dict[int, int] = {}

            def place(variable: object) -> Hashable:
                x: Any = variable
                if hasattr(x, "val"):
                    return "literal", self.key(x.val), x.aval
                return places.setdefault(id(x), len(places)), x.aval

            ends = [*map(place, jaxpr.constvars)], [*map(place, jaxpr.invars)]
            equations = [
                (each.primitive, *map(place, each.invars), self.key(_effect(each)), *map(place, each.outvars))
                for each in jaxpr.eqns
            ]
            key = *map(tuple, ends), tuple(equations), *map(place, jaxpr.outvars)
            self._jaxprs[id(jaxpr)] = "jaxpr", self._numbers.setdefault(key, len(self._numbers))
        return self._jaxprs[id(jaxpr)]


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


def _rule_of_used_results(function: types.FunctionType) -> object:
    """The rule inside a function of JAX that leaves out the results of a rule that no equation uses.

    JAX wraps the rules of a call in such functions whenever it removes unused equations around the call. Returns the
    rule itself if all of its results are used, and a list if only some of them are. Returns None for other functions.
    """
    is_cached = function.__qualname__ == "_memoize.<locals>.memoized"
    inner = _cells(function)["fn"] if is_cached else function
    cells = _cells(inner)
    if inner.__name__ in _PRUNED and "used_outs" in cells:
        rule = cells[_PRUNED[inner.__name__]]
        return rule if all(cells["used_outs"]) else [rule, inner.__name__, cells["used_outs"]]
    return [inner] if is_cached else None  # without the other cell, which is the cache


def _effect(equation: "jax.extend.core.JaxprEqn") -> list[object]:
    """The parameters of an equation, and the parts of its context that affect its results."""
    context = equation.ctx
    setting = [context.compute_type, context.threefry_partitionable, context.xla_metadata]
    return [dict(equation.params), *setting]


def _is_empty(transform: tuple[object, tuple[object, ...]]) -> bool:
    """Whether a transformation of a rule has no effect, because no captured array needs a cotangent."""
    function, arguments = transform
    return getattr(function, "__name__", "") == "_handle_consts_in_bwd" and not any(arguments)
