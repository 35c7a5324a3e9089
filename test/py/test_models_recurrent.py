"""ONNX's LSTM, GRU and RNN: outputs equal ONNX's reference evaluator, and gradients equal finite differences."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tiduc
from tiduc.backends.reference.interpreter import evaluate

RNG = np.random.default_rng(0)
STEPS, BATCH, READ, SIZE = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def weights(op: str, directions: int, *wanted: str) -> dict[str, Any]:
    """The operands of a recurrent node except the first, by their names in ONNX.

    An optional operand is None unless its name is in `wanted`.
    """
    n = GATES[op] * SIZE
    arrays = {
        "W": draw(directions, n, READ),
        "R": draw(directions, n, SIZE),
        "B": draw(directions, 2 * n) if "B" in wanted else None,
        "sequence_lens": np.array([4, 2], np.int32) if "sequence_lens" in wanted else None,
        "initial_h": draw(directions, BATCH, SIZE) if "initial_h" in wanted else None,
    }
    if op == "LSTM":
        arrays["initial_c"] = draw(directions, BATCH, SIZE) if "initial_h" in wanted else None
        arrays["P"] = draw(directions, 3 * SIZE) if "P" in wanted else None
    return arrays


def model(op: str, arrays: dict[str, Any], x: Any, outputs: int, **attributes: Any) -> Any:
    names = [name if array is not None else "" for name, array in arrays.items()]
    results = ["Y", "Y_h", "Y_c"][:outputs]
    node = helper.make_node(op, ["x", *names], results, hidden_size=SIZE, **attributes)
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, x.shape)],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in results],
        [numpy_helper.from_array(array, name) for name, array in arrays.items() if array is not None],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])


CASES: list[Any] = [
    ("LSTM", 1, ["B", "initial_h", "P"], 3, {}),
    ("LSTM", 2, ["B"], 3, {"direction": "bidirectional"}),
    ("GRU", 1, ["B", "initial_h"], 2, {}),
    ("GRU", 1, ["B"], 1, {"linear_before_reset": 1}),
    ("RNN", 1, ["B", "initial_h"], 2, {}),
]


@pytest.mark.parametrize(("op", "directions", "wanted", "outputs", "attributes"), CASES)
def test_outputs_are_those_of_onnx(
    op: str, directions: int, wanted: list[str], outputs: int, attributes: dict[str, Any]
) -> None:
    x, arrays = draw(STEPS, BATCH, READ), weights(op, directions, *wanted)
    proto = model(op, arrays, x, outputs, **attributes)
    expected = ReferenceEvaluator(proto).run(None, {"x": x})
    program = tiduc.from_onnx(onnx.shape_inference.infer_shapes(proto), lift_constants=True)
    for y, wanted_y in zip(evaluate(str(program), program.arguments(x)), expected, strict=True):
        np.testing.assert_allclose(y, wanted_y, rtol=1e-9, atol=1e-9)


def program_of(op: str, arrays: dict[str, Any], x: Any, outputs: int, **attributes: Any) -> Any:
    proto = onnx.shape_inference.infer_shapes(model(op, arrays, x, outputs, **attributes))
    return tiduc.from_onnx(proto, lift_constants=True)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequences_of_different_lengths(direction: str) -> None:
    """An LSTM gives each sequence of a batch the result that the sequence has alone.

    The sequences differ in length, and the batch is the first dimension.
    """
    x, arrays = draw(BATCH, STEPS, READ), weights("LSTM", 1, "B", "sequence_lens")
    program = program_of("LSTM", arrays, x, 3, direction=direction, layout=1)
    y, h, c = evaluate(str(program), program.arguments(x))
    for i, n in enumerate((4, 2)):
        alone = {**arrays, "sequence_lens": None}
        one = program_of("LSTM", alone, x[i : i + 1, :n], 3, direction=direction, layout=1)
        expected = evaluate(str(one), one.arguments(x[i : i + 1, :n]))
        np.testing.assert_allclose(y[i, :n], expected[0][0], rtol=1e-12)
        np.testing.assert_array_equal(y[i, n:], 0)
        for got, wanted in zip((h, c), expected[1:], strict=True):
            np.testing.assert_allclose(got[i], wanted[0], rtol=1e-12)


def test_derivatives() -> None:
    x = draw(STEPS, BATCH, READ)
    for op in GATES:
        program = program_of(op, weights(op, 1, "B"), x, 1)
        vjp = program.vjp()
        ct = draw(STEPS, 1, BATCH, SIZE)
        _, *cotangents = evaluate(str(vjp), vjp.arguments(x, ct))
        arguments = program.arguments(x)
        directions = [draw(*a.shape) for a in arguments]
        rate = 1e-6
        above, below = (
            evaluate(str(program), [a + s * rate * d for a, d in zip(arguments, directions, strict=True)])[0]
            for s in (1, -1)
        )
        inner = sum(np.vdot(a, d) for a, d in zip(cotangents, directions, strict=True))
        np.testing.assert_allclose(inner, np.vdot(ct, above - below) / (2 * rate), rtol=1e-6)


def test_unsupported_variants_are_refused() -> None:
    x, arrays = draw(STEPS, BATCH, READ), weights("LSTM", 1)
    for attributes, message in (
        ({"clip": 1.0}, "LSTM with clip"),
        ({"activations": ["Elu", "Tanh", "Tanh"]}, "LSTM with the activation elu is not supported"),
    ):
        with pytest.raises(tiduc.Unsupported, match=message):
            program_of("LSTM", arrays, x, 1, **attributes)
    proto = model("LSTM", arrays, x, 1)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "batch"
    with pytest.raises(tiduc.Unsupported, match="LSTM needs static shapes"):
        tiduc.from_onnx(onnx.shape_inference.infer_shapes(proto))
