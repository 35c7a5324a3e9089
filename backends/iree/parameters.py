"""Makes a program read its weights from an archive when its compiled module is loaded, not take them as arguments.

    func @main(%w, %x)     ->     util.global private @parameter.0 = #flow.parameter.named<"model"::"w">
                                  func @main(%x) { %w = util.global.load @parameter.0; call @lifted(%w, %x) }

The ops are written as text, because the MLIR bindings lack IREE's dialects.
"""

import re
from collections.abc import Collection, Sequence

from torch_mlir import ir

from tiduc.dialect.errors import CompileError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import parse
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.runtime.signature import REFLECTION, KnownSize, Signature, reflection
from tiduc.runtime.weights import SCOPE

_HEAD = re.compile(r"^module\b.*\{$", re.MULTILINE)
_DESCRIBED = "iree.reflection"


def other_inputs(signature: Signature, names: Collection[str]) -> list[int]:
    """Returns the indices of the inputs that are not parameters. `names` are the names of the parameters."""
    return [i for i, value in enumerate(signature.inputs) if value.name not in names]


def without_parameters(signature: Signature, names: Collection[str]) -> Signature:
    """Returns the signature without the inputs in `names`, all of which must have static shapes."""
    kept = other_inputs(signature, names)
    number = {old: new for new, old in enumerate(kept)}
    sizes = [
        KnownSize(number[s.input], s.dimension, s.constant, tuple((f, number[i], d) for f, i, d in s.terms))
        for s in signature.sizes
    ]
    required = tuple(r.renumbered(number) for r in signature.required)
    return Signature(tuple(signature.inputs[i] for i in kept), signature.outputs, tuple(sizes), required)


def reading_parameters(stablehlo: str | bytes, signature: Signature, names: Collection[str]) -> str:
    """Makes a program read the inputs in `names`, its parameters, from an archive. Returns the text of the module.

    Adds a function that takes the other inputs, reads the parameters and calls the program's function. The function in
    `stablehlo` must have the attribute `iree.reflection`.
    """
    module = parse(stablehlo)
    function, *_ = functions_in(module)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    said = named_attributes(function.attributes[_DESCRIBED])
    said[REFLECTION] = ir.StringAttr.get(reflection(without_parameters(signature, names)))
    name = str(ir.FlatSymbolRefAttr.get(ir.StringAttr(function.attributes["sym_name"]).value))
    del function.attributes[_DESCRIBED]
    function.attributes["sym_name"] = ir.StringAttr.get("lifted")
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    quoted = [str(ir.StringAttr.get(value.name)) for value in signature.inputs]
    outer = _around(
        name, quoted, type_, other_inputs(signature, names), f"{{{_DESCRIBED} = {ir.DictAttr.get(said)}}}"
    )
    text = str(module.operation.get_asm(enable_debug_info=True, assume_verified=True))
    wrapped, count = _HEAD.subn(lambda head: f"{head[0]}\n{outer}", text, count=1)
    if not count:
        raise CompileError("tiduc's text has no module to which a wrapper can be added")
    return wrapped


def _around(
    name: str, names: Sequence[str], type_: ir.FunctionType, kept: Sequence[int], attributes: str
) -> str:
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
