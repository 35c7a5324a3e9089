"""Removes pytree leaves that JAX cannot trace, such as activation functions in a module of equinox, from arguments.

In a module of equinox, only arrays are traced, and Python numbers are constants, as with `equinox.filter_jit`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import numpy as np

_PYTHON = (bool, int, float, complex)
_NUMBERS = (*_PYTHON, np.generic)


def without_static_leaves(
    jax: ModuleType,
    function: Callable[..., object],
    example: Sequence[object],
    keywords: Mapping[str, object],
) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
    """Returns a function of traceable leaves only, and the example arguments, in which None replaces other leaves.

    Returns function and arguments unchanged if JAX can trace all leaves.
    """
    leaves, structure = jax.tree_util.tree_flatten((tuple(example), dict(keywords)))
    traceable = _traceable_leaves(jax, (tuple(example), dict(keywords)))
    if all(traceable):
        return function, tuple(example), dict(keywords)
    fixed = [None if is_free else leaf for is_free, leaf in zip(traceable, leaves, strict=True)]
    kept = [i for i, is_free in enumerate(traceable) if is_free]
    free = [leaf if is_free else None for is_free, leaf in zip(traceable, leaves, strict=True)]
    args, named = structure.unflatten(free)

    def traced(*args: object, **named: object) -> object:
        whole: list[object] = list(fixed)
        for i, leaf in zip(kept, jax.tree_util.tree_leaves((args, named)), strict=True):
            whole[i] = leaf
        given, keys = structure.unflatten(whole)
        return function(*given, **keys)

    return traced, args, named


def _traceable_leaves(jax: ModuleType, tree: object) -> list[bool]:
    """For each leaf of a pytree, whether JAX traces it."""
    found = []
    for part in jax.tree_util.tree_leaves(tree, is_leaf=is_module):
        inner = jax.tree_util.tree_leaves(part) if is_module(part) else [part]
        found += [is_traceable(x) and not (is_module(part) and isinstance(x, _PYTHON)) for x in inner]
    return found


def is_module(value: object) -> bool:
    """Whether a value is a module of equinox."""
    return any(kind.__name__ == "Module" and "equinox" in kind.__module__ for kind in type(value).__mro__)


def is_traceable(leaf: object) -> bool:
    """Whether JAX can trace a leaf, because it is an array or a number."""
    return isinstance(leaf, _NUMBERS) or (hasattr(leaf, "shape") and hasattr(leaf, "dtype"))
