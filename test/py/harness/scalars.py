"""Evaluates the scalar ops of a static library with NumPy, for several samples of the arguments at once."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiduc.backends.iree.static.scalars.compile import Scalars, scalars_of
from tiduc.backends.iree.static.scalars.function_code import ArrayPort
from tiduc.backends.iree.static.scalars.numbers import BASIS, CONSTANT, INPUT, KINDS, OPERATORS, ZERO
from tiduc.program import Program

Array = NDArray[Any]


def scalars(of: Program) -> Scalars | None:
    """Returns the scalar ops of a program, or None if the program cannot be compiled to scalar ops."""
    return scalars_of(of.lower().module.operation, of.signature.inputs, of.signature.outputs)


def evaluate(found: Scalars, arrays: Sequence[Array]) -> list[Array]:
    """Computes the results for several samples. The first dimension of each argument numbers the samples."""
    samples = len(arrays[0]) if arrays else 1
    given = [_elements(port, array) for port, array in zip(found.inputs, arrays, strict=True)]
    values: list[Array] = []
    with np.errstate(all="ignore"):
        for number in found.numbers.all:
            if number.name in (CONSTANT, ZERO):
                value = found.numbers.value(len(values))
                assert value is not None
                values.append(np.full((samples, 1), value))
            elif number.name == BASIS:
                flags = np.arange(found.places) == number.operands[0]
                values.append(np.tile(flags.astype(KINDS[number.kind]), (samples, 1)))
            elif number.name == INPUT:
                which, element = number.operands
                values.append(given[which][:, element])
            else:
                xs = [values[i] for i in number.operands]
                values.append(np.asarray(_computed(number.name, number.kind, xs), KINDS[number.kind]))
    return [_array(port, values, samples) for port in found.outputs]


def _computed(name: str, kind: str, xs: Sequence[Array]) -> Array:
    if name == "select":
        return np.where(*xs)
    if name == "convert":
        return xs[0].astype(KINDS[kind])
    fold = OPERATORS[name].fold
    assert fold is not None
    return np.asarray(fold(*xs))


def _elements(port: ArrayPort, array: Array) -> Array:
    """Returns the elements of an argument as an array with the dimensions sample, scalar, and index in the loop."""
    lane = port.array.lane
    moved = array[..., None] if lane is None else np.moveaxis(array, lane + 1, -1)
    return moved.reshape(len(array), prod(moved.shape[1:-1]), moved.shape[-1])


def _array(port: ArrayPort, values: Sequence[Array], samples: int) -> Array:
    places = 1 if port.array.lane is None else port.shape[port.array.lane]
    ids = port.array.ids
    elements = [np.broadcast_to(values[i], (samples, places)) for i in ids.ravel().tolist()]
    if port.array.lane is None:
        return np.stack(elements, 1).reshape(samples, *port.shape)
    kept = [n for d, n in enumerate(port.shape) if d != port.array.lane]
    return np.moveaxis(np.stack(elements, 1).reshape(samples, *kept, places), -1, port.array.lane + 1)
