"""lagrangian, gauss-newton, second-directional: write the derivatives that optimizers need."""

import click

from tiduc.cli.derivatives import command
from tiduc.cli.jacobians import COMPRESSED, SPARSITY, VALUE

GRADIENT = click.option(
    "--gradient",
    is_flag=True,
    help="Also return the gradient J'Wr of half the weighted sum of squares, in each of wrt, before the matrices.",
)

WEIGHTS = click.option(
    "--weights",
    is_flag=True,
    help="Add an input with the weights of each output, the diagonal of W. By default, all weights are 1.",
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

        The Lagrangian is the sum of all outputs times their multipliers, which are inputs of the outputs' shapes.
        Differentiate it with tiduc grad, hvp or hessian, and --wrt.""",
        has_wrt=False,
    ),
    "gauss-newton": command(
        "gauss-newton",
        """Write the Gauss-Newton matrices J'WJ: (primals...) -> (matrix of each pair of wrt...).

        All float outputs are residuals r, and J is their Jacobian. The shape of a matrix is that of both inputs.""",
        (VALUE, GRADIENT, WEIGHTS, PRODUCT, SPARSITY, COMPRESSED),
    ),
    "second-directional": command(
        "second-directional",
        """Write second directional derivatives: (primals..., tangents..., second tangents...) -> (one per output...).

        For an output y and tangents v and w, it is the derivative of y(x + s v + t w) in s and t, at s = t = 0.""",
        (VALUE,),
    ),
}
