"""Importing an untrusted `.pt2` file: code in the file does not run, no other files are read, and the caller's process
survives.
"""

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.archives import (
    CONSTANTS,
    MODEL,
    WEIGHTS,
    Parts,
    argument,
    changed,
    plain,
    with_node,
    with_size,
    write,
)
from test_models_archives import BOMBS, two_directories

import tiduc
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.runtime.process import Limits


class Evil:
    """An object that creates a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def saved(x: Any) -> bytes:
    """The bytes that `torch.save` writes for an object."""
    import torch

    file = io.BytesIO()
    torch.save(x, file)
    return file.getvalue()


def code(mark: Path) -> str:
    """A Python expression that creates a folder."""
    return f"__import__('os').mkdir({str(mark)!r})"


def guards(mark: Path) -> Parts:
    return changed(lambda document: document.update(guards_code=[f"{code(mark)} is None"]))


def sample_input(mark: Path) -> Parts:
    return {**plain(), "data/sample_inputs/model.pt": saved(((Evil(mark),), {}))}


def pickled_weight(mark: Path) -> Parts:
    parts = changed(lambda document: document["config"]["w"].update(use_pickle=True), WEIGHTS)
    return {**parts, "data/weights/weight_0": saved(Evil(mark))}


def old_weights(mark: Path) -> Parts:
    parts = {**plain(), "data/weights/model.pt": saved({"w": Evil(mark)})}
    del parts[WEIGHTS]
    return parts


def _object(mark: Path, name: str, held: str) -> Parts:
    entry = {"path_name": name, "is_param": False, "use_pickle": True, "tensor_meta": None}
    parts = changed(lambda document: document["config"].update(c=entry), CONSTANTS)
    return {**parts, f"data/constants/{held}": pickle.dumps(Evil(mark))}


def opaque_object(mark: Path) -> Parts:
    return _object(mark, "opaque_obj_0", "opaque_obj_0")


def object_in_capitals(mark: Path) -> Parts:
    return _object(mark, "opaque_obj_0", "OPAQUE_OBJ_0")


def expression(mark: Path) -> Parts:
    return with_size(code(mark))


def text_in_expression(mark: Path) -> Parts:
    return with_size(f"sin('__import__(chr(111)+chr(115)).mkdir(\"{mark}\")')")


def _containers(mark: Path, fqn: str, name: str) -> Parts:
    context = json.dumps([{"__enum__": True, "fqn": fqn, "name": name}])
    leaf = {"type": None, "context": None, "children_spec": []}
    keywords = {"type": "builtins.dict", "context": context, "children_spec": []}
    arguments = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}
    spec = {"type": "builtins.tuple", "context": "null", "children_spec": [arguments, keywords]}

    def change(document: dict[str, Any]) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        signature.update(in_spec=json.dumps([1, spec]), out_spec=json.dumps([1, {**leaf, "x": spec}]))

    return changed(change)


def type_of_an_argument(mark: Path) -> Parts:
    (mark.parent / "stranger.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    return _containers(mark, "stranger:Kind", "ONE")


def shared_library(mark: Path) -> Parts:
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    source, library = mark.with_suffix(".c"), mark.with_suffix(".so")
    source.write_text(
        "#include <sys/stat.h>\n__attribute__((constructor)) static void f(void)"
        f'{{ mkdir("{mark}", 0700); }}\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return _containers(mark, "ctypes:cdll", str(library))


def machine_code(mark: Path) -> Parts:
    return {**plain(), "data/aotinductor/model/model.so": b"\x7fELF"}


def command(mark: Path) -> Parts:
    return with_node("torch.serialization.os.system", [argument("", "as_string", f"mkdir {mark}")])


def call(mark: Path) -> Parts:
    return with_node("_operator.call", [argument("", "as_string", f"mkdir {mark}")])


def library_of_operators(mark: Path) -> Parts:
    return with_node("torch.ops.load_library", [argument("", "as_string", str(mark))])


def array_of_a_file(mark: Path) -> Parts:
    given = [argument("filename", "as_string", str(mark)), argument("shared", "as_bool", True)]
    return with_node("torch.ops.aten.from_file.default", [*given, argument("size", "as_int", 3)])


def array_to_a_file(mark: Path) -> Parts:
    given = [argument("item", "as_string", "x"), argument("filename", "as_string", str(mark))]
    return with_node("torch.ops.aten.save.default", given)


def name_of_an_argument(mark: Path) -> Parts:
    def change(document: dict[str, Any]) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        signature["forward_arg_names"] = [f"x={code(mark)}"]

    return changed(change)


def name_of_a_value(mark: Path) -> Parts:
    parts = plain()
    name = f"x={code(mark)}".replace("'", chr(39))
    return {**parts, MODEL: parts[MODEL].replace(b'"name": "x"', f'"name": {json.dumps(name)}'.encode())}


def name_of_a_weight(mark: Path) -> Parts:
    name = f'w"), {code(mark)}, getattr(self, "w'
    parts = changed(lambda document: document["config"].update({name: document["config"].pop("w")}), WEIGHTS)

    def change(document: dict[str, Any]) -> None:
        document["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = name

    return changed(change, MODEL, parts)


def name_of_a_keyword(mark: Path) -> Parts:
    return with_node("torch.ops.higher_order.cond", [argument(f"x={code(mark)}, y", "as_int", 1, 2)])


def script(mark: Path) -> Parts:
    """An archive with a TorchScript program in place of a weight."""
    import torch

    class Script(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_file("x", True, 64)

    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Script()), file)
    return {**pickled_weight(mark), "data/weights/weight_0": file.getvalue()}


ATTACKS: dict[Callable[[Path], Parts], str | None] = {
    guards: None,
    sample_input: None,
    type_of_an_argument: None,
    shared_library: None,
    name_of_an_argument: None,
    pickled_weight: "w is a pickle.*--trust",
    script: "w is a pickle.*--trust",
    old_weights: r"a pickle that calls posix\.mkdir.*--trust",
    opaque_object: "c is a pickle.*--trust",
    object_in_capitals: "c is a pickle.*--trust",
    expression: "cannot parse the expression for a size",
    text_in_expression: "cannot parse the expression for a size",
    machine_code: "holds machine code",
    command: "torch.serialization.os.system is not an operator.*--trust",
    call: "_operator.call is not an operator",
    library_of_operators: "torch.ops.load_library is not an operator",
    array_of_a_file: "aten.from_file.default may not have a string as an argument",
    array_to_a_file: "aten.save.default is not an operator",
    name_of_a_value: "expects a name",
    name_of_a_weight: "expects the name of a parameter",
    name_of_a_keyword: "expects a name",
}
"""Functions that write files with code, and the message with which each file is refused.

