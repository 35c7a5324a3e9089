"""Checks constraints on ops that rules rely on but MLIR's verifier does not check. Errors have the op's location."""

from collections.abc import Callable, Iterable
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.dynamic.calls import violation
from tiduc.dialect.errors import ParseError
from tiduc.dialect.facts.lapack import check_call
from tiduc.dialect.facts.signatures import compatible
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.shardy import CONSTRAINTS as SHARDINGS
from tiduc.dialect.ops.shardy import DEVICES, HOLDERS, PLACEMENT, TO_PARTS, TO_WHOLE
from tiduc.dialect.ops.traits import BROADCASTING
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in


def check_constraints(ops: Iterable[IrOp]) -> None:
    """Raises `ParseError` for the first of the ops that violates a constraint."""
    for op in ops:
        if (check := CONSTRAINTS.get(op.name)) is not None:
            check(op)


def _violation(op: IrOp, reason: str) -> ParseError:
    return ParseError(f"'{op.name}' op {reason}", op.location)


def _all_gather(op: IrOp) -> None:
    """An empty result requires an empty operand. `use_global_device_ids` requires a positive channel id."""
    for x, y in zip(op.operands, op.results, strict=True):
        if 0 in sizes_in(y.type) and 0 not in sizes_in(x.type):
            raise _violation(op, f"gathers {x.type} into the empty {y.type}")
    if "use_global_device_ids" not in op.attributes:
        return
    channel = (
        hlo.ChannelHandle(op.attributes["channel_handle"]).handle if "channel_handle" in op.attributes else 0
    )
    if channel <= 0:
        raise _violation(op, f"channel_id must be positive when useGlobalDeviceIds is set but got: {channel}")


_OF_REALS = ("chlo.broadcast_next_after", "chlo.broadcast_polygamma")
"""Ops whose expansion crashes unless the operands are real floats."""


def _broadcasting(op: IrOp) -> None:
    """The operands must broadcast to the result's shape, and have real floats if the op is in `_OF_REALS`.

    A `broadcast_select` must keep the element type.
    """
    operands, result = [x.type for x in op.operands], op.results[0].type
    if not all(isinstance(t, ir.RankedTensorType) for t in (*operands, result)):
        return
    if op.name in _OF_REALS and not all(isinstance(t.element_type, ir.FloatType) for t in operands):
        raise _violation(op, f"takes real floats, not {' and '.join(map(str, operands))}")
    if (
        op.name == "chlo.broadcast_select"
        and not operands[1].element_type == operands[2].element_type == result.element_type
    ):
        raise _violation(op, f"selects elements of {operands[1]} and {operands[2]}, but gives {result}")
    sizes: list[set[int]] = [set() for _ in sizes_in(result)]
    for type_ in operands:
        if type_.rank > result.rank:
            raise _violation(op, f"broadcasts {type_} to {result}, which has fewer dimensions")
        at = range(result.rank - type_.rank, result.rank)
        if "broadcast_dimensions" in op.attributes and type_.rank < result.rank and type_.rank:
            at = op.attributes["broadcast_dimensions"]
        for d, n in zip(at, sizes_in(type_), strict=True):
            sizes[d].add(n)
    for size, n in zip(sizes, sizes_in(result), strict=True):
        wide = size - {1}
        if DYNAMIC not in wide | {n} and wide != {n} - {1}:
            broadcast = ", ".join(map(str, operands))
            raise _violation(op, f"cannot broadcast {broadcast} to {result}")


def _dynamic_conv(op: IrOp) -> None:
    """Batching and feature dimensions must be as in `convolution`. MLIR verifies them in `convolution` only."""
    numbers = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    groups, batches = (
        ir.IntegerAttr(op.attributes[f"{of}_group_count"]).value for of in ("feature", "batch")
    )
    x, w, y = (sizes_in(v.type) for v in (op.operands[0], op.operands[1], op.results[0]))
    if not len(x) == len(w) == len(y):
        raise _violation(
            op,
            f"has an operand, a kernel and a result of ranks {len(x)}, {len(w)} and {len(y)}, which must be "
            "equal",
        )
    pairs = (
        (x[numbers.input_batch_dimension], y[numbers.output_batch_dimension], batches),
        (w[numbers.kernel_output_feature_dimension], y[numbers.output_feature_dimension], 1),
        (x[numbers.input_feature_dimension], w[numbers.kernel_input_feature_dimension], groups),
    )
    if any(DYNAMIC not in (whole, part) and whole != part * times for whole, part, times in pairs):
        raise _violation(
            op, f"has batching or feature dimensions that do not fit: {list(x)}, {list(w)} and {list(y)}"
        )


