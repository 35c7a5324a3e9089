"""Computes the signature of a program: the names and types of inputs and outputs, and constraints on dynamic sizes."""

from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.dialect.dynamic.bounds import COUNT
from tiduc.dialect.dynamic.checks import ModuleSizes
from tiduc.dialect.dynamic.forms import READ, Atoms, Form
from tiduc.dialect.dynamic.known import known_sizes
from tiduc.dialect.graph.graph import Value, operations
from tiduc.dialect.mlir.context import stage
from tiduc.ports import Function, OutputPort, described
from tiduc.runtime.required_sizes import RequiredSize
from tiduc.runtime.signature import KnownSize, Signature


@stage
def signature_of(program: Function) -> Signature:
    """The signature of a program. Raises `RequestError` if an input or output is not a tensor."""
    inputs, outputs = tuple(map(described, program.inputs)), tuple(map(described, _outputs(program)))
    if all(None not in value.type.shape for value in inputs):
        return Signature(inputs, outputs)
    known = list(known_sizes([program.view.input(port.key) for port in program.inputs]))
    return Signature(inputs, outputs, tuple(KnownSize(*row) for row in known), _required(program, known))


def _outputs(program: Function) -> list[OutputPort]:
    """The outputs with their types in the lowered module, in which more sizes may be static."""
    if all(None not in described(port).type.shape for port in program.outputs):
        return list(program.outputs)
    names = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in operations(program.module.body)}
    results = ir.FunctionType(ir.TypeAttr(names[program.name].attributes["function_type"]).value).results
    return [replace(port, type=type_) for port, type_ in zip(program.outputs, results, strict=True)]


def _required(program: Function, known: list[Any]) -> tuple[RequiredSize, ...]:
    """The constraints on sizes of the inputs' dynamic dimensions. `known` has the sizes that need no constraint."""
    function = ModuleSizes(program.module, {program.name: known}).function(program.name)
    if function is None:
        return ()
    number = {x: i for i, x in enumerate(function.inputs)}
    requirements = []
    for placed in function.checks:
        check = placed.check
        if placed.before is None and check.relation != COUNT:
            a, b = (_size(form, function.atoms, number) for form in (check.a, check.b))
            requirements.append(RequiredSize(check.relation, a, b, placed.place))
    return tuple(requirements)


def _size(form: Form, atoms: Atoms, number: dict[Value, int]) -> Any:
    def atom(i: int) -> Any:
        kind, of, where = atoms.listed[i]
        if kind in READ:
            return number[of], where
        return kind, _size(of, atoms, number), _size(where, atoms, number)

    return tuple((factor, tuple(map(atom, monomial))) for monomial, factor in form)
