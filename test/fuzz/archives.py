"""Mutates `.pt2` archives: fields of JSON documents, names, parts, and the structure of the zip archive.

Some mutations add malicious parts. These try to create a file or folder `RAN` by Python code, by a shell, or by an
operator of PyTorch.
"""

import copy
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import byte_mutations
from cases.archives import CONSTANTS, MODEL, WEIGHTS, argument, node
from test_models_archives import BOMBS, two_directories

MARK = "RAN"
"""The name of the file or folder that malicious parts of an archive try to create."""
CODE = f"__import__('os').mkdir('{MARK}')"
TEXTS = (
    *(
        CODE,
        f"x={CODE}",
        f"x):\n    {CODE}\n    return (x",
        f'w"); {CODE}; ("',
        f"{CODE} == 0",
        f"touch {MARK}",
    ),
    *(
        MARK,
        f"../{MARK}",
        "/etc/passwd",
        "/dev/zero",
        "..",
        "",
        "x" * 5000,
        "\x00",
        "\x1b[31m",
        "lambda",
        "__class__",
    ),
    *(
        "forward.__globals__.x",
        "self",
        "torch",
        "os",
        "weight_0",
        "model_weights_config.json",
        "custom_obj_0",
    ),
    *("OPAQUE_OBJ_0", "../../../../etc/passwd", "p_w", "x", "sin", "mul", "NaN", "Infinity", "ctypes:cdll"),
    *BOMBS.values(),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 12, 255, 2**31, 2**40, 2**62, 2**63, 10**400, -(2**63), 1.5, 1e308)
VALUES = (None, True, False, [], {}, [[]], [1, 2], {"as_int": 2**40}, {"as_none": True}, {"x": {}})
PACKETS = (
    *(
        "from_file",
        "save",
        "load",
        "_print",
        "warn",
        "set_.source_Storage",
        "set_",
        "resize_",
        "record_stream",
    ),
    *(
        "as_strided",
        "empty_strided",
        "repeat",
        "expand",
        "unbind.int",
        "split.Tensor",
        "arange",
        "randn",
        "item",
    ),
    *(
        "tensor",
        "manual_seed",
        "backward",
        "requires_grad_",
        "detach_",
        "copy_",
        "to.device",
        "lift_fresh_copy",
    ),
    *(
        "_local_scalar_dense",
        "nonzero",
        "unfold",
        "lstm.input",
        "conv2d",
        "einsum",
        "index.Tensor",
        "embedding_bag",
    ),
    *(
        "_fft_r2c",
        "linalg_svd",
        "scatter.src",
        "_cufft_set_plan_cache_max_size",
        "pin_memory",
        "wait",
        "is_owner",
    ),
)
TARGETS = (
    *(f"torch.ops.aten.{name}" if "." in name else f"torch.ops.aten.{name}.default" for name in PACKETS),
    *(
        "torch.serialization.os.system",
        "torch.ops.load_library",
        "_operator.call",
        "_operator.attrgetter",
        "math.pow",
    ),
    *(
        "torch.ops.higher_order.cond",
        "torch.ops.higher_order.while_loop",
        "torch.ops.higher_order.auto_functionalized",
    ),
    *(
        "torch.ops.prim.device.default",
        "torch.load",
        "torch.hub.load",
        "torch._functorch.predispatch.os.system",
    ),
    *(
        "torch._functorch.predispatch._vmap_increment_nesting",
        "#aoti:x",
        "builtins.eval",
        "torch.sym_max",
        "aten.sin",
    ),
)
NAMES = (
    *("models/MODEL.JSON", "models/other.json", "data/constants/CUSTOM_OBJ_0", "data/constants/opaque_obj_0"),
    *(
        "data/weights/model.pt",
        "data/aotinductor/model/model.so",
        "data/sample_inputs/model.pt",
        "../x",
        "/x",
    ),
    *(
        "data/weights/WEIGHT_0",
        "data/weights/weight_1",
        "extra/x",
        "serialized_exported_program.json",
        "x/../y",
    ),
)

Parts = dict[str, bytes]


def mutated(parts: Parts, draw: Random, others: Sequence[Parts]) -> bytes:
    """Returns the bytes of an archive after random mutations of its parts, names or structure."""
    parts = dict(parts)
    for _ in range(draw.choice([1, 1, 2, 3])):
        draw.choices([_json, _stranger, _part, _splice], [12, 2, 2, 1])[0](parts, draw, others)
    data = _written(parts, draw)
    how = draw.randrange(25)
    if how == 0:
        data = byte_mutations.mutated(data, draw, [data])
    elif how == 1:
        data = two_directories(
            parts, {"serialized_exported_program.json": parts.get(MODEL, b"{}"), "version": b"8.20"}
        )
    return data


