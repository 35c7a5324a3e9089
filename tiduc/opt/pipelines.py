"""Named pipelines: the sequences of passes that give a JVP, a VJP or a gradient."""

from tiduc.opt.textual import Pipeline, Step

_IMPORT = Step("tidu-import", takes=("inline", "relu"))
_LINEARIZE = Step("tidu-linearize", takes=("wrt",))
_TRANSPOSE = Step("tidu-linear-transpose")
_MERGE = Step("tidu-materialize-merge")
_LOWER = Step("tidu-structure", takes=("loop-memory",)), Step("tidu-lower")

PIPELINES: dict[str, Pipeline] = {
    "tidu-jvp": Pipeline(
        "tidu-jvp",
        "The JVP of a module's function: the outputs and their tangents.",
        (_IMPORT, _LINEARIZE, _MERGE, *_LOWER),
    ),
    "tidu-vjp": Pipeline(
        "tidu-vjp",
        "The VJP of a module's function: the outputs and the cotangents of the inputs.",
        (_IMPORT, _LINEARIZE, _TRANSPOSE, _MERGE, *_LOWER),
    ),
    "tidu-grad": Pipeline(
        "tidu-grad",
        "The gradient of a module's function, which has one output, a real scalar.",
        (
            _IMPORT,
            _LINEARIZE,
            _TRANSPOSE,
            Step("tidu-seed"),
            Step("tidu-materialize-merge", {"primal-outputs": "false"}, ("primal-outputs",)),
            *_LOWER,
        ),
    ),
}
"""The named pipelines, by name."""
