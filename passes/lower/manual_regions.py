"""manual_regions: restores Shardy's ops from the custom calls that `dialect/ops/shardy.py` puts in their place.

    %part = custom_call @shardy.to_parts(%x)       %0 = sdy.manual_computation(%x) ... (%part) {
    body                                      ->   body
    %0 = custom_call @shardy.to_whole(%y)            sdy.return %y }

A derivative may enter and leave manual computations several times. Each op gets a phase number, which grows along the
data flow: even for ops on whole arrays, odd for ops on parts. A block is sorted by phase, and the ops of an odd phase
become one region. If a later region reads a part, the parts of all devices leave the region as one array, stacked along
a new dimension. Ops that depend on no operand, such as constants, are copied to the region that reads them.

For XLA, the calls are at both ends of the body, and the body becomes a function. Otherwise XLA would merge constants of
the body with constants outside, and report that they are sharded in two ways.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.functions import new_function, replace, unused_symbol, within
from tiduc.dialect.graph.graph import Definition, captured, operations, replace_captured
from tiduc.dialect.mlir.context import context
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.shardy import (
    CONSTRAINT,
    DEVICES,
    RESHARD,
    TO_PARTS,
    TO_WHOLE,
    call,
    manual_axes,
    per_value,
)

ENTER = (TO_PARTS, "SPMDFullToShardShape")  # the calls of Shardy and of XLA
LEAVE = (TO_WHOLE, "SPMDShardToFullShape")
Key = tuple[int, Any]  # a phase number, and the manual axes for a phase that holds parts
FLAT = "all axes, and no region"
FREE, WHOLE = (-1, None), (0, None)  # the key of ops without operands, and that of arguments
MIXED = (
    "a value of a manual computation is read outside of it (as by a loop around it), "
    "or by a manual computation over other axes"
)


def manual_regions(function: IrOp) -> None:
    """Restores Shardy's ops in a function, in place."""
    if any(call_target(op) in ENTER + LEAVE for op in _calls(function)):
        _regions(function.regions[0].blocks[0])
    for op in _calls(function):
        if call_target(op) in (TO_PARTS, TO_WHOLE):
            raise Unsupported(MIXED, op.location)
        if call_target(op) not in (CONSTRAINT, RESHARD):
            continue
        attributes = {"sharding": op.attributes["sharding"]}
        y = _create(call_target(op), [op.operands[0]], [op.results[0].type], attributes, op)
        replace(op, y.results)


def holds_calls(names: Collection[str], definitions: Iterable[Definition]) -> bool:
    """Whether the program may have calls that represent Shardy's ops. Faster than a walk over the lowered module.

    `names` has the names of all ops, and `definitions` contains at least all ops with regions.
    """
    holders = {
        id(definition.source): definition.source
        for definition in definitions
        if definition.source is not None
    }
    return CUSTOM_CALL in names or any(next(_calls(op), None) is not None for op in holders.values())


def _calls(op: IrOp) -> Iterator[Any]:
    """The custom calls inside an op that represent Shardy's ops, and XLA's calls at the ends of manual computations."""
    return (inner for inner in within(op) if call_target(inner) in (CONSTRAINT, RESHARD, *ENTER, *LEAVE))


def _axes(op: IrOp) -> str | ir.OpaqueAttr:
    """The manual axes of an op that enters or leaves a manual computation; `FLAT` for XLA's calls."""
    return op.attributes["manual_axes"] if "manual_axes" in op.attributes else FLAT


def _create(
    name: str,
    operands: Sequence[IrValue],
    types: Sequence[ir.RankedTensorType],
    attributes: Mapping[str, ir.Attribute],
    before: IrOp,
) -> Any:
    context().allow_unregistered_dialects = True  # permanently, because clones of the op also need it
    ip = ir.InsertionPoint(before)
    return ir.Operation.create(name, types, operands, attributes, loc=before.location, ip=ip)


