"""The reader of `.pt2` archives refuses unknown contents before it uses any part of a file.

These tests need no PyTorch.
"""

import json
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from cases import archives
from cases.archives import MODEL, WEIGHTS, Parts, changed, plain, write

from tiduc.dialect.errors import TiducError
from tiduc.models.torch import archive, expressions, payloads, pickled, schema


def read(path: Path) -> Any:
    """The record of the program, the payloads of the arrays, and all parts of the archive, as the importer reads them
    before it needs PyTorch.
    """
    parts = archive.read_parts(str(path))
    found = payloads.read_payloads(payloads.documents(parts), {name: len(x) for name, x in parts.items()})
    return schema.read_model(parts[MODEL]), found, parts


def test_an_archive(tmp_path: Path) -> None:
    model, found, parts = read(write(tmp_path / "plain.pt2", plain()))
    assert [each["target"] for each in model["graph_module"]["graph"]["nodes"]][
        0
    ] == "torch.ops.aten.sin.default"
    assert found.weights["w"].requires_grad and found.weights["w"].is_parameter
    (array,) = payloads.arrays(["w"], found, parts).values()
    assert array.tolist() == [1, 2, 3] and array.flags.writeable
    assert "data/sample_inputs/model.pt" not in parts and "guards_code" not in model


def without(name: str) -> Parts:
    return {key: value for key, value in plain().items() if key != name}


def node(key: str, value: Any) -> Parts:
    return changed(lambda document: document["graph_module"]["graph"]["nodes"][0].update({key: value}))


def weight(**entries: Any) -> Parts:
    return changed(lambda document: document["config"]["w"].update(entries), WEIGHTS)


def meta(**entries: Any) -> Parts:
    return changed(lambda document: document["config"]["w"]["tensor_meta"].update(entries), WEIGHTS)


def argument(kind: str, value: Any) -> Parts:
    return node("inputs", [archives.argument("self", kind, value)])


def renamed(old: str, new: str) -> Parts:
    return {new if name == old else name: data for name, data in plain().items()}


def text(old: str, new: str) -> Parts:
    return {**plain(), MODEL: plain()[MODEL].replace(old.encode(), new.encode())}


def spec(kind: str, entry: dict[str, Any]) -> Parts:
    return changed(
        lambda document: document["graph_module"]["signature"]["input_specs"].__setitem__(0, {kind: entry})
    )


