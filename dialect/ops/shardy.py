"""Converts Shardy's ops to custom calls when a file is read, because the bindings do not have the Shardy dialect.

    sdy.mesh @mesh = <["d"=4, "m"=2]>              unchanged
    sdy.sharding_constraint %x <@mesh, [{"d"}]> -> stablehlo.custom_call @sdy.sharding_constraint(%x) {sharding}
    sdy.manual_computation(%x) ... (%part) {    -> %part = stablehlo.custom_call @shardy.to_parts(%x) {sharding, ...}
      body                                         body
      sdy.return %y }                              stablehlo.custom_call @shardy.to_whole(%y) {sharding, ...}

The body of a manual computation is inlined, so its ops are differentiated and merged like other ops. After that,
`passes/lower/manual_regions.py` moves the ops into a region again. Attributes of the dialect stay opaque. Because MLIR
does not have the dialect, it reads only the generic form of the dialect's ops. So `generic` first rewrites the pretty
form by regular expressions.
"""

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import ext

from tiduc.dialect.errors import ParseError, Unsupported
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, TARGET
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue

DIALECT = "sdy"
MESH = "sdy.mesh"
CONSTRAINT, RESHARD = "sdy.sharding_constraint", "sdy.reshard"
CONSTRAINTS = (CONSTRAINT, RESHARD, "Sharding", "xla.sdy.Sharding")
PLACEMENT = "annotate_device_placement"
"""Target of a custom call that moves its operand to a kind of memory, such as the host's.

JAX exports `device_put` as such a call.
"""
TO_PARTS, TO_WHOLE = "shardy.to_parts", "shardy.to_whole"
HOLDERS, DEVICES = "holders", "devices"
"""Attributes of `TO_PARTS` and `TO_WHOLE` calls.

`HOLDERS` is a matrix, in which each row lists devices that hold equal parts of the array. `DEVICES` is the product of
the sizes of the manual axes.
"""


class Shardy(ext.Dialect, name="shardy"):
    """A dialect for the op `ManualBody`, which exists only while a file is read."""


class ManualBody(Shardy.Operation, name="body", traits=[ir.IsIsolatedFromAboveTrait]):
    """Contains the body of the manual computation that follows this op.

    A registered op must contain the body, because MLIR does not resolve symbols inside unregistered ops like Shardy's.
    """

    body: ir.Region


_OPS = re.compile(r'^ *(%\S+ = )?"?sdy\.', re.MULTILINE)
_MESH = re.compile(r"^( *)sdy\.mesh @(\"[^\"]*\"|[\w$.-]+) = (<[^>]*>)(?: \{(.*)\})?", re.MULTILINE)
_CONSTRAINT = re.compile(
    r"^( *%\S+ = )(sdy\.sharding_constraint|sdy\.reshard) (%\S+) (<.*>)(?: (\{.*\}))? : (tensor<.*?>)(?=$| loc)",
    re.MULTILINE,
)
_RETURN = re.compile(r"^( *)sdy\.return(?: (%.*?) : (.*?))?(?=$| loc)", re.MULTILINE)
_MANUAL = re.compile(
    r"^( *)((?:%\S+ = )?)sdy\.manual_computation(\(.*?\)) in_shardings=(\[.*\]) out_shardings=(\[.*\]) "
    r"manual_axes=(\{.*?\}) \((.*)\) \{$",
    re.MULTILINE,
)
SHARDINGS = frozenset({"mhlo.sharding", "sdy.sharding"})
PARTITIONS = "mhlo.num_partitions"
"""The attribute of a module that states for how many devices the module is partitioned."""

MOST_DEVICES = 1 << 20
"""The largest number of devices of a mesh or a module. The attribute `HOLDERS` lists each device of a mesh."""


def partitions_of(module: ir.Module | IrOp) -> int:
    """The number of devices for which a module is partitioned; see `partitions_in`."""
    return partitions_in(module.operation.attributes, module.operation.location)


def partitions_in(attributes: Attributes | ir.OpAttributeMap, location: ir.Location) -> int:
    """The number of devices that the attributes of a module state; 1 if they do not state it.

    Raises `ParseError`, at `location`, for anything but an integer from 1 to `MOST_DEVICES`.
    """
    if PARTITIONS not in attributes:
        return 1
    number = attributes[PARTITIONS]
    if not isinstance(number, ir.IntegerAttr) or not 1 <= number.value <= MOST_DEVICES:
        raise ParseError(
            f"{PARTITIONS} = {number} is not a number of devices from 1 to {MOST_DEVICES:,}", location
        )
    return number.value


