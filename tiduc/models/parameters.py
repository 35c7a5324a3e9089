"""Weights that a compiled module reads from an archive when it is loaded, instead of holding them or taking arguments.

    func @main(%w, %x)     ->     util.global private @parameter.0 = #flow.parameter.named<"model"::"w">
                                  func @main(%x) { %w = util.global.load @parameter.0; call @lifted(%w, %x) }

The ops belong to IREE's dialects, which the MLIR bindings here do not have, so they are written as text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.backend import LOOPS
from tiduc.backends.iree.source import Source
from tiduc.dialect.attributes import named_attributes
from tiduc.dialect.context import parse, stage
from tiduc.dialect.errors import RequestError
from tiduc.models.constants import entry_of
from tiduc.ports import described
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.signature import REFLECTION, KnownSize, Signature, reflection
from tiduc.runtime.weights import SCOPE

_HEAD = re.compile(r"^module\b.*\{$", re.MULTILINE)
_DESCRIBED = "iree.reflection"


def source_with_parameters(
    program: Program,
    arrays: Mapping[str, Array],
    target: str = "cpu",
    lapack: str = LOOPS,
    fast: bool = True,
) -> Source:
    """The compiler's source for a program in which the inputs with these names are parameters.

    `RequestError` where an input does not exist or its type differs from the array's.
    """
    kept = _other_inputs(program, arrays)
    source = program.source(target, lapack, fast)
    return source.mapped(lambda each: replace(each, stablehlo=_text(each.stablehlo, program, kept)))


def signature_with_parameters(program: Program, arrays: Mapping[str, Array]) -> Signature:
    """The signature of the module that `source_with_parameters` compiles to; raises the same errors."""
    return _without(program.signature, _other_inputs(program, arrays))


def _other_inputs(program: Program, arrays: Mapping[str, Array]) -> list[int]:
    """The positions of the inputs that are not parameters. Errors are those of `source_with_parameters`."""
    ports = {port.name: port for port in program.inputs}
    for name, array in arrays.items():
        if name not in ports:
            raise RequestError(f"no input {name!r} for a parameter; the inputs are {', '.join(ports)}")
        type_ = described(ports[name]).type
        if array.dtype != type_.dtype or not type_.accepts(array.shape):
            raise RequestError(
                f"input {name!r} is {type_}, and the parameter is {array.dtype}{list(array.shape)}"
            )
    return [i for i, port in enumerate(program.inputs) if port.name not in arrays]


@stage
def _text(stablehlo: str | bytes, program: Program, kept: Sequence[int]) -> str:
    """The module's text with a wrapper around the program that takes only the inputs at these positions."""
    module = parse(stablehlo)
    function = entry_of(module)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    said = named_attributes(function.attributes[_DESCRIBED])
    said[REFLECTION] = ir.StringAttr.get(reflection(_without(program.signature, kept)))
    name = str(ir.FlatSymbolRefAttr.get(ir.StringAttr(function.attributes["sym_name"]).value))
    del function.attributes[_DESCRIBED]
    function.attributes["sym_name"] = ir.StringAttr.get("lifted")
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    names = [str(ir.StringAttr.get(port.name)) for port in program.inputs]
    outer = _around(name, names, type_, kept, f"{{{_DESCRIBED} = {ir.DictAttr.get(said)}}}")
    text = str(module.operation.get_asm(enable_debug_info=True, assume_verified=True))
    return _HEAD.sub(lambda head: f"{head[0]}\n{outer}", text, count=1)


def _around(name: str, names: Sequence[str], type_: Any, kept: Sequence[int], attributes: str) -> str:
    inputs, results = [str(t) for t in type_.inputs], [str(t) for t in type_.results]
    parameters = [i for i in range(len(inputs)) if i not in set(kept)]
    scope = str(ir.StringAttr.get(SCOPE))
    lines = [
        f"util.global private @parameter.{i} = #flow.parameter.named<{scope}::{names[i]}> : {inputs[i]}"
        for i in parameters
    ]
    given = ", ".join(f"%x{i}: {inputs[i]}" for i in kept)
    lines.append(f"func.func {name}({given}) -> ({', '.join(results)}) attributes {attributes} {{")
    lines += [f"  %x{i} = util.global.load @parameter.{i} : {inputs[i]}" for i in parameters]
    all_, types = ", ".join(f"%x{i}" for i in range(len(inputs))), ", ".join(results)
    lines.append(f"  %y:{len(results)} = func.call @lifted({all_}) : ({', '.join(inputs)}) -> ({types})")
    returned = ", ".join(f"%y#{i}" for i in range(len(results)))
    lines += [f"  return {returned} : {types}", "}"]
    return "\n".join(f"  {line}" for line in lines)


def _without(signature: Signature, kept: Sequence[int]) -> Signature:
    """The signature with only the inputs at these positions; the others have no dynamic dimensions."""
    number = {old: new for new, old in enumerate(kept)}
    sizes = [
        KnownSize(number[s.input], s.dimension, s.constant, tuple((f, number[i], d) for f, i, d in s.terms))
        for s in signature.sizes
    ]
    required = tuple(r.renumbered(number) for r in signature.required)
    return Signature(tuple(signature.inputs[i] for i in kept), signature.outputs, tuple(sizes), required)
