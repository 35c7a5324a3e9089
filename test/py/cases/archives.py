"""Writes a `.pt2` archive of `sin(x) * w` for arrays of three numbers without PyTorch, and changes the archive."""

import copy
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Parts = dict[str, bytes]

MODEL = "models/model.json"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"


def tensor_meta(*sizes: int, requires_grad: bool = False) -> dict[str, Any]:
    strides = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    return {
        "dtype": 7,
        "sizes": [{"as_int": n} for n in sizes],
        "requires_grad": requires_grad,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": n} for n in strides],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def argument(name: str, kind: str, value: Any, position: int = 1) -> dict[str, Any]:
    return {"name": name, "arg": {kind: value}, "kind": position}


def node(target: str, inputs: list[dict[str, Any]], *outputs: str) -> dict[str, Any]:
    """Returns the JSON of a node whose results are tensors with these names."""
    given = [{"as_tensor": {"name": each}} for each in outputs]
    name = outputs[0] if outputs else "effect"
    return {"target": target, "inputs": inputs, "outputs": given, "metadata": {}, "name": name}


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def model() -> dict[str, Any]:
    """Returns the JSON of the program, as `torch.export.save` of PyTorch 2.13 writes it."""
    leaf = {"type": None, "context": None, "children_spec": []}
    arguments = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}
    keywords = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    spec = {"type": "builtins.tuple", "context": "null", "children_spec": [arguments, keywords]}
    signature = {
        "inputs": [tensor("x")],
        "outputs": [tensor("mul")],
        "in_spec": json.dumps([1, spec]),
        "out_spec": json.dumps([1, leaf]),
        "forward_arg_names": ["x"],
    }
    graph = {
        "inputs": [tensor("p_w"), tensor("x")],
        "outputs": [tensor("mul")],
        "nodes": [
            node("torch.ops.aten.sin.default", [argument("self", "as_tensor", {"name": "x"})], "sin"),
            node(
                "torch.ops.aten.mul.Tensor",
                [
                    argument("self", "as_tensor", {"name": "sin"}),
                    argument("other", "as_tensor", {"name": "p_w"}),
                ],
                "mul",
            ),
        ],
        "tensor_values": {
            "p_w": tensor_meta(3, requires_grad=True),
            **{name: tensor_meta(3) for name in ("x", "sin", "mul")},
        },
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
        "sym_float_values": {},
    }
    specs = [
        {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
        {"user_input": {"arg": tensor("x")}},
    ]
    return {
        "graph_module": {
            "graph": graph,
            "signature": {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor("mul")}}]},
            "module_call_graph": [{"fqn": "", "signature": signature}],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0",
        "guards_code": [],
    }


def plain() -> Parts:
    """Returns the parts of the archive."""
    payload = {
        "path_name": "weight_0",
        "is_param": True,
        "use_pickle": False,
        "tensor_meta": tensor_meta(3, requires_grad=True),
    }
    return {
        "archive_format": b"pt2",
        WEIGHTS: json.dumps({"config": {"w": payload}}).encode(),
        "data/weights/weight_0": np.array([1, 2, 3], np.float32).tobytes(),
        CONSTANTS: b'{"config": {}}',
        MODEL: json.dumps(model()).encode(),
        "data/sample_inputs/model.pt": b"not a pickle",
        "archive_version": b"0",
        ".data/version": b"3\n",
        "byteorder": b"little",
    }


def changed(
    change: Callable[[dict[str, Any]], object], part: str = MODEL, parts: Parts | None = None
) -> Parts:
    """Returns the parts of the archive after a change of the JSON in one part."""
    parts = dict(plain() if parts is None else parts)
    document = copy.deepcopy(json.loads(parts[part]))
    change(document)
    return {**parts, part: json.dumps(document).encode()}


def with_node(target: str, inputs: list[dict[str, Any]]) -> Parts:
    """Returns the parts of the archive with an additional first node.

    The result of this node replaces the input of the program.
    """

    def change(document: dict[str, Any]) -> None:
        graph = document["graph_module"]["graph"]
        graph["nodes"].insert(0, node(target, inputs, "extra"))
        graph["tensor_values"]["extra"] = tensor_meta(3)
        graph["nodes"][1]["inputs"][0]["arg"] = tensor("extra")

    return changed(change)


def with_size(expression: str) -> Parts:
    """Returns the parts of the archive with an expression as the size of all arrays."""

    def change(document: dict[str, Any]) -> None:
        size = {"as_expr": {"expr_str": expression, "hint": {"as_int": 3}}}
        for name in ("x", "sin", "mul"):
            document["graph_module"]["graph"]["tensor_values"][name]["sizes"] = [size]

    return changed(change)


def write(path: Path, parts: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(f"{path.stem}/{name}", data)
    return path
