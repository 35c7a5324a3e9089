"""A batched op must give the results of the op for each example, for each subset of batched operands.

Some tests batch ops that have no batching rule.
"""

import re
from typing import Any

import numpy as np
import pytest
from accepted import arguments, programs
from harness.check_batch import SIZE, batched, check_batch
from harness.check_rule import run
from harness.devices import COUNT, by_processes
from harness.xla import by_xla

from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import RequestError, TiducError, Unsupported
from tiduc.dialect.mlir.context import stage
from tiduc.loading import load
from tiduc.passes.batch import batch
from tiduc.passes.batching import BATCHING
from tiduc.passes.batching.registry import mapped
from tiduc.passes.rules import OPSET
from tiduc.program import Program

RNG = np.random.default_rng(0)
TEXTS = programs()

NOT_RUN = re.compile(
    r"chlo\.broadcast_select|stablehlo\.("
    r"all_|collective_|cross-|partition_id|reduce_scatter|replica_id"  # programs of several processes
    r"|custom_call|dot_general|einsum|unary_einsum|rng)"  # other element types, or ops that cannot run
)
SLOW = re.compile(r"stablehlo\.(batch_norm_|torch_index_select|triangular_solve)")


def ops() -> list[Any]:
    """The ops whose test program takes an array, has only static shapes, and can be run by the tests."""
    names = []
    for op, text in TEXTS.items():
        signature = text.partition("func.func")[2].partition("{")[0]
        if "tensor<" in signature.partition("->")[0] and "?" not in text and not NOT_RUN.match(op):
            names.append(pytest.param(op, marks=pytest.mark.slow) if SLOW.match(op) else op)
    return names


@pytest.mark.parametrize("op", ops())
def test_op(op: str) -> None:
    entry = re.search(r"func\.func (?:public )?@(\w+)", TEXTS[op])
    program = load(TEXTS[op], entry[1] if entry else None)
    check_batch(program, *arguments(program), subsets=len(program.inputs) <= 3)


def test_most_ops_have_a_rule() -> None:
    """Fewer than 40 ops of StableHLO and CHLO have no entry in the batching rules. Such ops are batched by a loop."""
    known = {key.partition(" @")[0] for key in OPSET.forms}
    without = known - {key.partition(" @")[0] for key in BATCHING.forms}
    of_dialects = sorted(op for op in without if op.startswith(("stablehlo.", "chlo.")))
    assert "stablehlo.add" in BATCHING.forms and "stablehlo.einsum" in of_dialects
    assert len(of_dialects) < 40


def random(*sizes: int) -> Any:
    return RNG.standard_normal(sizes)


def function(inputs: str, body: str, result: str) -> str:
    return f"func.func @main({inputs}) -> {result} {{\n{body}\n  return %y : {result}\n}}"


# ---- dimensions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batching", "contracting", "sizes", "result"),
    [
        (([], []), ([1], [0]), ((2, 3), (3, 4)), "2x4"),
        (([0], [2]), ([2], [0]), ((2, 4, 3), (3, 5, 2)), "2x4x5"),
        (([1, 0], [0, 1]), ([], []), ((2, 3), (3, 2)), "3x2"),
        (([], []), ([0], [0]), ((3,), (3,)), ""),
    ],
)
def test_dot_general(batching: Any, contracting: Any, sizes: Any, result: str) -> None:
    x, y = (f"tensor<{'x'.join(map(str, s))}xf64>" for s in sizes)
    z = f"tensor<{result}{'x' if result else ''}f64>"
    numbers = f"batching_dims = {batching[0]} x {batching[1]}, contracting_dims = {contracting[0]} x {contracting[1]}"
    body = f"  %y = stablehlo.dot_general %a, %b, {numbers} : ({x}, {y}) -> {z}"
    check_batch(function(f"%a: {x}, %b: {y}", body, z), *(random(*s) for s in sizes))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "layout", "groups"),
    [
        ((2, 5, 4), (3, 4, 6), (2, 3, 6), "[b, 0, f]x[0, i, o]->[b, 0, f]", (1, 1)),
        ((4, 5, 2), (3, 2, 6), (6, 3, 2), "[f, 0, b]x[0, i, o]->[f, 0, b]", (2, 1)),
        ((4, 5, 3), (3, 6, 3), (2, 3, 6), "[b, 0, f]x[0, o, i]->[b, 0, f]", (1, 2)),
    ],
)
def test_convolution(lhs: Any, rhs: Any, result: Any, layout: str, groups: tuple[int, int]) -> None:
    x, y, z = (f"tensor<{'x'.join(map(str, s))}xf64>" for s in (lhs, rhs, result))
    body = f"""  %y = stablehlo.convolution(%a, %b) dim_numbers = {layout}, window = {{}}
      {{feature_group_count = {groups[0]} : i64, batch_group_count = {groups[1]} : i64}} : ({x}, {y}) -> {z}"""
    check_batch(function(f"%a: {x}, %b: {y}", body, z), random(*lhs), random(*rhs))


