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
    """Measure how many bytes, FLOPs and function values this machine computes per second.

    IREE compiles the measured programs. The rates are printed as JSON. TIDUC_COSTS names a file of such rates, measured
    or written by hand; the default rates are those of one core of a current CPU. The rates determine the times that
    'tiduc explain --memory' prints, the values that a memory budget recomputes, and the order in which Jacobians are
    multiplied.
    """
    with waiting("measuring"):
        measured = calibrate(target)
    write(as_json(measured), output)


COMMANDS = {"calibrate": _calibrate}
