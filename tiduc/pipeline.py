"""The stages of tiduc, in order. Read this file first, then `passes/linearize.py`, the heart of the compiler.

    file.mlir --parse--> module --import--> graphs --resolve--> view
        --linearize--> + a linear graph (JVP) --linear_transpose--> + a linear graph (VJP) --> ... in any order
        --batch--> + a graph that computes either of them for many tangents or cotangents at once (vmap)
        --jet--> + a graph of Taylor coefficients of any order
        --materialize_merge--> one flat graph --structure--> one with StableHLO's loops
        --rematerialize--> one that needs less memory --lower--> a StableHLO function
        --compile--> a compiled program, which takes arrays and returns arrays

For derivatives of higher order, `linearize` runs again on a view with linear graphs, without merging first.

`Program` (`program.py`) runs the stages: `load` runs the first three, the methods `jvp`, `vjp`, `grad` and `hvp` run
those that `DERIVATIVES` lists, and `run_stages` runs those of `LOWERING` when text or a compiled program is requested.
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
"""(program, result of the previous stage, names) -> result of the stage.

Loops that depend on the named values stay separate.
"""


@dataclass(frozen=True)
class Stage:
    """One stage: its name, the function that runs it, and names of the input and result of the function.

    The command line's `--stop-after` takes the name. Stages that lower a program have a `step`, which calls the
    function with the parts of the program that it needs.
    """

    name: str
    function: Callable[..., Any]
    takes: str
    gives: str
    step: Step | None = None


# ---- lowering a program ------------------------------------------------------------------------------------


def _merge(program: Function, _: object, separated: Sequence[str]) -> Graph:
    """The flat graph of a program, with the attributes of its function, arguments and results."""
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
    """The flat graph, changed so that it fits the program's memory budget.

    Loops with memory "auto" may keep fewer residuals.
    """
    return rematerialize(program.view, flat, program.opset, program.memory, loops_of(program, separated))


def loops_of(program: Function, separated: Sequence[str] = ()) -> Loops:
    """The loops of a program. If their memory option is "auto", a budget may make them keep fewer residuals."""
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
"""The stages from the graphs of a program to StableHLO."""

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
"""For each derivative: the stages that add graphs, in order, each with the method of `Program` that ends with it."""


def stops(derivatives: Sequence[str]) -> list[str]:
    """The names of the stages after which a program, or one of its `derivatives`, can be printed.

    A derivative may itself be a stage, such as a jet.
    """
    names = {"import", *(stage.name for stage in LOWERING)}
    for derivative in derivatives:
        names |= {derivative, *DERIVATIVES.get(derivative, {})}
    return [stage.name for stage in STAGES if stage.name in names]


def lowering(until: str) -> list[Stage]:
    """The stages of `LOWERING` up to the stage `until`; none for an earlier stage."""
    names = [stage.name for stage in LOWERING]
    return list(LOWERING[: names.index(until) + 1]) if until in names else []


def run_stages(
    program: Function, stages: Sequence[Stage], result: Graph | None = None, separated: Sequence[str] = ()
) -> Any:
    """Runs consecutive stages of `LOWERING`, and returns the last result.

    `result` is the result of the stage before the first.
    """
    for stage in stages:
        assert stage.step is not None
        result = stage.step(program, result, separated)
    return result


def written(program: Function, flat: Graph) -> Any:
    """The `ir.Module` of a flat graph and of the graphs that it calls."""
    module = ir.Module.create()
    for op in program.beside:
        module.body.append(op.clone())
    for graph in (flat, *called(program.view, flat)):
        write_graph(graph, module)
    return module
