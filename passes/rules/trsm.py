"""Differentiates triangular solves that are LAPACK calls."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import settings
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.triangular_solve import triangular_solve

_KINDS = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


@custom_call(*targets("trsm"))
def trsm(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    """Applies the rule of the `triangular_solve` that is equivalent to the call."""
    same = Definition(
        "stablehlo.triangular_solve", op.operands, op.graph, None, solve_attributes(settings(op))
    )
    same.results = op.results
    return triangular_solve(b, same, dx)


def solve_attributes(settings: Mapping[str, int]) -> dict[str, ir.Attribute]:
    """The attributes of the `triangular_solve` that is equivalent to a call with these LAPACK settings."""
    given = {name: chr(settings[name]) for name in ("side", "uplo", "diag", "trans_x")}
    return {
        "left_side": ir.BoolAttr.get(given["side"] == "L"),
        "lower": ir.BoolAttr.get(given["uplo"] == "L"),
        "unit_diagonal": ir.BoolAttr.get(given["diag"] == "U"),
        "transpose_a": hlo.TransposeAttr.get(_KINDS[given["trans_x"]]),
    }