GATHERS = {
    "rows": (
        (4, 3),
        (2, 1),
        "2x3",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]",
        "1, 3",
    ),
    "part": ((4, 3), (2, 2), "2x2x2", "offset_dims = [1, 2], start_index_map = [0, 1]", "2, 2"),
    "beside": (
        (2, 4, 3),
        (2, 5, 1),
        "2x5x3",
        "offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], "
        "start_indices_batching_dims = [0], start_index_map = [1]",
        "1, 1, 3",
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_gather(name: str) -> None:
    """Batches a gather. Some of its start indices are out of range."""
    operand, indices, result, numbers, sizes = GATHERS[name]
    x, i, z = (f"tensor<{s}>" for s in (_joined(operand, "f64"), _joined(indices, "i32"), f"{result}xf64"))
    body = f"""  %y = "stablehlo.gather"(%a, %i) {{slice_sizes = array<i64: {sizes}>, dimension_numbers =
      #stablehlo.gather<{numbers}, index_vector_dim = {len(indices) - 1}>}} : ({x}, {i}) -> {z}"""
    starts = RNG.integers(-2, 6, indices).astype(np.int32)
    check_batch(function(f"%a: {x}, %i: {i}", body, z), random(*operand), starts)


def _joined(sizes: Any, element: str) -> str:
    return "x".join([*map(str, sizes), element])


@pytest.mark.parametrize("op", ["add", "maximum", "set"])
def test_scatter(op: str) -> None:
    """Batches a scatter. Some of its updates overlap, and some are out of range."""
    combined = "%q" if op == "set" else "%r"
    inner = "" if op == "set" else f"%r = stablehlo.{op} %p, %q : tensor<f64>"
    body = f"""  %y = "stablehlo.scatter"(%a, %i, %u) ({{
      ^bb0(%p: tensor<f64>, %q: tensor<f64>):
        {inner}
        stablehlo.return {combined} : tensor<f64>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
      : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>"""
    inputs = "%a: tensor<4x3xf64>, %i: tensor<5x1xi32>, %u: tensor<5x3xf64>"
    starts = np.array([[0], [2], [0], [9], [-1]], np.int32)
    check_batch(function(inputs, body, "tensor<4x3xf64>"), random(4, 3), starts, random(5, 3))


@pytest.mark.parametrize("start", [-3, 1, 9])
def test_slices_at_starts(start: int) -> None:
    """Batches slices at start indices that may be out of range and may differ between examples."""
    body = """  %s = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<4x5xf64>, tensor<i32>, tensor<i32>)
      -> tensor<2x3xf64>
  %t = stablehlo.multiply %s, %u : tensor<2x3xf64>
  %y = stablehlo.dynamic_update_slice %x, %t, %j, %i : (tensor<4x5xf64>, tensor<2x3xf64>, tensor<i32>, tensor<i32>)
      -> tensor<4x5xf64>"""
    inputs = "%x: tensor<4x5xf64>, %u: tensor<2x3xf64>, %i: tensor<i32>, %j: tensor<i32>"
    text = function(inputs, body, "tensor<4x5xf64>")
    check_batch(text, random(4, 5), random(2, 3), np.int32(start), np.int32(1))


def test_padding_that_differs() -> None:
    body = "  %y = stablehlo.pad %x, %v, low = [1, -1], high = [0, 2], interior = [1, 0]"
    body += " : (tensor<2x3xf64>, tensor<f64>) -> tensor<4x4xf64>"
    check_batch(function("%x: tensor<2x3xf64>, %v: tensor<f64>", body, "tensor<4x4xf64>"), random(2, 3), 0.5)


LAPACK = """func.func @main(%a: tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>) {
  %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>,
    dense<> : tensor<0xindex>], output_operand_aliases = []} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)
  return %0#0, %0#1 : tensor<2x2xf64>, tensor<i32>
}"""


def test_lapack_calls_take_stacks() -> None:
    program = batched(load(LAPACK), [0])
    assert "dense<[1, 2, 0]> : tensor<3xindex>" in program.text and "while" not in program.text
    a = random(SIZE, 2, 2)
    a = a @ a.transpose(0, 2, 1) + np.eye(2)
    factor, _ = by_xla(program.text, [a])
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(a), rtol=1e-12)


GROUPS = "replica_groups = dense<[[0, 2, 4, 6], [7, 5, 3, 1]]> : tensor<2x4xi64>"
SUM = """({
    ^bb0(%p: tensor<f64>, %q: tensor<f64>):
      %s = stablehlo.add %p, %q : tensor<f64>
      stablehlo.return %s : tensor<f64>
  })"""