def mesh_axes(mesh: ir.Attribute) -> dict[str, int]:
    """The axes in a `#sdy.mesh<["a"=2, "b"=4]>`, with their sizes, in order."""
    return {name: int(size) for name, size in re.findall(r'"([^"]+)"=(\d+)', str(mesh))}


def has_other_order(mesh: ir.Attribute) -> bool:
    """Whether a mesh states the order of its devices. If it does not, the order is ascending."""
    return "device_ids" in str(mesh)


def shardings_among(attributes: ir.Attribute | None) -> Any:
    """The shardings among the attributes of an argument or a result, as a `DictAttr`; None if `attributes` is None."""
    if attributes is None:
        return None
    return ir.DictAttr.get(
        {name: value for name, value in named_attributes(attributes).items() if name in SHARDINGS}
    )


def has_ops(text: str) -> bool:
    """Whether the text has Shardy ops, in pretty or generic form."""
    return _OPS.search(text) is not None


def generic(text: str) -> str:
    """Rewrites Shardy's ops in a text to generic form. Line numbers do not change."""
    text = _MESH.sub(_generic_mesh, text)
    text = _CONSTRAINT.sub(r'\1"\2"(\3) {sharding = #sdy.sharding\4} : (\6) -> \6', text)
    text = _RETURN.sub(lambda m: f'{m[1]}"sdy.return"({m[2] or ""}) : ({m[3] or ""}) -> ()', text)
    while (match := _MANUAL.search(text)) is not None:
        text = _generic_manual(text, match)
    return text


def _generic_mesh(match: re.Match[str]) -> str:
    name = match[2] if match[2].startswith('"') else f'"{match[2]}"'
    more = f", {match[4]}" if match[4] else ""
    return f'{match[1]}"sdy.mesh"() {{sym_name = {name}, mesh = #sdy.mesh{match[3]}{more}}} : () -> ()'


def _generic_manual(text: str, match: re.Match[str]) -> str:
    """Rewrites one manual computation to generic form.

    Its region ends at the first line with a `}` in the column in which the op begins.
    """
    indent, results, operands, inside, outside, axes, arguments = match.groups()
    end = f"\n{indent}}} "
    at = text.find(end, match.end())
    if at < 0:
        line = text.count("\n", 0, match.start()) + 1
        raise ParseError("the end of an sdy.manual_computation is not found", f"-:{line}:{len(indent) + 1}")
    attributes = (
        f"in_shardings = #sdy.sharding_per_value<{inside}>, out_shardings = #sdy.sharding_per_value<{outside}>, "
        f"manual_axes = #sdy<manual_axes{axes}>"
    )
    head = f'{indent}"shardy.body"() ({{ ^bb0({arguments}):'
    tail = f'\n{indent}}}) : () -> () {results}"sdy.manual_computation"{operands} {{{attributes}}} '
    return text[: match.start()] + head + text[match.end() : at] + tail + text[at + len(end) :]


# ---- Shardy's ops become custom calls ----------------------------------------------------------------------------


_ATTRIBUTES = {
    MESH: ("sym_name", "mesh"),
    CONSTRAINT: ("sharding",),
    RESHARD: ("sharding",),
    "sdy.manual_computation": ("manual_axes", "in_shardings", "out_shardings"),
}


def fold(module: ir.Module) -> None:
    """Replaces Shardy's ops in a module by custom calls, in place; keeps meshes.

    Raises `ParseError` for an op that is not known or lacks an attribute.
    """
    ops: list[Any] = []

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith((f"{DIALECT}.", "shardy.")):
            ops.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)  # visits inner ops before outer ops
    for op in ops:
        for name in _ATTRIBUTES.get(op.name, ()):
            if name not in op.attributes:
                raise ParseError(f"'{op.name}' op requires attribute '{name}'", op.location)
    meshes = {op.attributes["sym_name"].value: op.attributes["mesh"] for op in ops if op.name == MESH}
    holder: ir.Operation | None = None
    for op in ops:
        if op.name in (CONSTRAINT, RESHARD):
            y = call(op.name, op.operands[0], op.results[0].type, {"sharding": op.attributes["sharding"]}, op)
            op.results[0].replace_all_uses_with(y)
            op.erase()
        elif op.name == "sdy.manual_computation":
            body = op if len(op.regions) else holder
            assert body is not None
            _flatten(op, body, meshes)
        elif op.name == "shardy.body":
            holder = op
        elif op.name not in (MESH, "sdy.return"):
            raise ParseError(
                f"{op.name}, of the unregistered dialect {DIALECT}, is not understood", op.location
            )


