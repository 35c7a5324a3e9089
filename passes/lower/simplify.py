"""simplify: applies simplifications, useful in derivatives, that the native passes lack.

    the identities of `dialect/facts/identities.py` for neutral elements, negations, and moved or converted splats
    add x, (dynamic_update_slice 0, u, i) -> dynamic_update_slice x, (add (dynamic_slice x, i), u), i
    add x, (scatter-add 0, i, u)          -> scatter-add x, i, u
    the rules of `products.py` for products of matrices, and of `scatters.py` for padded updates

The two rules of `add` are for backward loops over the slices of an array. With them, each iteration updates the
cotangent of the array in place, so that it costs only as much as its slice.

StableHLO's simplification does not apply these rules to floats. A rule is called only if an op of the right name
computes the operand. When a rule replaces an op, the readers of the op and the new op are visited next. The list of ops
to visit holds results instead of ops, because MLIR's hash of an op depends on its operands, which rules replace.
"""

from collections.abc import Callable, Iterator

from torch_mlir import ir

from tiduc.dialect.facts.identities import IDENTITIES, NEUTRAL, is_splat_of, is_zeros
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.passes.lower import products, scatters

_ADVANCE = ir.WalkResult.ADVANCE
_NUMBERS = sorted({number for number, _ in NEUTRAL.values()})

Rule = Callable[[IrOp, IrOp], IrValue | None]
"""Maps an op, and the op that computes one of its operands, to an equal value; to None if the rule does not apply."""


@stage
def simplify(operation: IrOp) -> None:
    """Applies the rules within an operation, in place, until none applies."""
    waiting = {op.results[0]: op for op in reversed(_candidates(operation))}
    while waiting:
        _, op = waiting.popitem()
        value = _simpler(op)
        if value is None:
            continue
        result = op.results[0]
        readers = [use.owner.operation for use in result.uses]
        result.replace_all_uses_with(value)
        new = definition(value)
        visited = [*readers, *([new.operation] if new is not None else [])]
        waiting |= {other.results[0]: other for other in visited if other.name in RULES and other != op}
        _erase(op, waiting)


def _candidates(operation: IrOp) -> list[IrOp]:
    """The ops to which a rule may apply, in order."""
    ops: list[IrOp] = []
    useless: dict[IrValue, bool] = {}  # for each constant, whether it is not a neutral element

    def look(op: IrOp) -> ir.WalkResult:
        if (sides := RULES.get(op.name)) is not None:
            operands = op.operands
            for side, rules in sides:
                x = operands[side]
                inner = x.owner
                if inner.__class__ is not ir.Block and (rule := rules.get(inner.name)) is not None:
                    if rule is _ONLY_NEUTRAL:
                        if (is_useless := useless.get(x)) is None:
                            is_useless = useless[x] = not _may_be_neutral(inner)
                        if is_useless:
                            continue
                    ops.append(op)
                    break
        return _ADVANCE

    operation.walk(look)
    return ops


def _simpler(op: IrOp) -> IrValue | None:
    """The value that a rule gives for an op; None if no rule applies."""
    operands = op.operands
    for side, rules in RULES[op.name]:
        if (inner := defined_by(operands[side], *rules)) is not None:
            for rule in rules[inner.name]:
                if (value := rule(op, inner.operation)) is not None:
                    return value
    return None


def _erase(op: IrOp, waiting: dict[IrValue, IrOp]) -> None:
    """Erases an op without uses, and then unused ops that computed its operands, if rules mention their names."""
    dead = [op]
    while dead:
        op = dead.pop()
        read = dict.fromkeys(y.operation for x in op.operands if (y := defined_by(x, *_INNER)) is not None)
        for inner in within(op):
            for y in inner.results:
                waiting.pop(y, None)
        op.erase()
        dead += [other for other in read if not any(list(y.uses) for y in other.results)]


def _may_be_neutral(constant: IrOp) -> bool:
    """Whether a constant is a splat of the neutral element of some op."""
    value, type_ = constant.attributes["value"], constant.results[0].type
    return any(is_splat_of(value, type_, number) for number in _NUMBERS)


# ---- each rule returns an equal value, or None if it does not apply ------------------------------------------


def _neutral(op: IrOp, constant: IrOp) -> IrValue | None:
    """The other operand, if `constant` is the op's neutral element and has the type of the result; else None."""
    value, type_, number = constant.attributes["value"], constant.result.type, NEUTRAL[op.name][0]
    return (
        products.other_operand(op, constant)
        if is_splat_of(value, type_, number) and type_ == op.result.type
        else None
    )


