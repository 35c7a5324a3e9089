"""The verifiers of the `tidu` ops within one graph.

A verifier returns True for a valid op. Otherwise, it emits a diagnostic with a location and returns False.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.attributes import readable, readable_entries
from tiduc.dialect.ops.ir_types import IrOp, IrValue

ACTIVE = "tidu.active"
INPUT_OF = "tidu.input_of"
OUTPUT_OF = "tidu.output_of"
ACTIVE_OUTPUTS = "tidu.active_outputs"
TERMINATOR = "stablehlo.return"
"""The terminator of a graph. It is an op of StableHLO, because IRDL cannot declare a terminator."""

MERGED = "tidu.merged"
NAME = "tidu.name"
"""Attribute of an argument or a result of a function: the name by which users refer to the argument or result."""

HELD = "tidu.held"
"""Attribute of a weight that training does not update unless the user names the weight: a string with the reason."""

FROZEN = "tidu.frozen"
"""Attribute of a weight that has no gradient in the original model: a string with the reason, as in `tidu.held`.

Training and derivatives leave the weight out unless the user names it.
"""

SEED = "tidu.seed"
"""Attribute of an op that computes the basis vectors by which a Jacobian is multiplied to compute its columns or rows.

The zeros of basis vectors are structural: the product of such a zero and any other factor, even infinity, is 0.
"""

ROLE = "tidu.role"
"""Attribute of an argument of a training step: the argument's role, one of those in tiduc/training/roles.py."""

CHECKPOINT = "tidu.checkpoint"
"""Attribute of a function: reverse mode recomputes the function's values from its arguments, as with `jax.checkpoint`.

Import moves the attribute to the ops of the function, except to those that compute the function's results.
"""

STOP_GRADIENT = "tidu.stop_gradient"
"""The name of composites that are the identity, and whose tangents are zero."""

RECOMPUTED = "tidu.recomputed"
"""Attribute of an optimization barrier whose results a recomputed op reads.

The barrier may have one more operand, only to delay the op until that operand is computed. No op reads the barrier's
result for that operand.
"""


def graph(op: IrOp) -> bool:
    """Checks that a `tidu.graph` has one block, which ends in `stablehlo.return`, distinct keys and correct masks."""
    if len(op.regions) != 1:
        return _fail(op, f"expects one region, has {len(op.regions)}")
    if len(op.regions[0].blocks) != 1:
        return _fail(op, f"expects one block, has {len(op.regions[0].blocks)}")
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    if not body or body[-1].name != TERMINATOR:
        return _fail(op, f"expects its block to end in {TERMINATOR}")
    return _keys(op, block, body) and _linear(op, block, body)


def external(op: IrOp) -> bool:
    """Checks that a `tidu.external` is in a graph, and has a reference `@graph::@name` to another graph."""
    if not inside_graph(op):
        return False
    ref = readable(op.attributes, "ref")
    if not _is_reference(ref):
        return _fail(op, f"expects a reference @graph::@name, has {ref}")
    if ref.value[0] == _symbol(op.operation.parent):
        return _fail(op, f"refers to {ref} in its own graph")
    return True


def name(op: IrOp) -> bool:
    """Checks that a `tidu.name` has a name, and is directly in a graph."""
    if _symbol(op) is None:
        return _fail(op, f"expects a name in sym_name, has {readable(op.attributes, 'sym_name')}")
    return inside_graph(op)


def inside_graph(op: IrOp) -> bool:
    """Checks that the op is directly in a graph."""
    parent = op.operation.parent
    if parent is None or parent.name != "tidu.graph":
        return _fail(op, "expects to be directly in a tidu.graph")
    return True


def bind(op: IrOp) -> bool:
    """Checks that a `tidu.bind` has an input key, and a reference to a value of a graph."""
    key, value = readable(op.attributes, "input"), readable(op.attributes, "value")
    if not isinstance(key, ir.FlatSymbolRefAttr):
        return _fail(op, f"expects an input key, has {key}")
    if not _is_reference(value):
        return _fail(op, f"expects a reference @graph::@name, has {value}")
    return True


# The verifiers run before IRDL checks the op, so attributes and regions may be missing.


def _symbol(op: IrOp | None) -> str | None:
    symbol = None if op is None else readable(op.attributes, "sym_name")
    return str(symbol.value) if isinstance(symbol, ir.StringAttr) else None


def _is_reference(ref: ir.Attribute) -> bool:
    return isinstance(ref, ir.SymbolRefAttr) and len(ref.value) == 2


