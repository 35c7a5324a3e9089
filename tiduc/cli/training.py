"""train-step: compiles a model's loss, gradient and optimizer step as one module."""

from functools import partial
from typing import TypedDict, Unpack, cast

import click

from tiduc.backends.backend import Options
from tiduc.backends.iree.pipeline import PIPELINE
from tiduc.cli.derivatives import MEMORY
from tiduc.cli.diagnostics import about, is_quiet, waiting
from tiduc.cli.execution import FACTORIZING, TARGET, VERBOSE, compiling
from tiduc.cli.files import PATH, writes
from tiduc.cli.libraries import EMIT, compiled_files, write_files
from tiduc.cli.models import CONSTANTS, SIZES, STRAIGHT_THROUGH, TRUST, imported
from tiduc.cli.rules import RULES
from tiduc.cli.watching import watched
from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.models.model import Model
from tiduc.models.onnx.trainable import SHARED
from tiduc.passes.rules.registry import OpSet
from tiduc.program import Program
from tiduc.runtime.files import written_together
from tiduc.runtime.random_seed import MOST
from tiduc.runtime.weights import IDENTITY, write_weights
from tiduc.training.lora import with_lora
from tiduc.training.losses import LOSSES
from tiduc.training.optimizers import OPTIMIZERS
from tiduc.training.precision import F32, PRECISIONS
from tiduc.training.roles import BUFFER, FROZEN, PARAMETER, SEED, of_roles
from tiduc.training.shipment import INFER, LOSS, TrainStep
from tiduc.training.step import BUFFERS, train_step


class _Settings(TypedDict, total=False):
    """The options that are passed to `train_step` unchanged. Options that are None are not passed."""

    optimizer: str
    momentum: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_norm: float
    accumulate: int
    precision: str
    quantize: str
    train: tuple[str, ...]
    identity: str


@click.command("train-step")
@click.argument("model", metavar="MODEL", type=PATH)
@click.option(
    "--loss",
    default="mse",
    show_default=True,
    metavar="LOSS",
    help=f"{', '.join(LOSSES)}; none, if the model's one output is the loss; or a .mlir file with a function "
    "of the model's outputs and the targets.",
)
@click.option(
    "--optimizer",
    type=click.Choice(list(OPTIMIZERS)),
    default="sgd",
    show_default=True,
    help="Update rule: gradient descent, gradient descent with momentum, Adam, AdamW or Lion.",
)
@click.option("--momentum", type=float, help="Momentum coefficient. Default: 0.9.")
@click.option("--beta1", type=float, help="Decay rate of the first moment. Default: 0.9.")
@click.option(
    "--beta2",
    type=float,
    help="Decay rate of the second moment, or of Lion's only moment. Default: 0.999; for Lion 0.99.",
)
@click.option("--epsilon", type=float, help="Term added to the denominator of Adam. Default: 1e-8.")
@click.option("--weight-decay", type=float, help="Weight decay of AdamW and Lion. Default: 0.01; for Lion 0.")
@click.option(
    "--decay",
    multiple=True,
    metavar="PATTERN",
    help="The parameters that decay, such as '*.weight'; by default all.",
)
@click.option("--clip-norm", type=float, help="The largest norm of the gradient of all parameters together.")
@click.option(
    "--accumulate",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="K",
    help="Update the parameters at every K-th call, by the mean gradient of K batches.",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default=F32,
    show_default=True,
    help="Type of the products in the step; parameters keep their types. f16 adds a loss scale to the state.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, MOST),
    default=0,
    show_default=True,
    metavar="INTEGER",
    help="Initial seed of the random numbers that the model draws, such as dropout masks.",
)
@click.option(
    "--train",
    multiple=True,
    metavar="PATTERN",
    help="The inputs to train, such as 'fc*'; by default all float weights of the model, without masks and other "
    "constants of an ONNX model.",
)
@click.option(
    "--freeze",
    multiple=True,
    metavar="PATTERN",
    help="Weights not to train; {} are never trained.".format(" and ".join(BUFFERS)),
)
@click.option(
    "--lora",
    multiple=True,
    metavar="PATTERN",
    help="Linear layers, such as '*.q_proj', that get LoRA adapters; only the adapters are trained; see 'tiduc lora'.",
)
@click.option(
    "--rank", type=click.IntRange(1), default=8, show_default=True, help="Rank of the adapters of --lora."
)
@click.option(
    "--alpha",
    type=float,
    default=8.0,
    show_default=True,
    help="The adapters are scaled by this number divided by their rank.",
)
@click.option(
    "--quantize",
    metavar="TYPE",
    help="Type of the frozen weights of linear layers: int8 or int4, with a scale for each row, or for each group of "
    "summed elements, as in int4:32.",
)
@click.option(
    "--infer",
    metavar="MODEL",
    help="The model in evaluation mode, as a file, or as @NAME for a function in the file of MODEL. The output then "
    "also has the functions loss, for evaluation, and infer, which read the state of the step.",
)
@click.option(
    "--identity",
    metavar="TEXT",
    help="Text that identifies the model in files with a training state; a static library refuses a file with another "
    "text. By default a hash of the model.",
)
@SIZES
@CONSTANTS
@STRAIGHT_THROUGH
@TRUST
@RULES
@click.option(
    "--state",
    metavar="FILE",
    help="File for the initial state: the model's weights, the optimizer's zeros and the seed.",
)
@EMIT
@MEMORY
@TARGET
@FACTORIZING
@compiling
@VERBOSE
@watched(iree_passes=list(dict.fromkeys(entry.name for entry in PIPELINE)))
@writes("The file to write: a compiled module, or StableHLO if its name ends in .mlir.")
def _train_step(
    model: str,
    loss: str,
    freeze: tuple[str, ...],
    decay: tuple[str, ...],
    lora: tuple[str, ...],
    rank: int,
    alpha: float,
    seed: int,
    infer: str | None,
    opset: OpSet,
    state: str | None,
    kind: str,
    memory: str,
    options: Options,
    verbose: bool,
    output: str,
    **settings: Unpack[_Settings],
) -> None:
    """Compile one step of training: the loss of a batch, its gradient, and the update of the parameters in place.

    The inputs are the parameters, the optimizer's state, the batch, the targets and the learning rate. The outputs are
    the loss, the new parameters and the new state. With --state, training needs only NumPy and tiduc.runtime.
    """
    given = cast(_Settings, {name: value for name, value in settings.items() if value is not None})
    adapted = partial(with_lora, layers=lora, rank=rank, alpha=alpha, seed=seed)
    with about(model):
        with waiting(f"importing {model}"):
            program = imported(model, lift_constants=True, opset=opset)
        program = adapted(program) if lora else program
        evaluated = None if infer is None else _for_inference(infer, model, program, opset)
        step = train_step(
            program.rematerialize(memory),
            _loss(loss),
            freeze=(*BUFFERS, *freeze),
            decay=decay or ("*",),
            seed=seed,
            infer=adapted(evaluated) if lora and evaluated is not None else evaluated,
            **given,
        )
        _tell(step)
        files = _compiled(step, kind, output, options, verbose)
    with written_together():
        if state is not None:
            write_weights(state, step.weights, {IDENTITY: step.identity})
        write_files(files)


