"""export: writes the trained weights of a state to a file of the model."""

import click

from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import PATH
from tiduc.cli.models import CONSTANTS, SIZES, TRUST, imported
from tiduc.runtime.weights import read_weights
from tiduc.training.trained import write_trained


@click.command("export")
@click.argument("model", metavar="MODEL", type=PATH)
@click.argument("state", metavar="STATE")
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    type=PATH,
    help="File of MODEL's kind (.onnx, .pt2), or StableHLO (.mlir), or the weights alone (.safetensors, .npz).",
)
@SIZES
@CONSTANTS
@TRUST
def _export(model: str, state: str, output: str) -> None:
    """Write MODEL with the weights of STATE, which a training step has changed.

    In an ONNX file, only initializers change; in a .pt2 file, only arrays. A file with the weights alone uses the names
    of a state dict. LoRA adapters in the state are added to the weights.
    """
    with about(state):
        arrays = read_weights(state)
    with about(model):
        with waiting(f"importing {model}"):
            program = imported(model, lift_constants=True)
        write_trained(program, model, arrays, output)


COMMANDS = {"export": _export}
