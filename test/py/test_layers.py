"""A module may import only modules of its own layer and of lower layers.

The layers are errors < dialect < rules < passes < backends < program < models < tools < cli. The graph of all imports
must have no cycle. Imports inside functions and imports for type checkers count too.
"""

import ast
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("backends", "dialect", "passes", "runtime", "tiduc")

Layers = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]

IR = ("errors", "definitions", "context", "dialect")
PASSES = (*IR, "rules", "batching", "passes")
COMPILER = (*PASSES, "runtime", "backends")
PROGRAMS = (*COMPILER, "program", "models")

# For each layer: its modules, and the layers that it may import besides itself. A module belongs to the first layer
# that matches.
LAYERS = {
    "errors": (
        ("tiduc.dialect.errors", "tiduc.dialect.progress", "tiduc.dialect.reading", "tiduc.dialect.turns"),
        (),
    ),
    "definitions": (
        (
            "tiduc.dialect.ops",
            *(
                f"tiduc.dialect.mlir.{name}"
                for name in "aliases artifacts bindings foreign formats resources source_names views".split()
            ),
        ),
        ("errors",),
    ),
    "context": (("tiduc.dialect.mlir.context",), ("errors", "definitions")),
    "dialect": (("tiduc.dialect",), IR),
    "rules": (("tiduc.passes.rules",), IR),
    "batching": (("tiduc.passes.batching",), (*IR, "rules")),
    "passes": (("tiduc.passes",), PASSES),
    "runtime": (("tiduc.runtime",), ("errors",)),
    "backends": (("tiduc.backends",), (*PASSES, "runtime")),
    "program": (
        tuple(
            f"tiduc.{name}"
            for name in (
                "activity",
                "calling",
                "explain.costs",
                "derivatives",
                "linking",
                "pictures",
                "pipeline",
                "ports",
                "program",
                "reading",
                "signatures",
                "view",
                "vmap",
            )
        ),
        COMPILER,
    ),
    "models": (("tiduc.models",), (*COMPILER, "program")),
    "eager": (("tiduc.eager",), (*COMPILER, "program")),
    "cli": (("tiduc.cli", "tiduc.crashes", "tiduc.driver", "tiduc.__main__"), (*PROGRAMS, "tiduc")),
    "tiduc": (("tiduc",), PROGRAMS),  # tools that use programs: check, explain, view, training, ...
}


IREE = "tiduc.backends.iree"
TOOLS = ("records of IREE", "emit")
REASONS = ("faults", "missing", "linear_algebra", "fast", "modules")
# The folders ("rooms") of backends/iree, in the form of LAYERS. The folders in REASONS must not import each other.
ROOMS = {
    "records of IREE": (("fault", "settings", "targets", "elf"), ()),
    "emit": (("emit",), ("records of IREE",)),
    **{reason: ((reason,), TOOLS) for reason in REASONS},
    "pipeline": (("pipeline", "apply_patterns"), (*TOOLS, *REASONS)),
    "plan": (("plan", "work"), (*TOOLS, *REASONS, "pipeline")),
    "build": (("",), (*TOOLS, *REASONS, "pipeline", "plan")),
}


# The rooms of dialect/, from the lowest. A file may import its own room and lower rooms. Files directly in dialect/ are
# the layer "errors".
DIALECT = ("ops", "mlir", "graph", "shapes", "facts", "dynamic", "emitters", "control")


def layer(module: str, layers: Layers = LAYERS) -> str:
    """The name of the layer to which a module belongs."""
    return next(
        name
        for name, (roots, _) in layers.items()
        if any(module == root or module.startswith(f"{root}.") or not root for root in roots)
    )


def files() -> dict[str, Path]:
    """All source files of the package tiduc, by module name."""
    paths = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            if parts[0] == "tiduc" and len(parts) > 1 and parts[1] in FOLDERS:
                continue  # a link to another folder
            parts = parts if parts[0] == "tiduc" else ["tiduc", *parts]
            paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


def imports(source: str, local: bool = False) -> list[tuple[int, str]]:
    """The lines and names of all imports of a file, at any nesting depth. A name is that of a module or in a module.

    If `local` is set, returns only the imports inside functions.
    """
    return [(line, name) for line, name, inside in _imports(source) if inside or not local]


