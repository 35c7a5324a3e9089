"""Functions of pytrees with leaves that JAX cannot trace, such as the activation functions in a module of equinox."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import numpy as np

_NUMBERS = (bool, int, float, complex, np.generic)


def without_static_leaves(
    jax: ModuleType,
    function: Callable[..., object],
    example: Sequence[object],
    keywords: Mapping[str, object],
) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
    """A function of the leaves that JAX can trace, and the example arguments with None in place of other leaves.

    Returns the arguments unchanged if JAX can trace all leaves.
    """
    leaves, structure = jax.tree_util.tree_flatten((tuple(example), dict(keywords)))
    if all(map(is_traceable, leaves)):
        return function, tuple(example), dict(keywords)
    fixed = [None if is_traceable(leaf) else leaf for leaf in leaves]
    kept = [i for i, leaf in enumerate(leaves) if is_traceable(leaf)]
    args, named = structure.unflatten([leaf if is_traceable(leaf) else None for leaf in leaves])

    def traced(*args: object, **named: object) -> object:
        whole: list[object] = list(fixed)
        for i, leaf in zip(kept, jax.tree_util.tree_leaves((args, named)), strict=True):
            whole[i] = leaf
        given, keys = structure.unflatten(whole)
        return function(*given, **keys)

    return traced, args, named


def is_traceable(leaf: object) -> bool:
    """Whether JAX can trace a leaf: an array or a number."""
    return isinstance(leaf, _NUMBERS) or (hasattr(leaf, "shape") and hasattr(leaf, "dtype"))
