"""manual_regions: Shardy's ops again, in place of the custom calls that `dialect/shardy.py` made of them.

    %part = custom_call @shardy.to_parts(%x)       %0 = sdy.manual_computation(%x) ... (%part) {
    body                                      ->   body
    %0 = custom_call @shardy.to_whole(%y)            sdy.return %y }

A derivative goes between whole and parts more than once. So each op gets a phase, which grows along the values: even
of wholes, odd of parts; ops on parts of one phase become one region, and a block is put in the order of phases. What
one region needs of an earlier one's parts leaves it stacked, the parts of all devices along a new dimension. What
reads no operand, and what is made of such ops only, is copied to where it is read.

XLA's own spelling of shardings has calls at the ends of a body, which is a function: else XLA would merge constants
of the body with others, and find them sharded both ways.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import context
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Definition, captured, operations, replace_captured
from tiduc.dialect.shardy import (
    CALL,
    CONSTRAINT,
    DEVICES,
    RESHARD,
    TO_PARTS,
    TO_WHOLE,
    call,
    manual_axes,
    per_value,
    target,
)

ENTER = (TO_PARTS, "SPMDFullToShardShape")  # the second ones are in XLA's own spelling
LEAVE = (TO_WHOLE, "SPMDShardToFullShape")
Key = tuple[int, Any]  # a phase, and the manual axes where it is one of parts
FLAT = "all axes, and no region"
FREE, WHOLE = (-1, None), (0, None)  # what reads nothing; what is given
MIXED = "a value of a manual computation is read outside it, as by a loop around it, or in one of other axes"


def manual_regions(function: Any) -> None:
    """Shardy's ops in a function, in place."""
    if any(target(op) in ENTER + LEAVE for op in _calls(function)):
        _regions(function.regions[0].blocks[0])
    for op in _calls(function):
        if target(op) in (TO_PARTS, TO_WHOLE):
            raise Unsupported(MIXED, op.location)
        if target(op) not in (CONSTRAINT, RESHARD):
            continue
        attributes = {"sharding": op.attributes["sharding"]}
        y = _create(target(op), [op.operands[0]], [op.results[0].type], attributes, op)
        op.results[0].replace_all_uses_with(y.result)
        op.erase()


def holds_calls(names: Collection[str], definitions: Iterable[Definition]) -> bool:
    """There may be such calls among ops of these names, or in the regions of these.

    To look through the ops that are made of them takes longer.
    """
    holders = {
        id(definition.source): definition.source
        for definition in definitions
        if definition.source is not None
    }
    return CALL in names or any(next(_calls(op), None) is not None for op in holders.values())


def _calls(op: Any) -> Iterator[Any]:
    """The custom calls inside an op that stand for Shardy's ops."""
    found: list[Any] = []

    def look(inner: Any) -> Any:
        if target(inner) in (CONSTRAINT, RESHARD, *ENTER, *LEAVE):
            found.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(look)
    return iter(found)


def _axes(op: Any) -> Any:
    """The manual axes of an op that enters a manual computation, or leaves one."""
    return op.attributes["manual_axes"] if "manual_axes" in op.attributes else FLAT


def _create(name: str, operands: Any, types: Any, attributes: Any, before: Any, regions: int = 0) -> Any:
    context().allow_unregistered_dialects = True  # for good: to copy such an op is to make one
    ip = ir.InsertionPoint(before)
    return ir.Operation.create(name, types, operands, attributes, regions=regions, loc=before.location, ip=ip)


def _regions(block: Any) -> None:
    """Puts the ops of a block into the order of their phases, those on parts into regions."""
    *ops, end = operations(block)
    keys: dict[Any, Key] = {}  # of values that are not wholes of phase 0
    phases: dict[Key, list[Any]] = {}
    for op in ops:
        key = _key(op, keys)
        phases.setdefault(key, []).append(op)
        for y in op.results:
            keys[y] = (key[0] + 1, None) if target(op) in LEAVE else key
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
            if len(op.regions) and any(target(inner) in ENTER + LEAVE for inner in _calls(op)):
                for inside in [b for region in op.regions for b in region.blocks]:
                    _regions(inside)
    for op in reversed(phases.get(FREE, [])):
        if not any(list(y.uses) for y in op.results):
            op.erase()


def _is_part(key: Key) -> bool:
    """The value is in a region."""
    return key[1] is not None and key[1] is not FLAT


def _key(op: Any, keys: dict[Any, Key]) -> Key:
    """The phase of an op, from those of what it reads."""
    bound = [key for x in _reads(op) if (key := keys.get(x, WHOLE)) != FREE]
    phase, axes = max([key[0] for key in bound], default=0), {key[1] for key in bound}
    if target(op) in ENTER:
        if axes - {None}:
            raise Unsupported("a manual computation is inside another", op.location)
        return phase + 1, _axes(op)
    if target(op) in LEAVE:
        phase, axes = max(phase, 1), {_axes(op), *axes}
    if FLAT in axes:  # no matter what else: without a region there is no outside
        axes = {FLAT}
    if len(axes) > 1:
        raise Unsupported(MIXED, op.location)
    return (phase, axes.pop()) if axes else FREE