@cache
def _imports(source: str) -> list[tuple[int, str, bool]]:
    """The imports of a file: for each, its line, the imported name, and whether it is inside a function."""
    names = []

    def walk(tree: ast.AST, inside: bool) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.Import):
                names.extend((node.lineno, alias.name, inside) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                names.extend((node.lineno, f"{module}.{alias.name}", inside) for alias in node.names)
            elif not isinstance(node, ast.expr):  # skips expressions, because they contain no statements
                walk(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))

    walk(ast.parse(source), False)
    return names


def module_of(imported: str, known: dict[str, Path]) -> str:
    """The module of tiduc that an import reads: the name itself, or the module that defines the name."""
    while imported not in known:
        imported = imported.rpartition(".")[0]
    return imported


def graph(known: dict[str, Path]) -> dict[str, set[str]]:
    """Maps each module to the modules of tiduc that it imports anywhere in its file."""
    return {
        module: {
            module_of(imported, known)
            for _, imported in imports(path.read_text())
            if imported.split(".")[0] == "tiduc"
        }
        for module, path in known.items()
    }


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of an import cycle. The first module is also the last. Returns [] if there is no cycle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def room_violations(module: str, source: str) -> list[str]:
    """A message for each import of a file of backends/iree that is forbidden in the file's folder ("room")."""
    name = layer(module.removeprefix(f"{IREE}."), ROOMS)
    allowed = {name, *ROOMS[name][1]}
    return [
        f"{module}:{line}: {name} may not import {room} ({imported})"
        for line, imported in imports(source)
        if imported.startswith(f"{IREE}.")
        and (room := layer(imported.removeprefix(f"{IREE}."), ROOMS)) not in allowed
    ]


def violations(module: str, source: str) -> list[str]:
    """A message for each import of a file that is forbidden in its layer, or in its folder of backends/iree."""
    name = layer(module)
    allowed = {name, *LAYERS[name][1]}
    names = room_violations(module, source) if module.startswith(f"{IREE}.") else []
    for line, imported in imports(source):
        root = imported.split(".")[0]
        if not root:
            names.append(f"{module}:{line}: a relative import")
        elif root in FOLDERS and root != "tiduc":
            names.append(f"{module}:{line}: {imported} is a second copy of tiduc.{imported}")
        elif root == "tiduc" and layer(imported) not in allowed:
            names.append(f"{module}:{line}: {name} may not import {layer(imported)} ({imported})")
    return names


