"""Derivatives of eager arrays: `backward_from` and `grad` are like `backward` and `grad` of `torch.autograd`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tiduc.dialect.errors import RequestError
from tiduc.eager.array import Array, operand
from tiduc.eager.cotangents import cotangents, set_gradients
from tiduc.eager.session import Operand, constant


def backward_from(
    outputs: Sequence[Array],
    seeds: Sequence[ArrayLike] | None = None,
    *,
    retain: bool = False,
    accumulate: bool = False,
    create_graph: bool = False,
) -> None:
    """Sets `grad` on each leaf on which the outputs depend, and on each array of which `retain_grad` was called.

    A seed is the cotangent of an output. The default is 1 if the output is one real number. The new `grad` replaces an
    earlier `grad`. With `accumulate`, both are added. A leaf on which these outputs do not depend keeps its `grad`. The
    trace is released, unless `retain` or `create_graph` is set. With `create_graph`, the ops of the reverse pass are
    recorded, so that `grad` can be differentiated. Raises `RequestError` if an output depends on nothing that requires
    grad, or if the output's trace was released.
    """
    values = [y.value for y in outputs]
    set_gradients(values, _operands(seeds), retain=retain, accumulate=accumulate, create_graph=create_graph)


def grad(
    outputs: Array | Sequence[Array],
    inputs: Array | Sequence[Array],
    seeds: Sequence[ArrayLike] | None = None,
    *,
    retain: bool = False,
    create_graph: bool = False,
) -> Array | tuple[Array, ...]:
    """The cotangents of `inputs`, which need not be leaves. Other parameters are those of `backward_from`.

    Returns an array if `inputs` is an array, else a tuple of arrays. If no output depends on an input, the cotangent of
    this input is an array of zeros. The attribute `grad` of arrays does not change. Raises `RequestError` if an input
    does not require grad, and the errors of `backward_from`.
    """
    if isinstance(inputs, Array):
        return grad(outputs, [inputs], seeds, retain=retain, create_graph=create_graph)[0]
    outputs = [outputs] if isinstance(outputs, Array) else outputs
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            raise RequestError(f"input {i} does not require grad")
    keys = [x.value.key for x in inputs]
    values = [y.value for y in outputs]
    by_key = cotangents(values, _operands(seeds), retain=retain, create_graph=create_graph, wanted=keys)
    zeros = (constant(np.zeros(x.shape, x.dtype)) for x in inputs)
    return tuple(Array.of(by_key.get(key, zero)) for key, zero in zip(keys, zeros, strict=True))


def _operands(seeds: Sequence[ArrayLike] | None) -> list[Operand] | None:
    return None if seeds is None else [operand(seed) for seed in seeds]