def _for_inference(infer: str, file: str, trained: Model, opset: OpSet) -> Model:
    """Imports the model in evaluation mode from the file `infer`.

    If `infer` is `@NAME`, imports the function NAME in the file of the trained model.
    """
    name, entry = (file, infer[1:]) if infer.startswith("@") else (infer, None)
    with about(name), waiting(f"importing {name}"):
        # Constants of this model become weights only if constants of the trained model did.
        lifts = bool(trained.weights)
        return imported(name, lift_constants=lifts, opset=opset, entry=entry)


def _compiled(
    step: TrainStep, kind: str, output: str, options: Options, verbose: bool
) -> dict[str, bytes | str]:
    """Compiles the step. Returns the contents of the files to write, by file name."""
    if output.endswith(".mlir"):
        return {output: step.text}
    with waiting(f"compiling the step for {options.target}"):
        tell = partial(click.echo, err=True) if verbose else None
        return compiled_files(step, kind, output, options, identity=step.identity, tell=tell)


def _tell(step: TrainStep) -> None:
    """Prints which weights are trained, updated by the model, or frozen. Prints nothing with `--quiet`."""
    if is_quiet():
        return
    click.echo(f"trains: {', '.join(of_roles(step, PARAMETER))}", err=True)
    if step.further:
        click.echo(f"evaluates: {', '.join(x for x in (LOSS, INFER) if x in step.further)}", err=True)
    if updated := of_roles(step, BUFFER, SEED):
        click.echo(f"updates: {', '.join(updated)}", err=True)
    if others := of_roles(step, FROZEN):
        click.echo(f"leaves alone: {', '.join(f'{x} ({step.held[x]})' for x in others)}", err=True)
    if any(reason.startswith(SHARED) for reason in step.held.values()):
        click.echo(
            "note: the exporter merged parameters with equal values; torch.onnx.export(optimize=False) does not",
            err=True,
        )


def _loss(loss: str) -> str | Program:
    if loss in LOSSES or loss == "none":
        return loss
    if not loss.endswith((".mlir", ".mlirbc")):
        raise RequestError(
            f"unknown loss {loss!r}; a loss is one of {', '.join(LOSSES)}, none, or a .mlir file"
        )
    with about(loss):
        return load(loss)


COMMANDS = {"train-step": _train_step}
