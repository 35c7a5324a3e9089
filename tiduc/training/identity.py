"""identity_of: a hash that distinguishes models. Exports of one model with different batch sizes have equal hashes.

A file with the state of a training step contains the identity of the model. A static library refuses the state of
another model, even if names and types of all arrays are equal. The hash leaves out numbers that may depend on the batch
size of the export.
"""

import hashlib
import re
from collections.abc import Iterator

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import is_splat, splat_number
from tiduc.dialect.ops.attributes import readable
from tiduc.dialect.ops.traits import VIEWS
from tiduc.dialect.shapes.types import is_float
from tiduc.models.model import Model
from tiduc.ports import described
from tiduc.program import Program

_SIZES = ("start_indices", "limit_indices", "slice_sizes", "value", "composite_attributes")
"""Attributes that the hash leaves out because they may depend on the batch size.

`value` is the attribute of constants, which `_Lines` describes separately.
"""

_SHAPING = VIEWS | {"stablehlo.convert"}
_SCALING = ("stablehlo.multiply", "stablehlo.divide")


def identity_of(model: Program) -> str:
    """Returns a hash of a model's ops, their attributes and operands, and the names and types of the weights.

    The hash depends on the values of float splat constants, such as slopes and rates of dropout. It does not depend on
    constants that scale a sum, such as the divisor of a mean over a batch, on shapes, on bounds of slices, on integer
    constants, or on constants that are not splats, such as masks. All of these may depend on the batch size.
    """
    digest = hashlib.sha256()
    for line in _Lines(model):
        digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def check_identity(text: str) -> None:
    """Raises `RequestError` if an identity is longer than 200 characters or has a character that is not allowed.

    Letters, digits and `._+-` are allowed, because files and C programs can contain them.
    """
    if not re.fullmatch(r"[\w.+-]{,200}", text, re.ASCII):
        raise RequestError(
            f"an identity may have at most 200 characters, only letters, digits, '.', '_', '+' and '-'; got {text!r}"
        )


class _Lines:
    """The lines that describe a model: one for each weight, and one for each op that depends on an input.

    A constant has no separate line. Its text is part of the line of each op that reads it. Otherwise the number of
    lines would change if two constants became equal, because equal constants are merged to one op.
    """

    def __init__(self, model: Program) -> None:
        self._model = model
        self._numbers = {x: str(i) for i, x in enumerate(model.merged.inputs.values())}
        self._constants: dict[Value, str] = {}  # value that depends on no input -> its text
        self._sums: set[Value] = set()  # results of sums, and these after reshapes or scaling by constants

    def __iter__(self) -> Iterator[str]:
        weights = self._model.weights if isinstance(self._model, Model) else {}
        yield from (str(described(port)) for port in self._model.inputs if port.name in weights)
        for op in self._model.merged.definitions:
            if op.name == "stablehlo.constant":
                self._constants[op.result] = _number(op.attributes["value"])
            elif op.reads and not op.regions and all(x in self._constants for x in op.reads):
                read = " ".join(self._constants[x] for x in op.reads)
                text = read if op.name in _SHAPING else f"({op.name} {read})"
                self._constants |= dict.fromkeys(op.results, text)
            else:
                yield self._line(op)

    def _line(self, op: Definition) -> str:
        sums = any(x in self._sums for x in op.reads)
        if op.name == "stablehlo.reduce" or (sums and op.name in _SHAPING):
            self._sums.update(op.results)
        scales = sums and op.name in _SCALING and any(x in self._constants for x in op.reads)
        if scales:
            self._sums.update(op.results)
        read = [self._numbers.get(x) or ("c" if scales else self._constants.get(x, "-")) for x in op.reads]
        for y in op.results:
            self._numbers[y] = f"{len(self._numbers)}"
        inner = within(op.source) if op.source is not None else ()
        return f"{' '.join(map(_described, (op, *inner)))} [{', '.join(read)}]"


def _number(value: ir.Attribute) -> str:
    """Returns the value of a float splat constant as text. Returns "constant" for any other constant."""
    if is_splat(value) and is_float(value.type):
        return repr(splat_number(value))
    return "constant"


def _described(op: Definition | ir.Operation) -> str:
    """Returns the text of an op, which has its name and attributes.

    Sizes, names of functions, and attributes of dialects are left out.
    """
    names = sorted(name for name in op.attributes if "." not in name and name not in _SIZES)
    texts = {name: str(readable(op.attributes, name)) for name in names}
    return " ".join((op.name, *(f"{name}={text}" for name, text in texts.items() if "@" not in text)))
