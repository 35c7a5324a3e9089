"""Jets and derivatives of one variable: programs around `passes/jet.py`."""

from collections.abc import Sequence
from math import factorial
from typing import Any

from tiduc.dialect.control_ops import sequence_type as stacked
from tiduc.dialect.errors import RequestError
from tiduc.dialect.types import rank, shape
from tiduc.passes.jet import jet
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, Port, Wrt, smooth
from tiduc.seeds import distinct_values

Ports = list[Port]


def jet_of(program: Function, order: int, wrt: Wrt) -> tuple[Ports, Ports, Ports]:
    """The series of each input in wrt, the outputs, and the series of each differentiable output."""
    _check_order(order)
    inputs = program.differentiated(wrt)
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    series = [
        Port(f"{port.name}.series", stacked(port.type, order), f"{b.graph.name}.{i}")
        for i, port in enumerate(inputs)
    ]
    given = {}
    for port, of_port in zip(inputs, series, strict=True):
        whole = b.input(of_port.value, of_port.type)
        given[program.view.input(port.value)] = [_entry(b, whole, k) for k in range(order)]
    found = _coefficients(program, b, given, order)
    outputs = [
        port if isinstance(port.value, Zero) else _with(port, found[port.value][0])
        for port in program.outputs
    ]
    results = []
    for port in smooth(program, program.outputs):
        type_ = stacked(port.type, order)
        coefficients = None if isinstance(port.value, Zero) else found[port.value]
        if coefficients is None or not any(x is not None for x in coefficients[1:]):
            value: Any = Zero(type_)
        else:
            value = _stacked(b, [b.zeros_like(coefficients[0]) if x is None else x for x in coefficients[1:]])
        results.append(Port(f"{port.name}.series", type_, value))
    b.finish([port.value for port in results if not isinstance(port.value, Zero)])
    return series, outputs, results


def derivatives_of(program: Function, order: int, wrt: Wrt) -> Ports:
    """Each differentiable output and its derivatives of orders 1 to `order` in one scalar input."""
    _check_order(order)
    inputs = program.differentiated(wrt)
    if len(inputs) != 1 or rank(inputs[0]):
        names = ", ".join(f"{port.name}: {port.type}" for port in inputs) or "none"
        raise RequestError(
            f"derivatives needs one scalar input; there are {names}: choose one with wrt, or use jet"
        )
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    x = program.view.input(inputs[0].value)
    found = _coefficients(program, b, {x: [b.constant(1, x), *([None] * (order - 1))]}, order)
    results = []
    for port in smooth(program, program.outputs):
        for k in range(order + 1):
            value = None if isinstance(port.value, Zero) else found[port.value][k]
            if value is not None and k > 1:
                value = b.multiply(b.constant(factorial(k), value), value)
            name = f"{port.name}.derivative{k}" if k else port.name
            results.append(Port(name, port.type, Zero(port.type) if value is None else value))
    b.finish([port.value for port in results if not isinstance(port.value, Zero)])
    return results


def _check_order(order: int) -> None:
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise RequestError(f"order must be a positive integer, not {order!r}")


def _coefficients(program: Function, b: Any, given: Any, order: int) -> dict[Any, Sequence[Any | None]]:
    """The coefficients of each output's value, from order 0."""
    values = distinct_values(program.outputs)
    return dict(zip(values, jet(program.view, values, given, order, program.opset, b), strict=True))


def _with(port: Port, value: Any) -> Port:
    return Port(port.name, port.type, value, port.attributes)


def _entry(b: Any, x: Any, k: int) -> Any:
    """x[k]."""
    sizes = shape(x)
    start, limit = [k, *([0] * (len(sizes) - 1))], [k + 1, *sizes[1:]]
    return b.reshape(b.slice(x, start, limit, [1] * len(sizes)), sizes[1:])


def _stacked(b: Any, parts: Sequence[Any]) -> Any:
    """The parts along a new leading dimension."""
    return b.concatenate([b.reshape(x, [1, *shape(x)]) for x in parts], 0)
