"""The table of traits has one row for each op, and the rows are correct. No other module contains lists of op names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir

from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.dynamic.results import ORIGINS
from tiduc.dialect.facts.costs import FORMULAS
from tiduc.dialect.mlir.context import context, run_passes
from tiduc.dialect.ops import traits
from tiduc.dialect.ops.traits import BROADCASTING, ELEMENTWISE, TABLE, TRAITS
from tiduc.passes.rules import OPSET

ROOT = Path(__file__).parents[2]
FOLDERS = ("backends", "dialect", "passes", "runtime", "tiduc")
LINES = Path(__file__).with_name("cases").joinpath("opset.txt").read_text().splitlines()
OPS = [line for line in LINES if line and not line.startswith("#")]


# ---- the table ---------------------------------------------------------------------------------------------


def test_each_op_has_one_row() -> None:
    names = [line.split()[0] for line in TABLE.strip().splitlines()[1:]]
    assert set(OPS) - set(names) == set(), "ops without a row in dialect/ops/traits.py"
    assert set(names) - set(OPS) == set(), "rows of ops that are not in cases/opset.txt"
    assert names == OPS, "sort the rows of dialect/ops/traits.py like cases/opset.txt"


def test_columns_are_aligned() -> None:
    title, *lines = TABLE.strip().splitlines()
    starts = [title.index(name) for name in title.split()]
    for line in lines:
        assert all(line[start - 1] == " " != line[start] for start in starts[1:]), line


def test_values_are_those_of_the_docstring() -> None:
    rows = TRAITS.values()
    assert {row.flops for row in rows if not row.flops.isdigit()} == {".", "?", "formula", "function"}
    assert {row.bytes for row in rows} == {".", "formula", "none", "part"}
    assert {row.sizes for row in rows} == {".", "0", "1", "alike", "each", "formula", "static", "vector"}
    assert {row.order for row in rows} == {".", "any", "real", "swap"}
    assert frozenset().union(*(row.words for row in rows)) == {
        "bilinear",
        "cheap",
        "double",
        "draws",
        "moves",
        "parallel",
        "parts",
        "stateful",
        "vectorized",
    }


def test_formulas_exist() -> None:
    flops = {name.partition(".")[2] for name, row in TRAITS.items() if row.flops == "formula"}
    assert flops == set(FORMULAS), "FORMULAS in dialect/facts/costs.py needs the ops marked 'formula'"
    sizes = {name for name, row in TRAITS.items() if row.sizes not in (".", "static")}
    origins = {name for name in ORIGINS if not name.startswith("tidu.")}
    assert sizes == origins, "ORIGINS in dialect/dynamic/results.py needs the ops with an origin of sizes"


# ---- laws --------------------------------------------------------------------------------------------------


def test_laws_between_columns() -> None:
    assert traits.DRAWING < traits.STATEFUL
    bilinear = {name for name, row in TRAITS.items() if "bilinear" in row.words}
    assert traits.PRODUCTS < bilinear
    assert {name for name, form in OPSET.forms.items() if form == "bilinear"} <= bilinear
    assert {name for name, form in OPSET.forms.items() if form == "elementwise"} <= ELEMENTWISE
    for name in ELEMENTWISE:
        assert TRAITS[name].sizes == "alike"


def of_two(name: str, type_: str, constant: str) -> str:
    """The text of a function that returns `op(constant, x)` and `op(x, constant)`."""
    both = f"({type_}, {type_}) -> {type_}"
    return f"""func.func @main(%x: {type_}) -> ({type_}, {type_}) {{
      %c = stablehlo.constant dense<{constant}> : {type_}
      %0 = "{name}"(%x, %c) : {both}
      %1 = "{name}"(%c, %x) : {both}
      return %0, %1 : {type_}, {type_} }}"""


def is_declared_commutative(name: str) -> bool | None:
    """Whether StableHLO's simplification moves the constant of `op(constant, x)` to the right.

    Returns None if the op does not have this form.
    """
    for type_, constant in (("tensor<2xf32>", "[2.0, 3.0]"), ("tensor<2xi32>", "[2, 3]")):
        try:
            with context():
                module = ir.Module.parse(of_two(name, type_, constant))
        except ir.MLIRError:
            continue
        run_passes(
            module.operation, "builtin.module(func.func(stablehlo-aggressive-simplification,canonicalize))"
        )
        ops = [op.operation for op in module.body.operations[0].regions[0].blocks[0].operations]
        return all(isinstance(op.operands[0].owner, ir.Block) for op in ops if op.name == name)
    return None


@pytest.mark.parametrize("name", sorted(ELEMENTWISE | BROADCASTING))
def test_order_is_what_the_dialect_declares(name: str) -> None:
    declared = is_declared_commutative(name)
    assert declared is None or declared == (TRAITS[name].order != ".")


CORNERS = (0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("orders", [("any", "real"), ("any",)])
def test_swapped_operands_give_equal_results(orders: tuple[str, ...]) -> None:
    """Commutative ops give equal results with swapped operands, for all special values of f64.

    Ops with the order `any` are tested on complex numbers, too.
    """
    numbers = np.array(CORNERS)
    kind = "f64"
    if "real" not in orders:
        numbers, kind = np.array([complex(a, b) for a in CORNERS for b in CORNERS]), "complex<f64>"
    x, y = (pair.ravel() for pair in np.meshgrid(numbers, numbers))
    type_ = f"tensor<{len(x)}x{kind}>"
    lines, results = [], []
    for name in ("add", "maximum", "minimum", "multiply"):
        if TRAITS[f"stablehlo.{name}"].order in orders:
            lines += [f"%{name}{a}{b} = stablehlo.{name} %{a}, %{b} : {type_}" for a, b in ("xy", "yx")]
            results += [f"%{name}xy", f"%{name}yx"]
    types = ", ".join([type_] * len(results))
    text = f"func.func @main(%x: {type_}, %y: {type_}) -> ({types}) {{\n" + "\n".join(lines)
    values = evaluate(f"{text}\nreturn {', '.join(results)} : {types} }}", [x, y])
    assert len(values) == 2 * (4 if "real" in orders else 2)
    for one, other in zip(values[::2], values[1::2], strict=True):
        assert list(map(repr, one)) == list(map(repr, other))


def test_neutral_elements_change_nothing() -> None:
    type_ = f"tensor<{len(CORNERS)}xf64>"
    lines, results = [], []
    for name, number in traits.NEUTRAL.items():
        bits = hex(int(np.float64(number).view(np.uint64)))
        lines.append(f"%n{len(lines)} = stablehlo.constant dense<0x{bits[2:].upper():0>16}> : {type_}")
        results.append(f"%r{len(results)}")
        lines[-1] += f"\n{results[-1]} = {name} %x, %n{len(results) - 1} : {type_}"
    types = ", ".join([type_] * len(results))
    text = f"func.func @main(%x: {type_}) -> ({types}) {{\n" + "\n".join(lines)
    for value in evaluate(f"{text}\nreturn {', '.join(results)} : {types} }}", [np.array(CORNERS)]):
        assert list(map(repr, value)) == list(map(repr, np.array(CORNERS)))


N = 4
F32, I32, I1, C64 = (f"tensor<{N}x{kind}>" for kind in ("f32", "i32", "i1", "complex<f32>"))
FORMS = {
    "_asin_acos_kernel": None,  # this op occurs only in the expansion of asin and acos
    "clamp": f"({F32}, {F32}, {F32}) -> {F32}",
    "compare": f"{{comparison_direction = #stablehlo<comparison_direction LT>}} : ({F32}, {F32}) -> {I1}",
    "complex": f"({F32}, {F32}) -> {C64}",
    "constant_like": f"{{value = 2.0 : f32}} : ({F32}) -> {F32}",
    "convert": f"({F32}) -> {I32}",
    "imag": f"({C64}) -> {F32}",
    "is_finite": f"({F32}) -> {I1}",
    "is_inf": f"({F32}) -> {I1}",
    "is_neg_inf": f"({F32}) -> {I1}",
    "is_pos_inf": f"({F32}) -> {I1}",
    "real": f"({C64}) -> {F32}",
    "reduce_precision": f"{{exponent_bits = 5 : i32, mantissa_bits = 3 : i32}} : ({F32}) -> {F32}",
    "select": f"({I1}, {F32}, {F32}) -> {F32}",
}
"""The attributes and types of the elementwise ops that map neither f32 to f32 nor i32 to i32."""


def form(name: str) -> str | None:
    """The text that applies an op to %f, %i, %p or %c, depending on its operand types.

    Returns None if the op cannot be tested.
    """
    short = name.partition(".")[2]
    types = [f"({', '.join([t] * count)}) -> {t}" for t in (F32, I32) for count in (1, 2)]
    for types_of_form in [FORMS[short]] if short in FORMS else types:
        if types_of_form is None:
            return None
        attributes, _, signature = types_of_form.rpartition(" : ")
        inputs = signature[1:].partition(")")[0].split(", ")
        operands = ", ".join({F32: "%f", I32: "%i", I1: "%p", C64: "%c"}[t] for t in inputs)
        line = f'"{name}"({operands}) {attributes} : {signature}'
        try:
            with context():
                ir.Module.parse(function([line]))
        except ir.MLIRError:
            continue
        return line
    raise AssertionError(f"no form of {name}")


def function(lines: list[str]) -> str:
    types = ", ".join(line.rpartition("-> ")[2] for line in lines)
    body = "".join(f"%{i} = {line}\n" for i, line in enumerate(lines))
    results = ", ".join(f"%{i}" for i in range(len(lines)))
    arguments = f"%f: {F32}, %i: {I32}, %p: {I1}, %c: {C64}"
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}return {results} : {types} }}"


def test_elementwise_ops() -> None:
    """For elementwise ops, a change of one operand element changes only that element of the result.

    The table of their types shows that operands and results have equal shapes.
    """
    names = {name: line for name in sorted(ELEMENTWISE) if (line := form(name)) is not None}
    assert len(names) == len(ELEMENTWISE) - 1
    before = np.array([0.25, 0.5, 0.75, 0.125], np.float32), np.array([1, 2, 3, 5], np.int32)
    after = tuple(x.copy() for x in before)
    after[0][2], after[1][2] = 0.875, 4
    results = [
        evaluate(function(list(names.values())), [f, i, np.array([True, False, i[2] == 3, True]), f + 1j * f])
        for f, i in (before, after)
    ]
    for name, one, other in zip(names, *results, strict=True):
        kept = [0, 1, 3]
        np.testing.assert_array_equal(one[kept], other[kept], err_msg=name)


def test_views_move_elements() -> None:
    """Each element of the result of a view op is an element of an operand."""
    x = np.arange(6.0).reshape(2, 3)
    t = "tensor<2x3xf64>"
    views = {
        "broadcast": f"{{broadcast_sizes = array<i64: 2>}} : ({t}) -> tensor<2x2x3xf64>",
        "broadcast_in_dim": f"{{broadcast_dimensions = array<i64: 0, 2>}} : ({t}) -> tensor<2x4x3xf64>",
        "concatenate": f"{{dimension = 0 : i64}} : ({t}, {t}) -> tensor<4x3xf64>",
        "pad": "{edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 0, 0>, "
        f"interior_padding = array<i64: 0, 1>}} : ({t}, tensor<f64>) -> tensor<3x5xf64>",
        "reshape": f": ({t}) -> tensor<6xf64>",
        "reverse": f"{{dimensions = array<i64: 1>}} : ({t}) -> {t}",
        "slice": "{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 3>, "
        f"strides = array<i64: 1, 1>}} : ({t}) -> tensor<2x2xf64>",
        "transpose": f"{{permutation = array<i64: 1, 0>}} : ({t}) -> tensor<3x2xf64>",
    }
    assert {f"stablehlo.{name}" for name in views} == traits.VIEWS
    operands = {"concatenate": "%x, %x", "pad": "%x, %v"}
    body = "".join(
        f'%{i} = "stablehlo.{name}"({operands.get(name, "%x")}) {rest}\n'
        for i, (name, rest) in enumerate(views.items())
    )
    types = ", ".join(rest.rpartition("-> ")[2] for rest in views.values())
    results = ", ".join(f"%{i}" for i in range(len(views)))
    text = f"func.func @main(%x: {t}, %v: tensor<f64>) -> ({types}) {{\n{body}return {results} : {types} }}"
    for name, values in zip(views, evaluate(text, [x, np.array(7.0)]), strict=True):
        assert {*values.ravel()} <= {*x.ravel(), 7.0}, name


# ---- no other lists of ops ---------------------------------------------------------------------------------

NAMES = {*OPS, *(name.partition(".")[2] for name in OPS)} - {"return"}

ALLOWED = {
    "backends/iree/fast/loops/loops_to_kernels.py": "the ops of a mark",
    "backends/iree/fast/products/computed.py": "the ops that a kernel of products computes itself, with their code",
    "backends/iree/fast/sums/row_formula.py": "the ops that a kernel of rows computes itself, with their code",
    "backends/iree/faults/separate_reads.py": "the ops that the pass knows to move dimensions",
    "backends/iree/missing/refuse_unsupported.py": "the reason that a diagnostic gives for each op",
    "backends/iree/static/scalars/numbers.py": "how each op of scalars is computed: by NumPy and in LLVM's dialect",
    "dialect/control/small_loops.py": "ops that IREE compiles inside a dispatch, and ops that need no memory",
    "dialect/facts/matchers.py": "the ops of one formula, in order",
    "passes/importing/calls.py": "the ops that JAX writes between a factorization and its results, and their operands",
    "passes/structure/slots.py": "the ops that an affine function may consist of",
    "tiduc/eager/reductions.py": "names of NumPy's functions",
    "tiduc/explain/kinks.py": "the rows of docs/conventions.md",
    "tiduc/models/torch/ops/special.py": "functions of PyTorch that CHLO has, too",
    "tiduc/models/torch/targets.py": "operators of PyTorch",
    "tiduc/training/integer_layers.py": "the ops that a dequantization consists of",
    "tiduc/view/fold.py": "the names that say little in a picture",
    "tiduc/view/label.py": "the ops that are drawn small",
}
"""Files that may contain lists of op names, each with the reason. The lists state no general facts about ops."""


def op_lists(source: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the literal collections of three or more op names in a source file, each with its line.

    Collections are tuples, lists, sets, strings of words, and dicts from names to constants. Dicts from names to
    functions are tables of implementations, and the arguments of a call are registrations; these do not count.
    """
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            names = [element.value for element in node.elts if is_name(element)]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            names = [key.value for key, value in pairs if is_name(key) and is_literal(value)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words = node.value.split()
            names = [word for word in words if word in NAMES]
            names = names if 2 * len(names) >= len(words) else []
        if len(names) >= 3:
            yield node.lineno, names


def is_name(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Tuple | ast.List | ast.Set | ast.UnaryOp)


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            if not (parts[0] == "tiduc" and parts[1] in FOLDERS):  # the links are not listed twice
                yield path


def test_no_other_lists_of_ops() -> None:
    actual = {str(path.relative_to(ROOT)): [*op_lists(path.read_text())] for path in files()}
    lists = {path: ops for path, ops in actual.items() if ops}
    new = {path: ops for path, ops in lists.items() if path not in ALLOWED}
    assert new == {}, "query dialect/ops/traits.py instead, or give the reason in ALLOWED"
    assert sorted(ALLOWED) == sorted(lists), "remove these entries from ALLOWED"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('X = {"add", "multiply", "and"}', 1),
        ('X = ("stablehlo.add", "chlo.acos", "other", "stablehlo.sine")', 1),
        ('X = frozenset("add multiply and".split())', 1),
        ('X = {"stablehlo.add": 1, "stablehlo.sine": -2, "stablehlo.divide": (1, 2)}', 1),
        ('X = {"stablehlo.add": f, "stablehlo.sine": g, "stablehlo.divide": lambda x: x}', 0),
        ('inactive("stablehlo.add", "stablehlo.and", "stablehlo.or")', 0),
        ('"""add multiply and"""', 0),
        ('X = ("add", "multiply")', 0),
        ('X = "add the slices that a case returns"', 0),
    ],
)
def test_lists_of_ops_are_detected(source: str, count: int) -> None:
    assert len([*op_lists(source)]) == count
