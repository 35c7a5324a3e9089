"""Computes blocks of a Jacobian by forward or reverse mode, with batched seeds.

A block is the derivative of one output with respect to one input.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.ops.verify import SEED
from tiduc.dialect.shapes.types import element, rank, shape, with_element
from tiduc.passes.batch import batch
from tiduc.passes.batching.alignment import Alignment, alignments
from tiduc.passes.diagonal import batch_diagonal
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Port

MOST_SEEDS = 2**31 - 1
"""The largest number of seeds of one derivative. The seeds have 32-bit indices."""


@dataclass(frozen=True)
class Nonzeros:
    """The positions of the nonzeros of a derivative in a flattened array.

    The nonzero in row `rows[k]` and column `columns[k]` is element `at[k]` of the array.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    at: NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """The derivative J of an output with respect to an input.

    `aligned` maps dimensions of the input to dimensions of the output: J[j, i] is zero unless j and i have equal
    indices in each such pair of dimensions. It is None if the whole derivative is zero. `value` holds the remaining
    entries, without the aligned dimensions of the input. Its shape is [output..., free...]. With `nonzeros`, `value`
    instead has the elements to which `nonzeros` refers.
    """

    output: OutputPort
    input: InputPort
    aligned: Alignment | None
    value: Value | None = None
    nonzeros: Nonzeros | None = None

    @property
    def free(self) -> list[int]:
        """The dimensions of the input that are not aligned with a dimension of the output."""
        return [d for d in range(rank(self.input)) if d not in (self.aligned or {})]

    @property
    def free_of_output(self) -> list[int]:
        """The dimensions of the output that are not aligned with a dimension of the input."""
        return [e for e in range(rank(self.output)) if e not in (self.aligned or {}).values()]

    @property
    def seeds_of_input(self) -> int:
        """The number of seeds with which forward mode computes the block."""
        return number_of_seeds(self.input, self.free)

    @property
    def seeds_of_output(self) -> int:
        """The number of seeds with which reverse mode computes the block."""
        return number_of_seeds(self.output, self.free_of_output)

    def with_value(self, value: Value | None) -> "Block":
        return replace(self, value=value)


def blocks_of(
    program: Function, inputs: Sequence[InputPort], outputs: Sequence[OutputPort], sparse: bool
) -> list[Block]:
    """Returns a block without a value for each output and each input.

    With `sparse`, the aligned dimensions of the blocks are found. Otherwise, no dimensions count as aligned.
    """
    if not sparse:
        return [Block(y, x, {}) for y in outputs for x in inputs]
    return [
        block for x in inputs for block in sparse_blocks(program, outputs, x, *linear_in(program, outputs, x))
    ]


def sparse_blocks(
    program: Function,
    outputs: Sequence[OutputPort],
    x: InputPort,
    linear: Graph,
    tangents: Mapping[str, Value | None],
) -> list[Block]:
    """Returns a block without a value, but with its aligned dimensions, for each output and the input `x`.

    `linear` is the linear graph from `x` to the outputs. `tangents` maps the name of each output to its tangent.
    """
    (dx,) = linear.inputs.values()
    order = program.view.schedule([dy for dy in tangents.values() if dy is not None])
    known = alignments(order, dx)
    of_outputs = [tangents[y.name] for y in outputs]
    return [
        Block(y, x, None if dy is None else known.get(dy)) for y, dy in zip(outputs, of_outputs, strict=True)
    ]


def free_dimensions(program: Function, outputs: Sequence[OutputPort], x: InputPort) -> list[int]:
    """Returns the dimensions of `x` except those that are aligned in the blocks of all outputs.

    Outputs that do not depend on `x` are ignored.
    """
    return with_common_input_dimensions(sparse_blocks(program, outputs, x, *linear_in(program, outputs, x)))[
        0
    ].free


def with_common_input_dimensions(group: Sequence[Block]) -> list[Block]:
    """Changes the blocks of one input so that they can share seeds. Returns them with the zero blocks last.

    A dimension of the input stays aligned only if it is aligned in all nonzero blocks.
    """
    known = [set(block.aligned) for block in group if block.aligned is not None]
    both = set.intersection(*known) if known else set()
    return [
        replace(block, aligned={d: (block.aligned or {})[d] for d in sorted(both)})
        if block.aligned is not None
        else block
        for block in sorted(group, key=lambda block: block.aligned is None)
    ]


