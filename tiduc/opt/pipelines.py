"""Defines named pipelines, which compute a JVP, a VJP or a gradient."""

from tiduc.opt.textual import PassStep, Pipeline

_IMPORT = PassStep("tidu-import", takes=("inline", "relu"))
_LINEARIZE = PassStep("tidu-linearize", takes=("wrt",))
_TRANSPOSE = PassStep("tidu-linear-transpose")
_MERGE = PassStep("tidu-materialize-merge")
_LOWER = PassStep("tidu-structure", takes=("loop-memory",)), PassStep("tidu-lower")

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
            PassStep("tidu-seed"),
            PassStep("tidu-materialize-merge", {"primal-outputs": "false"}, ("primal-outputs",)),
            *_LOWER,
        ),
    ),
}
"""Maps names to pipelines."""
