"""The cost of each rule: a JVP has at most 3 times as many operations as its function, and a VJP at most 4 times.

Griewank and Walther, "Evaluating Derivatives" (2008), chapter 4, derive such bounds for elementary operations. Both
derivatives also return the function's outputs. FLOPs are counted as by `tiduc explain --costs`, with the default rates
for transcendental functions. Each element that the function itself reads or writes counts as one operation, so that ops
that only move elements have a cost.
"""

import math
import re
from pathlib import Path

import pytest

from tiduc.dialect.facts.rates import Rates
from tiduc.loading import load
from tiduc.passes.rules import OPSET
from tiduc.program import Program

FILES = sorted(Path(__file__, "../../lit/rules").resolve().glob("*.mlir"))
"""The lit tests of the rules. Each contains a function, whose derivatives lit checks."""

MOST = 3.0, 4.0
"""The upper bounds of the operations of a JVP and a VJP, as multiples of the function's operations."""

EXCEPTIONS = {
    "abs_complex": (3.4, "Re(conj(sign x) dx) divides by |x| and multiplies complex numbers, for one root"),
    "batch_norm_grad": (4.1, "the tangent of a third of the formula's terms repeats the statistics"),
    "batch_norm_inference": (
        5.4,
        "the primal's formula counts no inverse root; the derivative has one for a channel",
    ),
    "batch_norm_training": (
        4.2,
        "the primal's formula counts no inverse root; the derivative has one for a channel",
    ),
    "chlo_bessel_i1e": (3.7, "the derivative is another Bessel function, a series"),
    "chlo_broadcast_power": (4.1, "the exponent is active: a power, a logarithm and another power"),
    "chlo_digamma": (4.1, "the derivative is a polygamma function; left of 0, a reflection adds functions"),
    "cholesky": (
        5.4,
        "two triangular solves and a product, for a third of a product; here of 3 by 3 matrices",
    ),
    "clamp": (3.3, "two comparisons and three selects count as FLOPs; the primal is one operation"),
    "map": (42.0, "the primal's formula counts a function in a body as one operation"),
    "maximum_complex": (4.5, "complex numbers are compared by their parts"),
    "sign_complex": (4.6, "two complex products and two divisions"),
    "triangular_solve": (3.5, "a solve, a product and a solve, here of 3 by 3 matrices"),
}
"""For each file with a larger bound: the bound of both modes, and the reason why the general bounds do not hold."""

UNCOUNTED = {
    "approx_top_k", "chlo_ragged_dot", "composite", "cross_replica_sum", "dynamic_conv", "eig", "eigh", "einsum",
    "geqrf", "getrf", "gtsv", "manual_computation", "orgqr", "potrf", "schur", "sharding", "svd",
    "torch_index_select", "trsm", "unary_einsum", "uniform_quantize",
}  # fmt: skip
"""Files whose function contains an op without a FLOP formula. Costs are not compared for these files."""

OTHERS = {
    "chlo.broadcast_next_after", "chlo.broadcast_polygamma", "chlo.broadcast_zeta",  # have the rules of the plain ops
    "stablehlo.case", "stablehlo.if", "stablehlo.while",  # their derivatives are those of the ops in their regions
    "stablehlo.cross-replica-sum",  # another name of all_reduce
}  # fmt: skip
"""Ops with a rule for which no file in `FILES` exists."""

SEVERAL = {"own_derivatives", "refused"}
"""Files that contain several functions, for custom derivatives and for refusals."""


def operations(program: Program) -> float:
    cost, rates = program.cost(), Rates()
    return cost.flops + cost.transcendentals * rates.flops / rates.functions


def ratios(name: str) -> tuple[float, ...] | None:
    """The numbers of operations of the JVP and the VJP, as multiples of the function's.

    Returns None if the function's FLOPs are unknown.
    """
    file = next(file for file in FILES if file.stem == name)
    program, given = load(file), re.match(r"// RUN: tiduc jvp %s --wrt (\d+)", file.read_text())
    wrt = [int(given[1])] if given else None
    if program.cost().uncounted:
        return None
    sizes = [port.type.shape for port in (*program.inputs, *program.outputs) if port.type.has_static_shape]
    base = max(1.0, operations(program) + sum(map(math.prod, sizes)))
    return tuple(operations(each) / base for each in (program.jvp(wrt), program.vjp(wrt)))


def check(name: str) -> None:
    found = ratios(name)
    assert (found is None) == (name in UNCOUNTED), name
    if found is None:
        return
    if name in EXCEPTIONS:
        most, _ = EXCEPTIONS[name]
        assert any(ratio > bound for ratio, bound in zip(found, MOST, strict=True)), (
            f"{name} needs no exception"
        )
        assert max(found) <= most, (name, found)
    else:
        assert all(ratio <= bound for ratio, bound in zip(found, MOST, strict=True)), (name, found)


@pytest.mark.parametrize("name", ["convolution", "dot_general", "gather", "tanh", "eig"])
def test_a_sample_of_rules(name: str) -> None:
    check(name)


@pytest.mark.more
def test_derivatives_cost_a_small_multiple_of_the_function() -> None:
    for file in FILES:
        if file.stem not in SEVERAL:
            check(file.stem)


def test_each_op_with_a_rule_has_a_function() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines() if not line.startswith("//")]
    has = set(re.findall(r"\b(?:stablehlo|chlo)\.\w+", "\n".join(lines)))
    ruled = {name for name, form in OPSET.forms.items() if form not in ("inactive", "refused")}
    assert {name for name in ruled if "@" not in name and not name.startswith("tidu.")} - has == OTHERS
