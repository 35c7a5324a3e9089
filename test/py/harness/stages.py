"""Helpers for tests of the stages: graphs written as text, and the numbers of values in a view."""

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
    """The text of a primal graph. All its inputs, which are named `%key`, and outputs have the type `type_`."""
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
    """The text of an op that names a value, so that other graphs can refer to the value."""
    return f'"tidu.name"({value}) {{sym_name = "{name}"}} : ({type_}) -> ()\n'


def external(value: str, ref: str, type_: str = F64) -> str:
    """The text of a reference to a value of another graph."""
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
"""The worked example f(a, x) = exp(a x), with p2 = a x and p3 = exp p2."""


def view_of(*texts: str) -> Any:
    """A view of the graphs in these texts."""
    return resolve(*map(parse, texts))


def reference(view: Any, value: Any) -> str:
    """The reference `@graph::@name` of a value."""
    return str(stage(view.reference)(value))


def lowered(view: Any, wanted: Sequence[Any], inputs: Sequence[str]) -> str:
    """The StableHLO text of a function from these inputs to the requested values."""
    return str(lower(materialize_merge(view, wanted, inputs, OPSET)))


def numbers(view: Any, wanted: Sequence[Any], inputs: dict[str, Any]) -> list[NDArray[Any]]:
    """The requested values, computed from these inputs."""
    arguments = [np.asarray(x) for x in inputs.values()]
    return list(evaluate(lowered(view, wanted, list(inputs)), arguments))


def body(text: str) -> list[str]:
    """The names of the ops in a text, in order, including those in regions."""
    return re.findall(r' = "?(?:stablehlo|chlo)\.(\w+)', text)


def function(*lines: str, inputs: str = f"x: {V}", output: str = f"%y: {V}") -> str:
    """The text of a function. Semicolons separate its inputs."""
    arguments = ", ".join(f"%{part}" for part in inputs.split("; "))
    value, _, type_ = output.partition(": ")
    inside = "\n".join(lines)
    return f"func.func @main({arguments}) -> {type_} {{\n{inside}\nreturn {value} : {type_}\n}}"


def merged(view: Any, wanted: list[Any], inputs: list[str], **options: Any) -> str:
    """The text of the flat graph."""
    module = parse("")
    stage(write_graph)(materialize_merge(view, wanted, inputs, OPSET, **options), module)
    return str(module)
