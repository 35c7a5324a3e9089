"""calibrate: measures the rates from which the times of ops are estimated."""

import click

from tiduc.calibrate import calibrate
from tiduc.cli.diagnostics import waiting
from tiduc.cli.execution import TARGET
from tiduc.cli.files import OUTPUT, write
from tiduc.dialect.facts.rates import as_json


@click.command("calibrate")
@TARGET
@OUTPUT
def _calibrate(target: str, output: str) -> None:
    """Measure the bytes, FLOPs and function values per second of programs that IREE compiles for this machine.

    The result is JSON. If TIDUC_COSTS names a file of this form, measured or written by hand, its rates determine the
    times that 'tiduc explain --memory' prints, the values that a memory budget recomputes, and the order in which
    Jacobians are multiplied. Without this variable, the rates are those of one core of a current CPU.
    """
    with waiting("measuring"):
        measured = calibrate(target)
    write(as_json(measured), output)


COMMANDS = {"calibrate": _calibrate}
