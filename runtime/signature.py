"""Signatures of compiled functions: names, shapes and element types of inputs and outputs.

signature ->  reflection  -> JSON in the compiled module -> from_reflection  -> signature
              the ABI declaration in any IREE module     -> from_declaration -> signature
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from tiduc.runtime.required_sizes import RequiredSize, parsed

REFLECTION = "tiduc.signature"
"""The key of the signature, as `reflection` writes it, in the function attribute `iree.reflection`."""

DEVICE = "tiduc.device"
"""The reflection key of the device that a module for CPUs requires (`local-sync`) or prefers (`local-task`)."""

LAPACK = "tiduc.lapack"
"""The reflection key of a module that calls LAPACK on the host. Its value is `callback`."""

DECLARATION = "iree.abi.declaration"
"""The reflection key of IREE's declaration of a function."""

DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    **{f"i{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    **{f"si{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    **{f"f{n}": np.dtype(f"f{n // 8}") for n in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
}
"""Maps MLIR's element types to NumPy's dtypes, for the types that IREE passes in whole bytes."""

ELEMENTS: dict[np.dtype[Any], str] = {d: name for name, d in DTYPES.items() if not name.startswith("si")}
"""Maps NumPy's dtypes to MLIR's element types. Signed integers map to signless types, as StableHLO prints them."""

_TYPE = re.compile(r"((?:(?:\d+|\?)x)*)([a-zA-Z]\w*(?:<\w+>)?)")
# In `%x: tensor<4xi8> {iree.abi.encoding = tensor<4xui8>}`, the encoding is the type of the caller's buffer.
_TENSOR = r"tensor<((?:[^<>]|<[^<>]*>)*)>"
_DECLARED = re.compile(rf"%(\w+): {_TENSOR}(?: {{[^%]*?iree\.abi\.encoding = {_TENSOR})?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # strings, such as argument names, may hold any text
_DONATED = re.compile(r"%input(\d+): [^%]*?iree\.abi\.output = (\d+)")


class TypedArray(Protocol):
    """An array of NumPy or an array on a device."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> "np.dtype[Any]": ...


@dataclass(frozen=True)
class TensorType:
    """A shape and an element type, spelled as in MLIR's `tensor<...>`: `2x?xf32`, `f64`, `3xcomplex<f32>`."""

    shape: tuple[int | None, ...]  # None for a dynamic dimension
    element: str  # MLIR's name

    @staticmethod
    def parse(text: str) -> "TensorType":
        """The type that a text spells. Raises ValueError for malformed text."""
        match = _TYPE.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a tensor type such as 2x3xf32")
        sizes = match[1].split("x")[:-1]
        return TensorType(tuple(None if size == "?" else int(size) for size in sizes), match[2])

    @staticmethod
    def of(array: "TypedArray") -> "TensorType":
        """The type of an array. If MLIR does not have the element type, its name is NumPy's."""
        return TensorType(array.shape, ELEMENTS.get(array.dtype, str(array.dtype)))

    def __str__(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.shape)
        return "x".join((*sizes, self.element))

    @property
    def dtype(self) -> "np.dtype[Any] | None":
        """NumPy's dtype. None if NumPy has no such element type, for example for i4 and index."""
        return DTYPES.get(self.element)

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape has the type's sizes. A dynamic dimension accepts every size."""
        return len(shape) == len(self.shape) and all(
            size is None or size == given for size, given in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class SignatureValue:
    """An input or output of a function: its name and type."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True)
class KnownSize:
    """The size of a dynamic dimension of an input: a constant plus terms. A term is a factor times another dimension.

    For example, a cotangent has the size of its output, and that may be twice the size of an argument.
    """

    input: int
    dimension: int
    constant: int
    terms: tuple[tuple[int, int, int], ...]  # factor, input, dimension

    def value(self, shapes: Sequence[tuple[int, ...]]) -> int:
        """The size, for inputs of these shapes."""
        return self.constant + sum(factor * shapes[i][d] for factor, i, d in self.terms)


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a function, in order: `(x: 4xf32, y: f32) -> (loss: f32)`."""

    inputs: tuple[SignatureValue, ...]
    outputs: tuple[SignatureValue, ...]
    sizes: tuple[KnownSize, ...] = ()
    required: tuple[RequiredSize, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"


def reflection(signature: Signature) -> str:
    """The signature as one line of JSON, for `iree.reflection = {"tiduc.signature" = "..."}` of a function.

    >>> x = SignatureValue("x", TensorType((2, None), "f32"))
    >>> reflection(Signature((x,), ()))
    '{"inputs": [["x", "2x?xf32"]], "outputs": []}'
    """
    described: dict[str, Any] = {
        "inputs": [[value.name, str(value.type)] for value in signature.inputs],
        "outputs": [[value.name, str(value.type)] for value in signature.outputs],
    }
    if signature.sizes:
        described["sizes"] = [[n.input, n.dimension, n.constant, n.terms] for n in signature.sizes]
    if signature.required:
        described["required"] = [[n.relation, n.a, n.b, n.by] for n in signature.required]
    return json.dumps(described)


def from_reflection(text: str) -> Signature:
    """Reads the signature that `reflection` wrote. Raises `ValueError` for any other text."""
    try:
        read = json.loads(text)
        inputs, outputs = (
            tuple(SignatureValue(str(name), TensorType.parse(spelled)) for name, spelled in read[side])
            for side in ("inputs", "outputs")
        )
        sizes = tuple(
            KnownSize(i, d, constant, tuple((factor, j, e) for factor, j, e in terms))
            for i, d, constant, terms in read.get("sizes", ())
        )
        required = tuple(
            RequiredSize(str(relation), parsed(a), parsed(b), str(by))
            for relation, a, b, by in read.get("required", ())
        )
        shapes = [tuple(size or 0 for size in value.type.shape) for value in inputs]
        for known in sizes:  # raises LookupError for a dimension that no input has
            shapes[known.input][known.dimension] - known.value(shapes)
        for size in required:
            size.holds(shapes)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"malformed {REFLECTION}: {text!r}") from error
    return Signature(inputs, outputs, sizes, required)


def without_name(text: str, function: str) -> str:
    """The part of a function's `iree.abi.declaration` after the name. IREE does not escape the name.

    >>> without_name('sync func @f"(%input0: tensor<f64>) -> ()', 'f"')
    '(%input0: tensor<f64>) -> ()'
    """
    before, name, after = text.partition(f"@{function}(")
    return f"({after}" if name else before


def from_declaration(text: str) -> Signature:
    """The signature in an `iree.abi.declaration`, which IREE's compiler adds to every module.

    The names are generic: input0, input1 and so on, and output0, output1 and so on.

    >>> print(from_declaration("sync func @f(%input0: tensor<4xf32>) -> (%output0: tensor<f64>)"))
    (input0: 4xf32) -> (output0: f64)
    """
    taken, arrow, given = _STRING.sub('""', text).partition(") -> (")
    if not arrow:  # the function has no results
        taken, given = text, ""
    inputs, outputs = (
        tuple(
            SignatureValue(match[1], TensorType.parse(match[3] or match[2]))
            for match in _DECLARED.finditer(side)
        )
        for side in (taken, given)
    )
    return Signature(inputs, outputs)


def check_declared(signature: Signature, text: str) -> None:
    """Raises ValueError if a signature contradicts the function's `iree.abi.declaration`."""
    declared = from_declaration(text)
    for side, ours, theirs in (
        ("inputs", signature.inputs, declared.inputs),
        ("outputs", signature.outputs, declared.outputs),
    ):
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} {side} in its signature, {len(theirs)} in its declaration")
        for x, y in zip(ours, theirs, strict=True):
            if x.type.shape != y.type.shape or x.type.dtype != y.type.dtype:
                raise ValueError(f"{x} in its signature, {y.type} in its declaration")
    if wrong := [i for i in donated(text) if i >= len(signature.inputs)]:
        raise ValueError(f"no input {wrong[0]} to overwrite")


def donated(text: str) -> dict[int, int]:
    """The donated inputs in an `iree.abi.declaration`, each with the output that overwrites it.

    >>> donated("sync func @f(%input0: tensor<4xf32> {iree.abi.output = 1 : index}) -> (%output0: tensor<f64>)")
    {0: 1}
    """
    return {int(i): int(j) for i, j in _DONATED.findall(_STRING.sub('""', text).partition(") -> (")[0])}
