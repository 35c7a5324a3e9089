"""Jets, and derivatives of functions of one variable, as programs. `passes/jet.py` implements Taylor mode."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import ml_dtypes

from tiduc.derivatives.seeds import distinct_values
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.shapes.types import is_dynamic, rank, shape
from tiduc.passes.jet import MAX_ORDER, jet
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Wrt, described, smooth

Inputs = list[InputPort]
Outputs = list[OutputPort]
Coefficients = Sequence[Value | None]
"""Taylor coefficients, in the order of their degrees. None stands for zero."""


def jet_of(program: Function, order: int, wrt: Wrt) -> tuple[Inputs, Outputs, Outputs]:
    """Returns the inputs and outputs of the jet.

    They are the inputs for Taylor coefficients of `wrt`, the outputs of the program, and the coefficients of each
    differentiable output.
    """
    check_order(order)
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    series, given = [], {}
    for i, port in enumerate(program.differentiated(wrt)):
        key = f"{b.graph.name}.{i}"
        series.append(InputPort(f"{port.name}.series", stacked(port.type, order), key))
        whole = b.input(key, series[-1].type)
        given[program.view.input(port.key)] = [_entry(b, whole, k) for k in range(order)]
    found = coefficients(program, b, given, order)
    results = [
        OutputPort(
            f"{port.name}.series",
            stacked(port.type, order),
            _series(b, port, known_coefficients(port, found), order),
        )
        for port in smooth(program, program.outputs)
    ]
    b.finish([port.value for port in results if not isinstance(port.value, Zero)])
    return series, [_primal(port, found) for port in program.outputs], results


def derivatives_of(program: Function, order: int, wrt: Wrt) -> Outputs:
    """Returns each differentiable output, followed by its derivatives in the scalar input `wrt`.

    The derivatives have the orders 1 to `order`.
    """
    check_order(order)
    inputs, outputs = program.differentiated(wrt), smooth(program, program.outputs)
    if len(inputs) != 1 or rank(inputs[0]):
        names = ", ".join(f"{port.name}: {port.type}" for port in inputs) or "none"
        raise RequestError(
            f"derivatives needs one scalar input; there are {names}: choose one with wrt, or use jet"
        )
    for port in outputs:
        largest = float(ml_dtypes.finfo(described(port).type.dtype).max)  # type: ignore[no-untyped-call]
        if factorial(order) > largest:
            raise RequestError(
                f"order {order} is too high for {port.name!r} of type {port.type}: {order}! is infinite"
            )
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    x = program.view.input(inputs[0].key)
    found = coefficients(program, b, {x: [b.constant(1, x), *([None] * (order - 1))]}, order)
    results = []
    for port in outputs:
        results.append(_primal(port, found))
        known = known_coefficients(port, found) or [None] * (order + 1)
        for k, y in enumerate(known[1:], 1):
            value = zero_like(b, port) if y is None else scaled(b, y, factorial(k))
            results.append(OutputPort(f"{port.name}.derivative{k}", port.type, value))
    b.finish([port.value for port in results[1:] if not isinstance(port.value, Zero)])
    return results


def flow_of(program: Function, order: int, wrt: Wrt) -> Outputs:
    """Returns the Taylor series of the solution x(t) of x' = f(x), where the program computes f.

    `wrt` must select one input, and the program must have one output of the type of this input. The coefficient y_k of
    f(x(t)) depends only on x_0, ..., x_k, and x_{k+1} = y_k / (k + 1).
    """
    check_order(order)
    inputs = program.differentiated(wrt)
    if len(inputs) != 1 or len(program.outputs) != 1 or program.outputs[0].type != inputs[0].type:
        types = [", ".join(str(port.type) for port in ports) for ports in (inputs, program.outputs)]
        raise RequestError(
            f"flow needs one input, and one output of the same type; the program is ({types[0]}) -> ({types[1]})"
        )
    (x,), (y,) = inputs, program.outputs
    b: Any = program.opset.builder(program.view, program.view.fresh("J"))
    of = program.view.input(x.key)
    known: list[Value | None] = [None if isinstance(y.value, Zero) else y.value]
    for k in range(1, order):
        found = known_coefficients(y, coefficients(program, b, {of: known}, k))
        y_k = None if found is None else found[k]
        known.append(None if y_k is None else scaled(b, y_k, 1 / (k + 1)))
    value = _series(b, y, [None, *known], order)
    b.finish([] if isinstance(value, Zero) else [value])
    return [OutputPort(f"{x.name}.series", stacked(x.type, order), value)]


def coefficients(
    program: Function, b: StablehloBuilder, given: Mapping[Value, Coefficients], order: int
) -> dict[Value, Coefficients]:
    """Computes the Taylor coefficients of each distinct output value, from order 0.

    `given` maps the values of inputs to their coefficients, from order 1.
    """
    values = distinct_values(program.outputs)
    return dict(zip(values, jet(program.view, values, given, order, program.opset, b), strict=True))


def check_order(order: int) -> None:
    """Raises `RequestError` for an order that is not an integer from 1 to `MAX_ORDER`."""
    if not isinstance(order, int) or isinstance(order, bool) or not 1 <= order <= MAX_ORDER:
        raise RequestError(f"order must be an integer from 1 to {MAX_ORDER}, not {order!r}")


def scaled(b: StablehloBuilder, x: Value, factor: float) -> Value:
    """Multiplies x by the number `factor`."""
    return x if factor == 1 else b.multiply(b.constant(factor, x), x)


def zero_like(b: StablehloBuilder, port: OutputPort) -> Value | Zero:
    """Returns a zero with the type and the sizes of a port."""
    if is_dynamic(port.type) and not isinstance(port.value, Zero):
        return b.zeros_like(port.value)
    return port.value if isinstance(port.value, Zero) else Zero(port.type)


def known_coefficients(port: OutputPort, found: Mapping[Value, Coefficients]) -> Coefficients | None:
    """Returns the coefficients of an output, or None if the output is zero."""
    return None if isinstance(port.value, Zero) else found.get(port.value)


def _primal(port: OutputPort, found: Mapping[Value, Coefficients]) -> OutputPort:
    """Returns the output port with the coefficient of order 0 as its value, so that one loop can compute all
    coefficients.
    """
    known = known_coefficients(port, found)
    return port if known is None or known[0] is None else replace(port, value=known[0])


def _series(b: StablehloBuilder, port: OutputPort, known: Coefficients | None, order: int) -> Value | Zero:
    """Emits the coefficients of orders 1 to `order` of an output, as one array with a new leading dimension."""
    found = known[1:] if known is not None else []
    if all(x is None for x in found) and not is_dynamic(port.type):
        return Zero(stacked(port.type, order))
    of = port.value.like if isinstance(port.value, Zero) else port.value
    assert of is not None  # a zero of dynamic shape refers to a value of equal shape
    parts = [b.zeros_like(of) if x is None else x for x in found or [None] * order]
    return b.concatenate([b.reshape(x, [1, *shape(x)]) for x in parts], 0)


def _entry(b: StablehloBuilder, x: Value, k: int) -> Value:
    """Emits x[k]."""
    sizes = shape(x)
    start, limit = [k, *([0] * (len(sizes) - 1))], [k + 1, *sizes[1:]]
    return b.reshape(b.slice(x, start, limit, [1] * len(sizes)), sizes[1:])
