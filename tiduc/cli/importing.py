"""import: converts a model of PyTorch, ONNX or JAX to StableHLO."""

import click

from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import EMIT, OUTPUT, write, write_binary
from tiduc.cli.models import imported, model_options, with_choices
from tiduc.cli.random_seeds import remark_on_seeds
from tiduc.dialect.mlir.emit import emit, shortest
from tiduc.runtime.files import written_together
from tiduc.runtime.weights import write_weights


@click.command("import")
@click.argument("model", metavar="MODEL")
@click.option(
    "--weights",
    metavar="FILE",
    help="Turn weights into inputs, and write their arrays to this file: .safetensors, .npz, or .irpa "
    "(IREE's format).",
)
@model_options
@OUTPUT
@EMIT
def _import(
    model: str,
    weights: str | None,
    output: str,
    kind: str | None,
) -> None:
    """Convert a model to StableHLO. MODEL is a file of ONNX (.onnx), PyTorch (.pt2, written by torch.export.save), JAX
    (.jaxexport, serialized by jax.export) or MLIR (.mlir).

    Inputs and outputs keep their names in the model.
    """
    with about(model):
        with waiting(f"importing {model}"):
            program = imported(model, lift_constants=weights is not None)
        remark_on_seeds(model, program)
        module = with_choices(program.module)
        chosen = kind or shortest(module)
        data = emit(module, chosen)
    with written_together():
        if weights is not None:
            write_weights(weights, program.weights)
        (write if chosen == "text" else write_binary)(data, output)


COMMANDS = {"import": _import}