def with_common_output_dimensions(group: Sequence[Block]) -> list[Block]:
    """Changes the blocks of one output so that they can share seeds. Returns them with the zero blocks last.

    A dimension of the output stays aligned only if it is aligned in all nonzero blocks.
    """
    known = [set(block.aligned.values()) for block in group if block.aligned is not None]
    both = set.intersection(*known) if known else set()
    return [
        replace(block, aligned={d: e for d, e in block.aligned.items() if e in both})
        if block.aligned is not None
        else block
        for block in sorted(group, key=lambda block: block.aligned is None)
    ]


def number_of_seeds(port: Port, free: Sequence[int]) -> int:
    """Returns the number of basis vectors along the free dimensions of a port."""
    return prod(shape(port)[d] for d in free)


# ---- seeds -------------------------------------------------------------------------------------------------


def linear_in(
    program: Function, outputs: Sequence[OutputPort], x: InputPort
) -> tuple[Graph, dict[str, Value | None]]:
    """Returns the linear graph from one input to the outputs, and the tangent of each output by the output's name.

    A tangent is None if it is zero.
    """
    distinct = list(dict.fromkeys(y.value for y in outputs if not isinstance(y.value, Zero)))
    linear = linearize(program.view, distinct, [x.key], program.opset)
    of = dict(zip(distinct, linear.outputs, strict=True))
    return linear, {y.name: None if isinstance(y.value, Zero) else of[y.value] for y in outputs}


def forward(program: Function, group: Sequence[Block], diagonal: int | None = None) -> list[Block]:
    """Computes the values of the blocks of one input by forward mode. `diagonal` is as in `on_basis_vectors`."""
    if not group or not number_of_seeds(x := group[0].input, free := group[0].free):
        return list(group)
    linear, tangents = linear_in(program, [block.output for block in group], x)
    b, tangents_of = on_basis_vectors(
        program, linear.keys, [x], free, list(tangents.values()), diagonal=diagonal
    )
    sizes = [shape(x)[d] for d in free]
    blocks = []
    for block, dy in zip(group, tangents_of, strict=True):
        if dy is not None:
            batched = b.reshape(dy, [number_of_seeds(x, free), *shape(block.output)])
            last = b.transpose(batched, [*range(1, rank(batched)), 0])
            dy = b.reshape(last, [*shape(block.output), *sizes])
        blocks.append(replace(block, value=dy))
    b.finish([block.value for block in blocks if block.value is not None])
    return blocks


def reverse(program: Function, group: Sequence[Block], diagonal: int | None = None) -> list[Block]:
    """Computes the values of the blocks of one output by reverse mode. `diagonal` is as in `on_basis_vectors`."""
    if not group or isinstance((y := group[0].output).value, Zero):
        return list(group)
    free = group[0].free_of_output
    if not number_of_seeds(y, free):
        return list(group)
    wrt = [block.input.key for block in group]
    linear = linearize(program.view, [y.value], wrt, program.opset)
    transposed = linear_transpose(program.view, linear, program.opset)
    b, cotangents = on_basis_vectors(
        program, transposed.keys, [y], free, transposed.outputs, diagonal=diagonal
    )
    blocks = []
    for block, cx in zip(group, cotangents, strict=True):
        if cx is not None:
            aligned = block.aligned or {}
            x_of = {e: len(free) + d for d, e in aligned.items()}
            order = [x_of[e] if e in x_of else free.index(e) for e in range(rank(y))]
            order += [len(free) + d for d in block.free]
            whole = b.reshape(cx, [*(shape(y)[e] for e in free), *shape(block.input)])
            cx = b.convert(b.transpose(whole, order), element(y))
        blocks.append(replace(block, value=cx))
    b.finish([block.value for block in blocks if block.value is not None])
    return blocks


