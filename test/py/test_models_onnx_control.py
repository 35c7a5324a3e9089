"""ONNX's control flow; operators whose operands are determined by declared shapes; operators that are lowered to calls
of StableHLO functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tiduc
from tiduc.backends.reference.interpreter import evaluate

RNG = np.random.default_rng(0)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, value = helper.make_node, helper.make_tensor_value_info


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def program(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    arrays: Mapping[str, Any] | None = None,
    version: int = 20,
) -> Any:
    """The program of an ONNX graph of these nodes. Its inputs and outputs have the types of the given arrays."""

    def typed(named: Mapping[str, Any]) -> list[Any]:
        return [value(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in named.items()]

    held = [numpy_helper.from_array(np.asarray(x), name) for name, x in (arrays or {}).items()]
    graph = helper.make_graph(nodes, "graph", typed(inputs), typed(outputs), held)
    return tiduc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)]))


def check(made: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    for y, expected in zip(evaluate(str(made), list(inputs.values())), outputs.values(), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


# ---- control flow ------------------------------------------------------------------------------------------


def branch(name: str, op: str) -> Any:
    """A subgraph, as for a branch of `If`, that applies an op to the values `x` and `w` of the enclosing graph."""
    return helper.make_graph([node(op, ["x", "w"], [name])], name, [], [value(name, FLOAT, None)])


def test_if_selects_a_branch_at_run_time() -> None:
    nodes = [node("If", ["p"], ["y"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul"))]
    x, w = draw(3), draw(3)
    inputs = {"p": np.array(True), "x": x, "w": w}
    made = program(nodes, inputs, {"y": x})
    check(made, inputs, {"y": x + w})
    check(made, inputs | {"p": np.array(False)}, {"y": x * w})
    vjp = made.vjp(["x", "w"])
    _, dx, dw = evaluate(str(vjp), [np.array(False), x, w, np.ones(3, np.float32)])
    np.testing.assert_allclose(dx, w, rtol=1e-6)
    np.testing.assert_allclose(dw, x, rtol=1e-6)


def test_if_of_a_constant_is_its_branch() -> None:
    nodes = [node("If", ["p"], ["y"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul"))]
    inputs = {"x": draw(3), "w": draw(3)}
    made = program(nodes, inputs, {"y": inputs["x"]}, {"p": np.array(False)})
    assert "stablehlo.if" not in str(made)
    check(made, inputs, {"y": inputs["x"] * inputs["w"]})


def loop_body(condition: Sequence[Any]) -> Any:
    """A loop body that maps s to s * w + i, and also returns the new s as a scan output."""
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["s", "w"], ["m"]),
        node("Add", ["m", "f"], ["next"]),
        node("Identity", ["next"], ["row"]),
        *condition,
    ]
    inputs = [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, None)]
    outputs = [value("go", BOOL, []), value("next", FLOAT, None), value("row", FLOAT, None)]
    return helper.make_graph(nodes, "body", inputs, outputs)


def looped(x: Any, w: Any, count: int) -> tuple[Any, Any]:
    rows = []
    for i in range(count):
        x = x * w + i
        rows.append(x)
    return x, np.stack(rows)


@pytest.mark.parametrize("is_constant", [True, False])
def test_loop_with_a_trip_count(is_constant: bool) -> None:
    body = loop_body([node("Identity", ["c"], ["go"])])
    nodes = [node("Loop", ["m", "", "x"], ["y", "rows"], body=body)]
    x, w = draw(2), draw(2)
    last, rows = looped(x, w, 3)
    count = {"m": np.array(3)}
    inputs = {**({} if is_constant else count), "x": x, "w": w}
    made = program(nodes, inputs, {"y": last, "rows": rows}, count if is_constant else {})
    check(made, inputs, {"y": last, "rows": rows})
    if is_constant:
        _, _, dx = evaluate(str(made.vjp("x")), [x, w, np.ones(2, np.float32), np.zeros((3, 2), np.float32)])
        np.testing.assert_allclose(dx, w**3, rtol=1e-5)


def test_loop_with_a_condition() -> None:
    nodes = [
        node("ReduceSum", ["next"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["go"]),
    ]
    loop = node("Loop", ["", "start", "x"], ["y", "rows"], body=loop_body(nodes))
    x, w, limit = np.float32([1, 1]), np.float32([2, 2]), np.array(30, np.float32)
    last, rows = looped(x, w, 4)
    inputs = {"start": np.array(True), "x": x, "w": w, "limit": limit}
    check(program([loop], inputs, {"y": last, "rows": rows}), inputs, {"y": last, "rows": rows})
    with pytest.raises(tiduc.Unsupported, match="Loop of 'y': the number of rows of 'rows' depends on data"):
        graph = helper.make_graph(
            [loop],
            "graph",
            [
                value("start", BOOL, []),
                *(value(n, FLOAT, [2]) for n in ("x", "w")),
                value("limit", FLOAT, []),
            ],
            [value("y", FLOAT, [2]), value("rows", FLOAT, ["n", 2])],
        )
        tiduc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def test_scan_over_rows_backward() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["next"]), node("Mul", ["next", "next"], ["out"])],
        "body",
        [value("s", FLOAT, [2]), value("row", FLOAT, [2])],
        [value("next", FLOAT, [2]), value("out", FLOAT, [2])],
    )
    scan = node("Scan", ["s0", "x"], ["last", "ys"], body=body, num_scan_inputs=1, scan_input_directions=[1])
    inputs = {"s0": draw(2), "x": draw(3, 2)}
    sums = inputs["s0"] + np.cumsum(inputs["x"][::-1], 0)
    outputs = {"last": sums[-1], "ys": sums**2}
    check(program([scan], inputs, outputs), inputs, outputs)


# ---- operands that are determined by declared shapes ------------------------------------------------------

X = draw(3, 2, 2)
REFLECTED = np.pad(X, [(0, 0), (1, 0), (0, 1)], "reflect")
DECLARED = {
    "ReduceSum": ({"axes": np.array([1])}, {"keepdims": 1}, X.sum(1, keepdims=True)),
    "ReduceSum, two candidates": ({"axes": np.array([-1])}, {"keepdims": 0}, X.sum(2)),
    "Reshape": ({"shape": np.array([2, -1])}, {}, X.reshape(2, 6)),
    "Expand": ({"shape": np.array([2, 1, 1, 1])}, {}, np.broadcast_to(X, (2, 3, 2, 2))),
    "Tile": ({"repeats": np.array([1, 2, 1])}, {}, np.tile(X, (1, 2, 1))),
    "Unsqueeze": ({"axes": np.array([0])}, {}, X[None]),
    "Slice": ({"starts": np.array([-1, 0]), "ends": np.array([-9, 1]), "axes": np.array([0, 2]),
               "steps": np.array([-2, 1])}, {}, X[-1::-2, :, :1]),
    "Pad": ({"pads": np.array([0, 1, 0, 0, 0, 1])}, {"mode": "reflect"}, REFLECTED),
    "Trilu": ({"k": np.array(-1)}, {"upper": 0}, np.tril(X, -1)),
    "CumSum": ({"axis": np.array(1)}, {}, X.cumsum(1)),
    "Resize": ({"scales": np.array([1, 1, 2], np.float32)}, {"mode": "nearest"}, X.repeat(2, 2)),
    "Resize, to 2.8 elements": ({"scales": np.array([1, 1, 1.4], np.float32)},
                                {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
                                X @ np.float32([[1, 1 - 1 / 1.8], [0, 1 / 1.8]])),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLARED)
def test_operands_at_run_time(case: str) -> None:
    operands, attributes, expected = DECLARED[case]
    op = case.partition(",")[0]
    names = ["x", "", *operands] if op == "Resize" else ["x", *operands]
    inputs = {"x": X, **operands}
    made = program([node(op, names, ["y"], **attributes)], inputs, {"y": expected})
    check(made, inputs, {"y": expected})


# ---- calls of StableHLO functions --------------------------------------------------------------------------


def test_stft_is_that_of_numpy() -> None:
    x, window = draw(1, 16, 1), np.hanning(8).astype(np.float32)
    frames = np.stack([np.fft.rfft(x[0, i : i + 8, 0] * window) for i in (0, 4, 8)])
    expected = np.stack([frames.real, frames.imag], -1)[None].astype(np.float32)
    arrays = {"step": np.array(4), "window": window}
    made = program([node("STFT", ["x", "step", "window"], ["y"])], {"x": x}, {"y": expected}, arrays)
    np.testing.assert_allclose(made.compile()(x)[0], expected, rtol=1e-4, atol=1e-5)


def test_casts_to_narrow_floats_saturate() -> None:
    import ml_dtypes

    x = np.float32([1.1, 600, -1e9, np.nan])
    made = program(
        [node("Cast", ["x"], ["q"], to=TensorProto.FLOAT8E4M3FN), node("Cast", ["q"], ["y"], to=FLOAT)],
        {"x": x},
        {"y": x},
    )
    wanted = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(evaluate(str(made), [x])[0], wanted)


def test_refusals_name_the_node_and_a_way_out() -> None:
    with pytest.raises(tiduc.Unsupported, match=r"'q' has elements of type FLOAT4E2M1.*cast it to FLOAT"):
        graph = helper.make_graph(
            [node("Cast", ["x"], ["q"], to=TensorProto.FLOAT4E2M1)],
            "graph",
            [value("x", FLOAT, [2])],
            [value("q", TensorProto.FLOAT4E2M1, [2])],
        )
        tiduc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    with pytest.raises(
        tiduc.Unsupported, match=r"Compress of 'y': the size of the result depends on data; .* --size y\.0=N"
    ):
        x = draw(3)
        graph = helper.make_graph(
            [node("Compress", ["x", "c"], ["y"], axis=0)],
            "graph",
            [value("x", FLOAT, x.shape), value("c", BOOL, [3])],
            [value("y", FLOAT, ["n"])],
        )
        tiduc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