def _read_here(key: Key, keys: dict[Any, Key], phases: dict[Key, list[Any]], end: Any) -> list[Any]:
    """The ops of a phase, reading only its own parts: others are stacked where they are made, or made again."""
    ops: list[Any] = []
    here: dict[Any, Any] = {}

    def local(x: Any) -> Any:
        of = keys.get(x, WHOLE)
        if of != key and (of == FREE or _is_part(of)) and x not in here:
            if of == FREE:
                copy = x.owner.clone(ir.InsertionPoint(end))
                _read(copy, local)
                ops.append(copy)
                here.update(zip(x.owner.results, copy.results, strict=True))
            else:
                crossing = _stacked(x, phases[of], end)
                ops.extend(crossing)
                here[x] = crossing[-1].results[0]
        return here.get(x, x)

    for op in phases[key]:
        if target(op) not in ENTER:
            _read(op, local)
        ops.append(op)
    return ops


def _read(op: Any, local: Callable[[Any], Any]) -> None:
    """Has an op read other values in place of its own."""
    for i, x in enumerate(op.operands):
        op.operands[i] = local(x)
    if len(op.regions):
        replace_captured(op, [local(x) for x in captured(op)])


def _stacked(x: Any, made_by: list[Any], end: Any) -> list[Any]:
    """The ops that read parts of an earlier phase from a whole, in which those of all devices are stacked."""
    said = next(op for op in made_by if target(op) in (TO_PARTS, TO_WHOLE)).attributes
    axes, count = said["manual_axes"], said[DEVICES].value
    mesh = str(said["sharding"]).partition("<@")[2].partition(",")[0]
    names = ", ".join(f'"{name}"' for name in manual_axes(axes))
    sharding = f"#sdy.sharding<@{mesh}, [{{{names}}}{', {?}' * x.type.rank}]>"
    attributes = {"sharding": ir.Attribute.parse(sharding), "manual_axes": axes, DEVICES: said[DEVICES]}
    part, whole = (ir.RankedTensorType.get([n, *x.type.shape], x.type.element_type) for n in (1, count))
    row = _create("stablehlo.reshape", [x], [part], {}, end)
    out = call(TO_WHOLE, row.result, whole, attributes, end)
    back = call(TO_PARTS, out, part, attributes, end)
    made_by += [row, out.owner]
    return [back.owner, _create("stablehlo.reshape", [back], [x.type], {}, end)]


def _region(ops: list[Any], end: Any) -> None:
    """Moves ops on parts into one manual computation."""
    entering, leaving = ([op for op in ops if target(op) == name] for name in (TO_PARTS, TO_WHOLE))
    attributes = {
        "in_shardings": per_value([op.attributes["sharding"] for op in entering]),
        "out_shardings": per_value([op.attributes["sharding"] for op in leaving]),
        "manual_axes": (entering + leaving)[0].attributes["manual_axes"],
    }
    operands, types = [op.operands[0] for op in entering], [op.results[0].type for op in leaving]
    manual = _create("sdy.manual_computation", operands, types, attributes, end, regions=1)
    block = manual.regions[0].blocks.append(*[op.results[0].type for op in entering])
    for op, part in zip(entering, block.arguments, strict=True):
        op.results[0].replace_all_uses_with(part)
    for op in ops:
        if target(op) not in ENTER + LEAVE:
            block.append(op)
    returned = [op.operands[0] for op in leaving]
    ir.Operation.create("sdy.return", operands=returned, loc=end.location, ip=ir.InsertionPoint(block))
    for op, whole in zip(leaving, manual.results, strict=True):
        op.results[0].replace_all_uses_with(whole)
    for op in (*entering, *leaving):
        op.erase()


def _function(ops: list[Any], end: Any) -> None:
    """Moves ops on parts into one private function, and calls it between the ops that enter and leave."""
    body = [op for op in ops if target(op) not in ENTER + LEAVE]
    made = dict.fromkeys(y for op in body for y in op.results)
    given = list(dict.fromkeys(x for op in body for x in _reads(op) if x not in made))
    inside = set(body)
    others = [op for op in operations(end.block) if op not in inside]
    read = {x for op in others for x in _reads(op)}
    wanted = [y for y in made if y in read]
    inputs, outputs = ([x.type for x in values] for values in (given, wanted))
    function = _private_function(inputs, outputs, end)
    block = function.regions[0].blocks.append(*inputs)
    name = {"callee": ir.FlatSymbolRefAttr.get(function.attributes["sym_name"].value)}
    called = _create("func.call", given, outputs, name, end)
    results = dict(zip(wanted, called.results, strict=True))
    for op in others:
        _read(op, lambda x: results.get(x, x))
    parts = dict(zip(given, block.arguments, strict=True))
    for op in body:
        _read(op, lambda x: parts.get(x, x))
        block.append(op)
    ir.Operation.create("func.return", operands=wanted, loc=end.location, ip=ir.InsertionPoint(block))
    for op in ops:
        if target(op) in ENTER:
            op.move_before(called)
        elif target(op) in LEAVE:
            op.move_before(end)


def _reads(op: Any) -> tuple[Any, ...]:
    return (*op.operands, *captured(op)) if len(op.regions) else tuple(op.operands)


def _private_function(inputs: list[Any], outputs: list[Any], end: Any) -> Any:
    """A function without a body, of a new name, beside the one that `end` is in."""
    function = end
    while function.name != "func.func":
        function = function.parent.operation
    taken = {op.attributes["sym_name"].value for op in operations(function.parent.regions[0].blocks[0])}
    name = next(name for i in range(len(taken) + 1) if (name := f"manual_body{i}") not in taken)
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs)),
    }
    return _create("func.func", [], [], attributes, function, regions=1)