None means that the import succeeds, because it reads no part with code.
"""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_export_from_a_stranger(
    attack: Callable[[Path], Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "ran"
    path, message = write(tmp_path / "model.pt2", attack(mark)), ATTACKS[attack]
    before = set(tmp_path.iterdir())
    if message is None:
        assert str(tiduc.from_torch(path).signature) == "(x: 3xf32) -> (result0: 3xf32)"
    else:
        with pytest.raises(TiducError, match=rf"(?s)model\.pt2: error: .*{message}"):
            tiduc.from_torch(path)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "attack", [guards, expression, shared_library, type_of_an_argument, object_in_capitals]
)
def test_pytorch_runs_what_is_refused(
    attack: Callable[[Path], Parts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `trust`, PyTorch's reader runs the code in the files of ATTACKS.

    This shows that the refused files would be harmful.
    """
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    mark = tmp_path / "ran"
    parts = {**attack(mark), "data/sample_inputs/model.pt": saved(((torch.ones(3),), {}))}
    with suppress(TiducError):
        tiduc.from_torch(write(tmp_path / "model.pt2", parts), trust=True)
    assert mark.exists()


def test_a_file_with_two_directories(tmp_path: Path) -> None:
    """A file with two directories is refused.

    PyTorch's first reader finds no program in it, but the second one finds a program with code.
    """
    torch = pytest.importorskip("torch")
    mark, path = tmp_path / "ran", tmp_path / "plain.pt2"
    evil = {
        "version": b"8.20",
        "serialized_exported_program.json": with_size(f"{code(mark)} or 3")[MODEL],
        "serialized_state_dict.pt": saved({"w": torch.ones(3)}),
        "serialized_constants.pt": saved({}),
        "serialized_example_inputs.pt": saved(((torch.ones(3),), {})),
    }
    good = {
        name: plain()[name] for name in ("archive_format", "archive_version", ".data/version", "byteorder")
    }
    path.write_bytes(two_directories({**good, "x": b"x"}, evil))
    records = torch._C.PyTorchFileReader(str(path)).get_all_records()
    assert "archive_format" in records and MODEL not in records
    with pytest.raises(TiducError, match="of PyTorch 2.8 or later"):
        tiduc.from_torch(path)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["towers", "operators", "a float in digits", "a factorial", "many brackets"])