def _fail(op: IrOp, message: str) -> bool:
    op.location.emit_error(f"'{op.operation.name}' op {message}")
    return False


def _keys(op: IrOp, block: ir.Block, body: list[ir.Operation]) -> bool:
    """Checks that there is one input key per block argument, and that keys and names are distinct."""
    if _symbol(op) is None:
        return _fail(op, f"expects a name in sym_name, has {readable(op.attributes, 'sym_name')}")
    keys: list[Any] | None = readable_entries(readable(op.attributes, "inputs"))
    if keys is None or not all(isinstance(key, ir.FlatSymbolRefAttr) for key in keys):
        return _fail(op, "expects input keys that are symbols")
    if len(keys) != len(block.arguments):
        return _fail(op, f"has {len(keys)} input keys for {len(block.arguments)} block arguments")
    seen = set()
    for owner, name in [(op, key.value) for key in keys] + [
        (inner, _symbol(inner)) for inner in body if inner.name == "tidu.name"
    ]:
        if name in seen:
            return _fail(owner, f"defines the key @{name} a second time")
        seen.add(name)
    return True


def _linear(op: IrOp, block: ir.Block, body: list[ir.Operation]) -> bool:
    """Checks that each input and output of a linear graph has a primal value, and that active masks are correct."""
    attributes = op.attributes
    if INPUT_OF not in attributes:
        if present := [name for name in (OUTPUT_OF, ACTIVE_OUTPUTS) if name in attributes]:
            return _fail(op, f"has {present[0]}, but lacks {INPUT_OF}")
        masked = [inner for inner in body if ACTIVE in inner.attributes]
        if masked and MERGED not in attributes:
            return _fail(masked[0], "carries an active mask in a graph without tangent inputs")
        return all(_has_mask_of(inner, len(inner.operands)) for inner in masked)
    if OUTPUT_OF not in attributes or ACTIVE_OUTPUTS not in attributes:
        return _fail(op, f"is linear, but lacks {OUTPUT_OF} or {ACTIVE_OUTPUTS}")
    for aligned in (INPUT_OF, OUTPUT_OF):
        refs = readable_entries(readable(attributes, aligned))
        if refs is None or not all(map(_is_reference, refs)):
            return _fail(op, f"expects {aligned} to be an array of references @graph::@name")
    if len(attributes[INPUT_OF]) != len(block.arguments):
        return _fail(op, f"has {len(attributes[INPUT_OF])} {INPUT_OF} for {len(block.arguments)} inputs")
    if not isinstance(readable(attributes, ACTIVE_OUTPUTS), ir.DenseBoolArrayAttr):
        return _fail(op, f"expects {ACTIVE_OUTPUTS} to be an array<i1>")
    active_outputs = list(attributes[ACTIVE_OUTPUTS])
    if len(active_outputs) != len(attributes[OUTPUT_OF]):
        return _fail(
            op, f"has {len(active_outputs)} {ACTIVE_OUTPUTS} for {len(attributes[OUTPUT_OF])} outputs"
        )
    if sum(active_outputs) != len(body[-1].operands):
        return _fail(body[-1], f"expects one value for each active output, {sum(active_outputs)}")
    return _masks(block, body)


def _masks(block: ir.Block, body: list[ir.Operation]) -> bool:
    """Checks that the active masks follow from the tangent inputs, and that each output depends on a tangent input."""
    active = set[IrValue](block.arguments)
    for inner in body[:-1]:
        mask = [x in active for x in inner.operands]
        if ACTIVE in inner.attributes:
            if not _has_mask_of(inner, len(mask)):
                return False
            stated = inner.attributes[ACTIVE]
            if list(stated) != mask:
                return _fail(inner, f"has the active mask {list(stated)}, but its operands are {mask}")
            if True not in mask:
                return _fail(inner, "carries an active mask, but no operand is active")
        if True in mask:
            active.update(inner.results)
    for i, x in enumerate(body[-1].operands):
        if x not in active:
            return _fail(body[-1], f"returns the inactive value #{i} as an active output")
    return True


def _has_mask_of(op: IrOp, count: int) -> bool:
    if not isinstance(readable(op.attributes, ACTIVE), ir.DenseBoolArrayAttr):
        return _fail(op, f"expects {ACTIVE} to be an array<i1>")
    mask = op.attributes[ACTIVE]
    return len(mask) == count or _fail(op, f"has an active mask of {len(mask)} flags for {count} operands")
