"""Writes the text in boxes: names, types, constants and attributes of ops, in a short form."""

import re
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.activity import GRAPHS, callees, name_of
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.attributes import location_name
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.control_ops import TARGET, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import ACTIVE, NAME

SHAPE_OPS = frozenset({"broadcast_in_dim", "convert", "reshape"})
"""The ops that only change the shape or type of a value. In large scenes, they become labels of arrows."""

LITERALS = frozenset(f"stablehlo.{name}" for name in SHAPE_OPS)
"""The full names of `SHAPE_OPS`. Their result is a splat constant if their operand is one."""

SHOWN = 4  # a constant with more elements is not written out, unless it is a splat
WIDTH = 64  # the length of a line in a box, in characters
_LINE = 600  # the length of the text of all attributes of an op, in characters
_IN_NAME = ("comparison_direction", "callee", GRAPHS, TARGET, "custom_call_target")
_UNSAID = {ACTIVE, "precision_config", "operandSegmentSizes", "compare_type", "value", *_IN_NAME}
_DEFAULTS = {"indices_are_sorted = false", "unique_indices = false", "exact = true"}
_ARRAY = re.compile(r"array<i\d+(?:: )?([^>]*)>")
_STABLEHLO = re.compile(r"#(?:stablehlo|chlo)(?:\.\w+)?<([^<>]*(?:<[^<>]*>)?[^<>]*)>")
_WORDS = {
    "broadcast_dimensions": "dims",
    "dimensions": "dims",
    "permutation": "dims",
}
_PLACES = re.compile(r'"((?:[^"\\]|\\.)*)"(?!:\d)')


def type_name(type_: ir.RankedTensorType) -> str:
    """Returns the text of a tensor type without `tensor<>`, such as `2x16xf32`."""
    return str(type_).removeprefix("tensor<").removesuffix(">")


def title(op: IrOp) -> str:
    """Returns the title of an op: its name, and its callee, comparison direction or reducer if there is one."""
    name = name_of(op)
    called = callees(op)
    if called:
        kind = "call" if name in ("func.call", "call", "tidu.call") else name.removeprefix("tidu.")
        return f"{kind} {' '.join(f'@{callee}' for callee in called)}"
    short = name.removeprefix("stablehlo.")
    if name == "stablehlo.compare":
        return f"{short} {_bare(op.attributes['comparison_direction'])}"
    if (target := call_target(op)) is not None:
        return f"{short} @{target}"
    inner = reducer(op)
    return f"{short} {inner.removeprefix('stablehlo.')}" if inner else short


def reducer(op: IrOp) -> str:
    """Returns the name of the op that a reduction applies, such as `stablehlo.add`.

    Returns "" unless the op has one region, and this region has one op besides the terminator.
    """
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return ""
    *inner, _ = operations(op.regions[0].blocks[0])
    return str(inner[0].name) if len(inner) == 1 else ""


def attributes(op: IrOp, width: int = _LINE) -> str:
    """Returns the text of the attributes of an op.

    Attributes in its title, and attributes with default values, are left out.
    """
    if op.name == "stablehlo.slice":
        return _slice(op)
    if op.name == "stablehlo.dot_general":
        return _dot_general(op)
    parts = []
    for name in op.attributes:
        if name in _UNSAID or name.startswith("iree."):
            continue
        value = _bare(op.attributes[name])
        said = f"{_WORDS.get(name, name)} = {value}" if value != "unit" else name
        if said in _DEFAULTS or (name == "strides" and set(value) <= set("[1, ]")):
            continue
        parts.append(said if name != "dimension_numbers" and name != "dot_dimension_numbers" else value)
    return clipped(", ".join(parts), width)


def _slice(op: IrOp) -> str:
    """Returns the ranges of a slice in StableHLO's syntax, such as [0:8:2, 1:3]."""
    names = "start_indices", "limit_indices", "strides"
    rows = zip(*(list(op.attributes[name]) for name in names), strict=True)
    return "[" + ", ".join(f"{a}:{b}" + (f":{s}" if s != 1 else "") for a, b, s in rows) + "]"


def _dot_general(op: IrOp) -> str:
    """Returns the contracting dimensions and the batching dimensions, such as `over [1] x [0], batch [0] x [2]`."""
    of = Contraction.of(op)
    batches, summed = (" x ".join(str(list(own)) for own in pair) for pair in (of.batches, of.summed))
    return f"over {summed}, batch {batches}" if of.batches[0] else f"over {summed}"


def clipped(text: str, width: int) -> str:
    """Returns the text, cut to `width` characters if it is longer. A text that was cut ends with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _bare(attribute: ir.Attribute) -> str:
    text = str(attribute)
    if len(text) > 10 * _LINE:
        return "…"
    text = _ARRAY.sub(r"[\1]", text)
    text = _STABLEHLO.sub(
        lambda m: re.sub(r"^(comparison_direction|rng_algorithm|fft_type) ", "", m[1]), text
    )
    text = re.sub(r" : i\d+$", "", text)
    for long, short in _WORDS.items():
        text = text.replace(long, short)
    return text


def literal(op: IrOp) -> str | None:
    """Returns the text of a splat constant, or of a vector constant with at most `SHOWN` elements.

    Returns None for other constants and other ops.
    """
    if op.name != "stablehlo.constant":
        return None
    value = op.attributes["value"]
    try:
        if value.is_splat:
            element = value.get_splat_value()
            return _number(getattr(element, "value", element))
        if value.type.rank == 1 and value.type.shape[0] <= SHOWN:
            return "[" + ", ".join(_number(x) for x in value) + "]"
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None  # the bindings cannot read this element type, or the constant is a resource
    return None


def _number(x: float) -> str:
    if isinstance(x, bool):
        return str(x).lower()
    return f"{x:.6g}" if isinstance(x, float) else str(x)


def port_names(values: Sequence[IrValue], attrs: ir.Attribute | None, default: str) -> list[str]:
    """Returns the names of a function's arguments or results.

    A name is that in the attribute `tidu.name` or, for arguments, in the location. Otherwise it is `default` and a
    number, such as `arg0`.
    """
    names = []
    given = [] if attrs is None else [ir.DictAttr(each) for each in ir.ArrayAttr(attrs)]
    for i, x in enumerate(values):
        name = f"{default}{i}"
        if i < len(given) and NAME in given[i]:
            name = str(ir.StringAttr(given[i][NAME]).value)
        elif default == "arg" and isinstance(x.location, ir.NameLoc):
            name = location_name(x.location)
        names.append(name)
    return names


def said_of_place(location: ir.Location) -> str:
    """Returns the quoted names in a location, such as the scopes that frontends write. Names of files are left out."""
    return " ".join(dict.fromkeys(_PLACES.findall(str(location))))


def in_bytes(count: int | None) -> str:
    """Returns a number of bytes as text, such as "1.5 KiB", in the largest unit in which the number is at least 1.

    Returns "dynamic" for None.
    """
    if count is None:
        return "dynamic"
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count:,} B" if unit == "B" else f"{size:,.1f} {unit}"