def call(target: str, x: IrValue, type_: ir.Type, attributes: Attributes, before: IrOp) -> Any:
    """Creates a custom call of one operand before the op `before`. Returns its result."""
    attributes = {**attributes, TARGET: ir.StringAttr.get(target)}
    ip = ir.InsertionPoint(before)
    return ir.Operation.create(CUSTOM_CALL, [type_], [x], attributes, loc=before.location, ip=ip).result


def _flatten(op: ir.Operation, holder: ir.Operation, meshes: Attributes) -> None:
    axes, block = op.attributes["manual_axes"], holder.regions[0].blocks[0]

    def said(name: str) -> list[dict[str, Any]]:
        return [_crossing(sharding, axes, meshes, op) for sharding in shardings(op.attributes[name])]

    for x, part, attributes in zip(op.operands, block.arguments, said("in_shardings"), strict=True):
        part.replace_all_uses_with(call(TO_PARTS, x, part.type, attributes, op))
    *body, end = [view.operation for view in block.operations]
    for inner in body:
        inner.move_before(op)
    for whole, y, attributes in zip(op.results, end.operands, said("out_shardings"), strict=True):
        whole.replace_all_uses_with(call(TO_WHOLE, y, whole.type, attributes, op))
    for emptied in {holder, op}:
        emptied.erase()


def shardings(per_value: ir.Attribute) -> Iterator[Any]:
    """The `#sdy.sharding` attributes in a `#sdy.sharding_per_value`."""
    depth, start, text = 0, 0, str(per_value).partition("<[")[2]
    for i, c in enumerate(text):
        if c == "<":
            start = start if depth else i
            depth += 1
        elif c == ">":
            depth -= 1
            if depth == 0:
                yield ir.Attribute.parse(f"#sdy.sharding{text[start : i + 1]}")
            elif depth < 0:
                return


def per_value(some: Sequence[ir.Attribute]) -> Any:
    """The `#sdy.sharding_per_value` attribute that lists these `#sdy.sharding` attributes."""
    return ir.Attribute.parse(
        f"#sdy.sharding_per_value<[{', '.join(str(s).removeprefix('#sdy.sharding') for s in some)}]>"
    )


def _crossing(sharding: ir.Attribute, axes: ir.Attribute, meshes: Attributes, op: IrOp) -> dict[str, Any]:
    """The attributes of a `TO_PARTS` or `TO_WHOLE` call for an array with this sharding.

    `TO_PARTS` splits an array into one part for each device, and `TO_WHOLE` joins the parts. Raises `Unsupported` for
    a sharding that is not understood, and `ParseError` for a mesh that lacks the axes or has too many devices.
    """
    text = str(sharding)
    match = re.fullmatch(r'#sdy\.sharding<@("?)([^",]*)\1, \[(.*?)\](, replicated=\{[^}]*\})?>', text)
    if match is None or ":(" in text or match[2] not in meshes:
        raise Unsupported(f"the sharding {text} of a manual computation is not understood", op.location)
    mesh = str(meshes[match[2]])
    sizes = mesh_axes(meshes[match[2]])
    unknown = {*manual_axes(axes)} - {*sizes}
    if unknown or not 0 < prod(sizes.values()) <= MOST_DEVICES:
        raise ParseError(f"the mesh {mesh} lacks the axes, or has too many devices", op.location)
    listed = re.search(r"device_ids=\[([\d, ]*)\]", mesh)
    ids = np.array(listed[1].split(","), np.int64) if listed else np.arange(prod(sizes.values()))
    used = set(re.findall(r'"([^"]+)"', match[3]))
    equal = [i for i, name in enumerate(sizes) if name in manual_axes(axes) and name not in used]
    groups = np.moveaxis(ids.reshape([*sizes.values()]), equal, range(-len(equal), 0)) if equal else ids
    rows = np.ascontiguousarray(groups.reshape(-1, prod([*sizes.values()][i] for i in equal)))
    i64 = ir.IntegerType.get_signless(64)
    return {
        "sharding": sharding,
        "manual_axes": axes,
        HOLDERS: ir.DenseElementsAttr.get(rows, type=i64, shape=rows.shape),
        DEVICES: ir.IntegerAttr.get(i64, prod(sizes[name] for name in manual_axes(axes))),
    }


def manual_axes(attribute: ir.Attribute) -> list[str]:
    """The names of the axes in a `#sdy<manual_axes{...}>` attribute."""
    return re.findall(r'"([^"]+)"', str(attribute).partition("{")[2])
