"""The Python passes that textual pipelines can name: their names, descriptions and options."""

from tiduc.passes.driver import mlir_passes
from tiduc.passes.driver.textual import Option, Pass
from tiduc.passes.widen import widen

_GRAPH = "the graph, by symbol; by default @main, or the only one that is not linear"
_NAME = "the new graph's symbol; by default the first free one of {}0, {}1, ..."
_LOOP_MEMORY = Option(
    "loop-memory",
    "string",
    "how loops that run backwards get what they read, where a loop does not say: stack, sqrt, log or auto",
)

PASSES: dict[str, Pass] = {
    pass_.name: pass_
    for pass_ in (
        Pass(
            "tidu-import",
            "Makes a graph of each public function, and of the private ones that are called more than once.",
            mlir_passes.import_in_place,
            (Option("inline", "bool", "every call is inlined; false by default"),),
            by_rules=True,
        ),
        Pass(
            "tidu-resolve",
            "Checks all references between graphs: each leads to one value, of its type, none in a circle.",
            mlir_passes.resolve_in_place,
            (
                Option(
                    "search-path", "names", "directories where NAME.mlir is looked for if no graph is @NAME"
                ),
            ),
        ),
        Pass(
            "tidu-linearize",
            "Adds the linear graph of a graph: tangents of outputs from tangents of inputs (JVP).",
            mlir_passes.linearize_in_place,
            (
                Option("graph", "string", _GRAPH),
                Option("outputs", "references", "the values; by default the graph's differentiable outputs"),
                Option("wrt", "names", "the inputs, by key; by default the graph's differentiable inputs"),
                Option("name", "string", _NAME.format("L", "L")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-linear-transpose",
            "Adds the transpose of a linear graph: cotangents of inputs from cotangents of outputs (VJP).",
            mlir_passes.linear_transpose_in_place,
            (
                Option("graph", "string", "the linear graph, by symbol; by default the last one"),
                Option("name", "string", _NAME.format("T", "T")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-batch",
            "Adds a graph that gives what another does for many of its inputs at once.",
            mlir_passes.batch_in_place,
            (
                Option("size", "number", "how many"),
                Option("graph", "string", "the graph, by symbol; by default the last linear one, or @main"),
                Option("inputs", "names", "those that come many at a time, by key; by default the graph's"),
                Option("outputs", "references", "the values; by default the graph's outputs"),
                Option("name", "string", _NAME.format("B", "B")),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-infer-active",
            "Writes the active masks of linear graphs again, where native passes have dropped them.",
            mlir_passes.infer_active_in_place,
        ),
        Pass(
            "tidu-materialize-merge",
            "Puts one flat graph in the place of all graphs, with every value in it once.",
            mlir_passes.materialize_merge_in_place,
            (
                Option(
                    "values",
                    "references",
                    "by default the outputs of the graph that is not linear, and of the last linear or batched one",
                ),
                Option("inputs", "names", "its first inputs, by key; by default those of the same two"),
                Option("name", "string", "its symbol; by default that of the graph that is not linear"),
                Option("keep-dead-inputs", "bool", "inputs that no value needs stay; true by default"),
            ),
            by_rules=True,
        ),
        Pass(
            "tidu-structure",
            "Settles the loops, branches and calls of flat graphs: what stands at one site, or runs along, is one op.",
            mlir_passes.structure_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-lower",
            "Makes a function of plain StableHLO of each flat graph, and simplifies it; settles loops if need be.",
            mlir_passes.lower_in_place,
            (_LOOP_MEMORY,),
            by_rules=True,
        ),
        Pass(
            "tidu-simplify",
            "Simplifies functions where MLIR's and StableHLO's passes leave something.",
            mlir_passes.simplify_in_place,
        ),
        Pass(
            "tidu-widen",
            "Widens a program to double precision: f64 takes the place of every float type.",
            widen,
        ),
    )
}
