"""Functions that the rules of matrix decompositions share: settings of calls, and reciprocals of spectral gaps."""

from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.attributes import named_attributes
from tiduc.dialect.graph import Definition
from tiduc.dialect.lapack import CONFIG, CallSettings
from tiduc.dialect.types import rank, shape, with_shape
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.triangular_solve import compare_places


def config(op: Definition) -> tuple[str, Any]:
    """The attribute that holds the settings of a call, with its name."""
    for name in CONFIG:
        if name in op.attributes:
            return name, op.attributes[name]
    raise unsupported("jvp", op, "it has no backend_config")


def settings(op: Definition) -> CallSettings:
    """The settings of a call by name, as plain values; characters are integers."""
    _, attribute = config(op)
    if not isinstance(attribute, ir.DictAttr):
        raise unsupported("jvp", op, "its backend_config is not a dictionary")
    return CallSettings(op.attributes, partial(unsupported, "jvp", op))


def with_settings(op: Definition, **changed: int | bool) -> dict[str, Any]:
    """The attributes of a call with some settings changed."""
    where, attribute = config(op)
    given = named_attributes(attribute)
    for name, value in changed.items():
        old = given[name]
        given[name] = (
            ir.BoolAttr.get(value) if isinstance(old, ir.BoolAttr) else ir.IntegerAttr.get(old.type, value)
        )
    return {where: ir.DictAttr.get(given)}


def columns(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose column j is filled with x_j."""
    return b.broadcast_in_dim(x, [*range(rank(x) - 1), rank(x)], type_)


def rows(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose row i is filled with x_i."""
    return b.broadcast_in_dim(x, range(rank(x)), type_)


def diagonal(b: Any, x: Any) -> Any:
    """The diagonals of the square matrices in x."""
    return b.reduce_sum(b.select(compare_places(b, x, "EQ"), x, b.zeros_like(x)), [rank(x) - 1])


def inverse(b: Any, x: Any) -> Any:
    """1 / x, and 0 where x is 0."""
    zero, one = b.zeros_like(x), b.constant(1, x)
    none = b.compare(x, zero, "EQ")
    return b.select(none, zero, b.divide(one, b.select(none, one, x)))


def inverse_gaps(b: Any, w: Any) -> Any:
    """1 / (w_j - w_i) in row i and column j, and 0 where w_i = w_j."""
    square = with_shape(w.type, [*shape(w), shape(w)[-1]])
    return inverse(b, b.subtract(columns(b, w, square), rows(b, w, square)))


def scaled(b: Any, factor: Any, x: Any) -> Any:
    """factor * x, where the factor may be real and x complex."""
    return b.multiply(b.convert(factor, x.type.element_type), x)
