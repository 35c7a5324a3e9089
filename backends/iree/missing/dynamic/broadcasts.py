"""Broadcasts that state which dynamic dimensions they expand; and `dynamic_conv`, which is refused."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.missing.dynamic.arrays import of_sizes, sizes_of, transposed
from tiduc.backends.iree.refused import refused
from tiduc.dialect.traits import VIEWS

_REPEATED, _KEPT = "known_expanding_dimensions", "known_nonexpanding_dimensions"
_UNDECIDED = 3  # the most undecided dimensions; each doubles the code


@legalize(
    "stablehlo.dynamic_broadcast_in_dim",
    fault=Fault(
        "crash",
        "Must state which dimensions it expands; emits that, with branches on the sizes of dynamic dimensions.",
        witness="dynamic/widened",
    ),
)
def dynamic_broadcast_in_dim(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The broadcast, with branches on the sizes of dynamic dimensions."""
    x, sizes = op.operands
    dimensions = list(op.attributes["broadcast_dimensions"])
    known = {
        name: set(op.attributes[name]) if name in op.attributes else set() for name in (_REPEATED, _KEPT)
    }
    for i, n in enumerate(x.type.shape):
        if i in known[_REPEATED] | known[_KEPT]:
            continue
        if n == 1:
            known[_REPEATED].add(i)
        elif n >= 0 or op.results[0].type.shape[dimensions[i]] == 1 or _is_size(sizes, dimensions[i], x, i):
            known[_KEPT].add(i)
    open_ = [i for i in range(len(x.type.shape)) if i not in known[_REPEATED] | known[_KEPT]]
    if len(open_) > _UNDECIDED:
        raise refused(op, f"which of {len(open_)} open dimensions it repeats is not known")
    if dimensions != sorted(dimensions):  # IREE gives the result the sizes of its operand's order
        order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
        x = op.operands[0] = transposed(b, x, order)
        op.attributes["broadcast_dimensions"] = ir.DenseI64ArrayAttr.get(sorted(dimensions))
        known = {name: {order.index(i) for i in found} for name, found in known.items()}
        open_ = sorted(order.index(i) for i in open_)
    if not b.cpu and any(x.type.shape[i] != 1 for i in (*open_, *known[_REPEATED])):
        # GPU code would fuse the producer of x into the broadcast, and keep all of x, whatever its size.
        op.operands[0] = of_sizes(b, b.barrier(x)[0], sizes_of(b, x))
    return [_decided(b, op, known, open_)]


def _decided(b: Emitter, op: Any, known: dict[str, set[int]], left: Sequence[int]) -> Any:
    """The broadcast, with a branch for each dimension in `left` by whether its size is 1."""
    x, type_ = op.operands[0], op.results[0].type
    if not left:
        said = {name: ir.DenseI64ArrayAttr.get(sorted(found)) for name, found in known.items() if found}
        attributes = {name: op.attributes[name] for name in op.attributes} | said
        return b.emit(op.name, list(op.operands), type_, attributes)
    i, *rest = left

    def branch(name: str) -> Any:
        more = {**known, name: known[name] | {i}}
        return b.region([], lambda inner: [_decided(inner, op, more, rest)])

    size = b.reshape(b.size_of(x, i), [])
    repeats = b.compare(size, b.constant(1, size), "EQ")
    regions = [branch(_REPEATED), branch(_KEPT)]
    return b.emit_all("stablehlo.if", (repeats,), (type_,), None, regions)[0]


_KEEPING = VIEWS | {"stablehlo.convert"}
"""Ops whose result holds the number that their operand holds, if they have one operand of one element."""


def _is_size(sizes: Any, k: int, x: Any, i: int) -> bool:
    """Whether entry k of the sizes is the size of dimension i of x."""
    made = _maker(sizes)
    if made is None or made.name != "stablehlo.concatenate" or len(made.operands) <= k:
        return False
    if any(list(part.type.shape) != [1] for part in made.operands):
        return False
    made = _maker(made.operands[k])
    while made is not None and made.name in _KEEPING and len(made.operands) == 1:
        made = _maker(made.operands[0])
    if made is None or made.name != "stablehlo.get_dimension_size" or made.operands[0] != x:
        return False
    return bool(ir.IntegerAttr(made.attributes["dimension"]).value == i)


def _maker(x: Any) -> Any | None:
    return x.owner if isinstance(x, ir.OpResult) else None


@legalize(
    "stablehlo.optimization_barrier",
    fault=Fault(
        "crash",
        "Forgets the sizes of arrays with several dynamic dimensions; states them.",
        witness="dynamic/barrier",
    ),
    where=DYNAMIC,
)
def optimization_barrier(b: Emitter, op: Any) -> Sequence[Any]:
    """The barrier's results, tied to the sizes of its operands."""
    behind = b.barrier(*op.operands)
    return [
        of_sizes(b, y, sizes_of(b, x)) if _is_array(x) else y
        for y, x in zip(behind, op.operands, strict=True)
    ]


def _is_array(x: Any) -> bool:
    return isinstance(x.type, ir.RankedTensorType)


@legalize(
    "stablehlo.dynamic_conv",
    fault=Fault("missing", "Does not compile with dynamic dimensions; refused.", untested="refused"),
)
def not_there(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Never returns: the op is refused."""
    raise refused(op, "its sizes are open")