def _regions(block: ir.Block) -> None:
    """Sorts the ops of a block by phase, and moves ops on parts into regions, or for XLA into functions."""
    *ops, end = operations(block)
    keys: dict[Any, Key] = {}  # a value without an entry has the key WHOLE
    phases: dict[Key, list[Any]] = {}
    for op in ops:
        key = _key(op, keys)
        phases.setdefault(key, []).append(op)
        for y in op.results:
            keys[y] = (key[0] + 1, None) if call_target(op) in LEAVE else key
    if any(_is_part(keys.get(x, WHOLE)) for x in end.operands):
        raise Unsupported(MIXED, end.location)
    order = sorted(phases, key=lambda key: (key[0], str(key[1])))
    for key in order:
        if key[1] is not None:
            phases[key] = _read_here(key, keys, phases, end)
    for key in order:
        if key[1] is not None:
            (_function if key[1] is FLAT else _region)(phases[key], end)
            continue
        for op in phases[key]:
            op.move_before(end)
            if len(op.regions) and any(call_target(inner) in ENTER + LEAVE for inner in _calls(op)):
                for inside in [b for region in op.regions for b in region.blocks]:
                    _regions(inside)
    for op in reversed(phases.get(FREE, [])):
        if not any(list(y.uses) for y in op.results):
            op.erase()


def _is_part(key: Key) -> bool:
    """Whether a value with this key is a part that is computed in a region."""
    return key[1] is not None and key[1] is not FLAT


def _key(op: IrOp, keys: dict[IrValue, Key]) -> Key:
    """The key of an op (phase number and manual axes), computed from the keys of the values that the op reads.

    Raises `Unsupported` for a nested manual computation, and for an op that reads parts over different axes.
    """
    bound = [key for x in _reads(op) if (key := keys.get(x, WHOLE)) != FREE]
    phase, axes = max([key[0] for key in bound], default=0), {key[1] for key in bound}
    if call_target(op) in ENTER:
        if axes - {None}:
            raise Unsupported("a manual computation is nested inside another", op.location)
        return phase + 1, _axes(op)
    if call_target(op) in LEAVE:
        phase, axes = max(phase, 1), {_axes(op), *axes}
    if FLAT in axes:  # without a region, mixing with other axes is harmless
        axes = {FLAT}
    if len(axes) > 1:
        raise Unsupported(MIXED, op.location)
    return (phase, axes.pop()) if axes else FREE


def _read_here(key: Key, keys: dict[IrValue, Key], phases: dict[Key, list[IrOp]], end: IrOp) -> list[IrOp]:
    """The ops of a phase, changed to read only parts of this phase.

    A part of an earlier phase is read from an array that stacks the parts of all devices. Ops without operands are
    copied.
    """
    ops: list[IrOp] = []
    here: dict[IrValue, IrValue] = {}

    def local(x: IrValue) -> IrValue:
        of = keys.get(x, WHOLE)
        if of != key and (of == FREE or _is_part(of)) and x not in here:
            if of == FREE:
                op = ir.OpResult(x).owner.operation
                copy = op.clone(ir.InsertionPoint(end)).operation
                _read(copy, local)
                ops.append(copy)
                here.update(zip(op.results, copy.results, strict=True))
            else:
                crossing = _stacked(x, phases[of], end)
                ops.extend(crossing)
                here[x] = crossing[-1].results[0]
        return here.get(x, x)

    for op in phases[key]:
        if call_target(op) not in ENTER:
            _read(op, local)
        ops.append(op)
    return ops


def _read(op: IrOp, local: Callable[[IrValue], IrValue]) -> None:
    """Replaces each operand and capture x of an op by `local(x)`."""
    for i, x in enumerate(op.operands):
        op.operands[i] = local(x)
    if len(op.regions):
        replace_captured(op, [local(x) for x in captured(op)])


def _stacked(x: IrValue, phase: list[IrOp], end: IrOp) -> list[IrOp]:
    """Passes x, a part of an array on one device, from an earlier phase to a later one.

    For this purpose, the parts of all devices are stacked in one array. Appends the ops that build this array to
    `phase`, the earlier phase. Returns the ops that extract x from the array.
    """
    said = next(op for op in phase if call_target(op) in (TO_PARTS, TO_WHOLE)).attributes
    axes, count = said["manual_axes"], said[DEVICES].value
    mesh = str(said["sharding"]).partition("<@")[2].partition(",")[0]
    names = ", ".join(f'"{name}"' for name in manual_axes(axes))
    sharding = f"#sdy.sharding<@{mesh}, [{{{names}}}{', {?}' * x.type.rank}]>"
    attributes = {"sharding": ir.Attribute.parse(sharding), "manual_axes": axes, DEVICES: said[DEVICES]}
    part, whole = (ir.RankedTensorType.get([n, *x.type.shape], x.type.element_type) for n in (1, count))
    row = _create("stablehlo.reshape", [x], [part], {}, end)
    out = call(TO_WHOLE, row.result, whole, attributes, end)
    back = call(TO_PARTS, out, part, attributes, end)
    phase += [row, out.owner]
    return [back.owner, _create("stablehlo.reshape", [back], [x.type], {}, end)]


