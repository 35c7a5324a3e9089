"""import: converts a model of PyTorch, ONNX or JAX to StableHLO."""

from collections.abc import Sequence

import click

from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import EMIT, OUTPUT, write, write_binary
from tiduc.dialect.emit import emit, shortest
from tiduc.dialect.errors import RequestError
from tiduc.models.files import import_model
from tiduc.runtime.files import written_together
from tiduc.runtime.weights import write_weights

SIZES = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    help="Set a dynamic dimension of an ONNX model, such as batch=8. Repeatable; other dimensions stay "
    "dynamic.",
)
TRUST = click.option(
    "--trust",
    is_flag=True,
    help="Trust the author of a .pt2 file: run the pickles, objects and machine code that it contains.",
)


@click.command("import")
@click.argument("model", metavar="MODEL")
@click.option(
    "--lift-constants",
    is_flag=True,
    help="Turn weights into inputs, named as in the model, so that they can be differentiated and updated; "
    "by default they are constants.",
)
@click.option(
    "--weights",
    metavar="FILE",
    help="Turn weights into inputs, and write their arrays to this file: .safetensors, .npz, or .irpa "
    "(IREE's format).",
)
@SIZES
@TRUST
@OUTPUT
@EMIT
def _import(
    model: str,
    lift_constants: bool,
    weights: str | None,
    sizes: tuple[str, ...],
    trust: bool,
    output: str,
    kind: str | None,
) -> None:
    """Write a model as StableHLO: of ONNX (.onnx), PyTorch (.pt2, by torch.export.save), JAX (.jaxexport, which
    jax.export serialized), or MLIR (.mlir).

    Its inputs and outputs have the names that they have in the model.
    """
    with about(model):
        with waiting(f"importing {model}"):
            program = import_model(
                model,
                lift_constants=lift_constants or weights is not None,
                sizes=numbers(sizes),
                trust=trust,
            )
        chosen = kind or shortest(program.module)
        data = emit(program.module, chosen)
    with written_together():
        if weights is not None:
            write_weights(weights, program.weights)
        (write if chosen == "text" else write_binary)(data, output)


def numbers(texts: Sequence[str]) -> dict[str, int]:
    """The sizes that `--size` options set, by name."""
    sizes = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise RequestError(f"--size expects NAME=N, as in batch=8, has {text!r}")
        sizes[name] = int(number)
    return sizes


COMMANDS = {"import": _import}