DEEP = plain()[MODEL][:-1] + b', "zz": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
REFUSED: dict[str, tuple[Parts, str]] = {
    "no format": (without("archive_format"), "of PyTorch 2.8 or later"),
    "another format": ({**plain(), "archive_format": b"pt3"}, "of PyTorch 2.8 or later"),
    "no program": (without(MODEL), "must contain one program"),
    "two programs": ({**plain(), "models/other.json": b"{}"}, "must contain one program"),
    "a name in capitals": (renamed(MODEL, "models/MODEL.JSON"), "must contain one program"),
    "a name twice": ({**plain(), "models/Model.json": b"{}"}, "two parts of the archive have the same name"),
    "an object in capitals": (
        {**plain(), "data/constants/CUSTOM_OBJ_0": b"x", "data/constants/custom_obj_0": b"x"},
        "two parts of the archive have the same name",
    ),
    "a path": ({**plain(), "data/weights/../../x": b""}, "a part has a name that is not allowed"),
    "machine code": ({**plain(), "data/aotinductor/model/model.so": b"\x7fELF"}, "holds machine code"),
    "big-endian": ({**plain(), "byteorder": b"big"}, "not little-endian"),
    "no weights": (without(WEIGHTS), "model_weights_config.json is missing"),
    "a pickled weight": (weight(use_pickle=True), "w is a pickle.*--trust"),
    "an object": (weight(tensor_meta=None), "w is a pickle.*--trust"),
    "a weight elsewhere": (weight(path_name="../../../../etc/passwd"), "has no part"),
    "a weight in JSON": (weight(path_name="model_weights_config.json"), "has no part"),
    "a weight of another type": (meta(dtype=12345), "the element type or the layout"),
    "a sparse weight": (meta(layout=2), "the element type or the layout"),
    "a weight that is too large": (meta(sizes=[{"as_int": 100_000}]), "needs more bytes"),
    "a weight beyond its bytes": (meta(storage_offset={"as_int": 1 << 40}), "needs more bytes"),
    "a stride beyond the bytes": (meta(strides=[{"as_int": 1 << 40}]), "needs more bytes"),
    "a negative stride": (meta(strides=[{"as_int": -1}]), "is negative"),
    "a weight that repeats": (
        meta(sizes=[{"as_int": 1 << 40}], strides=[{"as_int": 0}]),
        "repeats its elements",
    ),
    "an empty weight of huge sizes": (
        meta(sizes=[{"as_int": 0}, {"as_int": 1 << 62}], strides=[{"as_int": 1}] * 2),
        "repeats its elements",
    ),
    "a size of a weight": (meta(sizes=[{"as_expr": {"expr_str": "Integer(3)"}}]), "is not a number"),
    "a gradient of integers": (meta(dtype=4), "has no gradient"),
    "a stride for each size": (meta(strides=[]), "a stride for each"),
    "JSON that nests": ({**plain(), MODEL: DEEP}, "nests too deeply"),
    "not JSON": ({**plain(), MODEL: b"\xff{"}, "not JSON"),
    "a list": ({**plain(), MODEL: b"[]"}, "expects an object"),
    "a number of many digits": (text('"minor": 20', '"minor": ' + "9" * 5000), "not JSON"),
    "NaN": (text('"minor": 20', '"minor": NaN'), "NaN is not JSON"),
    "another version": (text('"major": 8', '"major": 9'), "version 9.20 of the schema .* of PyTorch 2.13.0"),
    "a name with code": (argument("as_tensor", {"name": "x; import os"}), "expects a name"),
    "a name of Python": (argument("as_tensor", {"name": "lambda"}), "expects a name"),
    "a name of Python's own": (argument("as_tensor", {"name": "__builtins__"}), "expects a name"),
    "a large integer": (argument("as_int", 1 << 63), "64-bit"),
    "a boolean for an integer": (argument("as_int", True), "64-bit"),
    "a text for a number": (argument("as_float", "1"), "expects a number"),
    "an unknown kind": (argument("as_thing", 1), "a value of the kind 'as_thing' is not supported"),
    "two kinds": (node("outputs", [{"as_int": 1, "as_bool": True}]), "one entry"),
    "an object of C++": (argument("as_custom_obj", {"name": "c", "class_fqn": "f"}), "an object of a C"),
    "an operator": (argument("as_operator", "torch.ops.aten.sin.default"), "an operator as an argument"),
    "a token": (spec("token", {"arg": {"name": "t"}}), "a side effect is not supported"),
    "a weight's name with code": (
        spec("parameter", {"arg": {"name": "p_w"}, "parameter_name": 'w"); import os; ("'}),
        "the name of a parameter",
    ),
    "a weight's name within Python": (
        spec("parameter", {"arg": {"name": "p_w"}, "parameter_name": "forward.__globals__.x"}),
        "the name of a parameter",
    ),
    "a field that is missing": (
        changed(lambda document: document["graph_module"]["graph"].pop("nodes")),
        "nodes is missing",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_archive(name: str, tmp_path: Path) -> None:
    parts, message = REFUSED[name]
    with pytest.raises(TiducError, match=message):
        read(write(tmp_path / "model.pt2", parts))


def test_compressed_parts(tmp_path: Path) -> None:
    """Compressed parts are refused: a small file could expand to gigabytes of JSON."""
    with pytest.raises(TiducError, match=r"model\.pt2: error: a part of the archive is compressed"):
        read(write(tmp_path / "model.pt2", plain(), zipfile.ZIP_DEFLATED))


def test_parts_that_share_bytes(tmp_path: Path) -> None:
    """An archive with several directory entries for the same bytes is refused, because the parts could be much larger
    than the file.
    """
    path = write(tmp_path / "model.pt2", {**plain(), "data/weights/weight_1": bytes(100_000)})
    written = path.read_bytes()
    start = written.rindex(b"PK\x01\x02", 0, written.rindex(b"PK\x05\x06"))
    entries = [start_of(written, "weight_1")]
    extra = b"".join(entries[0].replace(b"weight_1", f"weight{i:02}".encode()) for i in range(2, 30))
    end = written.rindex(b"PK\x05\x06")
    fields = list(struct.unpack("<IHHHHIIH", written[end:]))
    fields[3:6] = [fields[3] + 28, fields[4] + 28, fields[5] + len(extra)]
    path.write_bytes(written[:end] + extra + struct.pack("<IHHHHIIH", *fields))
    assert start < end
    with pytest.raises(TiducError, match="the parts of the archive have more bytes than the archive"):
        read(path)


def start_of(written: bytes, name: str) -> bytes:
    """The bytes of the archive's directory from the start of the entry of the part `name` to the end of the name."""
    at = written.rindex(name.encode())
    start = written.rindex(b"PK\x01\x02", 0, at)
    return written[start : at + len(name)]


def test_a_part_without_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt2", plain())
    with zipfile.ZipFile(path, "a") as opened:
        opened.writestr(zipfile.ZipInfo(""), b"x")
    with pytest.raises(TiducError, match="not in one folder"):
        read(path)


def test_a_damaged_part(tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt2", plain())
    path.write_bytes(path.read_bytes().replace(b"aten.sin", b"aten.cos"))
    with pytest.raises(TiducError, match="Bad CRC-32"):
        read(path)


def two_directories(good: Parts, evil: Parts) -> bytes:
    """The bytes of an archive with two directories. It depends on the reader which of the directories is used."""
    named = {**{f"plain/{name}": data for name, data in good.items()}, **evil}
    body, places = b"", {}
    for name, data in named.items():
        places[name] = len(body)
        sizes = zlib.crc32(data), len(data), len(data), len(name), 0
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0x21, *sizes) + name.encode() + data

    def directory(names: list[str], shift: int, size: int) -> bytes:
        out = b""
        for i, name in enumerate(names):
            data, last = named[name], i == len(names) - 1
            comment = b"p" * (size - len(out) - 46 - len(name)) if last and size else b""
            numbers = 0x02014B50, 20, 20, 0, 0, 0, 0x21, zlib.crc32(data), len(data), len(data), len(name), 0
            place = places[name] - shift
            out += (
                struct.pack("<IHHHHHHIIIHHHHHII", *numbers, len(comment), 0, 0, 0, place)
                + name.encode()
                + comment
            )
        return out

    first, second = [f"plain/{name}" for name in good], list(evil)
    size = max(len(directory(first, 0, 0)), len(directory(second, 0, 0)))
    filler = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0x21, 0, size, size, 1, 0) + b"f" + bytes(size)
    )
    places = {name: place + len(filler) for name, place in places.items()}
    body = filler + body
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(first), len(second), size, len(body), 0)
    return body + directory(first, 0, size) + directory(second, size, size) + end


