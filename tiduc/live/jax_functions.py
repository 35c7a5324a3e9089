"""JAX functions that tiduc compiles at their first call with each structure and type of arguments."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from tiduc.dialect.errors import RequestError
from tiduc.interop import jax_function
from tiduc.models.from_jax import from_jax
from tiduc.models.jax.derivative_functions import Traceable
from tiduc.models.jax.static import is_traceable

_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion")
"""The settings of JAX that affect how a function is traced."""


def jitted(
    function: Traceable,
    static_argnums: int | Sequence[int],
    static_argnames: str | Sequence[str],
    custom_derivatives: bool,
) -> Traceable:
    """The function that `tiduc.jit` returns."""
    numbers, names = _static(function, static_argnums, static_argnames)
    compiled: dict[Any, tuple[Callable[..., Any], Any]] = {}

    @functools.wraps(function)
    def call(*arguments: object, **keywords: object) -> object:
        fixed = {i: x for i, x in enumerate(arguments) if i in numbers}
        named = {name: keywords[name] for name in names if name in keywords}
        free = tuple(x for i, x in enumerate(arguments) if i not in fixed)
        rest = {name: x for name, x in keywords.items() if name not in named}
        leaves, structure = jax.tree_util.tree_flatten((free, rest))
        arrays = [x for x in leaves if is_traceable(x)]
        key = _key(structure, leaves, fixed, named)
        if key not in compiled:
            traced = _Traced(function, fixed, named, len(arguments))
            examples = structure.unflatten([_example(x) if is_traceable(x) else x for x in leaves])
            program = from_jax(traced, *examples[0], custom_derivatives=custom_derivatives, **examples[1])
            compiled[key] = jax_function(program), traced.structure
        run, results = compiled[key]
        found = run(*arrays)
        return results.unflatten(found if isinstance(found, tuple) else (found,))

    return call


class _Traced:
    """A function without its static arguments, which have fixed values. It returns the leaves of the result as a list.

    `structure` is the pytree structure of the result. It is None until JAX has traced the function.
    """

    def __init__(
        self,
        function: Traceable,
        fixed: Mapping[int, object],
        named: Mapping[str, object],
        count: int,
    ) -> None:
        self._function, self._fixed, self._named, self._count = function, fixed, named, count
        self.structure: Any = None

    def __call__(self, *arguments: jax.Array, **keywords: jax.Array) -> list[jax.Array]:
        given = iter(arguments)
        whole = [self._fixed[i] if i in self._fixed else next(given) for i in range(self._count)]
        leaves: list[jax.Array]
        leaves, self.structure = jax.tree_util.tree_flatten(self._function(*whole, **self._named, **keywords))
        return leaves


def _static(
    function: Traceable, numbers: int | Sequence[int], names: str | Sequence[str]
) -> tuple[set[int], set[str]]:
    """The positions and the names of the static arguments. If an argument has both, both are returned."""
    places = {numbers} if isinstance(numbers, int) else set(numbers)
    named = {names} if isinstance(names, str) else set(names)
    try:
        every = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built-in functions have no signature
        return places, named
    parameters = [x.name for x in every if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    places = {i + len(parameters) if i < 0 else i for i in places}
    places |= {i for i, name in enumerate(parameters) if name in named}
    return places, named | {name for i, name in enumerate(parameters) if i in places}


def _key(
    structure: object, leaves: Sequence[object], fixed: Mapping[int, object], named: Mapping[str, object]
) -> tuple[object, ...]:
    """The key under which a program is cached: all properties of arguments and settings that affect it.

    Raises `RequestError` if a static argument, or a leaf that is not an array or number, cannot be hashed.
    """
    types = tuple([jax.typeof(x) if is_traceable(x) else (type(x), x) for x in leaves])
    constants = tuple([(i, type(x), x) for i, x in (*fixed.items(), *sorted(named.items()))])
    key = structure, types, constants, tuple([getattr(jax.config, name) for name in _SETTINGS])
    try:
        hash(key)
    except TypeError as error:
        raise RequestError(
            f"a static argument, or a leaf that is no array, cannot be hashed: {error}"
        ) from None
    return key


def _example(x: object) -> jax.ShapeDtypeStruct:
    """The type of an array or number, for which JAX traces the function."""
    type_ = jax.typeof(x)
    return jax.ShapeDtypeStruct(type_.shape, type_.dtype, weak_type=type_.weak_type)