def _fft(op: IrOp) -> None:
    """The last dimensions must be fft_length; the last size is n // 2 + 1 in RFFT results and IRFFT operands."""
    lengths = list(op.attributes["fft_length"])
    kind = str(op.attributes["fft_type"]).split()[-1].rstrip(">")
    stored = [*lengths[:-1], lengths[-1] // 2 + 1] if lengths else []
    of_operand = stored if kind == "IRFFT" else lengths
    of_result = stored if kind == "RFFT" else lengths
    for role, value, expected in (
        ("operand", op.operands[0], of_operand),
        ("result", op.results[0], of_result),
    ):
        sizes = sizes_in(value.type)
        last = sizes[len(sizes) - len(expected) :]
        if len(last) != len(expected) or any(
            n not in (DYNAMIC, m) for n, m in zip(last, expected, strict=True)
        ):
            raise _violation(
                op,
                f"has the {role} {value.type}, whose last dimensions must be {expected} to match fft_length",
            )


def _real_dynamic_slice(op: IrOp) -> None:
    """The operand and the result must have equal rank. Each dimension must have a start, a limit and a stride."""
    rank = len(sizes_in(op.operands[0].type))
    if len(sizes_in(op.results[0].type)) != rank or any(
        list(sizes_in(x.type)) not in ([rank], [DYNAMIC]) for x in list(op.operands)[1:]
    ):
        raise _violation(op, f"slices {op.operands[0].type} to {op.results[0].type} by {op.operands[1].type}")


def _call(op: IrOp) -> None:
    """A linear-algebra call must match its row in `ROUTINES`. Shardings and placements must keep the operand's type.

    A conversion between an array and its shards must have all four attributes.
    """
    target = call_target(op)
    if target in (*SHARDINGS, PLACEMENT) and [x.type for x in op.operands] != [y.type for y in op.results]:
        raise _violation(op, f"@{target} returns a type other than its operand's")
    if target in (TO_PARTS, TO_WHOLE):
        for name in ("sharding", "manual_axes", HOLDERS, DEVICES):
            if name not in op.attributes:
                raise _violation(op, f"@{target} requires attribute '{name}'")
    if wrong := violation(op):
        raise _violation(op, f"@{target} {wrong}")
    check_call(op)


def _shape_operand(op: IrOp) -> None:
    """The shape operand must have one entry per dimension of the result."""
    rank, given = len(sizes_in(op.results[0].type)), sizes_in(op.operands[-1].type)
    if given not in ((rank,), (DYNAMIC,)):
        raise _violation(op, f"has the shape operand {op.operands[-1].type} for {op.results[0].type}")


def _torch_index_select(op: IrOp) -> None:
    """The result must have the operand's shape, but the index's non-batching dimensions in place of dimension `dim`."""
    (x, index), y = (v.type for v in op.operands), op.results[0].type
    dim, batch = (ir.IntegerAttr(op.attributes[name]).value for name in ("dim", "batch_dims"))
    if not 0 <= batch <= dim < x.rank:
        return
    expected = (*sizes_in(x)[:dim], *sizes_in(index)[batch:], *sizes_in(x)[dim + 1 :])
    is_integer = isinstance(index.element_type, ir.IntegerType) and index.element_type.width > 1
    batches = sizes_in(x)[:batch], sizes_in(index)[:batch]
    if x.element_type != y.element_type or not is_integer or not compatible(*batches):
        raise _violation(op, f"selects from {x} by {index} into {y}")
    if not compatible(sizes_in(y), expected):
        raise _violation(op, f"selects {list(expected)} elements from {x}, but gives {y}")


def _reduced(op: IrOp) -> None:
    """A result must have its operand's shape without the reduced dimensions. Its floats must be at least as wide."""
    dropped = set(op.attributes["dimensions"])
    for x, y in zip(op.operands, op.results, strict=False):
        kept = tuple(n for d, n in enumerate(sizes_in(x.type)) if d not in dropped)
        if not compatible(kept, sizes_in(y.type)):
            raise _violation(op, f"reduces {x.type} along {sorted(dropped)}, but gives {y.type}")
    _promoted(op)


def _promoted(op: IrOp) -> None:
    """The floats of a result must be at least as wide as those of its operand."""
    for x, y in zip(op.operands, op.results, strict=False):
        before, after = x.type.element_type, y.type.element_type
        if (
            isinstance(before, ir.FloatType)
            and isinstance(after, ir.FloatType)
            and after.width < before.width
        ):
            raise _violation(op, f"combines elements of {x.type}, but gives {y.type}")


CONSTRAINTS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(BROADCASTING, _broadcasting),
    "stablehlo.all_gather": _all_gather,
    CUSTOM_CALL: _call,
    "stablehlo.dynamic_broadcast_in_dim": _shape_operand,
    "stablehlo.dynamic_conv": _dynamic_conv,
    "stablehlo.fft": _fft,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.reduce": _reduced,
    "stablehlo.reduce_window": _promoted,
    "stablehlo.scatter": _promoted,
    "stablehlo.torch_index_select": _torch_index_select,
}
