"""ONNX's Unique and NonMaxSuppression: the sizes of their results depend on the data."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tiduc
from tiduc.backends.reference.interpreter import evaluate

RNG = np.random.default_rng(3)


def model(op: str, arrays: list[Any], outputs: list[str], **attributes: Any) -> Any:
    """A model with one node. The results of the node have no declared shapes."""
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(f"x{i}", kind(x.dtype), x.shape) for i, x in enumerate(arrays)]
    first = TensorProto.INT64 if op == "NonMaxSuppression" else kind(arrays[0].dtype)
    ends = [
        helper.make_tensor_value_info(y, TensorProto.INT64 if i else first, None)
        for i, y in enumerate(outputs)
    ]
    node = helper.make_node(op, [x.name for x in inputs], outputs, **attributes)
    graph = helper.make_graph([node], op, inputs, ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def agrees(op: str, arrays: list[Any], outputs: list[str], **attributes: Any) -> None:
    """Asserts that a program that is imported with the true sizes of the results agrees with ONNX's reference
    evaluator.
    """
    proto = model(op, arrays, outputs, **attributes)
    wanted = ReferenceEvaluator(proto).run(None, {f"x{i}": x for i, x in enumerate(arrays)})
    sizes = {f"{y}.{d}": n for y, x in zip(outputs, wanted, strict=True) for d, n in enumerate(x.shape)}
    found = evaluate(str(tiduc.from_onnx(proto, sizes=sizes)), arrays)
    for y, x in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y, x)


ROWS = np.array([[1, 2], [0, 5], [1, 2], [1, -1], [0, 5], [1, 2]], np.float32)
UNIQUE = ["y", "first", "inverse", "counts"]


@pytest.mark.parametrize("attributes", [{}, {"axis": 0}, {"axis": 0, "sorted": 0}])
def test_unique(attributes: dict[str, int]) -> None:
    agrees("Unique", [ROWS], UNIQUE, **attributes)


def test_unique_of_elements_in_order_of_appearance() -> None:
    agrees("Unique", [ROWS[:, 0]], UNIQUE, sorted=0)


def test_unique_along_the_last_axis() -> None:
    agrees("Unique", [np.ascontiguousarray(ROWS.T)], UNIQUE, axis=-1)


def test_unique_has_one_nan_at_the_end() -> None:
    x = np.array([np.nan, 2, -1, np.nan, 2], np.float32)
    program = tiduc.from_onnx(model("Unique", [x], UNIQUE), sizes={"y.0": 3})
    y, first, inverse, counts = evaluate(str(program), [x])
    np.testing.assert_array_equal(y, [-1, 2, np.nan])
    np.testing.assert_array_equal([first, counts], [[2, 1, 0], [1, 2, 2]])
    np.testing.assert_array_equal(inverse, [2, 1, 0, 2, 1])


def test_unique_has_the_derivative_of_a_gather() -> None:
    x, seed = np.array([2, 1, 2, 3], np.float32), np.array([1, 10, 100], np.float32)
    program = tiduc.from_onnx(model("Unique", [x], ["y"]), sizes={"y.0": 3})
    (dx,) = evaluate(str(program.vjp()), [x, seed])[1:]
    np.testing.assert_array_equal(dx, [10, 1, 0, 100])


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_of_several_batches_and_classes(centred: int) -> None:
    boxes = RNG.uniform(0, 1, (2, 7, 4)).astype(np.float32)
    scores = RNG.uniform(0, 1, (2, 3, 7)).astype(np.float32)
    scores[0, 0, 3] = scores[0, 0, 5]
    limits = [np.array([4]), np.array([0.2], np.float32), np.array([0.3], np.float32)]
    agrees("NonMaxSuppression", [boxes, scores, *limits], ["y"], center_point_box=centred)


def test_equal_elements_keep_their_order() -> None:
    x, condition = np.arange(42.0), np.arange(42) % 3 == 0
    proto = model("Compress", [x, condition], ["y"])
    (y,) = tiduc.from_onnx(proto, sizes={"y.0": 14}).compile(engine="xla")(x, condition)
    np.testing.assert_array_equal(y, x[condition])


def test_missing_boxes_are_minus_one() -> None:
    arrays = [np.zeros((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32), np.array([1])]
    program = tiduc.from_onnx(model("NonMaxSuppression", arrays, ["y"]), sizes={"y.0": 2})
    np.testing.assert_array_equal(evaluate(str(program), arrays)[0], [[0, 0, 0], [-1, -1, -1]])


def test_a_size_that_depends_on_data_is_asked_for() -> None:
    with pytest.raises(tiduc.Unsupported, match=r"Unique of 'y': .* --size y\.0=N \(sizes=\{'y\.0': N\}"):
        tiduc.from_onnx(model("Unique", [ROWS], ["y"]))
    with pytest.raises(tiduc.RequestError, match=r"no result of a node has the dimension 'z\.0'"):
        tiduc.from_onnx(model("Unique", [ROWS], ["y"]), sizes={"z.0": 3})


def test_parts_of_a_sequence() -> None:
    """SplitToSequence followed by SequenceAt gives the selected part.

    PyTorch's exporter writes `chunk` in this form if it does not optimize the model.
    """
    graph = helper.make_graph(
        [
            helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=-1),
            helper.make_node("SequenceAt", ["parts", "last"], ["part"]),
            helper.make_node("CastLike", ["w", "part"], ["wide"]),
            helper.make_node("Mul", ["part", "wide"], ["y"]),
        ],
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1])],
        [
            numpy_helper.from_array(np.array(2), "two"),
            numpy_helper.from_array(np.array(-1), "last"),
            numpy_helper.from_array(np.array([3], np.float32), "w"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    program = tiduc.from_onnx(model, lift_constants=True)
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(evaluate(str(program), [np.float32([3]), x])[0], 3 * x[:, 4:])
    assert not program.held
