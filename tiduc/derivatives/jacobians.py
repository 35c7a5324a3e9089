"""Jacobians, Hessians and Laplacians, from JVPs or VJPs of all basis vectors, which `passes/batch.py` batches (vmap).

    forward    J[j, i] = (JVP along e_i)[j]        one seed per entry of the inputs
    reverse    J[j, i] = (VJP of e_j)[i]           one seed per entry of the outputs

With mode "auto", both modes are combined at a bottleneck if the combination is cheaper than either mode (`modes.py`).

If a dimension of an output is aligned with a dimension of an input (`passes/batching/alignment.py`), the derivative is
diagonal in these two dimensions. One seed, the sum of the basis vectors e_i along these dimensions, then replaces one
seed for each of these basis vectors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiduc.derivatives.blocks import (
    Block,
    linear_in,
    number_of_seeds,
    on_basis_vectors,
    sparse_blocks,
    with_common_input_dimensions,
)
from tiduc.derivatives.coloured import KnownEntries, KnownPatterns, found_entries, symmetrized
from tiduc.derivatives.modes import computed_blocks
from tiduc.derivatives.results import compressed_result, known_entries, result_of
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.compressed import FORMATS
from tiduc.dialect.ops.control_ops import DERIVATIVES
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.shapes.types import is_complex, is_dynamic, rank, shape
from tiduc.passes.batch import batch
from tiduc.passes.collapse import collapse
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Wrt, smooth, with_ports

MODES = ("auto", "forward", "reverse")
SPARSITIES = ("auto", "diagonal", "block-diagonal")


Pattern = Mapping[str, ArrayLike] | NDArray[Any]
"""A boolean array with the shape of a derivative, which is true where the derivative may be nonzero.

