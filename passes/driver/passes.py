"""The Python passes that textual pipelines can name: their names, descriptions and options."""

from tiduc.passes.driver import mlir_passes
from tiduc.passes.driver.textual import Option, Pass
from tiduc.passes.widen import widen

_GRAPH = "the graph, by symbol; default: @main, or the only graph that is not linear"
_NAME = "the symbol of the new graph; default: the first free one of {}0, {}1, ..."
_LOOP_MEMORY = Option(
    "loop-memory",
    "string",
    "how the reverse pass of a loop gets its residuals, unless the loop says so itself: stack, sqrt, log or "
    "auto",
)

PASSES: dict[str, Pass] = {
    pass_.name: pass_
    for pass_ in (
        Pass(
            "tidu-import",
            "Converts each public function, and each private function called more than once, to a graph.",
            mlir_passes.import_in_place,
            (Option("inline", "bool", "inline every call; default: false"),),
            by_rules=True,
        ),
        Pass(
            "tidu-resolve",
            "Checks all references between graphs: each names one value of the right type, and no value "
            "depends on itself.",
            mlir_passes.resolve_in_place,
            (
                Option(
                    "search-path",
                    "names",
                    "directories to search for NAME.mlir, for a graph @NAME that the module lacks",
                ),
            ),
        ),
        Pass(
            "tidu-linearize",
            "Adds the linear graph of a graph, which maps tangents of inputs to tangents of outputs (JVP).",
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
            "Adds the transpose of a linear graph, which maps cotangents of outputs to cotangents of inputs "
            "(VJP).",
            mlir_passes.linear_transpose_in_place,
            (
                Option("graph", "string", "the linear graph, by symbol; default: the last one"),
                Option("name", "string", _NAME.format("T", "T")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-batch",
            "Adds a batched version of a graph (vmap).",
            mlir_passes.batch_in_place,
            (
                Option("size", "number", "the batch size"),
                Option("graph", "string", "the graph, by symbol; default: the last linear one, or @main"),
                Option("inputs", "names", "the batched inputs, by key; default: the graph's inputs"),
                Option("outputs", "references", "the values; default: the graph's outputs"),
                Option("name", "string", _NAME.format("B", "B")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-infer-active",
            "Restores the active masks of linear graphs after native passes have dropped them.",
            mlir_passes.infer_active_in_place,
        ),
        Pass(
            "tidu-materialize-merge",
            "Replaces all graphs by one flat graph that holds each value once.",
            mlir_passes.materialize_merge_in_place,
            (
                Option(
                    "values",
                    "references",
                    "the values to compute; default: the outputs of the primal graph and of the last "
                    "linear or batched graph",
                ),
                Option(
                    "inputs",
                    "names",
                    "the first inputs of the result, by key; default: those of these two graphs",
                ),
                Option("name", "string", "the symbol of the result; default: that of the primal graph"),
                Option("keep-dead-inputs", "bool", "keep inputs that no value needs; default: true"),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-structure",
            "Lowers loops, branches and calls of flat graphs to StableHLO control flow, and fuses loops that "
            "run in lockstep.",
            mlir_passes.structure_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-lower",
            "Lowers each flat graph to a simplified function of plain StableHLO; lowers loops first if "
            "tidu-structure has not run.",
            mlir_passes.lower_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-simplify",
            "Applies simplifications that MLIR's and StableHLO's passes lack.",
            mlir_passes.simplify_in_place,
        ),
        Pass(
            "tidu-widen",
            "Widens a program to double precision: replaces every float type by f64.",
            widen,
        ),
    )
}