def test_two_directories(tmp_path: Path) -> None:
    """A file with two directories is refused, because the two readers of PyTorch would find different archives in
    it.
    """
    evil = {"version": b"8.20", "serialized_exported_program.json": plain()[MODEL], "a.pt": b"", "b.pt": b""}
    good = {
        name: plain()[name] for name in ("archive_format", "archive_version", ".data/version", "byteorder")
    }
    path = tmp_path / "plain.pt2"
    path.write_bytes(two_directories(good, evil))
    with pytest.raises(TiducError):
        read(path)


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing", "empty", "link to zeros"])
def test_what_is_no_archive(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "missing": lambda: None,
        "empty": path.touch,
        "link to zeros": lambda: path.symlink_to("/dev/zero"),
    }[kind]()
    with pytest.raises((TiducError, OSError)):
        read(path)


# ---- pickles -----------------------------------------------------------------------------------------------


class Odd:
    """A class that does not belong to PyTorch."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("x",)


@pytest.mark.parametrize(
    ("value", "protocol", "message"),
    [
        ({"w": Odd()}, 2, r"calls posix\.mkdir.*--trust"),
        ({"w": 1}, 2, "not a pickle of tensors by name: w"),
        ([1], 2, "the operation EMPTY_LIST"),
        (3, 2, "not a pickle of tensors by name"),
        ({"w": 1}, 5, "the operation MEMOIZE"),
        ({"w": 1.5}, 2, "the operation BINFLOAT"),
    ],
)
def test_a_pickle_that_is_not_of_tensors(value: Any, protocol: int, message: str) -> None:
    with pytest.raises(TiducError, match=message):
        pickled.read_tensors(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    "written", [b"", b".", b"}", b"t.", b"(t", b"Q.", b"))R.", b"}(u", b"}))s.", b"h\x05.", b"q\x05."]
)
def test_a_damaged_pickle(written: bytes) -> None:
    with pytest.raises(TiducError, match="pickle"):
        pickled.read_tensors(written)


# ---- expressions -------------------------------------------------------------------------------------------

S = "Symbol('s77', positive=True, integer=True)"


@pytest.mark.parametrize(
    "text",
    [
        S,
        f"Mul(Integer(2), {S})",
        f"Add(Integer(-1), Mul(Rational(1, 2), {S}))",
        f"FloorDiv(Pow({S}, Integer(2)), Max(Integer(1), {S}))",
        f"StrictLessThan({S}, Float('2.5', precision=53))",
        f"And(Not(Equality({S}, Integer(3))), true)",
    ],
)
def test_an_expression(text: str) -> None:
    """tiduc parses the text of a symbolic expression to the same expression as SymPy."""
    sympy = pytest.importorskip("sympy")
    pytest.importorskip("torch")
    from torch.utils._sympy.functions import FloorDiv

    expression = expressions.as_sympy(expressions.read_expression(text))
    assert sympy.srepr(expression) == sympy.srepr(sympy.sympify(text, locals={"FloorDiv": FloorDiv}))


NINE = "Integer(9)"
BOMBS = {
    "towers": f"Pow(Pow(Pow(Pow({NINE}, Integer(16)), Integer(16)), Integer(16)), Integer(16))",
    "a power of a symbol": f"Pow(Integer(2), {S})",
    "a large power": f"Pow({S}, Integer(1000))",
    "operators": f"{NINE}**{NINE}**{NINE}**{NINE}",
    "a long float": "Float('1.5', precision=1000000000)",
    "a float in digits": "Float('1.5', 1000000000)",
    "a large float": "Float('1e999999999', precision=53)",
    "a factorial": "factorial(Integer(10000000))",
    "a fraction": "Rational('1e999999999')",
    "a fraction by zero": "Rational(1, 0)",
    "brackets": "Not(" * 3000 + "true" + ")" * 3000,
    "many brackets": "(" * 3000 + "s0" + ")" * 3000,
    "a shift": "LShift(Integer(1), Integer(99999999999))",
    "a large integer": f"Integer({'9' * 21})",
    "many operands": f"Max({', '.join([S] * 65)})",
    "a long text": f"Add({', '.join([S] * 1000)})",
    "code": "__import__('os').system('touch x')",
    "code in a name": "Symbol('__import__(\"os\")')",
    "code in a function": "sin('__import__(chr(111)+chr(115)).mkdir(\"x\")')",
    "another function": f"lambdify({S}, {S})",
    "an assumption": "Symbol('x', cls=True)",
    "no operands": "Add()",
    "more than one": f"{S} {S}",
    "nothing": "",
    "a word": "s0",
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_expression_that_is_not_read(name: str) -> None:
    with pytest.raises(TiducError, match=r"expression for a size"):
        expressions.read_expression(BOMBS[name])


def test_large_parts_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_JSON", 100)
    with pytest.raises(TiducError, match="has more than 0 MiB"):
        read(write(tmp_path / "model.pt2", plain()))
    monkeypatch.setattr(archive, "MOST_PARTS", 3)
    with pytest.raises(TiducError, match="more than 3 parts"):
        read(write(tmp_path / "model.pt2", plain()))


def test_a_file_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "model.pt2", plain())
    monkeypatch.setattr(archive, "memory", lambda: 0)
    with pytest.raises(TiducError, match="larger than the memory"):
        read(path)


def test_messages_hold_no_control_characters() -> None:
    """Control characters are removed from text of a file that messages may quote."""
    record = schema.checked(schema.Maybe(schema._trace), 'File "x.py", line 1\n\x1b[31mred\x00')
    assert record == 'File "x.py", line 1\n[31mred'
    assert json.dumps(record)