def _region(ops: list[IrOp], end: IrOp) -> None:
    """Moves ops on parts, which are all of one phase, into one `sdy.manual_computation`."""
    entering, leaving = ([op for op in ops if call_target(op) == name] for name in (TO_PARTS, TO_WHOLE))
    attributes = {
        "in_shardings": per_value([op.attributes["sharding"] for op in entering]),
        "out_shardings": per_value([op.attributes["sharding"] for op in leaving]),
        "manual_axes": (entering + leaving)[0].attributes["manual_axes"],
    }
    operands, types = [op.operands[0] for op in entering], [op.results[0].type for op in leaving]
    inner = [op for op in ops if call_target(op) not in ENTER + LEAVE]
    first = (inner + entering + leaving)[
        0
    ]  # if possible an inner op, because Shardy's parser gives a region the location of its last line
    context().allow_unregistered_dialects = True  # permanently, as in `_create`
    ip = ir.InsertionPoint(end)
    manual: Any = ir.Operation.create(
        "sdy.manual_computation", types, operands, attributes, regions=1, loc=first.location, ip=ip
    )
    block = manual.regions[0].blocks.append(*[op.results[0].type for op in entering])
    for op, part in zip(entering, block.arguments, strict=True):
        op.results[0].replace_all_uses_with(part)
    for op in inner:
        block.append(op)
    returned = [op.operands[0] for op in leaving]
    ir.Operation.create("sdy.return", operands=returned, loc=end.location, ip=ir.InsertionPoint(block))
    for op, whole in zip(leaving, manual.results, strict=True):
        replace(op, [whole])
    for op in entering:
        op.erase()


def _function(ops: list[ir.Operation], end: ir.Operation) -> None:
    """Moves ops on parts into a private function. It is called after the ops in `ENTER` and before those in `LEAVE`."""
    body = [op for op in ops if call_target(op) not in ENTER + LEAVE]
    computed = dict.fromkeys(y for op in body for y in op.results)
    given = list(dict.fromkeys(x for op in body for x in _reads(op) if x not in computed))
    inside = set(body)
    others = [op for op in operations(end.block) if op not in inside]
    read = {x for op in others for x in _reads(op)}
    wanted = [y for y in computed if y in read]
    inputs, outputs = ([x.type for x in values] for values in (given, wanted))
    place = end
    while place.name != "func.func":
        place = _parent(place)
    name = unused_symbol(_parent(place).regions[0].blocks[0], (f"manual_body{i}" for i in count()))
    _, block = new_function(name, (inputs, outputs), ir.InsertionPoint(place), end.location)
    called = _create("func.call", given, outputs, {"callee": ir.FlatSymbolRefAttr.get(name)}, end)
    results = dict[IrValue, IrValue](zip(wanted, called.results, strict=True))
    for op in others:
        _read(op, lambda x: results.get(x, x))
    parts = dict[IrValue, IrValue](zip(given, block.arguments, strict=True))
    for op in body:
        _read(op, lambda x: parts.get(x, x))
        block.append(op)
    ir.Operation.create("func.return", operands=wanted, loc=end.location, ip=ir.InsertionPoint(block))
    for op in ops:
        if call_target(op) in ENTER:
            op.move_before(called)
        elif call_target(op) in LEAVE:
            op.move_before(end)


def _parent(op: ir.Operation) -> ir.Operation:
    parent = op.parent
    assert parent is not None
    return parent.operation


def _reads(op: IrOp) -> tuple[IrValue, ...]:
    return (*op.operands, *captured(op)) if len(op.regions) else tuple(op.operands)
