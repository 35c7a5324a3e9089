"""Full Jacobians, Hessians, Laplacians: JVPs or VJPs of all basis vectors, batched by `passes/batch.py` (vmap).

    forward    J[j, i] = (JVP along e_i)[j]        one seed per entry of the inputs
    reverse    J[j, i] = (VJP of e_j)[i]           one seed per entry of the outputs

Where a dimension of an output is aligned with a dimension of an input (`passes/batching/alignment.py`), the
derivative is diagonal in the two. One seed then serves all positions along them: the sum of their basis
vectors e_i.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control_ops import sequence_type as stacked
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Graph
from tiduc.dialect.types import element, is_complex, is_dynamic, rank, shape, with_element, with_shape
from tiduc.passes.batch import batch
from tiduc.passes.batching.alignment import Alignment, alignments
from tiduc.passes.collapse import collapse
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, Port, Wrt, smooth, with_ports

MODES = ("auto", "forward", "reverse")
SPARSITIES = ("auto", "diagonal", "block-diagonal")
MOST = 2**31 - 1
"""The largest number of seeds of one derivative: 32-bit integers number them."""


@dataclass(frozen=True)
class Block:
    """The derivative of an output in an input.

    `aligned` maps dimensions of the input to the output dimensions that they are aligned with; it is None
    where the derivative is zero. `value` holds J[j, i] where aligned indices agree, so it lacks the aligned
    dimensions of the input: its shape is [output..., free...].
    """

    output: Port
    input: Port
    aligned: Alignment | None
    value: Any = None

    @property
    def free(self) -> list[int]:
        """The dimensions of the input that are not aligned."""
        return [d for d in range(rank(self.input)) if d not in (self.aligned or {})]

    @property
    def free_of_output(self) -> list[int]:
        return [e for e in range(rank(self.output)) if e not in (self.aligned or {}).values()]


def jacobian(program: Function, wrt: Wrt, mode: str = "auto", sparsity: str | None = None) -> list[Port]:
    """The derivative of each output in each of wrt."""
    _check_option("mode", mode, MODES)
    if sparsity is not None:
        _check_option("sparsity", sparsity, SPARSITIES)
    return _jacobian(program, program.differentiated(wrt), program.outputs, mode, sparsity)


def _jacobian(
    program: Function, inputs: Sequence[Port], outputs: Sequence[Port], mode: str, sparsity: str | None
) -> list[Port]:
    outputs = smooth(program, outputs)
    check_types("jacobian", inputs, outputs, mode)
    blocks = _blocks(program, inputs, outputs, sparsity is not None)
    by_input = [_along_inputs([block for block in blocks if block.input is x]) for x in inputs]
    by_output = [_along_outputs([block for block in blocks if block.output is y]) for y in outputs]
    if mode == "auto":
        forward = sum(_count(group[0].input, group[0].free) for group in by_input if group)
        reverse = sum(_count(group[0].output, group[0].free_of_output) for group in by_output if group)
        is_forward = forward <= reverse or any(is_complex(y) for y in outputs)
    else:
        is_forward = mode == "forward"
    if is_forward:
        derivatives = [block for group in by_input for block in _forward(program, group)]
    else:
        derivatives = [block for group in by_output for block in _reverse(program, group)]
    order = {(block.output.name, block.input.name): block for block in derivatives}
    wanted = [order[y.name, x.name] for y in outputs for x in inputs]
    return [_result(program, block, sparsity) for block in wanted]


def hessian(program: Function, wrt: Wrt, sparsity: str | None = None) -> list[Port]:
    """The second derivatives of each output in each pair of wrt: the forward Jacobian of the reverse Jacobian."""
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    check_types("hessian", inputs, outputs, "reverse")
    if sparsity is not None:
        _check_option("sparsity", sparsity, SPARSITIES)
    first = with_ports((), _jacobian(program, inputs, outputs, "reverse", None))
    second = _jacobian(program, inputs, first, "forward", sparsity)
    names = [f"{y.name}.hessian.{x.name}.{z.name}" for y in outputs for x in inputs for z in inputs]
    return [replace(port, name=name) for port, name in zip(second, names, strict=True)]


def laplacian(program: Function, wrt: Wrt) -> list[Port]:
    """The sum of second derivatives of each output in the entries of wrt.

    Forward over forward: first tangents along all basis vectors, batched, and the sum of second tangents, which
    `passes/collapse.py` propagates as one value. Aligned dimensions share basis vectors as in a sparse Jacobian.
    """
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    check_types("laplacian", inputs, outputs, "forward")
    terms: dict[str, list[Any]] = {y.name: [] for y in outputs}
    for x in inputs:
        first, tangents = _tangents(program, outputs, x)
        blocks = _along_inputs(_sparse_blocks(program, outputs, x, first, tangents))
        reached = {
            block.output.name: tangents[block.output.name] for block in blocks if block.aligned is not None
        }
        if not reached or not _count(x, free := blocks[0].free):
            continue
        once = list(dict.fromkeys(reached.values()))
        second = linearize(program.view, once, [x.value], program.opset)
        twice = dict(zip(once, second.outputs, strict=True))
        keys, total = [*first.keys, *second.keys], partial(collapse, linear=second.keys)
        wanted = [twice[dy] for dy in reached.values()]
        _, sums = _in_directions(program, keys, [x, x], free, wanted, total)
        for name, ddy in zip(reached, sums, strict=True):
            if ddy is not None:
                terms[name].append(ddy)
    return [_sum(program, y, terms[y.name]) for y in outputs]


def _sum(program: Function, y: Port, terms: Sequence[Any]) -> Port:
    """The Laplacian of one output: the sum of its terms over all inputs."""
    name = f"{y.name}.laplacian"
    if not terms:
        return Port(name, y.type, Zero(y.type))
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    total = b.sum(terms)
    b.finish([total])
    return Port(name, y.type, total)


def batched(
    program: Function, given: Sequence[Port], results: Sequence[Port], size: int
) -> tuple[list[Port], list[Port]]:
    """Inputs and results with a leading dimension of size `size`, as by vmap.

    `RequestError` for a zero result of dynamic shape.
    """
    values = [port.value for port in results if not isinstance(port.value, Zero)]
    keys = [port.value for port in given]
    graph = batch(program.view, list(dict.fromkeys(values)), keys, size, program.opset)
    of = dict(zip(dict.fromkeys(values), graph.outputs, strict=True))
    inputs = [
        Port(port.name, stacked(port.type, size), key) for port, key in zip(given, graph.keys, strict=True)
    ]
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    outputs = []
    for port in results:
        if isinstance(port.value, Zero) and is_dynamic(port.type):
            raise RequestError(
                f"result {port.name} of type {port.type} cannot be batched; only tensors of static shape can"
            )
        type_ = stacked(port.type, size)
        value = Zero(type_) if isinstance(port.value, Zero) else of[port.value]
        if not isinstance(value, Zero) and value.type != type_:  # it depends on none of the batched inputs
            value = b.broadcast_in_dim(value, range(1, rank(value) + 1), type_)
        outputs.append(Port(port.name, type_, value))
    b.finish([])
    return inputs, outputs


# ---- requests ----------------------------------------------------------------------------------------------


def _check_option(name: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise RequestError(f"{name} must be one of {', '.join(known)}, not {given!r}")


def check_types(method: str, inputs: Sequence[Port], outputs: Sequence[Port], mode: str) -> None:
    for port in (*inputs, *outputs):
        if not port.type.has_static_shape:
            raise RequestError(f"{method} needs static shapes; {port.name!r} is of type {port.type}")
    for x in inputs:
        if is_complex(x):
            raise RequestError(f"{method} needs real inputs; {x.name!r} is of type {x.type}: use jvp or vjp")
    for y in outputs:
        if mode == "reverse" and is_complex(y):
            message = f"{method} in reverse mode needs real outputs; {y.name!r} is of type {y.type}"
            raise RequestError(message if method == "hessian" else f"{message}: use mode forward")


def _blocks(program: Function, inputs: Sequence[Port], outputs: Sequence[Port], sparse: bool) -> list[Block]:
    """One block per output and input; with `sparse`, aligned dimensions are looked for."""
    if not sparse:
        return [Block(y, x, {}) for y in outputs for x in inputs]
    return [
        block
        for x in inputs
        for block in _sparse_blocks(program, outputs, x, *_tangents(program, outputs, x))
    ]


def _sparse_blocks(
    program: Function, outputs: Sequence[Port], x: Port, linear: Graph, tangents: dict[str, Any]
) -> list[Block]:
    """One block per output, with the dimensions that are aligned with those of one input."""
    (dx,) = linear.inputs.values()
    order = program.view.schedule([dy for dy in tangents.values() if dy is not None])
    known = alignments(order, dx)
    return [Block(y, x, known.get(tangents[y.name])) for y in outputs]


def free_dimensions(program: Function, outputs: Sequence[Port], x: Port) -> list[int]:
    """The dimensions of an input that are not aligned in all the outputs that depend on it."""
    return _along_inputs(_sparse_blocks(program, outputs, x, *_tangents(program, outputs, x)))[0].free


def _along_inputs(group: Sequence[Block]) -> list[Block]:
    """Blocks of one input; only dimensions aligned in all nonzero blocks stay aligned, to share their seeds."""
    known = [set(block.aligned) for block in group if block.aligned is not None]
    both = set.intersection(*known) if known else set()
    return [
        replace(block, aligned={d: (block.aligned or {})[d] for d in sorted(both)})
        if block.aligned is not None
        else block
        for block in sorted(group, key=lambda block: block.aligned is None)
    ]


def _along_outputs(group: Sequence[Block]) -> list[Block]:
    """Blocks of one output; only output dimensions aligned in all nonzero blocks stay aligned."""
    known = [set(block.aligned.values()) for block in group if block.aligned is not None]
    both = set.intersection(*known) if known else set()
    return [
        replace(block, aligned={d: e for d, e in block.aligned.items() if e in both})
        if block.aligned is not None
        else block
        for block in sorted(group, key=lambda block: block.aligned is None)
    ]


def _count(port: Port, free: Sequence[int]) -> int:
    """The number of seeds."""
    return prod(shape(port)[d] for d in free)


# ---- seeds -------------------------------------------------------------------------------------------------


def _tangents(program: Function, outputs: Sequence[Port], x: Port) -> tuple[Any, dict[str, Any]]:
    """The linear graph of the outputs in one input, and the tangent of each output by its name."""
    distinct = list(dict.fromkeys(y.value for y in outputs if not isinstance(y.value, Zero)))
    linear = linearize(program.view, distinct, [x.value], program.opset)
    of = dict(zip(distinct, linear.outputs, strict=True))
    return linear, {y.name: None if isinstance(y.value, Zero) else of[y.value] for y in outputs}


def _forward(program: Function, group: Sequence[Block]) -> list[Block]:
    """Blocks of one input, with their values, by forward mode."""
    if not group or not _count(x := group[0].input, free := group[0].free):
        return list(group)
    linear, tangents = _tangents(program, [block.output for block in group], x)
    b, tangents_of = _in_directions(program, linear.keys, [x], free, list(tangents.values()))
    sizes = [shape(x)[d] for d in free]
    blocks = []
    for block, dy in zip(group, tangents_of, strict=True):
        if dy is not None:
            batched = b.reshape(dy, [_count(x, free), *shape(block.output)])
            last = b.transpose(batched, [*range(1, rank(batched)), 0])
            dy = b.reshape(last, [*shape(block.output), *sizes])
        blocks.append(replace(block, value=dy))
    b.finish([block.value for block in blocks if block.value is not None])
    return blocks


def _reverse(program: Function, group: Sequence[Block]) -> list[Block]:
    """Blocks of one output, with their values, by reverse mode."""
    if not group or isinstance((y := group[0].output).value, Zero):
        return list(group)
    free = group[0].free_of_output
    if not _count(y, free):
        return list(group)
    wrt = [block.input.value for block in group]
    linear = linearize(program.view, [y.value], wrt, program.opset)
    transposed = linear_transpose(program.view, linear, program.opset)
    b, cotangents = _in_directions(program, transposed.keys, [y], free, transposed.outputs)
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


def _in_directions(
    program: Function,
    keys: Sequence[str],
    ports: Sequence[Port],
    free: Sequence[int],
    wanted: Sequence[Any],
    mapping: Callable[..., Graph] = batch,
) -> tuple[Any, list[Any]]:
    """A builder, and the wanted values for all seeds along the free dimensions of the ports.

    All `keys` are bound to the same seeds. With more than one seed, `mapping` is `batch`, which gives the values a
    leading dimension of seeds, or `collapse`, which gives their sums over the seeds.
    The builder is for ops on these values. `RequestError` for more than `MOST` seeds.
    """
    view, count = program.view, _count(ports[0], free)
    b: Any = program.opset.builder(view, view.fresh("J"))
    values = [x for x in dict.fromkeys(wanted) if x is not None]
    if not values:
        return b, list(wanted)
    if count > MOST:
        raise RequestError(
            f"{count} basis vectors are more than {MOST}; choose fewer inputs, or use a JVP or a VJP"
        )
    s: Any = program.opset.builder(view, view.fresh("S"))
    seed = _basis(s, ports[0].type, free)
    s.finish([seed])
    values_of = dict(zip(values, values, strict=True))
    if count > 1:
        graph = mapping(view, values, keys, size=count, opset=program.opset)
        keys, values_of = graph.keys, dict(zip(values, graph.outputs, strict=True))
    for key in keys:
        view.bind(key, seed)
    return b, [None if x is None else values_of[x] for x in wanted]


def _basis(b: Any, type_: Any, free: Sequence[int]) -> Any:
    """The seeds: one per position in the free dimensions, 1 there and 0 elsewhere.

    More than one are stacked along a leading dimension.
    """
    sizes = [type_.shape[d] for d in free]
    count = prod(sizes)
    if count == 1:
        return b.constant(1, type_)
    square = ir.RankedTensorType.get([count, count], ir.IntegerType.get_signless(32))
    unit = b.convert(b.compare(b.iota(0, square), b.iota(1, square), "EQ"), element(type_))
    return b.broadcast_in_dim(
        b.reshape(unit, [count, *sizes]), [0, *(1 + d for d in free)], stacked(type_, count)
    )


# ---- results -----------------------------------------------------------------------------------------------


def _result(program: Function, block: Block, sparsity: str | None) -> Port:
    """A block in the requested form: the whole derivative, its diagonal, or its diagonal blocks."""
    x, y = block.input, block.output
    name = f"{y.name}.jacobian.{x.name}"
    free = [shape(x)[d] for d in block.free]
    if sparsity == "diagonal" and block.aligned is not None and prod(free) != 1:
        raise RequestError(f"{name} is not known to be diagonal; use sparsity auto for the full Jacobian")
    if sparsity == "block-diagonal" and not block.aligned:
        raise RequestError(
            f"{name} is not known to be block-diagonal; use sparsity auto for the full Jacobian"
        )
    sizes = {"diagonal": shape(y), "block-diagonal": [*shape(y), *free]}.get(
        sparsity or "", [*shape(y), *shape(x)]
    )
    type_ = with_shape(y.type, sizes)
    if block.value is None:
        return Port(name, type_, Zero(type_))
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    array = _whole(b, block, type_) if sparsity in (None, "auto") else b.reshape(block.value, sizes)
    b.finish([array])
    return Port(name, type_, array)


def _whole(b: Any, block: Block, type_: Any) -> Any:
    """The whole derivative: the values of the block in place, and zeros elsewhere."""
    first = rank(block.output)
    places = [*range(first), *(first + d for d in block.free)]
    spread = b.broadcast_in_dim(block.value, places, type_) if block.aligned else block.value
    numbers = with_element(type_, ir.IntegerType.get_signless(32))
    for d, e in (block.aligned or {}).items():
        same = b.compare(b.iota(e, numbers), b.iota(first + d, numbers), "EQ")
        spread = b.select(same, spread, b.constant(0, type_))
    return spread