@pytest.mark.parametrize(
    ("op", "attributes", "after", "region"),
    [
        ("all_gather", f"all_gather_dim = 1 : i64, {GROUPS}", (4, 12), ""),
        ("all_reduce", GROUPS, (4, 3), SUM),
        (
            "all_to_all",
            f"split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 4 : i64, {GROUPS}",
            (1, 12),
            "",
        ),
        (
            "collective_permute",
            "source_target_pairs = dense<[[0, 1], [1, 2], [5, 0]]> : tensor<3x2xi64>",
            (4, 3),
            "",
        ),
        ("reduce_scatter", f"scatter_dimension = 0 : i64, {GROUPS}", (1, 3), SUM),
    ],
)
def test_collective(op: str, attributes: str, after: tuple[int, int], region: str) -> None:
    """A batched collective of several processes, each with its own batch, equals one run for each example."""
    u = f"tensor<{after[0]}x{after[1]}xf64>"
    body = f'  %y = "stablehlo.{op}"(%x) {region} {{{attributes}}} : (tensor<4x3xf64>) -> {u}'
    program = load(function("%x: tensor<4x3xf64>", body, u))
    x = random(COUNT, SIZE, 4, 3)
    (actual,) = by_processes(batched(program, [0]).text, [x])
    rows = [by_processes(program.text, [x[:, i]])[0] for i in range(SIZE)]
    np.testing.assert_allclose(actual, np.stack(rows, 1), rtol=1e-15)


# ---- control flow ------------------------------------------------------------------------------------------

SCALAR = "tensor<f64>"

WHILE = """func.func @main(%x: tensor<f64>, %n: tensor<i32>, %w: tensor<f64>) -> (tensor<f64>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %z = %x) : tensor<i32>, tensor<f64>
    cond { %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         %v = stablehlo.multiply %z, %w : tensor<f64>
         stablehlo.return %j, %v : tensor<i32>, tensor<f64> }
  return %0#1, %0#0 : tensor<f64>, tensor<i32>
}"""


def test_while_with_a_batch_of_conditions() -> None:
    """In a batched loop, each example has its own trip count, equal to the trip count without a batch."""
    program = load(WHILE)
    x, n, w = random(3), np.array([0, 4, 2], np.int32), random(3)
    y, count = by_xla(batched(program, [0, 1, 2]).text, [x, n, w])
    np.testing.assert_allclose(y, x * w**n, rtol=1e-14)
    np.testing.assert_array_equal(count, n)
    *_, count = by_xla(batched(program, [0]).text, [x, np.int32(2), np.float64(3)])
    assert count.shape == ()  # a result that does not depend on the batch has no batched dimension


CASE = """func.func @main(%i: tensor<i32>, %x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = "stablehlo.case"(%i) ({
    %s = stablehlo.sine %x : tensor<2xf64>
    stablehlo.return %s : tensor<2xf64>
  }, {
    stablehlo.return %x : tensor<2xf64>
  }, {
    %s = stablehlo.constant dense<7.0> : tensor<2xf64>
    stablehlo.return %s : tensor<2xf64>
  }) : (tensor<i32>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}"""


def test_case_with_a_batch_of_indices() -> None:
    """In a batched `case`, an example whose index is out of range gets the result of the last branch."""
    program, x = load(CASE), random(4, 2)
    index = np.array([1, -1, 0, 5], np.int32)
    (y,) = by_xla(batched(program, [0, 1], 4).text, [index, x])
    np.testing.assert_allclose(y, [x[0], [7, 7], np.sin(x[2]), [7, 7]], rtol=1e-15)
    check_batch(program, np.int32(1), random(2))


def test_a_select_that_broadcasts() -> None:
    """Compares the batched program to NumPy, because the interpreter rejects the program without a batch."""
    body = (
        "  %y = chlo.broadcast_select %p, %x, %v : (tensor<i1>, tensor<4xf64>, tensor<f64>) -> tensor<4xf64>"
    )
    program = load(function("%p: tensor<i1>, %x: tensor<4xf64>, %v: tensor<f64>", body, "tensor<4xf64>"))
    p, x, v = np.array([True, False, True]), random(4), random(3)
    (y,) = evaluate(batched(program, [0, 2]).text, [p, x, v])
    np.testing.assert_array_equal(y, np.where(p[:, None], x, v[:, None]))


# ---- loops where there is no rule --------------------------------------------------------------------------