For several derivatives, a dictionary of such arrays by the names of the derivatives.
"""

Sparsity = str | Pattern | None


def jacobian(
    program: Function,
    wrt: Wrt,
    mode: str = "auto",
    sparsity: Sparsity = None,
    compressed: str | None = None,
) -> list[OutputPort]:
    """Returns the derivative of each differentiable output with respect to each input of `wrt`."""
    _check_option("mode", mode, MODES)
    inputs, outputs = program.differentiated(wrt), program.outputs
    kind, given = given_patterns(sparsity, inputs, smooth(program, outputs))
    return _jacobian(program, inputs, outputs, mode, kind, given, compressed)


def _jacobian(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    mode: str,
    sparsity: str | None,
    given: KnownPatterns | None = None,
    compressed: str | None = None,
    symmetric: bool = False,
) -> list[OutputPort]:
    outputs = smooth(program, outputs)
    check_types("jacobian", inputs, outputs, mode)
    blocks, entries = jacobian_blocks(program, inputs, outputs, mode, sparsity, given, compressed, symmetric)
    if compressed is None:
        return [result_of(program, block, sparsity) for block in blocks.values()]
    return [compressed_result(program, block, entries, compressed) for block in blocks.values()]


def jacobian_blocks(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    mode: str,
    sparsity: str | None,
    given: KnownPatterns | None,
    compressed: str | None,
    symmetric: bool = False,
) -> tuple[dict[tuple[str, str], Block], KnownEntries]:
    """Returns the blocks with their values, and the nonzeros of each block, by the names of its output and input.

    The nonzeros are None if they are unknown. The nonzeros of compressed derivatives are always known.
    """
    entries: KnownEntries = {}
    if compressed is not None:
        _check_option("compressed", compressed, FORMATS)
        if sparsity not in (None, "auto"):
            raise RequestError(f"a derivative is either compressed or {sparsity}; leave out one of them")
        entries = known_entries(program, inputs, outputs, given or {})
    elif given is not None:
        entries = found_entries(program, inputs, outputs, given)
    seeded, is_sparse = entries, sparsity is not None and compressed is None
    if symmetric:
        count = prod(shape(inputs[0]))
        seeded = {key: known and symmetrized(known, count) for key, known in entries.items()}
    computed = computed_blocks(program, inputs, outputs, mode, is_sparse, seeded or None, symmetric)
    order = {(block.output.name, block.input.name): block for block in computed}
    return {(y.name, x.name): order[y.name, x.name] for y in outputs for x in inputs}, entries


def hessian(
    program: Function, wrt: Wrt, sparsity: Sparsity = None, compressed: str | None = None
) -> list[OutputPort]:
    """Returns the second derivatives of each output with respect to each pair of `wrt`.

    Forward mode differentiates the Jacobian that reverse mode computes.
    """
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    check_types("hessian", inputs, outputs, "reverse")
    first = with_ports((), _jacobian(program, inputs, outputs, "reverse", None))
    names = {
        (dy.name, z.name): f"{y.name}.hessian.{x.name}.{z.name}"
        for (y, x), dy in zip(product(outputs, inputs), first, strict=True)
        for z in inputs
    }
    kind, given = given_patterns(sparsity, inputs, first, names)
    has_own = any(name in graph.attributes for graph in program.view.graphs.values() for name in DERIVATIVES)
    is_symmetric = len(inputs) == len(outputs) == 1 and not rank(outputs[0]) and not has_own
    second = _jacobian(program, inputs, first, "forward", kind, given, compressed, is_symmetric)
    return [replace(port, name=name) for port, name in zip(second, names.values(), strict=True)]


def laplacian_of(program: Function, wrt: Wrt) -> list[OutputPort]:
    """Returns, for each output y, the sum of the second derivatives d2 y / dx_i^2 over all entries x_i of `wrt`.

    Uses forward over forward mode. The first tangents are batched over all basis vectors, and only the sum of the
    second tangents is propagated (`passes/collapse.py`). Aligned dimensions share basis vectors, as in a sparse
    Jacobian.
    """
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    check_types("laplacian", inputs, outputs, "forward")
    terms: dict[str, list[Value]] = {y.name: [] for y in outputs}
    for x in inputs:
        first, tangents = linear_in(program, outputs, x)
        blocks = with_common_input_dimensions(sparse_blocks(program, outputs, x, first, tangents))
        reached = {
            block.output.name: dy
            for block in blocks
            if block.aligned is not None and (dy := tangents[block.output.name]) is not None
        }
        if not reached or not number_of_seeds(x, free := blocks[0].free):
            continue
        once = list(dict.fromkeys(reached.values()))
        second = linearize(program.view, once, [x.key], program.opset)
        twice = dict(zip(once, second.outputs, strict=True))
        keys, total = [*first.keys, *second.keys], partial(collapse, linear=second.keys)
        wanted = [twice[dy] for dy in reached.values()]
        _, sums = on_basis_vectors(program, keys, [x, x], free, wanted, total)
        for name, ddy in zip(reached, sums, strict=True):
            if ddy is not None:
                terms[name].append(ddy)
    return [_sum(program, y, terms[y.name]) for y in outputs]


def _sum(program: Function, y: OutputPort, terms: Sequence[Value]) -> OutputPort:
    """Emits the Laplacian of one output as the sum of `terms`, which has a term for each input."""
    name = f"{y.name}.laplacian"
    if not terms:
        return OutputPort(name, y.type, Zero(y.type))
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    total = b.sum(terms)
    b.finish([total])
    return OutputPort(name, y.type, total)


def batched(
    program: Function, given: Sequence[InputPort], results: Sequence[OutputPort], size: int
) -> tuple[list[InputPort], list[OutputPort]]:
    """Adds a leading batch dimension of size `size` to inputs and results (vmap). Returns the new inputs and results.

    Raises `RequestError` for a zero result of dynamic shape.
    """
    values = [port.value for port in results if not isinstance(port.value, Zero)]
    keys = [port.key for port in given]
    graph = batch(program.view, list(dict.fromkeys(values)), keys, size, program.opset)
    of = dict(zip(dict.fromkeys(values), graph.outputs, strict=True))
    inputs = [
        InputPort(port.name, stacked(port.type, size), key)
        for port, key in zip(given, graph.keys, strict=True)
    ]
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    outputs = []
    for port in results:
        if isinstance(port.value, Zero) and is_dynamic(port.type):
            raise RequestError(
                f"result {port.name} of type {port.type} cannot be batched; only tensors of static shape can"
            )
        type_ = stacked(port.type, size)
        value = None if isinstance(port.value, Zero) else of[port.value]
        if value is not None and value.type != type_:  # the value depends on no batched input
            value = b.broadcast_in_dim(value, range(1, rank(value) + 1), type_)
        outputs.append(OutputPort(port.name, type_, Zero(type_) if value is None else value))
    b.finish([])
    return inputs, outputs


# ---- requests ----------------------------------------------------------------------------------------------


def given_patterns(
    sparsity: Sparsity,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    names: Mapping[tuple[str, str], str] | None = None,
) -> tuple[str | None, KnownPatterns | None]:
    """Checks the option `sparsity`. Returns its kind, one of `SPARSITIES` or None, and the patterns that the user
    gives.

    The patterns are None if no block may be coloured. Raises `RequestError` for an unknown option, for a pattern with a
    wrong name or shape, and for a single array if there are several blocks.
    """
    if sparsity is None or isinstance(sparsity, str):
        if sparsity is not None:
            _check_option("sparsity", sparsity, SPARSITIES)
        return sparsity, {} if sparsity == "auto" else None
    sizes = {(y.name, x.name): (*shape(y), *shape(x)) for y in outputs for x in inputs}
    names = names or {(y, x): f"{y}.jacobian.{x}" for y, x in sizes}
    if not isinstance(sparsity, Mapping):
        if len(names) != 1:
            raise RequestError(f"one pattern is given for several derivatives: {', '.join(names.values())}")
        sparsity = {name: sparsity for name in names.values()}
    of_name = {name: pair for pair, name in names.items()}
    given = {}
    for name, pattern in sparsity.items():
        array = np.asarray(pattern) != 0
        if name not in of_name:
            raise RequestError(f"pattern {name!r} is none of {', '.join(of_name)}")
        if array.shape != sizes[of_name[name]]:
            raise RequestError(f"pattern {name!r} has the shape {array.shape}, not {sizes[of_name[name]]}")
        given[of_name[name]] = array
    return "auto", given


def _check_option(name: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise RequestError(f"{name} must be one of {', '.join(known)}, not {given!r}")


def check_types(method: str, inputs: Sequence[InputPort], outputs: Sequence[OutputPort], mode: str) -> None:
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
