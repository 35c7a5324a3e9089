"""Forms of values that are computed from eigenvalues, singular values or their vectors; for `spectral.py`.

If a value has a known form, each of its elements belongs to one vector, number j. The value is

    a function of w_j                            such as w, sqrt(w) + x, and matrices that repeat these along rows
    linear in vector j, times a function of w_j  such as v, b v, v^H b, v * w
    a function of w_j on a diagonal              such as diag(w)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.facts.matchers import KEEP_SPLATS
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.graph.view import BINDING
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import dimensions_in, rank, shape


class Unproven(Exception):
    """Raised if a value depends on vectors in a way that no form describes."""


class End(Enum):
    """A result at which the analysis stops: a sum over vectors, or a value that needs no term for equal values."""

    SUM = auto()
    HARMLESS = auto()


@dataclass(frozen=True)
class Form:
    """The form of a value: which of its dimensions correspond to dimensions of the eigenvalues or singular values w.

    - `batch[i]` is the dimension of the value for dimension i of the batch.
    - `number` is the dimension whose index is the number of the vector. The first index means number `start`.
    - `other` is the second such dimension of a matrix that is zero outside of its diagonal.
    - `is_vectors`: the value is linear in vectors, or in their conjugates if `is_conjugate`.
    - `part` is "real", "imag" or "-imag" for a part of the vectors `source`.
    - `side` is 0 for singular vectors u, and 1 for v.
    - `is_known` is false if the form is not known.
    """

    batch: tuple[int, ...]
    number: int
    start: int = 0
    other: int | None = None
    is_vectors: bool = False
    is_conjugate: bool = False
    part: str = ""
    source: Value | None = None
    side: int = 0
    is_known: bool = True

    @property
    def tracked(self) -> tuple[int, ...]:
        return (*self.batch, self.number, *(() if self.other is None else (self.other,)))

    def placed(self, dimensions: Sequence[int] | Mapping[int, int]) -> "Form":
        """The form of a value in which dimension d of this value is dimension `dimensions[d]`."""
        try:
            return replace(
                self,
                batch=tuple([dimensions[d] for d in self.batch]),
                number=dimensions[self.number],
                other=None if self.other is None else dimensions[self.other],
            )
        except KeyError:
            raise Unproven from None


UNKNOWN = Form((), -1, is_known=False)


# ---- these functions look for facts about values in the ops that compute them ----------------------------------


def diagonal_mask(x: Value) -> tuple[int, int] | None:
    """The two dimensions whose indices are equal exactly where the mask x is true. Returns None for any other x."""
    op = defined_by(x, "stablehlo.compare")
    if op is None or hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value != "EQ":
        return None
    pair = [_index(y) for y in op.operands]
    if pair[0] is None or pair[1] is None or pair[0] == pair[1]:
        return None
    return pair[0], pair[1]


def _index(x: Value) -> int | None:
    """The dimension d for which each element of x equals its index along d, as in an iota. None if none is known."""
    while (op := x.definition) is not None:
        if op.name == "stablehlo.iota":
            return int(op.attributes["iota_dimension"].value)
        if op.name == "stablehlo.broadcast_in_dim":
            inner = _index(op.operands[0])
            return None if inner is None else dimensions_in(op.attributes["broadcast_dimensions"])[inner]
        if op.name == "stablehlo.add":
            zeros = [splat_of(y) == 0 for y in op.operands]
            if not any(zeros):
                return None
            x = op.operands[1 - zeros.index(True)]
        elif op.name == "stablehlo.convert":
            x = op.operands[0]
        else:
            return None
    return None


def splat_of(x: Value) -> complex | None:
    """The number that all elements of x equal. None unless x is a splat constant, perhaps converted or reshaped."""
    op = x.definition
    while op is not None and (op.name == "stablehlo.convert" or op.name in KEEP_SPLATS):
        op = op.operands[0].definition
    if op is None or op.name != "stablehlo.constant" or not is_splat(op.attributes["value"]):
        return None
    text = str(op.attributes["value"]).partition("<")[2].partition(">")[0]
    try:
        return complex(*map(float, text.strip("()").split(",")))
    except ValueError:
        return None


def require_repeated(x: Value, form: Form) -> None:
    """Raises `Unproven` unless the elements of x are equal along the dimensions of the vectors' numbers."""
    if not all(is_repeated(x, d) for d in form.tracked[len(form.batch) :]):
        raise Unproven


def is_repeated(x: Value, d: int, depth: int = 16) -> bool:
    """Whether the elements of x are known to be equal along a dimension."""
    op = x.definition
    if shape(x)[d] == 1:
        return True
    if op is None or depth == 0:
        return False
    if op.name == "stablehlo.constant":
        return is_splat(op.attributes["value"])
    if op.name == "stablehlo.broadcast_in_dim":
        places = dimensions_in(op.attributes["broadcast_dimensions"])
        return d not in places or is_repeated(op.operands[0], places.index(d), depth - 1)
    if op.name == "stablehlo.transpose":
        return is_repeated(op.operands[0], dimensions_in(op.attributes["permutation"])[d], depth - 1)
    if op.name == "stablehlo.reshape":
        kept = {after: before for before, after in kept_sizes(op).items()}
        return d in kept and is_repeated(op.operands[0], kept[d], depth - 1)
    if op.name == BINDING:
        return is_repeated(op.operands[0], d, depth - 1)
    if op.name in ELEMENTWISE:
        return all(rank(y) == 0 or is_repeated(y, d, depth - 1) for y in op.operands)
    return False


def kept_sizes(op: Definition) -> dict[int, int]:
    """Maps dimensions of a reshape's operand to those of its result. Empty unless all sizes other than 1 are kept."""
    before, after = ([(d, n) for d, n in enumerate(shape(x)) if n != 1] for x in (op.operands[0], op.result))
    if [n for _, n in before] != [n for _, n in after]:
        return {}
    return {d: e for (d, _), (e, _) in zip(before, after, strict=True)}


def constant_diagonal(x: Value) -> tuple[int, int] | None:
    """The two dimensions of the diagonal, if x has equal numbers on a diagonal and zeros elsewhere. Otherwise None."""
    op = x.definition
    while op is not None and op.name in ("stablehlo.convert", "stablehlo.complex", BINDING):
        if op.name == "stablehlo.complex" and splat_of(op.operands[1]) != 0:
            return None
        op = op.operands[0].definition
    if op is None or op.name != "stablehlo.select" or splat_of(op.operands[2]) != 0:
        return None
    pair = diagonal_mask(op.operands[0])
    return pair if pair is not None and all(is_repeated(op.operands[1], d) for d in pair) else None
