"""The table of NumPy's functions that eager arrays implement: `array.py` reads it, and other files fill it.

Signatures are NumPy's: an implementation names only the parameters that it reads. Any other parameter is refused by
name, unless its value is NumPy's default.

    @implements(np.squeeze)
    def squeeze(a, axis=None): ...
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, TypeAlias, TypeVar

NumpyFunction: TypeAlias = Callable[..., Any]
"""One of NumPy's functions, or an implementation of one: NumPy's own types do not know eager arrays."""

Result: TypeAlias = Any
"""An eager array, or a tuple or named tuple of eager arrays, as the function of NumPy returns it."""

FUNCTIONS: dict[Any, NumpyFunction] = {}
"""The implementation for eager arrays of each of NumPy's functions."""

Implementation = TypeVar("Implementation", bound=NumpyFunction)


def implements(*functions: NumpyFunction) -> Callable[[Implementation], Implementation]:
    """Registers an implementation of NumPy's functions."""

    def decorate(implementation: Implementation) -> Implementation:
        for function in functions:
            FUNCTIONS[function] = _with_parameters(function, implementation)
        return implementation

    return decorate


def name_of(function: NumpyFunction) -> str:
    """The name by which users call one of NumPy's functions, such as `linalg.norm`."""
    return f"{function.__module__}.{function.__name__}".removeprefix("numpy.")


def parameters(function: NumpyFunction) -> Mapping[str, Parameter]:
    """The parameters of one of NumPy's functions by name: none if Python cannot tell them."""
    try:
        return signature(function).parameters
    except ValueError:  # a function in C of an older version of NumPy
        return {}


def _with_parameters(function: NumpyFunction, implementation: NumpyFunction) -> NumpyFunction:
    """The implementation, called by NumPy's names of the parameters that it has."""
    known, own = parameters(function), parameters(implementation)
    if not known or any(p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for p in own.values()):
        return implementation
    assert own.keys() <= known.keys(), f"{name_of(function)} has no {own.keys() - known.keys()}"
    names, defaults = tuple(known), {name: p.default for name, p in known.items()}

    def call(*args: object, **options: object) -> object:
        given = dict(zip(names, args, strict=False)) if args else {}
        given.update(options)
        for name in given.keys() - own.keys():
            value, default = given.pop(name), defaults.get(name)
            if not (value is None or value is default or (isinstance(default, str) and value == default)):
                raise TypeError(f"np.{name_of(function)} of eager arrays takes no {name}=")
        return implementation(**given)

    return call