def on_basis_vectors(
    program: Function,
    keys: Sequence[str],
    ports: Sequence[Port],
    free: Sequence[int],
    wanted: Sequence[Value | None],
    mapping: Callable[..., Graph] = batch,
    diagonal: int | None = None,
) -> tuple[StablehloBuilder, list[Value | None]]:
    """Computes the values `wanted` of a linear graph for each basis vector along the free dimensions of its inputs.

    Returns a builder for ops on the results, and the results. All `keys` are bound to the same seeds. With more than
    one seed, `mapping` is `batch`, which adds a leading dimension of seeds to the results, or `collapse`, which sums
    them over the seeds. `diagonal` is a free dimension along which the basis vectors form a diagonal matrix. As many
    ops as possible work on its diagonal alone (`passes/diagonal.py`). Raises `RequestError` for more than `MOST_SEEDS`
    seeds.
    """
    count = number_of_seeds(ports[0], free)
    if count > MOST_SEEDS:
        raise RequestError(
            f"{count} basis vectors are more than {MOST_SEEDS}; choose fewer inputs, or use a JVP or a VJP"
        )
    if diagonal is not None:
        return _along_diagonal(program, keys, ports[0], free, wanted, diagonal)
    return with_seeds(program, keys, lambda b: _basis(b, ports[0].type, free), count, wanted, mapping)


def with_seeds(
    program: Function,
    keys: Sequence[str],
    seed: Callable[[StablehloBuilder], Value],
    count: int,
    wanted: Sequence[Value | None],
    mapping: Callable[..., Graph] = batch,
) -> tuple[StablehloBuilder, list[Value | None]]:
    """Computes the values `wanted` of a linear graph for the `count` seeds that the function `seed` emits.

    The results and the other parameters are those of `on_basis_vectors`.
    """
    view = program.view
    b: Any = program.opset.builder(view, view.fresh("J"))
    values = [x for x in dict.fromkeys(wanted) if x is not None]
    if not values:
        return b, list(wanted)
    s: Any = program.opset.builder(view, view.fresh("S"))
    seeds = seed(s)
    s.finish([seeds])
    values_of = dict[Value, Value | None](zip(values, values, strict=True))
    if count > 1:
        graph = mapping(view, values, keys, size=count, opset=program.opset)
        keys, values_of = graph.keys, dict(zip(values, graph.outputs, strict=True))
    for key in keys:
        view.bind(key, seeds)
    return b, [None if x is None else values_of[x] for x in wanted]


def _along_diagonal(
    program: Function,
    keys: Sequence[str],
    port: Port,
    free: Sequence[int],
    wanted: Sequence[Value | None],
    diagonal: int,
) -> tuple[StablehloBuilder, list[Value | None]]:
    """Returns the results of `on_basis_vectors`. The seeds along the dimension `diagonal` are stored as a diagonal."""
    (key,), others = keys, [d for d in free if d != diagonal]
    values = [x for x in dict.fromkeys(wanted) if x is not None]
    count = number_of_seeds(port, others)
    inner: Sequence[Value] = values
    if count > 1:
        many = batch(program.view, values, keys, size=count, opset=program.opset)
        (key,), inner = many.keys, [y for y in many.outputs if y is not None]
    _, results = batch_diagonal(program.view, inner, key, diagonal + (count > 1), program.opset)
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    s: Any = program.opset.builder(program.view, program.view.fresh("S"))
    seed = _basis(s, port.type, others)
    s.finish([seed])
    program.view.bind(key, seed)
    order = [0 if d == diagonal else 1 + others.index(d) for d in free]
    of = {}
    for x, y in zip(values, results, strict=True):
        sizes = [shape(port)[diagonal], *(shape(port)[d] for d in others)]
        whole = b.reshape(y, [*sizes, *shape(x)])
        turned = b.transpose(whole, [*order, *range(len(order), rank(whole))])
        of[x] = b.reshape(turned, [number_of_seeds(port, free), *shape(x)])
    return b, [None if x is None else of[x] for x in wanted]


def _basis(b: StablehloBuilder, type_: ir.RankedTensorType, free: Sequence[int]) -> Value:
    """Emits the basis vectors along the free dimensions. Several vectors are stacked along a new first dimension.

    A basis vector is 1 at one index of the free dimensions, and 0 at the other indices.
    """
    sizes = [type_.shape[d] for d in free]
    count = prod(sizes)
    if count == 1:
        return b.constant(1, type_)
    square = ir.RankedTensorType.get([count, count], ir.IntegerType.get_signless(32))
    equal = b.compare(b.iota(0, square), b.iota(1, square), "EQ")
    unit = b.emit(
        "stablehlo.convert", [equal], with_element(square, element(type_)), {SEED: ir.UnitAttr.get()}
    )
    return b.broadcast_in_dim(
        b.reshape(unit, [count, *sizes]), [0, *(1 + d for d in free)], stacked(type_, count)
    )
