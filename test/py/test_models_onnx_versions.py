"""ONNX models of old versions, inputs whose values are given at import, and the choice of the parameters that
`train-step` trains.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.cli import run
from tiduc.dialect.errors import RequestError, Unsupported

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes: list[Any], inputs: dict[str, Any], arrays: dict[str, Any], version: int | None = 17) -> Any:
    def value(name: str, array: Any) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        nodes,
        "graph",
        [value(name, array) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", version)] if version else []
    made = helper.make_model(graph, opset_imports=opsets)
    if version is None:
        del made.opset_import[:]
    return made


X = draw(1, 2, 6, 6)
POOL = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])


@pytest.mark.parametrize("version", [1, 7, 9, 11, 17, None])
def test_old_versions_are_converted(version: int | None) -> None:
    program = tiduc.from_onnx(model([POOL], {"x": X}, {}, version))
    (y,) = evaluate(str(program), [X])
    np.testing.assert_array_equal(y, X.reshape(1, 2, 3, 2, 3, 2).max((3, 5)))


AXES = {"x": X, "axes": np.array([1, 3])}
SUM = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)


def test_an_input_that_decides_a_shape_is_named() -> None:
    with pytest.raises(Unsupported, match=r"--constant axes=ARRAY"):
        tiduc.from_onnx(model([SUM], AXES, {}))


def test_constants_are_no_inputs() -> None:
    program = tiduc.from_onnx(model([SUM], AXES, {}), constants={"axes": AXES["axes"]})
    assert [port.name for port in program.inputs] == ["x"]
    (y,) = evaluate(str(program), [X])
    np.testing.assert_allclose(y, X.sum((1, 3)), rtol=1e-5)


def test_constants_on_the_command_line(tmp_path: Path, capfd: Any) -> None:
    onnx.save(model([SUM], AXES, {}), tmp_path / "sum.onnx")
    assert run(["import", str(tmp_path / "sum.onnx"), "--constant", "axes=2xi64=1,3"]) == 0
    imported = capfd.readouterr().out
    assert "axes" not in imported.replace("dimensions", "")
    np.savez(tmp_path / "all.npz", other=np.zeros(2), axes=np.array([1, 3]))
    constant = f"axes=@{tmp_path / 'all.npz'}"
    assert run(["import", str(tmp_path / "sum.onnx"), "--constant", f"{constant}:axes"]) == 0
    assert capfd.readouterr().out == imported
    assert run(["import", str(tmp_path / "sum.onnx"), "--constant", constant]) == 1
    assert "--constant axes gets 2 arrays; name one, as in @all.npz:axes" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"z": np.array([1])}, "no input 'z' for a constant; the inputs are: x, axes"),
        ({"axes": np.array([1.0, 2.0])}, "input 'axes' is int64.*and the constant is float64"),
    ],
)
def test_wrong_constants_are_refused(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        tiduc.from_onnx(model([SUM], AXES, {}), constants=constants)


# ---- the parameters that are trained -----------------------------------------------------------------------

MASK = np.triu(np.full((4, 4), np.finfo(np.float32).min), 1)
ATTENTION = {
    "embed.weight": draw(4, 4),
    "norm.weight": np.ones(4, np.float32),  # an exporter merges equal arrays; this one serves two norms
    "norm.bias": np.zeros(4, np.float32),
    "head.weight": draw(4, 2),
    "head.bias": draw(2),
    "mask": MASK,
    "scale": np.array(0.5, np.float32),
}


def attention() -> Any:
    norm = {"axis": -1}
    nodes = [
        helper.make_node("MatMul", ["x", "embed.weight"], ["e"]),
        helper.make_node("LayerNormalization", ["e", "norm.weight", "norm.bias"], ["n"], **norm),
        helper.make_node("Transpose", ["n"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["n", "t"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "n"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "norm.weight", "norm.bias"], ["b"], **norm),
        helper.make_node("Gemm", ["b", "head.weight", "head.bias"], ["y"]),
    ]
    return model(nodes, {"x": draw(4, 4)}, ATTENTION)


def attention_in_torch(torch: Any) -> Any:
    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The model of `attention` in PyTorch. Its parameters are those that `train-step` trains by default."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Parameter(torch.tensor(ATTENTION["embed.weight"]))
            self.head = torch.nn.Parameter(torch.tensor(ATTENTION["head.weight"]))
            self.bias = torch.nn.Parameter(torch.tensor(ATTENTION["head.bias"]))
            self.register_buffer("mask", torch.tensor(MASK), persistent=False)

        def forward(self, x: Any) -> Any:
            n = torch.nn.functional.layer_norm(x @ self.embed, (4,))
            p = torch.softmax(n @ n.T * 0.5 + self.mask, -1)
            return torch.nn.functional.layer_norm(p @ n, (4,)) @ self.head + self.bias

    return Attention()


def test_masks_numbers_and_merged_arrays_are_held() -> None:
    held = tiduc.from_onnx(attention(), lift_constants=True).held
    assert held == {
        "norm.weight": "shared by 2 nodes",
        "norm.bias": "shared by 2 nodes",
        "mask": "a mask",
        "scale": "a single number",
    }


def test_an_import_leaves_the_model_as_it_is() -> None:
    proto = attention()
    before = proto.SerializeToString()
    tiduc.from_onnx(proto)
    assert proto.SerializeToString() == before


def test_a_held_weight_is_trained_if_named() -> None:
    step = tiduc.train_step(tiduc.from_onnx(attention(), lift_constants=True), train=["norm.*"])
    assert [port.name for port in step.outputs[1:]] == ["norm.weight", "norm.bias"]


def test_train_step_says_what_it_trains(tmp_path: Path, capfd: Any) -> None:
    onnx.save(attention(), tmp_path / "a.onnx")
    assert run(["train-step", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "step.mlir")]) == 0
    said = capfd.readouterr().err
    assert "trains: embed.weight, head.weight, head.bias\n" in said
    assert "mask (a mask)" in said and "norm.bias (shared by 2 nodes)" in said
    assert "torch.onnx.export(optimize=False)" in said


def test_onnx_and_pt2_train_as_pytorch_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    x, target, rate = draw(4, 4), draw(4, 2), np.float32(0.05)
    torch.export.save(torch.export.export(attention_in_torch(torch), (torch.tensor(x),)), tmp_path / "a.pt2")
    onnx.save(attention(), tmp_path / "a.onnx")
    wanted = losses_of_torch(torch, x, target, float(rate))
    for name in ("a.onnx", "a.pt2"):
        program = tiduc.import_model(tmp_path / name, lift_constants=True)
        np.testing.assert_allclose(losses(program, x, target, rate), wanted, rtol=1e-5)


def losses_of_torch(torch: Any, x: Any, target: Any, rate: float) -> list[float]:
    module = attention_in_torch(torch)
    optimizer = torch.optim.SGD(module.parameters(), rate)
    found = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(torch.tensor(x)), torch.tensor(target))
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def losses(program: Any, x: Any, target: Any, rate: Any) -> list[float]:
    step = tiduc.train_step(program)
    run_step = step.compile()
    state, found = dict(step.weights), []
    for _ in range(20):
        arguments = [state[p.name] if p.name in state else None for p in step.inputs]
        others = iter((x, target, rate))
        loss, *new = run_step(*(next(others) if a is None else a for a in arguments))
        found.append(float(loss))
        state.update(zip([port.name for port in step.outputs[1:]], map(np.asarray, new), strict=True))
    return found
