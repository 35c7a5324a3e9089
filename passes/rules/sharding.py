"""Rules of shardings. A sharding constraint is linear, and its transpose is the same constraint on the cotangent.

A program may convert a whole array to parts on devices, as in JAX's `shard_map`; n devices may hold equal parts. The
transpose of this conversion sums the cotangents of equal parts. A conversion from parts to the whole may use any of n
equal parts. Its derivative is that of their mean: each part gets 1/n of the cotangent of the whole. JAX does the same.

`dialect/ops/shardy.py` converts Shardy's ops to custom calls and back.
"""

import re

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import combiner
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import dense
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, TARGET, call_target
from tiduc.dialect.ops.shardy import (
    CONSTRAINTS,
    HOLDERS,
    PARTITIONS,
    PLACEMENT,
    TO_PARTS,
    TO_WHOLE,
    partitions_in,
)
from tiduc.dialect.shapes.types import element
from tiduc.passes.rules.opset import linear, refuse, unsupported

SHARDING = "mhlo.sharding"
TILES = re.compile(
    r"\{devices=\[(?P<tiles>[\d,]+)\](?:<=\[(?P<iota>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?|(?P<ids>[\d,]+))"
    r"(?P<last> last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}"
)


def constraint(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Applies the constraint to the cotangent."""
    return list(b.reapply(op, {0: ct}))


for _target in CONSTRAINTS:
    linear(f"{CUSTOM_CALL} @{_target}", [0])(constraint)


@linear(f"{CUSTOM_CALL} @{PLACEMENT}", [0])
def placement(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Returns the cotangent unchanged, because the op does not say in which memory the operand was."""
    return [ct]


@linear(f"{CUSTOM_CALL} @xla.sdy.FuncResultSharding", [0])
def of_result(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Applies a plain sharding constraint to the cotangent, because a cotangent is not a result of a function."""
    return [called(b, "xla.sdy.Sharding", ct, op.operands[0].type, dict(op.attributes))]


@linear(f"{CUSTOM_CALL} @{TO_PARTS}", [0])
def to_parts(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Sums the cotangents of equal parts, and assembles the whole."""
    return [called(b, TO_WHOLE, total(b, ct, shardy_holders(op)), op.operands[0].type, dict(op.attributes))]


@linear(f"{CUSTOM_CALL} @{TO_WHOLE}", [0])
def to_whole(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Splits the cotangent into parts, each divided by the number of devices that hold the part."""
    part = called(b, TO_PARTS, ct, op.operands[0].type, dict(op.attributes))
    return [share(b, part, shardy_holders(op))]


@linear(f"{CUSTOM_CALL} @SPMDFullToShardShape", [0])
def full_to_shard(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Like `to_parts`, for XLA's syntax of shardings. The op that defines the operand has the sharding of the whole."""
    before, manual = op.operands[0].definition, op.attributes[SHARDING]
    if (
        before is None
        or before.name != CUSTOM_CALL
        or call_target(before) != "Sharding"
        or manual.value != "{manual}"
    ):
        raise unsupported(
            "transpose", op, "its operand must be a Sharding call, and all mesh axes must be manual"
        )
    sharding = before.attributes[SHARDING]
    part = called(b, "Sharding", total(b, ct, holders(b, op, sharding)), ct.type, {SHARDING: manual})
    return [called(b, "SPMDShardToFullShape", part, op.operands[0].type, {SHARDING: sharding})]


@linear(f"{CUSTOM_CALL} @SPMDShardToFullShape", [0])
def shard_to_full(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Like `to_whole`, for XLA's syntax of shardings."""
    sharding, manual = op.attributes[SHARDING], ir.StringAttr.get("{manual}")
    whole = called(b, "Sharding", ct, ct.type, {SHARDING: sharding})
    part = called(b, "SPMDFullToShardShape", whole, op.operands[0].type, {SHARDING: manual})
    return [share(b, part, holders(b, op, sharding))]


refuse(
    "import inlines the call that is its body; export ops of the Shardy dialect instead",
    f"{CUSTOM_CALL} @xla.sdy.GlobalToLocalShape",
    f"{CUSTOM_CALL} @xla.sdy.LocalToGlobalShape",
)

# ---- groups of devices that hold equal parts ---------------------------------------------------------------------


def total(b: StablehloBuilder, x: Value, groups: NDArray[np.int64]) -> Value:
    """Sums x over the devices of each group. Returns x itself if each group has one device."""
    if groups.shape[1] == 1:
        return x
    type_ = ir.RankedTensorType.get(groups.shape, ir.IntegerType.get_signless(64))
    attributes = {
        "replica_groups": dense(groups, type_),
        "channel_handle": ir.Attribute.parse("#stablehlo.channel_handle<handle = 1, type = 1>"),
        "use_global_device_ids": ir.UnitAttr.get(),
    }
    return b.emit_all(
        "stablehlo.all_reduce", [x], [x.type], attributes, [combiner("stablehlo.add", element(x))]
    )[0]


def share(b: StablehloBuilder, x: Value, groups: NDArray[np.int64]) -> Value:
    """Divides x by the number of devices in a group."""
    count = groups.shape[1]
    return x if count == 1 else b.multiply(b.constant(1 / count, x), x)


def shardy_holders(op: Definition) -> NDArray[np.int64]:
    """Returns the groups of devices that hold equal parts, one group per row, for a Shardy op."""
    groups = op.attributes[HOLDERS]
    return np.array(list(groups), np.int64).reshape(groups.type.shape)


def holders(b: StablehloBuilder, op: Definition, sharding: ir.StringAttr) -> NDArray[np.int64]:
    """Returns the groups of devices that hold equal parts, one group per row, for a sharding in XLA's syntax."""
    if sharding.value == "{replicated}" and PARTITIONS in b.view.module_attributes:
        return np.arange(partitions_in(b.view.module_attributes, op.location))[None]
    match = TILES.fullmatch(sharding.value)
    if match is None:
        raise unsupported("transpose", op, f"the sharding {sharding.value} is not understood")
    tiles, iota, order, ids = (
        [int(i) for i in (match[name] or "").split(",") if i] for name in ("tiles", "iota", "order", "ids")
    )
    devices = (
        np.array(ids) if ids else np.arange(np.prod(iota)).reshape(iota).transpose(order or range(len(iota)))
    )
    return devices.reshape(-1, tiles[-1] if match["last"] else 1)


def called(
    b: StablehloBuilder, name: str, x: Value, type_: ir.Type, attributes: dict[str, ir.Attribute]
) -> Value:
    """Emits a custom call of the target `name`."""
    return b.emit(CUSTOM_CALL, (x,), type_, {**attributes, TARGET: ir.StringAttr.get(name)})
