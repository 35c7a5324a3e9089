"""The seeds of a VJP, which are the cotangents of the outputs, and the conjugation of complex cotangents."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.shardy import shardings_among
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort


def distinct_values(outputs: Sequence[OutputPort]) -> list[Value]:
    """Returns the distinct values of outputs, without zeros."""
    return list(dict.fromkeys(port.value for port in outputs if not isinstance(port.value, Zero)))


def seeds_of(program: Function, outputs: Sequence[OutputPort], transposed: Graph) -> list[InputPort]:
    """Returns a cotangent input for each output. If outputs have the same value, their cotangents are added."""
    distinct = distinct_values(outputs)
    keys: Sequence[str] = transposed.keys
    if len(distinct) < len(outputs):
        b: Any = program.opset.builder(program.view, program.view.fresh("S"))
        keys = [f"{b.graph.name}.{i}" for i in range(len(outputs))]
        seeds: dict[Any, list[Any]] = {}
        for key, port in zip(keys, outputs, strict=True):
            value = None if isinstance(port.value, Zero) else port.value
            seeds.setdefault(value, []).append(b.input(key, port.type))
        sums = [b.sum(seeds[value]) for value in distinct]
        b.finish(sums)
        for key, value in zip(transposed.keys, sums, strict=True):
            program.view.bind(key, value)
    return [
        InputPort(f"{port.name}.cotangent", port.type, key, attributes=shardings_among(port.attributes))
        for port, key in zip(outputs, keys, strict=True)
    ]


def conjugates(program: Function, results: Sequence[OutputPort]) -> list[OutputPort]:
    """Returns the results. The complex results are conjugated."""
    b: Any = program.opset.builder(program.view, program.view.fresh("C"))
    values = [x.value if isinstance(x.value, Zero) else b.conj(x.value) for x in results]
    b.finish([x for x in values if not isinstance(x, Zero)])
    return [replace(port, value=x) for port, x in zip(results, values, strict=True)]


def conjugate_seeds(program: Function, seeds: Sequence[InputPort]) -> list[InputPort]:
    """Returns a new input in place of each seed. The seed is bound to the conjugate of the new input."""
    b: Any = program.opset.builder(program.view, program.view.fresh("C"))
    keys = [f"{b.graph.name}.{i}" for i in range(len(seeds))]
    values = [b.conj(b.input(key, port.type)) for key, port in zip(keys, seeds, strict=True)]
    b.finish(values)
    for port, x in zip(seeds, values, strict=True):
        program.view.bind(port.key, x)
    return [replace(port, key=key) for port, key in zip(seeds, keys, strict=True)]
