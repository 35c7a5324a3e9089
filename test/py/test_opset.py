"""Each op of StableHLO and CHLO has a rule, is inactive, or is refused for a stated reason."""

import ast
import importlib
from pathlib import Path

import pytest
from torch_mlir import ir

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import context
from tiduc.documents import op_rows
from tiduc.loading import load
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.call import OWN, OWN_TRANSPOSE
from tiduc.tables import CHECKED

RULES = Path(__file__).parents[2] / "passes" / "rules"
FILE = Path(__file__).with_name("cases") / "opset.txt"
OPS = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
FORMS = {"elementwise", "linear", "bilinear", "by hand", "inactive", "refused"}


def is_registered(name: str) -> bool:
    """Whether the installed MLIR has the op. If not, parsing the op fails with a known message."""
    try:
        with context():
            ir.Module.parse(f'"{name}"() : () -> ()')
    except ir.MLIRError as error:
        return "unregistered operation" not in error.error_diagnostics[0].message
    return True


def test_the_list_is_in_order() -> None:
    assert OPS == sorted(set(OPS), key=lambda name: (name.startswith("chlo."), name))


@pytest.mark.parametrize("name", OPS)
def test_op_is_declared(name: str) -> None:
    assert is_registered(name)
    assert OPSET.forms.get(name) in FORMS, (
        f"{name} has no rule in passes/rules/ and no reason in passes/rules/refused.py: see docs/rules.md"
    )


def test_nothing_else_is_declared() -> None:
    """Rules exist only for listed ops, names of called functions, control flow over graphs, and ops on shapes."""
    names = {name.partition(" @")[0] for name in OPSET.forms} - {"shape.shape_of", "tensor.dim"}
    unknown = {name for name in names if not name.startswith("tidu.")} - set(OPS)
    assert unknown == set(), f"add them to {FILE.name}, or correct their names"


def test_the_list_has_the_ops_that_jax_knows() -> None:
    """The list contains all ops that the installed MLIR registers.

    MLIR does not list its ops, but JAX's build of the dialects has a class for each op.
    """
    names = set()
    for dialect in ("stablehlo", "chlo"):
        module = importlib.import_module(f"jaxlib.mlir.dialects.{dialect}")
        names |= {getattr(x, "OPERATION_NAME", None) for x in vars(module).values()} - {None}
    new = {name for name in names if is_registered(name)} - set(OPS)
    assert new == set(), (
        f"new ops: add them to {FILE.name} and to dialect/ops/traits.py, and declare their form"
    )


def test_each_op_is_in_one_table() -> None:
    ruled, inactive, refused = set(OPSET.linearize_rules), OPSET.inactive_ops, set(OPSET.refused_ops)
    assert ruled | inactive | refused == set(OPSET.forms)
    assert not ruled & inactive and not ruled & refused and not inactive & refused
    assert set(OPSET.transpose_rules) <= ruled


def test_a_refusal_has_a_reason() -> None:
    for name, reason in OPSET.refused_ops.items():
        assert reason and reason[0].islower() and not reason.endswith("."), name


OTHERWISE = {
    "chlo.broadcast_polygamma": "as chlo.polygamma",
    "chlo.broadcast_select": "a value and the shape of its VJP, in test_chlo.py",
    "chlo.broadcast_zeta": "order one; order two as chlo.zeta",
    "chlo.polygamma": "its slopes, in test_chlo.py: it has no derivative toward its order",
    "stablehlo.collective_broadcast": "on eight devices, in test_collectives.py",
    "stablehlo.cross-replica-sum": "its shape, as an all_reduce: no runtime accepts it",
    "stablehlo.custom_call": "by the name of the called function",
    "stablehlo.dynamic_broadcast_in_dim": "with dynamic sizes, in test_dynamic_shapes.py",
    "stablehlo.dynamic_conv": "with dynamic sizes, in test_dynamic_shapes.py",
    "stablehlo.dynamic_pad": "with dynamic sizes, in test_dynamic_shapes.py",
    "stablehlo.dynamic_reshape": "with dynamic sizes, in test_dynamic_shapes.py",
    "stablehlo.real_dynamic_slice": "with dynamic sizes, in test_dynamic_shapes.py",
    "stablehlo.torch_index_select": "order one: only IREE runs it, but not its second derivative",
    "stablehlo.unary_einsum": "order one: only IREE runs it",
}
"""Ops whose rules `check_rule` does not check to order two, and where or how far the rules are checked instead."""


def test_rules_are_checked_to_order_two() -> None:
    """`check_rule` checks each rule to order two, by finite differences and by the adjoint identity, except the listed
    ones.

    The table that is read here has the orders that the tests of rules have checked.
    """
    checked = {row.op for row in CHECKED.read() if row.order > 1}
    unchecked = (set(OPSET.linearize_rules) & set(OPS)) - checked - set(OTHERWISE)
    assert unchecked == set(), "call check_rule in test/py/rules/, then pytest test/py/rules --write-tables"


def test_empty_results_have_no_tangents() -> None:
    """Rules need not handle empty results: an op without a rule can be differentiated if its float results are
    empty.
    """
    program = """
    func.func @main(%x: tensor<3xf32>) -> (tensor<0xf32>, tensor<i32>) {
      %0:2 = stablehlo.custom_call @unknown(%x) : (tensor<3xf32>) -> (tensor<0xf32>, tensor<i32>)
      return %0#0, %0#1 : tensor<0xf32>, tensor<i32>
    }"""
    assert "custom_call @unknown" in load(program).jvp().text
    with pytest.raises(Unsupported, match="unknown call target"):
        load(program.replace("tensor<0xf32>", "tensor<1xf32>")).jvp()


def test_every_op_has_a_row() -> None:
    rows = {row[0] for row in op_rows()}
    assert rows == {name for name in OPSET.forms if not name.startswith("tidu.")}


def test_rules_are_short() -> None:
    """The rules have on average less than 14.5 lines for each declaration, including docstrings.

    The attributes that name rules of called functions also count as declarations. The lines of the registry, of
    imports, and of the analyses of which parts of a matrix a function reads do not count.
    """
    others = (
        "guard",
        "linearity",
        "registry",
        "spectral",
        "spectral_forms",
        "spectral_outcomes",
    )
    files = [file for file in RULES.glob("*.py") if file.stem not in others]
    declared = len(OPSET.forms) + len(OWN) + len(OWN_TRANSPOSE)
    average = sum(map(lines_of, files)) / declared
    assert average < 14.5, (
        "move code that rules share into a form (docs/rules.md) or the builder (dialect/emitters/stablehlo.py)"
    )


def lines_of(file: Path) -> int:
    """The number of lines of a file that are neither blank nor part of an import."""
    text = file.read_text()
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {line for node in imports for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    return sum(bool(line.strip()) for n, line in enumerate(text.splitlines(), 1) if n not in imported)
