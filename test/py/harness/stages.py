"""Writes graphs as text for tests of the stages, and computes values of views."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.mlir.context import parse, stage
from tiduc.passes.lower.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET

F64, V = "tensor<f64>", "tensor<3xf64>"


def graph(name: str, inputs: Sequence[str], body: str, outputs: Sequence[str], type_: str = F64) -> str:
    """Returns the text of a primal graph. All inputs and outputs have the type `type_`. `%key` is the input `key`."""
    arguments = ", ".join(f"%{key}: {type_}" for key in inputs)
    header = f"^bb0({arguments}):" if inputs else "^bb0:"
    keys = ", ".join(f"@{key}" for key in inputs)
    types = ", ".join([type_] * len(outputs))
    return f""""tidu.graph"() ({{
    {header}
      {body}
      "stablehlo.return"({", ".join(outputs)}) : ({types}) -> ()
    }}) {{sym_name = "{name}", inputs = [{keys}]}} : () -> ()
    """


def named(value: str, name: str, type_: str = F64) -> str:
    """Returns the text of an op that names a value. Other graphs can then refer to the value."""
    return f'"tidu.name"({value}) {{sym_name = "{name}"}} : ({type_}) -> ()\n'


def external(value: str, ref: str, type_: str = F64) -> str:
    """Returns the text of the op `tidu.external`, whose result `value` is the value `ref` of another graph."""
    return f'{value} = "tidu.external"() {{ref = {ref}}} : () -> {type_}\n'


EXP_AX = graph(
    "F0",
    ["a", "x"],
    f"""%0 = stablehlo.multiply %a, %x : {F64}
      {named("%0", "p2")}
      %1 = stablehlo.exponential %0 : {F64}
      {named("%1", "p3")}""",
    ["%1"],
)
"""The primal graph of f(a, x) = exp(a x), with the values p2 = a x and p3 = exp p2."""


def view_of(*texts: str) -> Any:
    """Returns a view of the graphs in these texts."""
    return resolve(*map(parse, texts))


def reference(view: Any, value: Any) -> str:
    """Returns the reference `@graph::@name` of a value."""
    return str(stage(view.reference)(value))


def lowered(view: Any, wanted: Sequence[Any], inputs: Sequence[str]) -> str:
    """Returns the StableHLO text of a function that computes the requested values from these inputs."""
    return str(lower(materialize_merge(view, wanted, inputs, OPSET)))


def numbers(view: Any, wanted: Sequence[Any], inputs: dict[str, Any]) -> list[NDArray[Any]]:
    """Computes the requested values from these inputs with the reference interpreter."""
    arguments = [np.asarray(x) for x in inputs.values()]
    return list(evaluate(lowered(view, wanted, list(inputs)), arguments))


def body(text: str) -> list[str]:
    """Returns the names of the ops in a text, in order. Ops in regions are included."""
    return re.findall(r' = "?(?:stablehlo|chlo)\.(\w+)', text)


def function(*lines: str, inputs: str = f"x: {V}", output: str = f"%y: {V}") -> str:
    """Returns the text of a function. Semicolons separate the inputs."""
    arguments = ", ".join(f"%{part}" for part in inputs.split("; "))
    value, _, type_ = output.partition(": ")
    inside = "\n".join(lines)
    return f"func.func @main({arguments}) -> {type_} {{\n{inside}\nreturn {value} : {type_}\n}}"


def merged(view: Any, wanted: list[Any], inputs: list[str], **options: Any) -> str:
    """Returns the text of the flat graph that computes the requested values."""
    module = parse("")
    stage(write_graph)(materialize_merge(view, wanted, inputs, OPSET, **options), module)
    return str(module)
