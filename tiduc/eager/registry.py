"""The table of NumPy's functions that eager arrays implement. `array.py` reads the table, and other files fill it.

Callers use NumPy's signatures. An implementation declares only the parameters that it reads. Any other argument raises
an error that names the parameter, unless the argument is None or NumPy's default.

    @implements(np.squeeze)
    def squeeze(a, axis=None): ...
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, TypeAlias, TypeVar

NumpyFunction: TypeAlias = Callable[..., Any]
"""A function of NumPy, or an implementation of it. NumPy's own annotations do not accept eager arrays."""

Result: TypeAlias = Any
"""An eager array, or a tuple of eager arrays. Tuples have the type of the tuples that NumPy's function returns."""

FUNCTIONS: dict[Any, NumpyFunction] = {}
"""Maps a function of NumPy to its implementation for eager arrays."""

Implementation = TypeVar("Implementation", bound=NumpyFunction)


def implements(*functions: NumpyFunction) -> Callable[[Implementation], Implementation]:
    """Decorator that registers an implementation of these functions of NumPy."""

    def decorate(implementation: Implementation) -> Implementation:
        for function in functions:
            FUNCTIONS[function] = _with_parameters(function, implementation)
        return implementation

    return decorate


def name_of(function: NumpyFunction) -> str:
    """The name of a function of NumPy without `numpy.`, such as `linalg.norm`."""
    return f"{function.__module__}.{function.__name__}".removeprefix("numpy.")


def parameters(function: NumpyFunction) -> Mapping[str, Parameter]:
    """The parameters of a function of NumPy by name. Returns an empty mapping if the signature is unknown."""
    try:
        return signature(function).parameters
    except ValueError:  # a function in C of an older version of NumPy
        return {}


def _with_parameters(function: NumpyFunction, implementation: NumpyFunction) -> NumpyFunction:
    """A function that takes NumPy's parameters, and calls the implementation.

    Raises `TypeError` for an argument whose parameter the implementation lacks, unless it is None or NumPy's default.
    """
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
