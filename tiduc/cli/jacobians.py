"""jacobian, hessian, laplacian: write full derivatives of a program."""

import click

from tiduc.cli.derivatives import command
from tiduc.jacobians import MODES, SPARSITIES

VALUE = click.option("--value", is_flag=True, help="Return the outputs too, before their derivatives.")

MODE = click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="One direction an entry of the inputs, forward, or one an entry of the outputs, in reverse; or the fewer.",
)

SPARSITY = click.option(
    "--sparsity",
    type=click.Choice(SPARSITIES),
    help="Where the program shows that dimensions of an output run along those of an input, and the derivative is "
    "zero beside that: with auto, take fewer directions; with diagonal or block-diagonal, return these parts alone.",
)

COMMANDS = {
    "jacobian": command(
        "jacobian",
        """Write the derivatives: (primals...) -> (derivative of each output in each of wrt...).

        One has the shape of its output, then that of its input. Inputs must be real.""",
        (VALUE, MODE, SPARSITY),
    ),
    "hessian": command(
        "hessian",
        """Write the second derivatives: (primals...) -> (that of each output in each two of wrt...).

        One has the shape of its output, then those of its inputs. Inputs and outputs must be real.""",
        (VALUE, SPARSITY),
    ),
    "laplacian": command(
        "laplacian",
        """Write the Laplacians: (primals...) -> (trace of the Hessian of each output, in all of wrt...).

        Inputs must be real.""",
        (VALUE,),
    ),
}
