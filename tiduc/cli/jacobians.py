"""jacobian, hessian, laplacian: write full derivatives of a program."""

import click

from tiduc.cli.derivatives import command
from tiduc.jacobians import MODES, SPARSITIES

VALUE = click.option("--value", is_flag=True, help="Also return the outputs, before their derivatives.")

MODE = click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="Forward mode pushes one basis vector per input element, reverse mode pulls back one per output "
    "element; auto uses fewer.",
)

SPARSITY = click.option(
    "--sparsity",
    type=click.Choice(SPARSITIES),
    help="Exploit sparsity that is visible in the program, such as independent rows: auto uses fewer basis "
    "vectors; diagonal and block-diagonal return only these parts.",
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
