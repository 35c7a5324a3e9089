"""Computes cotangents of eager values from seeds, and sets `grad` on arrays."""

from collections.abc import Hashable, Sequence

import numpy as np

from tiduc.dialect.errors import RequestError
from tiduc.eager.record import EagerInput
from tiduc.eager.session import Key, Operand, constant, no_grad, recording_if, session
from tiduc.eager.walk import backward, recorded_backward


def set_gradients(
    outputs: Sequence[EagerInput],
    seeds: Sequence[Operand] | None,
    *,
    retain: bool = False,
    accumulate: bool = False,
    create_graph: bool = False,
) -> None:
    """Sets `grad` on leaves on which the outputs depend, and on arrays of which `retain_grad` was called.

    `gradients.backward_from` documents the parameters.
    """
    by_key = cotangents(outputs, seeds, retain=retain, create_graph=create_graph)
    with recording_if(create_graph):
        for key, ct in by_key.items():
            assert isinstance(key, Key)
            for holder in key.holders:
                if (array := holder()) is not None:
                    array.set_grad(ct, accumulate)


def cotangents(
    outputs: Sequence[EagerInput],
    seeds: Sequence[Operand] | None,
    *,
    retain: bool = False,
    create_graph: bool = False,
    wanted: Sequence[Hashable] | None = None,
) -> dict[Hashable, EagerInput]:
    """The cotangents of the values whose keys are in `wanted`, by key.

    The default is the leaves, and the values of the arrays of which `retain_grad` was called.

    Raises `RequestError` if an output depends on nothing that requires grad, if its trace was released, or if a seed is
    missing.
    """
    given = (
        [_seed_of_scalar(i, y) for i, y in enumerate(outputs)] if seeds is None else _seeds(outputs, seeds)
    )
    here = session()
    if create_graph:
        return recorded_backward(
            outputs, given, here.executor, here.recorder, wanted=wanted, intermediates=_WantedKeys()
        )
    with no_grad():
        data = [seed.data for seed in given]
        by_key = backward(
            outputs, data, here.executor, retain=retain, wanted=wanted, intermediates=_WantedKeys()
        )
    return {key: EagerInput(Key(), ct) for key, ct in by_key.items()}


class _WantedKeys:
    """A container of keys. It contains the key of a value if an array that still exists needs the value's cotangent."""

    def __contains__(self, key: object) -> bool:
        return (
            isinstance(key, Key) and bool(key.holders) and any([each() is not None for each in key.holders])
        )


def _seed_of_scalar(i: int, y: EagerInput) -> EagerInput:
    dtype, shape = y.data.dtype, y.data.shape
    if y.data.size != 1 or dtype.kind == "c":
        raise RequestError(f"output {i} is {dtype}{list(shape)}: without a seed, it must be one real number")
    return constant(np.ones(shape, dtype))


def _seeds(outputs: Sequence[EagerInput], seeds: Sequence[Operand]) -> list[EagerInput]:
    if len(seeds) != len(outputs):
        raise RequestError(f"{len(outputs)} outputs need as many seeds, got {len(seeds)}")
    return [
        seed if isinstance(seed, EagerInput) else constant(seed, y.data.dtype)
        for y, seed in zip(outputs, seeds, strict=True)
    ]
