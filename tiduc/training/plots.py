"""Plots the training loss and the validation loss of a run against the number of the step."""

import os
from collections.abc import Sequence

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.runtime.files import written_whole
from tiduc.training.runs import EpochRecord, Record, StepRecord

_KINDS = ("png", "svg", "pdf")


def check_plot(path: str) -> None:
    """Raises `TiducError` if the suffix of `path` is not a format of plots, or if matplotlib is not installed."""
    if os.path.splitext(path)[1].lower().removeprefix(".") not in _KINDS:
        raise RequestError(f"a plot is a file {', '.join(f'.{kind}' for kind in _KINDS)}", path)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise TiducError("plots need matplotlib: pip install 'tiduc[plot]'") from None


def plot(records: Sequence[Record], path: str) -> None:
    """Plots the losses in the records of a run and writes the plot to the file `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [each for each in records if isinstance(each, StepRecord)]
    axes.plot([each.step for each in steps], [each.loss for each in steps], lw=0.8, label="step")
    held_out = [each for each in records if isinstance(each, EpochRecord) and each.validation is not None]
    if held_out:
        pairs = [(each.step, each.validation) for each in held_out]
        axes.plot(*zip(*pairs, strict=True), marker="o", label="validation")
        axes.legend()
    if steps and min(each.loss for each in steps) > 0:
        axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    with written_whole(path) as file:
        figure.savefig(file, format=os.path.splitext(path)[1].lower().removeprefix("."))
