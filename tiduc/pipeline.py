"""Lists the stages of tiduc, in order. Read this file first, then `passes/linearize.py`, the heart of the compiler.

    file.mlir --parse--> module --import--> graphs --chunk--> graphs --resolve--> view
        --linearize--> adds a linear graph (JVP)
        --linear_transpose--> adds a linear graph (VJP)
        --batch--> adds a graph that computes a JVP or VJP for many tangents or cotangents at once (vmap)
        --jet--> adds a graph of Taylor coefficients of any order
        --materialize_merge--> one flat graph
        --structure--> a flat graph with StableHLO's loops
        --rematerialize--> a flat graph that needs less memory
        --lower--> a StableHLO function
        --compile--> a compiled program, which takes arrays and returns arrays

The four stages that add graphs can run repeatedly and in any order. For derivatives of higher order, `linearize` runs
again on a view with linear graphs, without merging first.

`load` runs the first four stages and returns a `Program` (`program.py`). The methods `jvp`, `vjp`, `grad` and `hvp` of
`Program` run the stages in `DERIVATIVES`. When text or a compiled program is requested, `run_stages` runs the stages in
`LOWERING`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.backends.backend import compile_program
from tiduc.dialect.control.control import called
from tiduc.dialect.graph.graph import Graph
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.mlir.context import parse
from tiduc.passes.batch import batch
from tiduc.passes.chunk import chunk
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.jet import jet
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.lower.lower import lower
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.rematerialize.loops import Loops
from tiduc.passes.rematerialize.rematerialize import rematerialize
from tiduc.passes.resolve import resolve
from tiduc.passes.structure.plan import loop_choices
from tiduc.passes.structure.structure import structure
from tiduc.ports import Function, attributes_of

Step = Callable[[Function, Any, Sequence[Any]], Any]
"""Runs a stage of `LOWERING`: (program, result of the previous stage, separated) -> result of the stage.

