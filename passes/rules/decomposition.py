"""Functions that the rules of matrix decompositions share: settings of calls, and reciprocals of spectral gaps."""

import math
from functools import partial

from torch_mlir import ir

from tiduc.dialect.emitters.matrices import epsilon, largest
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import CONFIG, CallSettings
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.opset import unsupported

EQUAL_WITHIN = "tidu.equal_within"
"""The attribute of a call that states how far equal values may differ, in units in the last place of the largest."""

ROUNDING = 1024
"""A divisor below this many units in the last place counts as zero, because a quotient would have fewer than 3 correct
digits."""


def config(op: Definition) -> tuple[str, ir.DictAttr]:
    """The name and the value of the attribute that holds the settings of a call."""
    for name in CONFIG:
        if name in op.attributes:
            return name, op.attributes[name]
    raise unsupported("jvp", op, "it has no backend_config")


def settings(op: Definition) -> CallSettings:
    """Returns the settings of a call, by name, as Python values. A character is an integer, such as ord("V")."""
    _, attribute = config(op)
    if not isinstance(attribute, ir.DictAttr):
        raise unsupported("jvp", op, "its backend_config is not a dictionary")
    return CallSettings(op.attributes, partial(unsupported, "jvp", op))


def with_settings(op: Definition, **changed: int | bool) -> dict[str, ir.DictAttr]:
    """Returns the attribute that holds the settings of a call, as {name: value}, with some settings changed."""
    where, attribute = config(op)
    given = named_attributes(attribute)
    for name, value in changed.items():
        old = given[name]
        given[name] = (
            ir.BoolAttr.get(bool(value))
            if isinstance(old, ir.BoolAttr)
            else ir.IntegerAttr.get(old.type, value)
        )
    return {where: ir.DictAttr.get(given)}


def equality_margin(b: StablehloBuilder, op: Definition, w: Value) -> Value:
    """Returns the largest difference at which two eigenvalues or singular values of a matrix count as equal.

    `w` has the values. The difference is `EQUAL_WITHIN` units in the last place of the largest value, by default
    8 sqrt(n) for n values. Equal values from LAPACK differed by up to 7 units for 5 values, and by 31 for 200.
    """
    ulps = 8 * math.sqrt(shape(w)[-1])
    if EQUAL_WITHIN in op.attributes:
        ulps = ir.FloatAttr(op.attributes[EQUAL_WITHIN]).value
    return times(b, ulps * epsilon(w), largest(b, w))
