"""lagrangian, gauss-newton, second-directional: write the derivatives that optimizers ask for."""

import click

from tiduc.cli.derivatives import command
from tiduc.cli.jacobians import COMPRESSED, SPARSITY, VALUE

GRADIENT = click.option(
    "--gradient",
    is_flag=True,
    help="Also return the gradient J'Wr in each of wrt, before the matrices: that of half the weighted sum of squares.",
)

WEIGHTS = click.option(
    "--weights",
    is_flag=True,
    help="Add an input of weights for each output, of its shape: the diagonal of W. By default, all weights are 1.",
)

PRODUCT = click.option(
    "--product",
    is_flag=True,
    help="Return the products J'WJv with tangents v, which are inputs, instead of matrices.",
)

COMMANDS = {
    "lagrangian": command(
        "lagrangian",
        """Write the Lagrangian: (primals..., multipliers of the outputs...) -> (lagrangian).

        It is the sum of each output times its multiplier, an input of the shape of the output. Differentiate it by
        tiduc grad, hvp or hessian, with --wrt.""",
        has_wrt=False,
    ),
    "gauss-newton": command(
        "gauss-newton",
        """Write the Gauss-Newton matrices J'WJ: (primals...) -> (one of each pair of wrt...).

        All float outputs are residuals r, and J is their Jacobian. The shape of a matrix is that of both inputs.""",
        (VALUE, GRADIENT, WEIGHTS, PRODUCT, SPARSITY, COMPRESSED),
    ),
    "second-directional": command(
        "second-directional",
        """Write second directional derivatives: (primals..., tangents..., second tangents...) -> (one per output...).

        That of an output y is the second derivative of y(x + s v + t w) in s and t, for the tangents v and w.""",
        (VALUE,),
    ),
}
