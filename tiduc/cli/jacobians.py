"""jacobian, hessian, laplacian: write full derivatives of a program."""

from typing import Any

import click

from tiduc.cli.derivatives import command
from tiduc.derivatives.jacobians import MODES, SPARSITIES
from tiduc.dialect.ops.compressed import FORMATS
from tiduc.runtime.array_files import read_npz


class _Sparsity(click.ParamType[Any]):
    """The type of the option `--sparsity`: a kind of sparsity, or the path of an `.npz` file of patterns."""

    name = "sparsity"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.endswith(".npz"):
            return read_npz(value)
        if value not in SPARSITIES:
            self.fail(
                f"{value!r} is not one of {', '.join(SPARSITIES)}, nor an .npz file of patterns", param, ctx
            )
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(SPARSITIES)}|FILE.npz]"


VALUE = click.option("--value", is_flag=True, help="Also return the outputs, before their derivatives.")

MODE = click.option(
    "--mode",
    type=click.Choice(MODES),
    default="auto",
    show_default=True,
    help="Forward mode pushes one basis vector per input element, reverse mode pulls back one per output "
    "element; auto chooses the cheapest of forward mode, reverse mode, and a combination of both that meets at a "
    "bottleneck.",
)

SPARSITY = click.option(
    "--sparsity",
    type=_Sparsity(),
    help="Exploit zeros that are visible in the program, such as those between independent rows or outside of a band: "
    "auto uses fewer basis vectors; diagonal and block-diagonal return only these parts. FILE.npz has an array "
    "for each result, by name, which is nonzero where the derivative may be nonzero; tiduc does not check this.",
)

COMPRESSED = click.option(
    "--compressed",
    type=click.Choice(FORMATS),
    help="Return the nonzeros of a sparse matrix in compressed sparse row (csr) or column (csc) form, as in scipy. "
    "The positions of the nonzeros are in the attribute tidu.compressed of the result, in Program.patterns in Python, "
    "and in the header of a static library. Without --sparsity, tiduc derives the positions from the program.",
)

COMMANDS = {
    "jacobian": command(
        "jacobian",
        """Write the derivatives: (primals...) -> (derivative of each output in each of wrt...).

        The shape of a derivative is that of its output, then that of its input. Inputs must be real.""",
        (VALUE, MODE, SPARSITY, COMPRESSED),
    ),
    "hessian": command(
        "hessian",
        """Write the second derivatives: (primals...) -> (derivative of each output in each pair of wrt...).

        The shape of a derivative is that of its output, then those of both inputs. Inputs and outputs must be real.""",
        (VALUE, SPARSITY, COMPRESSED),
    ),
    "laplacian": command(
        "laplacian",
        """Write the Laplacians: (primals...) -> (trace of the Hessian of each output, in all of wrt...).

        Inputs must be real.""",
        (VALUE,),
    ),
}