def test_a_batch_of_initial_values_is_a_loop() -> None:
    """A reduction with batched initial values has no rule and becomes a loop. The sine is batched outside the loop."""
    body = """  %0 = stablehlo.sine %x : tensor<4xf64>
  %y = stablehlo.reduce(%0 init: %v) applies stablehlo.maximum across dimensions = [0]
      : (tensor<4xf64>, tensor<f64>) -> tensor<f64>"""
    text = function("%x: tensor<4xf64>, %v: tensor<f64>", body, SCALAR)
    check_batch(text, random(4), 0.3)
    text_of_batch = batched(load(text), [0, 1]).text
    assert "stablehlo.sine %arg0 : tensor<3x4xf64>" in text_of_batch and "stablehlo.while" in text_of_batch


EINSUM = """func.func @main(%x: tensor<2x3xf64>, %w: tensor<3x2xf64>) -> tensor<2x2xf64> {
  %0 = "stablehlo.einsum"(%x, %w) {einsum_config = "ab,bc->ac"} : (tensor<2x3xf64>, tensor<3x2xf64>) -> tensor<2x2xf64>
  return %0 : tensor<2x2xf64>
}"""


def test_a_program_of_ops_without_rules_is_one_loop() -> None:
    program = batched(load(EINSUM), [0])
    assert program.text.count("stablehlo.while") == 1 and "tensor<2x3xf64>, tensor<3x2xf64>" in program.text
    x, w = random(3, 2, 3), random(3, 2)
    (y,) = run(program, [x, w])
    np.testing.assert_allclose(y, x @ w, rtol=1e-14)


OWN = """func.func private @f(%x: tensor<2xf64>) -> tensor<2xf64> attributes {tidu.jvp = @g} {
  %0 = stablehlo.sine %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func private @g(%x: tensor<2xf64>, %dx: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {
  %c = stablehlo.constant dense<10.0> : tensor<2xf64>
  %0 = stablehlo.sine %x : tensor<2xf64>
  %1 = stablehlo.multiply %c, %dx : tensor<2xf64>
  return %0, %1 : tensor<2xf64>, tensor<2xf64>
}
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = call @f(%x) : (tensor<2xf64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}"""


def test_a_function_keeps_its_own_derivative() -> None:
    """After batching, a function still has the derivative that the user declared, here 10 instead of a cosine."""
    program = batched(load(OWN), [0]).jvp()
    y, dy = by_xla(program.text, [random(3, 2), np.ones((3, 2))])
    np.testing.assert_array_equal(dy, np.full((3, 2), 10.0))


# ---- what is refused ---------------------------------------------------------------------------------------

INFEED = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %t = stablehlo.create_token : !stablehlo.token
  %o = "stablehlo.outfeed"(%x, %t) {outfeed_config = ""} : (tensor<f64>, !stablehlo.token) -> !stablehlo.token
  %y:2 = "stablehlo.infeed"(%o) {infeed_config = "", layout = [[]]}
    : (!stablehlo.token) -> (tensor<f64>, !stablehlo.token)
  %z = stablehlo.add %x, %y#0 : tensor<f64>
  return %z : tensor<f64>
}"""


def test_ops_with_effects_are_refused() -> None:
    with pytest.raises(Unsupported, match=r":3:8: error: unsupported batching of stablehlo.outfeed"):
        batched(load(INFEED), [0])


def test_requests() -> None:
    program = load(CASE)
    with pytest.raises(RequestError, match="the batch size must be at least 1, not 0"):
        batched(program, [1], 0)
    with pytest.raises(RequestError, match="is given twice"):
        batched(program, [1, 1])
    with pytest.raises(TiducError, match="unknown input @z"):
        stage(batch)(program.view, [], ["z"], 2, OPSET)
    dynamic = load(function("%x: tensor<?xf64>", "  %y = stablehlo.sine %x : tensor<?xf64>", "tensor<?xf64>"))
    with pytest.raises(RequestError, match="only tensors of static shape"):
        batched(dynamic, [0])


def test_depth_and_sharing_cost_what_ops_cost() -> None:
    """Batching a chain of 20,000 squares adds no ops, although each square reads the previous square twice."""
    lines = ["  %0 = stablehlo.multiply %x, %x : tensor<f64>"]
    lines += [f"  %{i} = stablehlo.multiply %{i - 1}, %{i - 1} : tensor<f64>" for i in range(1, 20_000)]
    lines.append("  %y = stablehlo.sine %19999 : tensor<f64>")
    program = load(function("%x: tensor<f64>", "\n".join(lines), SCALAR))
    batch_program: Program = batched(program, [0])
    assert len(batch_program.view.schedule([batch_program.outputs[0].value])) == 20_001


def test_ops_without_rules_are_mapped() -> None:
    (op,) = load(EINSUM).view.graph("main").definitions
    assert BATCHING.rule(op, op.name) is mapped