# All imports inside functions: the module, the imported module, and why the import cannot be at module level.
OPTIONAL, SLOW, PLATFORM = "an optional package", "saves start-up time", "absent on some platforms"
FORKED = "the driver must not load libraries before it forks"
LOCAL = {
    ("tiduc.__main__", "tiduc.cli"): FORKED,
    ("tiduc.__main__", "tiduc.dialect.progress"): "interrupts must end the process silently",
    ("tiduc.__main__", "tiduc.driver"): "the driver needs Linux",
    ("tiduc.backends.xla.executable", "jax"): OPTIONAL,
    ("tiduc.backends.xla.executable", "jaxlib"): OPTIONAL,
    ("tiduc.cli", "tiduc.runtime.process"): SLOW,
    ("tiduc.cli.diagnostics", "rich"): SLOW,
    ("tiduc.cli.models", "tiduc.models.files"): SLOW,
    ("tiduc.cli.processes", "jax"): OPTIONAL,
    ("tiduc.cli.tables", "rich"): SLOW,
    ("tiduc.cli.train", "rich"): SLOW,
    ("tiduc.cli.targets", "tiduc.runtime.devices"): SLOW,
    **{(f"tiduc.distributed.{name}", "jax"): OPTIONAL for name in ("checkpoints", "service")},
    ("tiduc.distributed.checkpoints", "orbax"): OPTIONAL,
    ("tiduc.driver", "ctypes"): SLOW,
    ("tiduc.driver", "faulthandler"): SLOW,
    ("tiduc.driver", "tiduc.crashes"): FORKED,
    ("tiduc.driver", "traceback"): SLOW,
    ("tiduc.eager.executors", "tiduc.backends.iree.build"): SLOW,
    ("tiduc.eager.executors", "tiduc.runtime.run"): SLOW,
    ("tiduc.interop", "tiduc.interop.in_jax"): OPTIONAL,
    ("tiduc.interop", "tiduc.interop.in_torch"): OPTIONAL,
    ("tiduc.live", "tiduc.live.jax_functions"): OPTIONAL,
    ("tiduc.live", "tiduc.live.torch_functions"): OPTIONAL,
    ("tiduc.loading", "tiduc.models.from_jax"): SLOW,
    ("tiduc.loading", "tiduc.models.from_torch"): SLOW,
    ("tiduc.models.files", "tiduc.models.from_jax"): SLOW,
    ("tiduc.models.files", "tiduc.models.from_onnx"): SLOW,
    ("tiduc.models.files", "tiduc.models.from_torch"): SLOW,
    ("tiduc.models.from_jax", "jax"): OPTIONAL,
    **{(f"tiduc.models.jax.{name}", "jax"): OPTIONAL for name in ("callbacks", "derivatives", "lowerings")},
    ("tiduc.models.from_onnx", "onnx"): OPTIONAL,
    ("tiduc.models.from_onnx", "torch_mlir"): OPTIONAL,
    ("tiduc.models.from_torch", "tiduc.models.torch.ops.before_export"): OPTIONAL,
    ("tiduc.models.from_torch", "tiduc.models.torch.ops.own_derivatives"): OPTIONAL,
    ("tiduc.models.from_torch", "torch"): OPTIONAL,
    ("tiduc.models.model", "tiduc.backends.iree.build"): SLOW,
    ("tiduc.models.model", "tiduc.models.parameters"): SLOW,
    ("tiduc.models.model", "tiduc.runtime.run"): SLOW,
    ("tiduc.models.onnx.prepare", "onnx"): OPTIONAL,
    ("tiduc.models.torch.dialect", "torch_mlir"): SLOW,
    ("tiduc.models.torch.exported", "tiduc.models.torch.ops.control"): OPTIONAL,
    ("tiduc.models.torch.exported", "tiduc.models.torch.ops.masks"): OPTIONAL,
    ("tiduc.models.torch.exported", "tiduc.models.torch.ops.fills"): OPTIONAL,
    ("tiduc.models.torch.exported", "tiduc.models.torch.ops.table"): OPTIONAL,
    ("tiduc.models.torch.exported", "torch"): OPTIONAL,
    ("tiduc.models.torch.exported", "torch_mlir"): OPTIONAL,
    ("tiduc.models.torch.expressions", "sympy"): OPTIONAL,
    ("tiduc.models.torch.sizes", "sympy"): OPTIONAL,
    **{
        (f"tiduc.models.torch.{name}", "torch"): OPTIONAL
        for name in ("expressions", "isolated", "rebuilt", "sizes", "spared", "targets")
    },
    ("tiduc.program", "tiduc.explain.costs"): SLOW,
    ("tiduc.program", "tiduc.pictures"): SLOW,
    ("tiduc.runtime.process", "resource"): PLATFORM,
    ("tiduc.runtime.weights", "iree"): SLOW,
    ("tiduc.runtime.worker", "fcntl"): PLATFORM,
    ("tiduc.view.draw", "pygraphviz"): OPTIONAL,
    ("tiduc.training.plots", "matplotlib"): OPTIONAL,
    ("tiduc.training.trained", "onnx"): OPTIONAL,
}


def test_no_module_imports_itself_through_others() -> None:
    assert cycle(graph(files())) == []


def test_imports_inside_functions_are_listed() -> None:
    known = files()
    actual = {
        (module, module_of(imported, known) if imported.startswith("tiduc") else imported.split(".")[0])
        for module, path in known.items()
        for _, imported in imports(path.read_text(), local=True)
    }
    assert sorted(actual - LOCAL.keys()) == [], "import at the top of the file, or list the reason in LOCAL"
    assert sorted(LOCAL.keys() - actual) == [], "no longer imported in a function: remove it from LOCAL"


def test_a_cycle_is_detected(tmp_path: Path) -> None:
    sources = {
        "tiduc.a": "def f():\n    from tiduc.b import g",
        "tiduc.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tiduc.c import C",
        "tiduc.c": "from tiduc import a",
    }
    known = {module: tmp_path / f"{module}.py" for module in sources}
    for module, path in known.items():
        path.write_text(sources[module])
    known["tiduc"] = tmp_path / "tiduc.py"
    known["tiduc"].write_text("")
    assert set(cycle(graph(known))) == {"tiduc.a", "tiduc.b", "tiduc.c"}
    known["tiduc.c"].write_text("")
    assert cycle(graph(known)) == []


def test_files_are_found() -> None:
    known = files()
    for module in (
        "tiduc",
        "tiduc.program",
        "tiduc.dialect.graph.view",
        "tiduc.passes.rules.gather",
        "tiduc.runtime.run",
    ):
        assert known[module].is_file()


def test_imports() -> None:
    wrong = [line for module, path in files().items() for line in violations(module, path.read_text())]
    assert wrong == [], "move the imported code to a lower layer, or pass the object as an argument"