def _json(parts: Parts, draw: Random, others: Sequence[Parts]) -> None:
    """Changes a random field of a part that is a JSON document."""
    named = [name for name in (MODEL, MODEL, MODEL, WEIGHTS, CONSTANTS) if name in parts]
    if not named:
        return
    name = draw.choice(named)
    try:
        document = json.loads(parts[name])
    except ValueError:
        return
    places = [place for place in _places(document) if isinstance(place[0], dict | list)]
    if places:
        _change(*draw.choice(places), draw, places)
    parts[name] = json.dumps(document).encode()


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Returns all fields of a JSON document, as pairs of an object or list and a key or index in it."""
    found, waiting = [], [document]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            found.append((each, key))
            waiting.append(each[key])
    return found


def _change(holder: Any, key: Any, draw: Random, places: list[tuple[Any, Any]]) -> None:
    how = draw.randrange(10)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(draw.randint(0, len(holder)), copy.deepcopy(holder[key]))
    elif how == 1:
        holder[draw.choice([str(key).upper(), "as_custom_obj", "as_string", draw.choice(TEXTS)])] = (
            holder.pop(key)
        )
    elif how <= 3:
        other, place = draw.choice(places)
        holder[key] = copy.deepcopy(other[place])
    elif isinstance(holder[key], str) and (key == "target" or draw.randrange(3) == 0):
        holder[key] = draw.choice(TARGETS)
    elif isinstance(holder[key], int) and draw.randrange(4):
        holder[key] = draw.choice(NUMBERS)
    else:
        holder[key] = copy.deepcopy(
            draw.choice([draw.choice(TEXTS), draw.choice(NUMBERS), draw.choice(VALUES)])
        )


def _stranger(parts: Parts, draw: Random, others: Sequence[Parts]) -> None:
    """Adds something that a reader must not run.

    It is code, an expression whose evaluation is slow, or a call of a function.
    """
    try:
        document = json.loads(parts[MODEL])
        graph = document["graph_module"]["graph"]
        text = draw.choice([CODE, *BOMBS.values()])
        how = draw.randrange(6)
        if how == 0:
            document["guards_code"] = [f"{CODE} is None"]
        elif how == 1:
            enum = json.dumps(
                [1, {"__enum__": True, "fqn": draw.choice(["ctypes:cdll", "stranger:X"]), "name": MARK}]
            )
            document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = enum
        elif how == 2:
            values = draw.choice(list(graph["tensor_values"].values()))
            values["sizes"] = [{"as_expr": {"expr_str": text, "hint": {"as_int": 3}}}]
        elif how == 3:
            given = [argument("filename", "as_string", MARK), argument("shared", "as_bool", True)]
            graph["nodes"].insert(
                0, node(draw.choice(TARGETS), [*given, argument("size", "as_int", 3)], "extra")
            )
            graph["tensor_values"]["extra"] = draw.choice(list(graph["tensor_values"].values()))
        elif how == 4:
            draw.choice(graph["nodes"])["metadata"] = {
                "stack_trace": CODE,
                "from_node": text,
                "nn_module_stack": text,
            }
        else:
            document["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x={CODE}"]
        parts[MODEL] = json.dumps(document).encode()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return


def _part(parts: Parts, draw: Random, others: Sequence[Parts]) -> None:
    """Removes, renames, adds or changes a part of an archive."""
    if not parts:
        return
    name, how = draw.choice(list(parts)), draw.randrange(5)
    if how == 0:
        del parts[name]
    elif how == 1:
        parts[draw.choice(NAMES)] = parts.pop(name)
    elif how == 2:
        parts[draw.choice(NAMES)] = f"cos\nmkdir\n(S'{MARK}'\ntR.".encode()  # a pickle that creates a folder
    else:
        parts[name] = byte_mutations.mutated(parts[name], draw, [parts[name]])


def _splice(parts: Parts, draw: Random, others: Sequence[Parts]) -> None:
    """Copies a part from another archive."""
    other = draw.choice(others)
    name = draw.choice(list(other))
    parts[name] = other[name]


def _written(parts: Parts, draw: Random) -> bytes:
    """Returns the bytes of a zip archive of the parts.

    It is written as `torch.export.save` does, or with other settings of zipfile.
    """
    out, folder = io.BytesIO(), draw.choice(["model"] * 57 + ["", "..", "/"])
    kind = draw.choice([zipfile.ZIP_STORED] * 39 + [zipfile.ZIP_DEFLATED])
    with (
        zipfile.ZipFile(out, "w", kind) as archive,
        warnings.catch_warnings(action="ignore"),
    ):  # zipfile warns about duplicate names
        for name, data in parts.items():
            archive.writestr(f"{folder}/{name}" if folder else name, data)
            if draw.randrange(400) == 0:
                archive.writestr(f"{folder}/{name}", data)
    return out.getvalue()


def parts_of(data: bytes) -> Parts:
    """Maps the name of each part of an archive to its contents. Names do not include the folder in the archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


Mutation = Callable[[Parts, Random, Sequence[Parts]], None]
