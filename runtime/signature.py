"""Signatures of compiled functions: the names, the shapes and the element types of inputs and outputs.

signature   -> reflection       -> JSON text in the compiled module
JSON text   -> from_reflection  -> signature
declaration -> from_declaration -> signature, for any IREE module
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
"""The key in a function's attribute `iree.reflection` whose value is the signature, as `reflection` writes it."""

DEVICE = "tiduc.device"
"""The reflection key whose value is the device that a module for CPUs requires (`local-sync`) or prefers
(`local-task`).
"""

LAPACK = "tiduc.lapack"
"""The reflection key of functions in modules that call LAPACK on the host. Its value is `callback`."""

DECLARATION = "iree.abi.declaration"
"""The reflection key whose value is IREE's own declaration of the function."""

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
"""Maps MLIR's element types to NumPy's dtypes. Contains only types whose elements IREE passes as whole bytes."""

ELEMENTS: dict[np.dtype[Any], str] = {d: name for name, d in DTYPES.items() if not name.startswith("si")}
"""Maps NumPy's dtypes to MLIR's element types. Signed integers map to signless types, as StableHLO prints them."""

_TYPE = re.compile(r"((?:(?:\d+|\?)x)*)([a-zA-Z]\w*(?:<\w+>)?)")
# In `%x: tensor<4xi8> {iree.abi.encoding = tensor<4xui8>}`, the encoding is the type of the array that a caller passes.
_TENSOR = r"tensor<((?:[^<>]|<[^<>]*>)*)>"
_DECLARED = re.compile(rf"%(\w+): {_TENSOR}(?: {{[^%]*?iree\.abi\.encoding = {_TENSOR})?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # a string, such as an argument's name, may hold any text
_DONATED = re.compile(r"%input(\d+): [^%]*?iree\.abi\.output = (\d+)")


class TypedArray(Protocol):
    """A NumPy array or an array on a device."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> "np.dtype[Any]": ...


@dataclass(frozen=True)
class TensorType:
    """A shape and an element type. They are spelled as in MLIR's `tensor<...>`: `2x?xf32`, `f64`, `3xcomplex<f32>`."""

    shape: tuple[int | None, ...]  # None for a dynamic dimension
    element: str  # MLIR's name

    @staticmethod
    def parse(text: str) -> "TensorType":
        """Returns the type that a text spells. Raises ValueError for malformed text."""
        match = _TYPE.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a tensor type such as 2x3xf32")
        sizes = match[1].split("x")[:-1]
        return TensorType(tuple(None if size == "?" else int(size) for size in sizes), match[2])

    @staticmethod
    def of(array: "TypedArray") -> "TensorType":
        """Returns the type of an array. If MLIR lacks the element type, uses NumPy's name of it."""
        return TensorType(array.shape, ELEMENTS.get(array.dtype, str(array.dtype)))

    def __str__(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.shape)
        return "x".join((*sizes, self.element))

    @property
    def dtype(self) -> "np.dtype[Any] | None":
        """NumPy's dtype, or None if NumPy lacks the element type, as for i4 and index."""
        return DTYPES.get(self.element)

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape has the sizes of this type. A dynamic dimension accepts every size."""
        return len(shape) == len(self.shape) and all(
            size is None or size == given for size, given in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class SignatureValue:
    """An input or an output of a function, with its name and type."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True)
class KnownSize:
    """The size of dimension `dimension` of input `input`: a constant plus factors times the sizes of other dimensions.

    For example, a cotangent has the size of its output, and this size may be twice the size of an argument.
    """

    input: int
    dimension: int
    constant: int
    terms: tuple[tuple[int, int, int], ...]  # factor, input, dimension

    def value(self, shapes: Sequence[tuple[int, ...]]) -> int:
        """Returns the size if the inputs have these shapes."""
        return self.constant + sum(factor * shapes[i][d] for factor, i, d in self.terms)


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a function in order, printed as `(x: 4xf32, y: f32) -> (loss: f32)`.

    `sizes` gives the sizes of dynamic dimensions that follow from the sizes of other inputs. `required` lists relations
    that the sizes of the inputs must satisfy.
    """

    inputs: tuple[SignatureValue, ...]
    outputs: tuple[SignatureValue, ...]
    sizes: tuple[KnownSize, ...] = ()
    required: tuple[RequiredSize, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"


def reflection(signature: Signature) -> str:
    """Returns the signature as one line of JSON, for `iree.reflection = {"tiduc.signature" = "..."}` of a function.

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
        for known in sizes:  # raises LookupError for a dimension that does not exist
            shapes[known.input][known.dimension] - known.value(shapes)
        for size in required:
            size.holds(shapes)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"malformed {REFLECTION}: {text!r}") from error
    return Signature(inputs, outputs, sizes, required)


def without_name(text: str, function: str) -> str:
    """Returns the part of a function's `iree.abi.declaration` after the name of the function.

    The caller must give the name, because IREE does not escape it.

    >>> without_name('sync func @f"(%input0: tensor<f64>) -> ()', 'f"')
    '(%input0: tensor<f64>) -> ()'
    """
    before, name, after = text.partition(f"@{function}(")
    return f"({after}" if name else before


def from_declaration(text: str) -> Signature:
    """Returns the signature in an `iree.abi.declaration`, which IREE's compiler adds to every module.

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
    """Raises ValueError if a signature contradicts `text`, the function's `iree.abi.declaration`."""
    declared = from_declaration(text)
    for side, ours, theirs in (
        ("inputs", signature.inputs, declared.inputs),
        ("outputs", signature.outputs, declared.outputs),
    ):
        if len(ours) != len(theirs):
            raise ValueError(f"the signature has {len(ours)} {side}, but the declaration has {len(theirs)}")
        for x, y in zip(ours, theirs, strict=True):
            if x.type.shape != y.type.shape or x.type.dtype != y.type.dtype:
                raise ValueError(f"the signature has {x}, but the declaration has {y.type}")
    if wrong := [i for i in donated(text) if i >= len(signature.inputs)]:
        raise ValueError(f"the declaration donates input {wrong[0]}, which does not exist")


def donated(text: str) -> dict[int, int]:
    """Maps each donated input in an `iree.abi.declaration` to the output that overwrites it.

    >>> donated("sync func @f(%input0: tensor<4xf32> {iree.abi.output = 1 : index}) -> (%output0: tensor<f64>)")
    {0: 1}
    """
    return {int(i): int(j) for i, j in _DONATED.findall(_STRING.sub('""', text).partition(") -> (")[0])}
