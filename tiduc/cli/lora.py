"""lora: extracts trained adapters from a state. Writes them as files for peft, or adds them to the model's weights."""

import click

from tiduc.cli.diagnostics import about
from tiduc.dialect.errors import RequestError
from tiduc.runtime.weights import read_weights, write_weights
from tiduc.training.lora import merged, write_adapters


@click.command("lora")
@click.argument("state", metavar="STATE")
@click.option(
    "--adapters",
    metavar="FOLDER",
    help="Folder for the adapters, as peft.PeftModel.from_pretrained reads them.",
)
@click.option(
    "--merge",
    metavar="FILE",
    help="File for the weights of the model with the adapters added: .safetensors, .npz or .irpa.",
)
def _lora(state: str, adapters: str | None, merge: str | None) -> None:
    """Write the LoRA adapters in a training state that 'tiduc train-step --lora' began."""
    if adapters is None and merge is None:
        raise RequestError("say what to write: --adapters FOLDER or --merge FILE")
    with about(state):
        arrays = read_weights(state)
        weights = merged(arrays)
    if adapters is not None:
        write_adapters(arrays, adapters)
    if merge is not None:
        write_weights(merge, weights)


COMMANDS = {"lora": _lora}
