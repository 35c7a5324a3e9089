"""Single ONNX ops: each program's outputs equal those of ONNX's reference evaluator."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from harness.xla import by_xla
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tiduc

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


NONE = np.zeros(0, np.float32)
"""A placeholder for an optional operand of Resize that is omitted."""
CEIL = {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 0, 1, 0], "ceil_mode": 1}
X, IMAGE = draw(2, 3, 4), draw(1, 4, 6, 6)

CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "AveragePool": ([IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "BatchNormalization": ([X, draw(3), draw(3), draw(3), np.abs(draw(3))], {}),
    "Clip": ([X, np.float32(-0.5), np.float32(0.5)], {}),
    "Concat": ([X, X], {"axis": 1}),
    "Conv": ([IMAGE, draw(4, 2, 3, 3), draw(4)], {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "ConvTranspose": ([draw(1, 2, 4, 4), draw(2, 3, 3, 3)], {"strides": [2, 2], "output_padding": [1, 1]}),
    "DepthToSpace": ([IMAGE], {"blocksize": 2}),
    "Einsum": ([X, draw(2, 4, 5)], {"equation": "bij,bjk->bik"}),
    "Elu": ([X], {"alpha": 2.0}),
    "Expand": ([draw(3, 1), i64(2, 3, 4)], {}),
    "DequantizeLinear": (
        [np.arange(6, dtype=np.int8).reshape(2, 3), draw(3), np.int8([1, -2, 3])],
        {"axis": 1},
    ),
    "QuantizeLinear": ([3 * X, np.float32(0.3), np.uint8(7)], {}),
    "QLinearMatMul": (
        [
            *(np.arange(6, dtype=np.uint8).reshape(2, 3), np.float32(0.1), np.uint8(3)),
            *(np.arange(12, dtype=np.int8).reshape(3, 4), np.float32(0.2), np.int8(-1)),
            *(np.float32(0.05), np.uint8(100)),
        ],
        {},
    ),
    "Hardmax": ([X], {"axis": 1}),
    "ReduceMax of booleans": ([X > 0, i64(1)], {}),
    "Slice backwards": ([X, i64(3, -1), i64(0, -9), i64(2, 1), i64(-2, -1)], {}),
    "Gather": ([X, i64(2, 0)], {"axis": 1}),
    "Gelu": ([X], {}),
    "Gemm": ([draw(3, 2), draw(3, 4), draw(4)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    "GlobalMaxPool": ([IMAGE], {}),
    "HardSwish": ([X], {}),
    "InstanceNormalization": ([IMAGE, draw(4), draw(4)], {}),
    "LayerNormalization": ([X, draw(4), draw(4)], {"axis": -1}),
    "LeakyRelu": ([X], {"alpha": 0.2}),
    "LogSoftmax": ([X], {"axis": 1}),
    "MatMul": ([X, draw(2, 4, 5)], {}),
    "MaxPool": ([IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "Mish": ([X], {}),
    "Pad": ([X, i64(0, 1, 0, 0, 0, 2)], {}),
    "Pow": ([np.abs(X), draw(3, 1)], {}),
    "PRelu": ([X, draw(3, 1)], {}),
    "ReduceLogSumExp": ([X, i64(1)], {}),
    "ReduceMean": ([X, i64(1)], {"keepdims": 0}),
    "Reshape": ([X, i64(0, -1)], {}),
    "Slice": ([X, i64(1), i64(3), i64(2), i64(1)], {}),
    "Softmax": ([X], {"axis": 1}),
    "Softsign": ([X], {}),
    "Tile": ([X, i64(1, 2, 1)], {}),
    "Transpose": ([X], {"perm": [2, 0, 1]}),
    "Where": ([X > 0, X, draw(1)], {}),
    **{
        f"AveragePool {name}": ([draw(1, 2, 5, 8)], {**CEIL, **more})
        for name, more in {"ceil_mode": {}, "ceil_mode, padded": {"count_include_pad": 1}}.items()
    },
    "AveragePool 3D": ([draw(1, 1, 4, 5, 4)], {"kernel_shape": [2, 2, 3], "dilations": [2, 1, 1]}),
    "BitCast": ([X], {"to": TensorProto.INT32}),
    "Col2Im": (
        [draw(1, 8, 6), i64(4, 3), i64(2, 2)],
        {"strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [1, 1]},
    ),
    "Compress": ([X, np.array([True, False, True])], {"axis": 1}),
    "CumProd": ([X, np.int64(-1)], {"exclusive": 1, "reverse": 1}),
    "DeformConv": ([draw(1, 2, 4, 4), draw(2, 2, 2, 2), draw(1, 8, 3, 3)], {}),
    **{
        f"GridSample {mode} {padding}": (
            [draw(1, 2, 4, 5), 1.2 * draw(1, 3, 2, 2)],
            {"mode": mode, "padding_mode": padding, "align_corners": int(padding == "border")},
        )
        for mode, padding in (
            ("nearest", "zeros"),
            ("linear", "reflection"),
            ("linear", "border"),
            ("cubic", "zeros"),
        )
    },
    "LpPool": ([draw(1, 1, 4, 4, 4)], {"kernel_shape": [2, 2, 2], "p": 3}),
    "MaxPool uint8": ([np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)], {"kernel_shape": [2, 2]}),
    "NonZero": ([np.array([[1, 0, 2], [0, 3, 0]], np.float32)], {}),
    "Pad axes": ([X, i64(1, 2), np.float32(7), i64(-1)], {}),
    "Resize to sizes, not larger": (
        [IMAGE, NONE, NONE, i64(12, 9)],
        {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
    ),
    "Resize crop": (
        [IMAGE, np.array([0.2, 0.3, 0.7, 1.1], np.float32), NONE, i64(3, 3)],
        {"mode": "linear", "axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "ReverseSequence": ([X, i64(2, 3)], {"batch_axis": 0, "time_axis": 1}),
    "ScatterElements": (
        [X, i64(0, 0, -1, 2).reshape(1, 1, 4), draw(1, 1, 4)],
        {"axis": 1, "reduction": "mul"},
    ),
    "ScatterND": ([X, i64(0, 1, 0, -2).reshape(2, 2), draw(2, 4)], {"reduction": "max"}),
    "TensorScatter": ([draw(2, 1, 4, 3), draw(2, 1, 2, 3), i64(3, 0)], {"mode": "circular"}),
    "AveragePool SAME": (
        [draw(1, 2, 5, 8)],
        {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "RotaryEmbedding": ([draw(2, 3, 4, 8), draw(4, 4), draw(4, 4), np.arange(8).reshape(2, 4) % 4], {}),
    "MaxPool ceil_mode": ([draw(1, 2, 5, 8)], CEIL),
    "LpNormalization": ([X], {"axis": 0, "p": 2}),
    "Mod": ([draw(40), np.float32(-0.7)], {"fmod": 0}),
    "Mod infinity": ([draw(40), np.float32(-np.inf)], {"fmod": 0}),
    "OneHot": ([np.array([[1, -1], [2, 5]]), np.int64(4), np.array([0.5, 3], np.float32)], {"axis": 0}),
    "Swish": ([X], {"alpha": 0.5}),
    "SoftmaxCrossEntropyLoss": ([draw(3, 5), i64(0, 4, 2), np.abs(draw(5))], {"reduction": "mean"}),
    "RMSNormalization": ([X, draw(4)], {"axis": -1}),
    **{f"Pad {mode}": ([X, i64(0, 1, 2, 0, 0, 1)], {"mode": mode}) for mode in ("reflect", "edge", "wrap")},
    **{
        f"Resize {mode} {place}": (
            [IMAGE, NONE, np.array([1, 1, 1.5, 0.7], np.float32)],
            {"mode": mode, "coordinate_transformation_mode": place},
        )
        for mode in ("nearest", "linear", "cubic")
        for place in ("half_pixel", "align_corners", "asymmetric")
    },
    "Resize to sizes": ([IMAGE, NONE, NONE, i64(12, 3)], {"mode": "linear", "antialias": 1, "axes": [2, 3]}),
}


NEW = (
    "Mod",
    "RMSNormalization",
    "RotaryEmbedding",
    "Swish",
    "BitCast",
    "CumProd",
    "TensorScatter",
)
"""Operators that only the newest versions of ONNX have."""


WRONG = {
    "Det": (draw(2, 2), {}, "Det of 'y': .*linalg_det.*give its result as an input"),
}
"""Nodes that cannot be lowered to StableHLO: operand, attributes, and the diagnostic, which names the node, the reason
and an alternative.
"""


@pytest.mark.parametrize("op", WRONG)
def test_nodes_without_stablehlo_are_refused_by_name(op: str) -> None:
    x, attributes, message = WRONG[op]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        op,
        [helper.make_tensor_value_info("x", dtype, x.shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(tiduc.Unsupported, match=message):
        tiduc.from_onnx(proto)


def in_one_graph(cases: Sequence[str], version: int) -> Any:
    """A model with one node per case, and with the inputs and outputs of all nodes."""
    nodes, inputs, outputs, constants = [], [], [], []
    for k, case in enumerate(cases):
        operands, attributes = CASES[case]
        names = [f"x{k}_{i}" if x is not NONE else "" for i, x in enumerate(operands)]
        nodes.append(helper.make_node(case.partition(" ")[0], names, [f"y{k}"], **attributes))
        first = operands[0]
        type_ = helper.np_dtype_to_tensor_dtype(first.dtype)
        inputs.append(helper.make_tensor_value_info(names[0], type_, first.shape))
        outputs.append(helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None))
        constants += [
            numpy_helper.from_array(np.asarray(x), name)
            for name, x in zip(names[1:], operands[1:], strict=True)
            if name
        ]
    graph = helper.make_graph(nodes, "ops", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


@cache
def results(cases: Sequence[str], version: int) -> dict[str, tuple[Any, Any]]:
    """For each case, the output of tiduc's program and that of ONNX's evaluator.

    All cases are imported as one model.
    """
    proto = in_one_graph(cases, version)
    given = {x.name: CASES[case][0][0] for x, case in zip(proto.graph.input, cases, strict=True)}
    expected = ReferenceEvaluator(proto).run(None, given)
    for k, y in enumerate(expected):
        dtype = helper.np_dtype_to_tensor_dtype(y.dtype)
        proto.graph.output[k].CopyFrom(helper.make_tensor_value_info(f"y{k}", dtype, y.shape))
    program = tiduc.from_onnx(proto, lift_constants=True)
    actual = by_xla(str(program), program.arguments(*given.values()))
    return dict(zip(cases, zip(actual, expected, strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_op(case: str) -> None:
    version = 26 if case.partition(" ")[0] in NEW else 20
    alike = [other for other in CASES if (other.partition(" ")[0] in NEW) == (version == 26)]
    first = alike.index(case) // 16 * 16
    y, expected = results(tuple(alike[first : first + 16]), version)[case]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