def _identity(op: IrOp, _: IrOp) -> IrValue | None:
    """The value to which an identity simplifies an op; None if there is none, or if its type differs from the op's."""
    if op.name == "stablehlo.add" and any(x.type != op.result.type for x in op.operands):
        return None
    equal = IDENTITIES[op.name](op, op.operands)
    value = equal.result if isinstance(equal, ir.Operation) else equal
    return value if value is None or value.type == op.result.type else None


def _accumulated(op: IrOp, update: IrOp) -> IrValue | None:
    """Replaces the sum `op` by a copy of `update` that updates the other term of the sum instead of zeros.

    Returns None unless `update` writes a slice of static shape into zeros, or is a scatter that adds to zeros.
    """
    if not _can_accumulate(op, update):
        return None
    x, ip = products.other_operand(op, update), ir.InsertionPoint(op)
    copy = update.clone(ip).operation
    copy.operands[0] = x
    if update.name == "stablehlo.dynamic_update_slice":
        u, before = update.operands[1], ir.InsertionPoint(copy)
        sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(list(u.type.shape))}
        start = [x, *update.operands[2:]]
        name, add = "stablehlo.dynamic_slice", "stablehlo.add"
        old = ir.Operation.create(name, [u.type], start, sizes, loc=op.location, ip=before)
        sum_ = ir.Operation.create(add, [u.type], [old.result, u], loc=op.location, ip=before)
        copy.operands[1] = sum_.result
    return copy.result


def _can_accumulate(op: IrOp, update: IrOp) -> bool:
    """Whether an update writes a slice of static shape into zeros, or a scatter adds to zeros."""
    zeros = update.operands[0]
    if zeros.type != op.result.type:
        return False
    if update.name == "stablehlo.dynamic_update_slice":
        return bool(update.operands[1].type.has_static_shape) and is_zeros(zeros)
    return scatters.adds_to_zeros(update)


def _matched() -> Iterator[tuple[str, int, str, Rule]]:
    """Yields, for each rule: the op, the index of an operand, the op that computes the operand, and the rule."""
    for name, (_, sides) in NEUTRAL.items():
        yield from ((name, side, "constant", _neutral) for side in sides)
    yield "add", 1, "negate", _identity
    yield "add", 0, "complex", _identity
    yield "complex", 0, "real", _identity
    yield "chlo.conj", 0, "chlo.conj", _identity
    yield from ((part, 0, "complex", _identity) for part in ("real", "imag"))
    of_ones = (_identity, products.with_ones)
    yield from (("dot_general", side, "constant", rule) for side in (0, 1) for rule in of_ones)
    yield "negate", 0, "negate", _identity
    yield "broadcast_in_dim", 0, "constant", _identity
    yield "convert", 0, "constant", _identity
    yield "reshape", 0, "constant", _identity
    for inner in ("convert", "broadcast_in_dim"):
        yield from (("dot_general", side, inner, products.without_identity) for side in (0, 1))
    yield "dot_general", 1, "broadcast_in_dim", products.without_equal_batches
    yield "reduce", 0, "dot_general", products.contracting_batches
    yield "scatter", 2, "pad", scatters.without_padding
    for inner in ("dynamic_update_slice", "scatter"):
        yield from (("add", side, inner, _accumulated) for side in (0, 1))


def _by_op() -> dict[str, list[tuple[int, dict[str, list[Rule]]]]]:
    """Groups the rules by the op to replace, by the index of an operand, and by the op that computes that operand."""
    rules: dict[str, dict[int, dict[str, list[Rule]]]] = {}
    for op, side, inner, rule in _matched():
        of_side = rules.setdefault(_full(op), {}).setdefault(side, {})
        of_side.setdefault(_full(inner), []).append(rule)
    for sides in rules.values():
        for of_side in sides.values():
            of_side |= {inner: _ONLY_NEUTRAL for inner, found in of_side.items() if found == _ONLY_NEUTRAL}
    return {name: sorted(sides.items()) for name, sides in rules.items()}


def _full(name: str) -> str:
    """An op's name with its dialect, which is StableHLO unless the name says another one."""
    return name if "." in name else f"stablehlo.{name}"


_ONLY_NEUTRAL: list[Rule] = [_neutral]  # a single list object, which the search for candidates recognizes
RULES = _by_op()
_INNER = sorted({inner for sides in RULES.values() for _, rules in sides for inner in rules})
