"""Derivatives of eager arrays: `backward_from` and `grad`, as PyTorch's `backward` and `grad`."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tiduc.dialect.errors import RequestError
from tiduc.eager.array import Array, valued
from tiduc.eager.record import EagerInput
from tiduc.eager.session import Key, constant, no_grad, recording_if, session
from tiduc.eager.walk import backward, recorded_backward


def backward_from(
    outputs: Sequence[Array],
    seeds: Sequence[Any] | None = None,
    *,
    retain: bool = False,
    accumulate: bool = False,
    create_graph: bool = False,
) -> None:
    """Sets `grad` on every leaf that the outputs depend on, and on arrays that were told to `retain_grad`.

    A seed is the cotangent of an output; by default 1, if the output is one real number. An earlier `grad` is
    replaced, or added to with `accumulate`; a leaf that these outputs do not depend on keeps its `grad`. The
    trace is released, unless `retain` or `create_graph` is set. With `create_graph` the backward is recorded,
    so that `grad` can be differentiated. `RequestError` where an output depends on nothing that requires
    grad, or its trace was released.
    """
    found = _cotangents(outputs, seeds, retain, create_graph, None)
    with recording_if(create_graph):
        for key, ct in found.items():
            assert isinstance(key, Key)
            for holder in key.holders:
                if (array := holder()) is not None:
                    new = Array.of(ct)
                    array.grad = array.grad + new if accumulate and array.grad is not None else new


def grad(
    outputs: Array | Sequence[Array],
    inputs: Array | Sequence[Array],
    seeds: Sequence[Any] | None = None,
    *,
    retain: bool = False,
    create_graph: bool = False,
) -> Any:
    """The cotangents of these inputs, leaves or not; explicit zeros where the outputs do not depend on an input.

    An array for one input, else a tuple. Sets no `grad`. `RequestError` where an input does not require grad,
    and as in `backward_from`.
    """
    if isinstance(inputs, Array):
        return grad(outputs, [inputs], seeds, retain=retain, create_graph=create_graph)[0]
    outputs = [outputs] if isinstance(outputs, Array) else outputs
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            raise RequestError(f"input {i} does not require grad")
    keys = [x.value.key for x in inputs]
    found = _cotangents(outputs, seeds, retain, create_graph, keys)
    zeros = (constant(np.zeros(x.shape, x.dtype)) for x in inputs)
    return tuple(Array.of(found.get(key, zero)) for key, zero in zip(keys, zeros, strict=True))


class _Held:
    """The keys of values whose cotangent some live array wants."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Key) and any(holder() is not None for holder in key.holders)


def _cotangents(
    outputs: Sequence[Array],
    seeds: Sequence[Any] | None,
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Hashable] | None,
) -> dict[Hashable, EagerInput]:
    roots = [y.value for y in outputs]
    given = [_one(i, y) for i, y in enumerate(outputs)] if seeds is None else _seeds(outputs, seeds)
    here = session()
    if create_graph:
        return recorded_backward(
            roots, given, here.executor, here.recorder, wanted=wanted, intermediates=_Held()
        )
    with no_grad():
        data = [seed.data for seed in given]
        found = backward(roots, data, here.executor, retain=retain, wanted=wanted, intermediates=_Held())
    return {key: EagerInput(Key(), ct) for key, ct in found.items()}


def _one(i: int, y: Array) -> EagerInput:
    if y.size != 1 or y.dtype.kind == "c":
        raise RequestError(f"output {i} is {y.dtype}{list(y.shape)}: only one real number needs no seed")
    return constant(np.ones(y.shape, y.dtype))


def _seeds(outputs: Sequence[Array], seeds: Sequence[Any]) -> list[EagerInput]:
    if len(seeds) != len(outputs):
        raise RequestError(f"{len(outputs)} outputs need as many seeds, got {len(seeds)}")
    given = []
    for y, seed in zip(outputs, seeds, strict=True):
        is_number = type(seed) in (int, float, complex)
        given.append(constant(seed, y.dtype) if is_number else valued(seed))
    return given
