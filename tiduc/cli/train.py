"""train: trains a model with a compiled training step, and shows the progress."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypedDict, Unpack

import click

from tiduc.cli.colours import is_coloured
from tiduc.cli.diagnostics import about, is_quiet
from tiduc.cli.execution import TARGET
from tiduc.cli.files import PATH, read_input
from tiduc.runtime.random_seed import MOST
from tiduc.runtime.weights import notes_in, read_weights
from tiduc.training.checkpoints import RUN
from tiduc.training.plots import check_plot, plot
from tiduc.training.runs import EpochRecord, Record, Report, fit, records_in
from tiduc.training.schedules import SCHEDULES


class _Settings(TypedDict):
    """The options that are passed to `fit` unchanged."""

    batch: int | None
    epochs: int
    rate: float
    schedule: str
    warm_up: int
    end_rate: float
    seed: int
    save: str | None
    checkpoint: str | None
    every: float
    target: str


@click.command("train")
@click.argument("step", metavar="STEP", type=PATH)
@click.option(
    "--data",
    metavar="FILE",
    required=True,
    help="The training data (.npz, .safetensors): for each input of a batch, an array of this name with all rows.",
)
@click.option(
    "--state",
    metavar="FILE",
    required=True,
    help="The state to begin from, such as that of 'tiduc train-step --state'.",
)
@click.option(
    "--batch", type=click.IntRange(1), metavar="N", help="Rows of a batch; by default those of STEP, or 32."
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Passes through the data.",
)
@click.option("--rate", type=float, default=1e-3, show_default=True, help="The learning rate.")
@click.option(
    "--schedule",
    type=click.Choice(list(SCHEDULES)),
    default="constant",
    show_default=True,
    help="Keep the learning rate, or lower it along half a cosine wave until the last step.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="STEPS",
    help="Steps during which the rate rises to its first value.",
)
@click.option(
    "--end-rate", type=float, default=0.0, show_default=True, help="The last rate of a cosine schedule."
)
@click.option(
    "--seed",
    type=click.IntRange(0, MOST),
    default=0,
    show_default=True,
    metavar="INTEGER",
    help="Seed of the order of the rows.",
)
@click.option(
    "--validate",
    metavar="FILE",
    help="Data whose loss is computed after each epoch; STEP must have been compiled with --infer.",
)
@click.option(
    "--save",
    metavar="FILE",
    help="File for the state with the smallest loss on the data of --validate, or without --validate for the last "
    "state.",
)
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="File for the state during the run (.safetensors). If the file exists, the run continues from it.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two checkpoints.",
)
@click.option("--metrics", metavar="FILE", help="File for a line of JSON about each step and each epoch.")
@click.option("--plot", "picture", metavar="FILE", help="File for a plot of the losses: .png, .svg or .pdf.")
@TARGET
def _train(
    step: str,
    data: str,
    state: str,
    validate: str | None,
    picture: str | None,
    metrics: str | None,
    **settings: Unpack[_Settings],
) -> None:
    """Train with STEP, a module that 'tiduc train-step' compiled, and save the trained state.

    The seed and the epoch's number determine the order of the rows in each epoch. Therefore a run that continues from
    its checkpoint gives the same losses as a run without interruption.
    """
    if picture is not None:
        check_plot(picture)
    with about(data):
        arrays = read_weights(data)
    held_out = None
    if validate is not None:
        with about(validate):
            held_out = read_weights(validate)
    with about(state):
        initial, notes = read_weights(state), notes_in(state)
    notes.pop(RUN, None)
    with about(step), shown() as report:
        trained = fit(
            read_input(step),
            arrays,
            state=initial,
            validation=held_out,
            metrics=metrics,
            notes=notes,
            report=report,
            **settings,
        )
    if picture is not None:
        plot(trained.records if metrics is None else list(records_in(metrics)), picture)


@contextmanager
def shown() -> Iterator[Report]:
    """A context that shows the progress of a run, as a bar on a terminal and otherwise as a line per epoch.

    Shows nothing with `--quiet`.
    """
    if is_quiet():
        yield lambda record, rows, steps: None
    elif not sys.stderr or not sys.stderr.isatty():
        yield _line
    else:
        with _bar() as report:
            yield report


def _line(record: Record, rows: int, steps: int) -> None:
    if isinstance(record, EpochRecord):
        click.echo(_told(record), err=True)


def _told(record: EpochRecord) -> str:
    held_out = "" if record.validation is None else f", validation {record.validation:.6g}"
    return f"epoch {record.epoch}: loss {record.mean:.6g}{held_out}{', the least so far' * record.best}"


@contextmanager
def _bar() -> Iterator[Report]:
    """A context that shows a bar with the loss, the learning rate, the rows per second and the remaining time."""
    from rich.console import Console  # takes a while to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=None)
        seen, begin = 0, monotonic()

        def report(record: Record, rows: int, steps: int) -> None:
            nonlocal seen
            if isinstance(record, EpochRecord):
                console.print(_told(record), highlight=False, markup=False)
                return
            seen += rows
            speed = seen / max(monotonic() - begin, 1e-9)
            text = f"epoch {record.epoch}  loss {record.loss:.4g}  rate {record.rate:.3g}  {speed:.3g} rows/s"
            progress.update(task, completed=record.step, total=steps, description=text)

        yield report


COMMANDS = {"train": _train}
