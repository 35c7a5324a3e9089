"""The Python passes that textual pipelines can name: their names, descriptions and options."""

from tiduc.passes.driver import mlir_passes
from tiduc.passes.driver.textual import Option, Pass
from tiduc.passes.widen import widen

_GRAPH = "the graph, by symbol; default: @main, or the only graph that is not linear"
_NAME = "the symbol of the new graph; default: the first free one of {}0, {}1, ..."
_LOOP_MEMORY = Option(
    "loop-memory",
    "string",
    "how reverse-mode loops get their residuals, unless a loop says: stack, sqrt, log or auto",
)

PASSES: dict[str, Pass] = {
    pass_.name: pass_
    for pass_ in (
        Pass(
            "tidu-import",
            "Converts each public function, and each private function that stays called, to a graph.",
            mlir_passes.import_in_place,
            (Option("inline", "bool", "inline all calls; default: false"),),
            by_rules=True,
        ),
        Pass(
            "tidu-resolve",
            "Checks that each reference between graphs leads to one value of the right type, without cycles.",
            mlir_passes.resolve_in_place,
            (
                Option(
                    "search-path",
                    "names",
                    "directories of files NAME.mlir for graphs @NAME that the module lacks",
                ),
            ),
        ),
        Pass(
            "tidu-linearize",
            "Adds the linear graph (JVP) of a graph, from tangents of inputs to tangents of outputs.",
            mlir_passes.linearize_in_place,
            (
                Option("graph", "string", _GRAPH),
                Option(
                    "outputs",
                    "references",
                    "the values to differentiate; default: the graph's differentiable outputs",
                ),
                Option("wrt", "names", "the inputs, by key; default: the graph's differentiable inputs"),
                Option("name", "string", _NAME.format("L", "L")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-linear-transpose",
            "Adds the transpose (VJP) of a linear graph, from cotangents of outputs to cotangents of inputs.",
            mlir_passes.linear_transpose_in_place,
            (
                Option("graph", "string", "the linear graph, by symbol; default: the last one"),
                Option("name", "string", _NAME.format("T", "T")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-batch",
            "Adds the batch (vmap) of a graph, which computes the outputs for many values of the inputs.",
            mlir_passes.batch_in_place,
            (
                Option("size", "number", "the size of the batch dimension"),
                Option("graph", "string", "the graph, by symbol; default: the last linear graph, or @main"),
                Option("inputs", "names", "the inputs to batch, by key; default: all inputs of the graph"),
                Option("outputs", "references", "the values to compute; default: the graph's outputs"),
                Option("name", "string", _NAME.format("B", "B")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-infer-active",
            "Restores the active masks of linear graphs that native passes have dropped.",
            mlir_passes.infer_active_in_place,
        ),
        Pass(
            "tidu-materialize-merge",
            "Replaces all graphs by one flat graph, merges equal values, and drops dead values.",
            mlir_passes.materialize_merge_in_place,
            (
                Option(
                    "values",
                    "references",
                    "the outputs; default: those of the primal graph and of the last linear or batched graph",
                ),
                Option("inputs", "names", "the first inputs, by key; default: those of these two graphs"),
                Option("name", "string", "the symbol of the flat graph; default: that of the primal graph"),
                Option(
                    "keep-dead-inputs", "bool", "keep listed inputs that no value depends on; default: true"
                ),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-structure",
            "Lowers loops, branches and calls of a graph to StableHLO control flow, fusing loops that run in lockstep.",
            mlir_passes.structure_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-lower",
            "Runs tidu-structure, then converts each flat graph to a function of plain StableHLO, simplified.",
            mlir_passes.lower_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-simplify",
            "Applies simplifications to functions that MLIR's and StableHLO's passes lack.",
            mlir_passes.simplify_in_place,
        ),
        Pass(
            "tidu-widen",
            "Converts a program to double precision: f64 replaces every float type.",
            widen,
        ),
    )
}
