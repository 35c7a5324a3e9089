"""The options for importing models of PyTorch, ONNX and JAX, which commands accept as FILE."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from torch_mlir import ir

from tiduc.cli.diagnostics import warnings_reported
from tiduc.cli.options import keep_import, shared_options
from tiduc.dialect.errors import RequestError
from tiduc.models import MODELS
from tiduc.passes.importing.equal_values import set_equal_within
from tiduc.passes.importing.relus import mark_every_relu
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.runtime.arrays import Array, parse_inputs

if TYPE_CHECKING:
    from tiduc.models.model import Model

Command = TypeVar("Command", bound=Callable[..., Any])
"""The type of a command's function."""


SIZES = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=N",
    callback=keep_import,
    expose_value=False,
    help="Set a dynamic dimension of an ONNX model, such as batch=8, or one of an input or of a node's result, such as "
    "x.0=8 or boxes.0=100. Repeatable; other dimensions stay dynamic.",
)
CONSTANTS = click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="INPUT=ARRAY",
    callback=keep_import,
    expose_value=False,
    help="Set an input of an ONNX model when it is imported, such as axes=2xi64=0,1 or axes=@all.npz:axes. Repeatable. "
    "Ops whose shapes depend on an input need this.",
)
STRAIGHT_THROUGH = click.option(
    "--straight-through",
    is_flag=True,
    callback=keep_import,
    expose_value=False,
    help="Set the derivative of rounding in an ONNX model's quantizations to one; by default it is zero.",
)
TRUST = click.option(
    "--trust",
    is_flag=True,
    callback=keep_import,
    expose_value=False,
    help="Trust the author of a .pt2 file: run the pickles, objects and machine code that it contains.",
)
LIFT_CONSTANTS = click.option(
    "--lift-constants",
    is_flag=True,
    callback=keep_import,
    expose_value=False,
    help="Turn a model's weights into inputs, named as in the model, so that they can be differentiated and "
    "updated; by default they are constants.",
)
RELU = click.option(
    "--relu",
    is_flag=True,
    callback=keep_import,
    expose_value=False,
    help="Treat every maximum of a value and 0 as a relu, whose derivative at 0 is 0; by default, only those in "
    "functions named relu and relu6, as in exports of JAX.",
)
EQUAL_WITHIN = click.option(
    "--equal-within",
    type=click.FloatRange(min=0),
    metavar="ULPS",
    callback=keep_import,
    expose_value=False,
    help="Treat eigenvalues or singular values as equal if they differ by at most this many units in the last place of "
    "the largest one; by default, 8 times the square root of their number.",
)


def model_options(command: Command) -> Command:
    """Adds the options for importing models to a command that reads a program from a file."""
    return LIFT_CONSTANTS(SIZES(CONSTANTS(STRAIGHT_THROUGH(TRUST(RELU(EQUAL_WITHIN(command)))))))


def with_choices(module: ir.Module) -> ir.Module:
    """Sets the attributes that the options `--relu` and `--equal-within` of the running command require.

    Returns the module.
    """
    options = shared_options().imports
    if options.relu:
        mark_every_relu(module)
    if options.equal_within is not None:
        set_equal_within(module, options.equal_within)
    return module


def is_model(file: str) -> bool:
    """Whether the suffix of a file is that of a model of PyTorch, ONNX or JAX."""
    return Path(file).suffix.lower() in MODELS


def imported(
    file: str,
    lift_constants: bool = False,
    opset: OpSet = OPSET,
    entry: str | None = None,
) -> "Model":
    """Imports the model in a file, with the options of the running command.

    `entry` names the function to import from an MLIR file.
    """
    from tiduc.models.files import import_model  # the importers take longer to import than MLIR

    options = shared_options().imports
    with warnings_reported():
        return import_model(
            file,
            lift_constants=lift_constants or options.lift_constants,
            sizes=_numbers(options.sizes),
            constants=_arrays(options.constants),
            straight_through=options.straight_through,
            trust=options.trust,
            opset=opset,
            entry=entry,
            cached=options.cached,
        )


def _numbers(texts: Sequence[str]) -> dict[str, int]:
    """Returns the sizes that `--size` options set, by name."""
    sizes = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise RequestError(f"--size expects NAME=N, as in batch=8, not {text!r}")
        sizes[name] = int(number)
    return sizes


def _arrays(texts: Sequence[str]) -> dict[str, Array]:
    """Returns the arrays that `--constant` options set, by input name."""
    arrays = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not (value.startswith("@") or "=" in value):
            raise RequestError(
                f"--constant expects INPUT=TYPE=VALUE, as in axes=2xi64=0,1, or INPUT=@FILE, not {text!r}"
            )
        given = parse_inputs([value])
        if len(given) != 1:
            raise RequestError(f"--constant {name} gets {len(given)} arrays; name one, as in @all.npz:{name}")
        (arrays[name],) = given
    return arrays
