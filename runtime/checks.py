"""Checks the number, the dtypes and the shapes of arguments against a signature before a call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiduc.dialect.errors import InputError
from tiduc.runtime.arrays import Array, refuse_masked
from tiduc.runtime.devices import DeviceArray
from tiduc.runtime.signature import Signature, SignatureValue, TensorType, TypedArray


def check_arguments(entry: str, signature: Signature, arguments: Sequence[ArrayLike]) -> list[Array]:
    """Returns the arguments as arrays. Raises InputError if the arguments do not match the signature."""
    check_count(entry, signature, arguments)
    pairs = zip(arguments, signature.inputs, strict=True)
    arrays = [checked(x, value, i) for i, (x, value) in enumerate(pairs)]
    check_sizes(signature, arrays)
    return arrays


def check_count(entry: str, signature: Signature, arguments: Sequence[object]) -> None:
    """Raises InputError if the number of arguments is wrong. The message lists the inputs."""
    inputs = signature.inputs
    if len(arguments) != len(inputs):
        listed = f" ({', '.join(map(str, inputs))})" if inputs else ""
        plural = "s" * (len(inputs) != 1)
        raise InputError(f"{entry} takes {len(inputs)} argument{plural}{listed}, got {len(arguments)}")


def checked(argument: ArrayLike, value: SignatureValue, index: int) -> Array:
    """Converts an argument to a C-contiguous array, and checks the dtype and the shape of the array.

    Raises `InputError` if the dtype or the shape differs from that of the input `value`. The message gives the name of
    the argument, its expected type and its actual type.
    """
    expected = value.type
    called = f"argument {index} ({value.name})"
    refuse_masked(argument, called)
    try:
        if hasattr(argument, "__dlpack__") and not hasattr(argument, "__array__"):
            argument = np.from_dlpack(argument)  # type: ignore[arg-type]  # it has the method
        array = np.asarray(argument, order="C")
    except (ValueError, TypeError, BufferError, RuntimeError) as error:
        raise InputError(
            f"{called}: expected {expected}, got a value that does not convert to an array: {error}"
        ) from error
    check_type(array, value, index)
    return array


def check_type(array: NDArray[Any] | DeviceArray, value: SignatureValue, index: int) -> None:
    """Raises `InputError` if an array's dtype or shape differs from that of the input `value`."""
    expected = value.type
    called = f"argument {index} ({value.name})"
    if expected.dtype is None:
        raise InputError(f"{called} has type {expected}, whose element type NumPy does not have")
    if array.dtype != expected.dtype:
        raise InputError(f"{called}: expected {expected} (dtype {expected.dtype}), got dtype {array.dtype}")
    if not expected.accepts(array.shape):
        raise InputError(f"{called}: expected {expected}, got {TensorType.of(array)}")


def check_sizes(signature: Signature, arrays: Sequence[TypedArray]) -> None:
    """Checks the sizes of dynamic dimensions against `signature.sizes` and `signature.required`.

    Raises InputError for the first size that differs from its expected size, and for the first violated relation.
    """
    shapes = [array.shape for array in arrays]
    for known in signature.sizes:
        size, expected = shapes[known.input][known.dimension], known.value(shapes)
        if size != expected:
            called = f"argument {known.input} ({signature.inputs[known.input].name})"
            others = " and ".join(dict.fromkeys(signature.inputs[i].name for _, i, _ in known.terms))
            after = f", given the shape of {others}" if others else ""
            raise InputError(
                f"{called}: expected size {expected} of dimension {known.dimension}{after}, got {size}"
            )
    for required in signature.required:
        if not required.holds(shapes):
            names = [value.name for value in signature.inputs]
            raise InputError(f"sizes of arguments disagree: {required.violation(names, shapes)}")
