"""jet: writes the Taylor coefficients of a program, or its derivatives in one variable."""

import click

from tiduc.cli.derivatives import command
from tiduc.passes.jet import MAX_ORDER

ORDER = click.option(
    "--order",
    type=click.IntRange(1, MAX_ORDER),
    required=True,
    metavar="K",
    help="The order of the last coefficient, or of the last derivative.",
)

DERIVATIVES = click.option(
    "--derivatives",
    "name",
    flag_value="derivatives",
    default="jet",
    help="Instead, write each output and its derivatives of orders 1 to K with respect to one scalar input.",
)

COMMANDS = {
    "jet": command(
        "jet",
        """Write the jet, by Taylor mode: (primals..., series of wrt...) -> (outputs..., their series...).

        A series has the coefficients of t, t^2, ..., t^K, without factorials, along a new leading dimension.""",
        (ORDER, DERIVATIVES),
    ),
}
