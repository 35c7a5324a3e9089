"""Signatures have precise types: the number of types with `Any` may only decrease, and the stubs of MLIR's bindings are
correct.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from iree.compiler import ir as iree_ir
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.dialect.emitters.bodies import IrEmitter, RegionBuilder
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.graph.graph import Value
from tiduc.loading import load
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import InputPort, OutputPort

ROOT = Path(__file__).parents[2]
FOLDERS = ("backends", "dialect", "passes", "runtime", "tiduc")
STUBS = ROOT / "typings" / "torch_mlir" / "_mlir_libs"
IREE_STUBS = ROOT / "typings" / "iree" / "compiler" / "_mlir_libs"

MOST_PARAMETERS, MOST_RETURNS = 105, 457
"""The most parameters and results whose types may contain `Any`.

Lower these limits after each change that removes some.
"""


def annotations(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yields the types of all parameters and results in a file, each after its kind, "parameters" or "results"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            for parameter in named:
                if parameter is not None and parameter.annotation is not None:
                    yield "parameters", parameter.annotation
            if node.returns is not None:
                yield "results", node.returns


def holds_any(annotation: ast.expr) -> bool:
    """Whether a type contains `Any`. `Any` as the element type of a NumPy array does not count."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return holds_any(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith(("dtype", "NDArray")):
        return False
    if isinstance(annotation, ast.Name | ast.Attribute):
        return ast.unparse(annotation).split(".")[-1] == "Any"
    return any(holds_any(part) for part in ast.iter_child_nodes(annotation) if isinstance(part, ast.expr))


def counted() -> tuple[Counter[str], Counter[str]]:
    """For each kind, the number of types in signatures, and the number of those that contain `Any`."""
    every: Counter[str] = Counter()
    some: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for kind, annotation in annotations(ast.parse(path.read_text())):
                every[kind] += 1
                some[kind] += holds_any(annotation)
    return every, some


def test_any_in_signatures_only_falls() -> None:
    every, some = counted()
    assert every["parameters"] > 10_000
    assert some["parameters"] <= MOST_PARAMETERS, "give the new parameters types"
    assert some["results"] <= MOST_RETURNS, "give the new results types"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Any", True),
        ("Sequence[Any] | None", True),
        ("'Callable[..., Any]'", True),
        ("np.dtype[Any]", False),
        ("NDArray[Any]", False),
        ("ir.Operation", False),
    ],
)
def test_counting(text: str, expected: bool) -> None:
    assert holds_any(ast.parse(text, mode="eval").body) is expected


@pytest.mark.parametrize(
    "module, stub",
    [
        (ir, STUBS / "_mlir" / "ir.pyi"),
        (_stablehlo, STUBS / "_stablehlo.pyi"),
        (iree_ir, IREE_STUBS / "_mlir" / "ir.pyi"),
    ],
)
def test_stubs_fit_the_bindings(module: object, stub: Path) -> None:
    """Each class and each method of a stub exists in the bindings."""
    classes = {node.name: node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    assert len(classes) > 20
    for name, node in classes.items():
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name != "__iter__":
                assert hasattr(getattr(module, name), member.name), f"{name}.{member.name}"


@pytest.mark.slow
def test_stubs_are_generated(tmp_path: Path) -> None:
    """The command in the docstring of `typings/generate.py` generates the stubs that are in the source tree."""
    pytest.importorskip("nanobind")
    (tmp_path / "generate.py").write_text((ROOT / "typings" / "generate.py").read_text())
    subprocess.run([sys.executable, str(tmp_path / "generate.py")], check=True, capture_output=True)
    for path in sorted((ROOT / "typings").rglob("*.pyi")):
        made = tmp_path / path.relative_to(ROOT / "typings")
        assert made.read_text() == path.read_text(), f"{made.name} differs from the output of generate.py"


@pytest.mark.parametrize("name", ["input", "finish", "finish_linear", "sum", "view", "notes", "reapply"])
def test_an_emitter_of_mlir_has_no_graph(name: str) -> None:
    """`IrEmitter` and the emitters of backends do not have methods that work only on graphs."""
    for emitter in (IrEmitter, RegionBuilder, Emitter):
        assert not hasattr(emitter, name)
    assert name in ("view", "notes") or hasattr(StablehloBuilder, name)


def test_both_carriers_emit_the_same_ops() -> None:
    """The builder of graphs and the emitter of MLIR both implement all methods of the protocol `StablehloOps`."""
    assert issubclass(StablehloBuilder, StablehloOps) and issubclass(Emitter, StablehloOps)
    assert not StablehloBuilder.__abstractmethods__ and not Emitter.__abstractmethods__
    assert StablehloOps.__abstractmethods__ == {"emit", "emit_all", "size"}


def test_ports_say_where_they_are_in_the_graphs() -> None:
    """In a program and its derivatives, each input port has the key of its input in the graphs, and each output port
    has its value.
    """
    text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    program = load(text)
    for each in (program, program.jvp(), program.vjp(), program.jacobian(), program.batch({"x": 0}, 2)):
        assert all(type(port) is InputPort and isinstance(port.key, str) for port in each.inputs)
        assert all(type(port) is OutputPort and isinstance(port.value, Value | Zero) for port in each.outputs)


def test_public_classes_have_names_of_their_own() -> None:
    """All public classes have distinct names. Otherwise, readers and searches would confuse them."""
    places: dict[str, list[str]] = {}
    paths = {path.resolve() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    for path in sorted(paths):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert twice == {}, "give each class a distinct name, with a term of the field"