`separated` has keys of inputs. Loops that depend on these inputs are not fused with loops that do not.
"""


@dataclass(frozen=True)
class Stage:
    """A stage: its name, the function that runs it, and descriptions of what the function takes and returns.

    The name is a value of the option `--stop-after`. Stages in `LOWERING` have a `step`, which calls the function with
    the data of a program.
    """

    name: str
    function: Callable[..., Any]
    takes: str
    gives: str
    step: Step | None = None


# ---- lowering a program ------------------------------------------------------------------------------------


def _merge(program: Function, _: object, separated: Sequence[str]) -> Graph:
    """Merges the graphs of a program to a flat graph with the attributes of the function, arguments and results."""
    outputs, inputs = program.outputs, program.inputs
    values, keys = [port.value for port in outputs], [port.key for port in inputs]
    graph = materialize_merge(program.view, values, keys, program.opset, program.name)
    source = program.view.graph(program.name)
    both = enumerate(zip(source.outputs, outputs, strict=False))
    same = [i for i, (y, port) in both if port.value is y]
    graph.attributes |= source.attributes
    graph.attributes["arg_attrs"] = attributes_of(inputs, "arg", same)
    graph.attributes["res_attrs"] = attributes_of(outputs, "result")
    return graph


def _structure(program: Function, flat: Graph, separated: Sequence[str]) -> Graph:
    return structure(program.view, flat, program.opset, program.loop_memory, separated)


def _rematerialize(program: Function, flat: Graph, separated: Sequence[str]) -> Graph:
    """Rewrites the flat graph so that it fits the program's memory budget.

    Loops whose memory option is "auto" may store fewer residuals.
    """
    return rematerialize(program.view, flat, program.opset, program.memory, loops_of(program, separated))


def loops_of(program: Function, separated: Sequence[str] = ()) -> Loops:
    """The loops of a program. If its `loop_memory` is "auto", a memory budget may let loops store fewer residuals."""
    view, opset, is_free = program.view, program.opset, program.loop_memory == "auto"

    def structured(memory: str, chosen: Mapping[int, str]) -> Graph:
        return structure(view, program.merged, opset, memory, separated, chosen)

    choices = partial(loop_choices, view, opset, program.merged, separated) if is_free else list
    return Loops(view, is_free, choices, structured)


def _lower(program: Function, flat: Graph, separated: Sequence[str]) -> Any:
    return lower(flat, program.view.module_attributes, program.beside, program.view)


# ---- the tables --------------------------------------------------------------------------------------------

STAGES = (
    Stage("parse", parse, "a file, text or bytecode", "an `ir.Module`"),
    Stage("import", import_stablehlo, "`func.func`s", "`tidu.graph`s"),
    Stage("chunk", chunk, "`tidu.graph`s", "graphs with loops over chunks of large arrays"),
    Stage("resolve", resolve, "graphs of any modules", "a `View`"),
    Stage("linearize", linearize, "a view, outputs, inputs", "a linear graph: the JVP"),
    Stage("linear_transpose", linear_transpose, "a linear graph", "a linear graph: the VJP"),
    Stage("batch", batch, "a view, outputs, inputs, a size", "a graph for many inputs at once"),
    Stage("jet", jet, "a view, outputs, series of inputs", "the Taylor coefficients of the outputs"),
    Stage("materialize_merge", materialize_merge, "a view, the wanted values", "one flat graph", _merge),
    Stage("structure", structure, "a flat graph", "a flat graph with loops that StableHLO has", _structure),
    Stage(
        "rematerialize", rematerialize, "a flat graph", "a flat graph of lower peak memory", _rematerialize
    ),
    Stage("lower", lower, "a flat graph", "a `func.func` of StableHLO", _lower),
    Stage("compile", compile_program, "a `Lowered` program, an engine", "a `Runnable`"),
)

LOWERING = tuple(stage for stage in STAGES if stage.step is not None)
"""The stages that lower the graphs of a program to StableHLO."""

DERIVATIVES: dict[str, dict[str, str]] = {
    "jvp": {"linearize": "jvp"},
    "vjp": {"linearize": "jvp", "linear_transpose": "vjp"},
    "grad": {"linearize": "jvp", "linear_transpose": "grad"},
    "hvp": {"linear_transpose": "grad", "linearize": "hvp"},
    "jacobian": {"batch": "jacobian"},
    "hessian": {"batch": "hessian"},
    "laplacian": {"batch": "laplacian"},
    "jet": {},
}
"""Maps the name of a derivative to the stages that add graphs for it, in order.

Each stage is mapped to the method of `Program` whose last graph it adds.
"""


def stops(derivatives: Sequence[str]) -> list[str]:
    """The names of the stages after which the command line can print a program or one of its `derivatives`.

    The name of a derivative, such as "jet", may also be the name of a stage.
    """
    names = {"import", *(stage.name for stage in LOWERING)}
    for derivative in derivatives:
        names |= {derivative, *DERIVATIVES.get(derivative, {})}
    return [stage.name for stage in STAGES if stage.name in names]


def lowering(until: str) -> list[Stage]:
    """The stages of `LOWERING` up to and including the stage `until`. Empty if `until` is not in `LOWERING`."""
    names = [stage.name for stage in LOWERING]
    return list(LOWERING[: names.index(until) + 1]) if until in names else []


def run_stages(
    program: Function, stages: Sequence[Stage], result: Graph | None = None, separated: Sequence[str] = ()
) -> Any:
    """Runs consecutive stages of `LOWERING`, and returns the result of the last stage.

    `result` is the result of the stage before `stages`.
    """
    for stage in stages:
        assert stage.step is not None
        result = stage.step(program, result, separated)
    return result


def written(program: Function, flat: Graph) -> Any:
    """An `ir.Module` with a flat graph, the graphs that it calls, and the program's other functions."""
    module = ir.Module.create()
    for op in program.beside:
        module.body.append(op.clone())
    for graph in (flat, *called(program.view, flat)):
        write_graph(graph, module)
    return module