def test_an_expression_takes_no_time(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = write(tmp_path / "model.pt2", with_size(BOMBS[name]))
    started = time.process_time()
    with pytest.raises(TiducError, match="for a size"):
        tiduc.from_torch(path)
    assert time.process_time() - started < 5


def test_a_program_that_takes_all_time_or_memory(tmp_path: Path) -> None:
    """A program that splits a tensor into its 2^30 elements is refused within limits of time and memory, although
    PyTorch would create 2^30 objects.
    """
    pytest.importorskip("torch")

    def change(document: dict[str, Any]) -> None:
        graph = document["graph_module"]["graph"]
        sizes = [{"as_int": 2**30}]
        graph["tensor_values"]["x"]["sizes"] = sizes
        graph["nodes"][0].update(
            target="torch.ops.aten.unbind.int", outputs=[{"as_tensors": [{"name": "sin"}]}], name="unbind"
        )

    path = write(tmp_path / "model.pt2", changed(change))
    with pytest.raises(CompileError, match="took longer than|needs more than"):
        tiduc.from_torch(path, limits=Limits(seconds=20, mebibytes=2048))


def test_an_export_that_is_trusted(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    mark, output = tmp_path / "ran", tmp_path / "model.mlir"
    attacked = {**pickled_weight(mark), "data/sample_inputs/model.pt": saved(((torch.ones(3),), {}))}
    weight = saved(torch.nn.Parameter(torch.ones(3)))
    path = write(tmp_path / "model.pt2", attacked | {"data/weights/weight_0": weight})
    assert run(["import", str(path), "-o", str(output)]) == 1 and not output.exists()
    assert run(["import", str(path), "--trust", "-o", str(output)]) == 0 and output.exists()
    with pytest.raises(TiducError):  # the code runs, but its result is not a parameter
        tiduc.import_model(write(path, attacked), trust=True)
    assert mark.exists()


@pytest.mark.parametrize("isolated", [False, True])
def test_an_export_without_other_programs(isolated: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = write(tmp_path / "model.pt2", plain())
    program = tiduc.import_model(path, lift_constants=True, isolated=isolated)
    assert str(program.signature) == "(w: 3xf32, x: 3xf32) -> (result0: 3xf32)"
    np.testing.assert_array_equal(program.weights["w"], [1, 2, 3])
    program.weights["w"][0] = 5  # the array is writable, because it belongs to the caller


def test_an_unknown_operator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    parts = plain()
    path = write(tmp_path / "model.pt2", {**parts, MODEL: parts[MODEL].replace(b"aten.sin", b"aten.sinus")})
    with pytest.raises(
        TiducError, match=r"model\.pt2: error: torch\.ops\.aten\.sinus\.default is not an operator"
    ):
        tiduc.import_model(path)
    assert capfd.readouterr().err == ""


def test_steps_that_a_program_leaves_open(tmp_path: Path) -> None:
    """A refused program that enters a vmap level and does not leave it has no effect on the next import in the same
    worker.
    """
    pytest.importorskip("torch")
    good, path = write(tmp_path / "good.pt2", plain()), tmp_path / "model.pt2"
    expected = tiduc.from_torch(good).text
    step = "torch._functorch.predispatch._vmap_increment_nesting"
    inputs = [argument("", "as_int", 2), argument("", "as_string", "error")]
    parts = with_node(step, inputs)
    document = json.loads(parts[MODEL])
    document["graph_module"]["graph"]["nodes"][0].update(outputs=[{"as_none": True}], name="step")
    document["graph_module"]["graph"]["nodes"][1]["inputs"][0]["arg"] = {"as_tensor": {"name": "x"}}
    write(path, {**parts, MODEL: json.dumps(document).encode()})
    with suppress(TiducError):
        tiduc.from_torch(path)
    assert tiduc.from_torch(good).text == expected


def test_pytorch_reads_no_shared_cache(tmp_path: Path) -> None:
    """The import does not use the cache of PyTorch's compiler in the shared temporary folder, to which another user may
    have written.
    """
    pytest.importorskip("torch")
    (temporary := tmp_path / "temporary").mkdir()
    path = write(tmp_path / "plain.pt2", plain())
    command = [sys.executable, "-m", "tiduc", "import", str(path), "-o", str(tmp_path / "plain.mlir")]
    subprocess.run(command, check=True, env={**os.environ, "TMPDIR": str(temporary)}, timeout=300)
    assert (tmp_path / "plain.mlir").exists() and not list(temporary.iterdir())