def room(module: str) -> str | None:
    """The folder of dialect/ that contains a module. Returns None for files in dialect/ itself or in other packages."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["tiduc", "dialect"] and len(parts) > 2 and parts[2] in DIALECT else None


def test_rooms_of_the_dialect_have_an_order() -> None:
    known = files()
    edges = graph(known)
    rooms = {room(module) for module in known if module.startswith("tiduc.dialect.")} - {None}
    assert rooms == set(DIALECT)
    beside = {module for module in known if layer(module) == "errors"}
    assert {
        module for module in known if module.startswith("tiduc.dialect.") and room(module) is None
    } == beside
    upward = [
        f"{module} imports {imported}"
        for module in known
        for imported in sorted(edges[module])
        if (of := room(module)) and (to := room(imported)) and DIALECT.index(of) < DIALECT.index(to)
    ]
    assert upward == [], "move the imported code to a lower room"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tiduc.dialect.errors", "from tiduc.dialect import context"),
        ("tiduc.dialect.graph.view", "from tiduc.passes.resolve import resolve"),
        ("tiduc.dialect.graph.view", "import tiduc.program"),
        ("tiduc.passes.rules.gather", "from tiduc.passes import linearize"),
        ("tiduc.passes.rules.gather", "from tiduc.passes.linearize import linearize"),
        ("tiduc.passes.lower.lower", "from tiduc.program import from_module"),
        ("tiduc.passes.lower.lower", "import tiduc.runtime.run"),
        ("tiduc.passes.lower.lower", "from tiduc.backends.iree import legalize_for_iree"),
        ("tiduc.backends.iree.legalize", "from tiduc.program import from_module"),
        ("tiduc.backends.iree.emit.kernels", "from tiduc.backends.iree.missing.vmvx import sign"),
        ("tiduc.backends.iree.faults.scatters", "from tiduc.backends.iree.fast.loops import packing"),
        ("tiduc.backends.iree.fast.loops.packing", "from tiduc.backends.iree.pipeline import PIPELINE"),
        ("tiduc.backends.iree.missing.vmvx", "from tiduc.backends.iree.modules.vm import VM_PIPELINE"),
        ("tiduc.backends.iree.pipeline", "from tiduc.backends.iree import plan"),
        ("tiduc.backends.iree.plan", "from tiduc.backends.iree.build import build"),
        ("tiduc.runtime.run", "from tiduc.backends.iree import legalize_for_iree"),
        ("tiduc.passes.lower.lower", "def f():\n    if 1:\n        from tiduc.runtime import run"),
        ("tiduc.runtime.run", "from tiduc.dialect.mlir.context import context"),
        ("tiduc.dialect.mlir.context", "from tiduc.dialect.graph.view import View"),
        ("tiduc.program", "from tiduc.models.model import Model"),
        ("tiduc.models.model", "from tiduc.splitting import split"),
        ("tiduc.checking.check", "from tiduc.cli import run"),
        ("tiduc.splitting", "from tiduc.eager import Array"),
        ("tiduc.runtime.run", "from tiduc.opt.passes import PASSES"),
        ("tiduc.backends.reference.interpreter", "from tiduc.program import Program"),
        ("tiduc.program", "from dialect.view import View"),
        ("tiduc.program", "import passes"),
        ("tiduc.passes.lower.lower", "from . import resolve"),
        ("tiduc.passes.lower.lower", "from .resolve import resolve"),
    ],
)
def test_a_violation_is_detected(module: str, source: str) -> None:
    assert len(violations(module, f"import os\nfrom typing import Any\n{source}\n")) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tiduc.backends.iree.fast.loops.packing", "from tiduc.backends.iree.emit.kernels import Kernel"),
        ("tiduc.backends.iree.build", "from tiduc.backends.iree.plan import Attempt"),
        ("tiduc.dialect.mlir.context", "from tiduc.dialect.ops.tidu import Tidu"),
        ("tiduc.passes.linearize", "from tiduc.passes.rules.registry import OpSet"),
        ("tiduc.backends.reference.in_process", "from tiduc.dialect.mlir.context import parse, stage"),
        ("tiduc.runtime.run", "from tiduc.dialect.errors import InputError"),
        ("tiduc.cli.check", "from tiduc.passes.rules import OPSET\nfrom tiduc.runtime.run import Executable"),
        ("tiduc.program", "import numpy.typing"),
    ],
)
def test_allowed_imports(module: str, source: str) -> None:
    assert violations(module, source) == []
