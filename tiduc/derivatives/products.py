"""JVPs, VJPs and gradients: products of the Jacobian of a program with tangents or cotangents."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.derivatives.jacobians import batched
from tiduc.derivatives.seeds import conjugate_seeds, conjugates, distinct_values, seeds_of
from tiduc.dialect.control.control import only_reverse
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.shardy import shardings_among
from tiduc.passes.cut import active_ops
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero, explicit_zero
from tiduc.ports import Function, InputPort, OutputPort, Wrt, smooth

Inputs = list[InputPort]
Outputs = list[OutputPort]


def jvp(program: Function, wrt: Wrt, batch: int | None = None) -> tuple[Inputs, Outputs]:
    """Returns the additional inputs and outputs of the JVP.

    They are the tangents of `wrt`, and the tangents of the differentiable outputs. With `batch`, they have a leading
    dimension of this size.
    """
    ports = program.differentiated(wrt)
    tangents, results = _tangents(program, ports, *_linearized(program, ports))
    return (tangents, results) if batch is None else batched(program, tangents, results, batch)


def symmetric_product(program: Function, wrt: Wrt) -> tuple[Inputs, Outputs]:
    """Returns the additional inputs and outputs of a JVP whose Jacobian is symmetric, such as the Hessian of a
    function.

    If a function has only a VJP, reverse mode computes the product. The inputs and outputs have the same names in both
    modes.
    """
    ports = program.differentiated(wrt)
    outputs, linear = _linearized(program, ports)
    active = active_ops(program.view, linear, [y for y in linear.outputs if y is not None])
    if not only_reverse(program.view, active):
        return _tangents(program, ports, outputs, linear)
    seeds, results = vjp(program, wrt)
    return (
        [replace(seed, name=f"{x.name}.tangent") for seed, x in zip(seeds, ports, strict=True)],
        [replace(y, name=f"{x.name}.tangent") for y, x in zip(results, outputs, strict=True)],
    )


def _tangents(
    program: Function, ports: Sequence[InputPort], outputs: Outputs, linear: Graph
) -> tuple[Inputs, Outputs]:
    """Returns the tangents of `ports` as inputs, and the tangents of the outputs, which the linear graph computes."""
    tangents = [
        InputPort(f"{port.name}.tangent", port.type, key, attributes=shardings_among(port.attributes))
        for port, key in zip(ports, linear.keys, strict=True)
    ]
    of = dict(zip(distinct_values(outputs), linear.outputs, strict=True))
    values = [None if isinstance(port.value, Zero) else of[port.value] for port in outputs]
    results = _aligned(program, outputs, values, ".tangent")
    return tangents, results


def vjp(
    program: Function, wrt: Wrt, conjugate: bool = False, batch: int | None = None
) -> tuple[Inputs, Outputs]:
    """Returns the additional inputs and outputs of the VJP.

    They are the cotangents of the differentiable outputs, and the cotangents of `wrt`. With `conjugate`, complex
    cotangents are conjugated. With `batch`, the inputs and outputs have a leading dimension of this size.
    """
    ports = program.differentiated(wrt)
    outputs, linear = _linearized(program, ports)
    transposed = linear_transpose(program.view, linear, program.opset)
    seeds = seeds_of(program, outputs, transposed)
    results = _aligned(program, ports, transposed.outputs, ".cotangent")
    if conjugate:
        seeds, results = conjugate_seeds(program, seeds), conjugates(program, results)
    return (seeds, results) if batch is None else batched(program, seeds, results, batch)


def grad(program: Function, wrt: Wrt, conjugate: bool = False) -> Outputs:
    """Returns the gradient: the cotangents of `wrt` for the cotangent 1 of the only output, a real scalar.

    Raises `RequestError` if the program does not have exactly one output of this kind.
    """
    ports = program.differentiated(wrt)
    output = program.outputs[0] if len(program.outputs) == 1 else None
    if output is None or output.type.rank or not isinstance(output.type.element_type, ir.FloatType):
        types = ", ".join(str(port.type) for port in program.outputs)
        instead = "use vjp" if smooth(program, program.outputs) else "none of them has a derivative"
        raise RequestError(f"grad needs one real scalar float output; the outputs are ({types}); {instead}")
    _, linear = _linearized(program, ports)
    transposed = linear_transpose(program.view, linear, program.opset)
    for key in transposed.keys:
        b: Any = program.opset.builder(program.view, program.view.fresh("S"))
        seed = b.constant(1, output.type)
        b.finish([seed])
        program.view.bind(key, seed)
    results = _aligned(program, ports, transposed.outputs, ".cotangent")
    return conjugates(program, results) if conjugate else results


def _linearized(program: Function, ports: Sequence[InputPort]) -> tuple[Outputs, Graph]:
    """Returns the differentiable outputs, and the linear graph of their distinct values."""
    outputs = smooth(program, program.outputs)
    wrt = [port.key for port in ports]
    return outputs, linearize(program.view, distinct_values(outputs), wrt, program.opset)


def _aligned(
    program: Function,
    ports: Sequence[InputPort | OutputPort],
    values: Sequence[Value | None],
    suffix: str,
) -> Outputs:
    """Returns an output for each port, with its value in `values`, or with an explicit zero if that is None."""
    return [
        OutputPort(
            port.name + suffix,
            port.type,
            _zero_of(program, port) if value is None else value,
            attributes=shardings_among(port.attributes),
        )
        for port, value in zip(ports, values, strict=True)
    ]


def _zero_of(program: Function, port: InputPort | OutputPort) -> Zero:
    """Returns a zero with the type and the sizes of a port."""
    match port:
        case InputPort(key=key):
            return explicit_zero(program.view, port.type, program.view.input(key))
        case OutputPort(value=value):
            return explicit_zero(program.view, port.type, value)
