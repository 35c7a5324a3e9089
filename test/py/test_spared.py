"""Tests which work of PyTorch and of tiduc the worker process that imports a model is spared."""

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tiduc.models.files import import_model
from tiduc.models.torch.spared import _CompositeOps, defer_package
from tiduc.runtime import worker
from tiduc.runtime.process import Limits


class Ops:
    """Stands for `torch.ops` and what it contains. Counts how often each attribute is read."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()

    def __getattr__(self, name: str) -> "Ops":
        self.read[name] += 1
        return self


def test_python_objects_of_composite_ops_are_created_once() -> None:
    ops, registered = Ops(), ["aten::dense", "aten::pair.Tensor", "mine::op"]
    core = SimpleNamespace(_dispatch_get_registrations_for_dispatch_key=lambda key: list(registered))
    torch: Any = SimpleNamespace(_C=core, ops=ops)
    create = _CompositeOps(torch)
    create()
    create()
    assert ops.read == {"aten": 2, "dense": 1, "default": 2, "pair": 1, "Tensor": 1, "mine": 1, "op": 1}
    registered.append("mine::later")
    create()
    assert ops.read["later"] == 1
    registered.remove("mine::op")
    create()
    registered.append("mine::op")
    create()
    assert ops.read["op"] == 2


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Fixture: the name of a package with a function, a class that is an exception, and a submodule."""
    folder = tmp_path / "deferred_sample"
    folder.mkdir()
    (folder / "__init__.py").write_text("def twice(x):\n    return 2 * x\n")
    (folder / "inner.py").write_text("from deferred_sample import twice\n\nsix = twice(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in (folder.name, f"{folder.name}.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder.name


def test_a_deferred_package_is_imported_by_the_first_call(package: str) -> None:
    defer_package(package)
    deferred = import_module(package)
    twice = deferred.twice
    assert type(deferred) is not ModuleType and sys.modules[package] is deferred
    with pytest.raises(AttributeError, match="deferred_sample"):
        deferred.__wrapped__  # noqa: B018
    assert twice(4) == 8
    assert type(sys.modules[package]) is ModuleType and deferred.twice(5) == 10


def test_a_deferred_package_is_imported_with_its_submodules(package: str) -> None:
    defer_package(package)
    assert import_module(f"{package}.inner").six == 6
    assert type(sys.modules[package]) is ModuleType


def test_imported_and_missing_packages_are_not_deferred() -> None:
    defer_package("json")
    defer_package("no_such_package")
    assert type(import_module("json")) is ModuleType
    assert "no_such_package" not in sys.modules


def test_an_import_of_a_model_loads_neither_networkx_nor_passes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    file = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)), file)
    worker._close_all()  # another test may have imported more in the idle worker
    import_model(file, cached=False)
    modules = worker.in_worker(eval, Limits(), "{*__import__('sys').modules}")
    assert "torch._functorch.partitioners" in modules  # imports NetworkX
    assert not modules & {"networkx.classes", "tiduc.program", "tiduc.passes.rules", "iree.compiler"}
