"""identity_of: a text that is equal for two programs of one model, and differs for programs of other models.

The files of a state carry the identity of their model. A static library refuses the state of another model, even if
names and types of the arrays are equal. The identity must not depend on the batch size of the export, so the hash
leaves out numbers that may depend on the batch size.
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
"""Attributes that may depend on the size of a batch. Constants are hashed by `_Lines`."""

_SHAPING = VIEWS | {"stablehlo.convert"}
_SCALING = ("stablehlo.multiply", "stablehlo.divide")


def identity_of(model: Program) -> str:
    """A hash of a model's ops, their attributes and operands, and the types of the weights.

    The hash has the numbers of float constants, such as slopes and rates of dropout, but not the numbers that scale a
    sum, such as the divisor of a mean over a batch. The hash also leaves out shapes, the bounds of slices, integer
    constants, and constants of several numbers, such as masks, because these may depend on the size of a batch.
    """
    digest = hashlib.sha256()
    for line in _Lines(model):
        digest.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def check_identity(text: str) -> None:
    """Raises `RequestError` if an identity is too long, or has characters that files or C programs cannot hold."""
    if not re.fullmatch(r"[\w.+-]{,200}", text, re.ASCII):
        raise RequestError(
            f"an identity may have at most 200 characters, only letters, digits, '.', '_', '+' and '-'; got {text!r}"
        )


class _Lines:
    """The lines that describe a model: one for each weight, and one for each op that depends on an input.

    A constant has no line; its number is in the lines of its readers. Otherwise the number of lines would change if two
    constants became equal, because equal constants are one op.
    """

    def __init__(self, model: Program) -> None:
        self._model = model
        self._numbers = {x: str(i) for i, x in enumerate(model.merged.inputs.values())}
        self._constants: dict[Value, str] = {}  # the text of each value that depends on no input
        self._sums: set[Value] = set()  # results of sums, also reshaped or multiplied by constants

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
    """The number of a float splat constant as text; "constant" for any other constant."""
    if is_splat(value) and is_float(value.type):
        return repr(splat_number(value))
    return "constant"


def _described(op: Definition | ir.Operation) -> str:
    """The text of an op: its name and the attributes that StableHLO defines, without sizes and names of functions."""
    names = sorted(name for name in op.attributes if "." not in name and name not in _SIZES)
    texts = {name: str(readable(op.attributes, name)) for name in names}
    return " ".join((op.name, *(f"{name}={text}" for name, text in texts.items() if "@" not in text)))
