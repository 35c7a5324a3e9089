"""Second derivatives as methods of `Program`, for optimizers, and Laplacians.

hvp                     the Hessian times a tangent
laplacian               the trace of the Hessian of each output
lagrangian              L = sum of <multiplier of y, y> over all outputs y
gauss_newton            G = J' W J, and the gradient J' W r of the sum of r' W r / 2; all outputs are residuals r
second_directional      the second derivative of y along two tangents: d2 y(x + s v + t w) / ds dt
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tiduc.derivatives.gauss_newton import matrices
from tiduc.derivatives.jacobians import Sparsity, check_types, laplacian_of
from tiduc.derivatives.products import grad, symmetric_product
from tiduc.derivatives.seeds import distinct_values
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.compressed import Compressed, compressed_in
from tiduc.dialect.shapes.types import is_complex, rank, with_shape
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import Zero, explicit_zero
from tiduc.ports import Function, InputPort, OutputPort, Wrt, smooth, with_ports

P = TypeVar("P", bound=Function)


def hvp(self: P, wrt: Wrt = None, value: bool = False) -> P:
    """(primals..., tangents of wrt...) -> ((the output, if `value`), the Hessian times the tangents, for each of
    wrt...).

    The program uses forward over reverse mode, or reverse over reverse mode if a function has only a VJP. Raises the
    errors of `grad`.
    """
    gradient: Any = {"outputs": with_ports((), grad(self, wrt))}
    names = [x.name for x in self.differentiated(wrt)]
    tangents, products = symmetric_product(replace(self, **gradient), names)  # type: ignore[type-var]
    return _with(self, tangents, [*(self.outputs if value else ()), *products])


def laplacian(self: P, wrt: Wrt = None, value: bool = False) -> P:
    """(primals...) -> ((outputs..., if `value`), the trace of the Hessian of each output, over all of wrt...).

    A trace has the shape of its output. Raises the errors of `jacobian`.
    """
    return _with(self, (), [*(self.outputs if value else ()), *laplacian_of(self, wrt)])


def lagrangian(self: P) -> P:
    """(primals..., y.multiplier of each differentiable output y...) -> (lagrangian): sum of multiplier times output.

    If the outputs are an objective and constraints, `grad`, `hvp` and `hessian` of the result are the derivatives of
    the Lagrangian that optimizers need. Multipliers have the shapes of their outputs; the multiplier of an objective is
    usually 1. Raises `RequestError` for complex outputs, for outputs of several element types, and if no output has a
    derivative.
    """
    outputs = smooth(self, self.outputs)
    elements = {str(y.type.element_type) for y in outputs}
    if len(elements) != 1 or is_complex(outputs[0]):
        listed = ", ".join(f"{y.name}: {y.type}" for y in self.outputs) or "none"
        raise RequestError(f"lagrangian needs outputs of one real float type; there are {listed}")
    b: Any = self.opset.builder(self.view, self.view.fresh("L"))
    multipliers, terms = _inputs(b, outputs, "multiplier"), []
    for y, port in zip(outputs, multipliers, strict=True):
        of_y = b.input(port.key, port.type)
        if not isinstance(y.value, Zero):
            product = b.multiply(of_y, y.value)
            terms.append(b.reduce_sum(product, list(range(rank(product)))) if rank(product) else product)
    type_ = with_shape(outputs[0].type, [])
    total: Value | Zero = b.sum(terms) if terms else Zero(type_)
    b.finish([] if isinstance(total, Zero) else [total])
    ports: Any = {
        "inputs": with_ports(self.inputs, multipliers),
        "outputs": (OutputPort("lagrangian", type_, total),),
    }
    return replace(self, **ports)  # type: ignore[type-var]


def second_directional(self: P, wrt: Wrt = None, value: bool = False) -> P:
    """(primals..., x.tangent of wrt..., x.second_tangent of wrt...) -> ((outputs..., if `value`), second derivatives).

    The second derivative of an output y along the tangents v and w is the derivative of y(x + s v + t w) in s and t, at
    s = t = 0. For a scalar y it is v' H w with the Hessian H. Raises the errors of `jvp`.
    """
    inputs, outputs = self.differentiated(wrt), smooth(self, self.outputs)
    values = distinct_values(outputs)
    first = linearize(self.view, values, [x.key for x in inputs], self.opset)
    once = [dy for dy in dict.fromkeys(first.outputs) if dy is not None]
    second = linearize(self.view, once, [x.key for x in inputs], self.opset)
    twice = dict(zip(once, second.outputs, strict=True))
    of = {y: dy and twice[dy] for y, dy in zip(values, first.outputs, strict=True)}
    tangents = [
        InputPort(f"{x.name}.{name}", x.type, key)
        for name, graph in (("tangent", first), ("second_tangent", second))
        for x, key in zip(inputs, graph.keys, strict=True)
    ]
    results = [OutputPort(f"{y.name}.second_directional", y.type, _value(self, y, of)) for y in outputs]
    return _with(self, tangents, [*(self.outputs if value else ()), *results])


def gauss_newton(
    self: P,
    wrt: Wrt = None,
    value: bool = False,
    *,
    gradient: bool = False,
    weights: bool = False,
    product: bool = False,
    sparsity: Sparsity = None,
    compressed: str | None = None,
) -> P:
    """(primals...) -> ((outputs..., if `value`), (J' W r of wrt..., if `gradient`), J' W J for each pair of wrt...).

    All differentiable outputs are residuals r, and J is their Jacobian. With `weights`, the program has a further input
    `y.weight` for each output y. It has the shape of y and is the diagonal of W; otherwise W is 1. With `product`, the
    program takes tangents v of wrt and returns J' W J v for each of wrt, without a matrix. A matrix has the shape of
    its first input followed by the shape of its second input. `sparsity` describes J; `sparsity` and `compressed` are
    as in `jacobian`. Raises `RequestError` for complex ports, for dynamic shapes, and for `product` with `sparsity` or
    `compressed`.
    """
    inputs, outputs = self.differentiated(wrt), smooth(self, self.outputs)
    check_types("gauss_newton", inputs, outputs, "reverse")
    if product and not (sparsity is None and compressed is None):
        raise RequestError("product returns no matrix: leave out sparsity and compressed")
    b: Any = self.opset.builder(self.view, self.view.fresh("W"))
    given = _inputs(b, outputs, "weight") if weights else []
    factors = {y.name: b.input(port.key, port.type) for y, port in zip(outputs, given, strict=weights)}
    b.finish([])
    results = list(self.outputs) if value else []
    if gradient:
        pulled = _pulled_back(self, inputs, outputs, factors, {y.name: y.value for y in outputs})
        results += [
            OutputPort(f"gradient.{x.name}", x.type, cx) for x, cx in zip(inputs, pulled, strict=True)
        ]
    if product:
        tangents, found = _product(self, inputs, outputs, factors)
        return _with(self, [*given, *tangents], [*results, *found])
    results += matrices(self, inputs, outputs, factors, sparsity, compressed)
    return _with(self, given, results)


def patterns_of(self: Function) -> dict[str, Compressed]:
    """Returns the sparsity patterns of compressed results by name, with `indptr` and `indices` as in scipy.

    The program may also be read from a file. Raises `RequestError` for a malformed pattern.
    """
    found = {y.name: compressed_in(y.attributes, y.name) for y in self.outputs}
    return {name: pattern for name, pattern in found.items() if pattern is not None}


def _product(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    factors: Mapping[str, Value],
) -> tuple[list[InputPort], list[OutputPort]]:
    """Returns the inputs for tangents v, and the products J' W J v."""
    values = distinct_values(outputs)
    linear: Graph = linearize(program.view, values, [x.key for x in inputs], program.opset)
    of = dict(zip(values, linear.outputs, strict=True))
    pulled = _pulled_back(
        program, inputs, outputs, factors, {y.name: _value(program, y, of) for y in outputs}
    )
    tangents = [
        InputPort(f"{x.name}.tangent", x.type, key) for x, key in zip(inputs, linear.keys, strict=True)
    ]
    return tangents, [
        OutputPort(f"gauss_newton.{x.name}", x.type, cx) for x, cx in zip(inputs, pulled, strict=True)
    ]


def _pulled_back(
    program: Function,
    inputs: Sequence[InputPort],
    outputs: Sequence[OutputPort],
    factors: Mapping[str, Value],
    seeds: Mapping[str, Value | Zero],
) -> list[Value | Zero]:
    """Returns, for each input, J' W s for the seeds s of the outputs."""
    # Outputs with the same value share a cotangent, which is the sum of their weighted seeds.
    values = distinct_values(outputs)
    linear: Graph = linearize(program.view, values, [x.key for x in inputs], program.opset)
    transposed = linear_transpose(program.view, linear, program.opset)
    b: Any = program.opset.builder(program.view, program.view.fresh("S"))
    weighted: dict[Any, list[Value]] = {y: [] for y in values}
    for y in outputs:
        if isinstance(y.value, Zero):
            continue
        seed = seeds[y.name]
        if not isinstance(seed, Zero):
            weighted[y.value].append(b.multiply(factors[y.name], seed) if y.name in factors else seed)
    totals = [b.sum(terms) if terms else b.zero(y.type) for y, terms in weighted.items()]
    b.finish(totals)
    for key, total in zip(transposed.keys, totals, strict=True):
        program.view.bind(key, total)
    return [Zero(x.type) if cx is None else cx for x, cx in zip(inputs, transposed.outputs, strict=True)]


# ---- ports -------------------------------------------------------------------------------------------------


def _inputs(b: StablehloBuilder, outputs: Sequence[OutputPort], name: str) -> list[InputPort]:
    """Returns a new input for each output, with the type of the output."""
    return [InputPort(f"{y.name}.{name}", y.type, f"{b.graph.name}.{i}") for i, y in enumerate(outputs)]


def _value(program: Function, y: OutputPort, of: Mapping[Value, Value | None]) -> Value | Zero:
    """Returns the derivative of an output according to `of`, or an explicit zero if the derivative is zero."""
    found = None if isinstance(y.value, Zero) else of[y.value]
    return explicit_zero(program.view, y.type, y.value) if found is None else found


def _with(self: P, given: Sequence[InputPort], results: Sequence[OutputPort]) -> P:
    """Returns the program with the further inputs `given`, and with `results` as its outputs."""
    ports: Any = {"inputs": with_ports(self.inputs, given), "outputs": with_ports((), results)}
    return replace(self, **ports)  # type: ignore[type-var]
