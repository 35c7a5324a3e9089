"""Tests the cache of imported `.pt2` files: a second import starts no worker process, and changed files miss it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiduc.cli import run
from tiduc.models.files import import_model
from tiduc.models.torch import archive, imports, untrusted
from tiduc.runtime import cache

pytestmark = pytest.mark.torch  # the key contains the versions of PyTorch's files

PARTS = {
    archive.MODEL: bytearray(b"{}"),
    archive.CONFIGS[archive.WEIGHTS]: bytearray(b'{"config": {}}'),
    f"{archive.WEIGHTS}weight_0": bytearray(8),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDUC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fixture: the list of the names of all functions that worker processes are asked to call."""
    called: list[str] = []
    call = untrusted.import_in_worker

    def counted(function: Any, *arguments: Any) -> Any:
        called.append(function.__name__)
        return call(function, *arguments)

    monkeypatch.setattr(untrusted, "import_in_worker", counted)
    return called


@pytest.mark.parametrize("part", PARTS)
def test_the_key_is_of_the_program_and_of_the_sizes(part: str) -> None:
    key = imports.key_of(PARTS)
    assert key is not None and key == imports.key_of({**PARTS})
    assert imports.key_of({**PARTS, part: PARTS[part] + b" "}) != key


def test_other_weights_have_the_same_key() -> None:
    assert imports.key_of({**PARTS, f"{archive.WEIGHTS}weight_0": bytearray(b"12345678")}) == imports.key_of(
        PARTS
    )


def test_the_key_is_of_the_packages_and_of_tiduc(monkeypatch: pytest.MonkeyPatch) -> None:
    key = imports.key_of(PARTS)
    with monkeypatch.context() as patch:
        patch.setattr(imports, "_packages", lambda: (b"torch/__init__.py,sha256=1,2",))
        assert imports.key_of(PARTS) not in (None, key)
        patch.setattr(imports, "_packages", lambda: None)  # a package has no list of its files
        assert imports.key_of(PARTS) is None
    (name, size, changed), *others = imports._sources()
    monkeypatch.setattr(imports, "_sources", lambda: [(name, size, changed + 1), *others])
    assert imports.key_of(PARTS) not in (None, key)


def test_every_package_lists_its_files() -> None:
    assert imports._packages() is not None
    assert {"__init__.py", "models/torch/imports.py", "dialect/progress.py"} <= {
        name for name, _, _ in imports._sources()
    }


def saved(file: Path, scale: float = 2.0, table: tuple[int, ...] = (0, 2)) -> str:
    """Exports a module with a weight and an integer buffer to a file, and returns the path."""
    import torch
    from torch import nn

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([scale, scale]))
            self.register_buffer("table", torch.tensor(table))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[self.table] * self.scale

    torch.export.save(torch.export.export(Chosen(), (torch.zeros(3),)), file)
    return str(file)


@pytest.mark.more
def test_a_second_import_calls_no_worker(tmp_path: Path, folder: Path, calls: list[str]) -> None:
    file = saved(tmp_path / "f.pt2")
    first = import_model(file, lift_constants=True)
    assert calls == ["read_payloads", "lower_program"]
    second = import_model(file, lift_constants=True)
    assert len(calls) == 2 and str(second.signature) == str(first.signature)
    assert second.weights["scale"].tolist() == [2.0, 2.0] and second.held == first.held
    x = np.array([1, 2, 3], np.float32)
    assert second.compile()(*second.arguments(x))[0].tolist() == [2.0, 6.0]
    assert cache.info().entries == 2  # the imported program, and the compiled module
    import_model(file, cached=False)
    assert len(calls) == 4


@pytest.mark.more
def test_weights_are_of_the_file_and_constants_are_compared(tmp_path: Path, calls: list[str]) -> None:
    import_model(saved(tmp_path / "f.pt2"), lift_constants=True)
    other = import_model(saved(tmp_path / "g.pt2", scale=5.0), lift_constants=True)
    assert len(calls) == 2 and other.weights["scale"].tolist() == [5.0, 5.0]
    moved = import_model(saved(tmp_path / "h.pt2", table=(1, 1)), lift_constants=True)
    assert len(calls) == 4
    x = np.array([1, 2, 3], np.float32)
    assert moved.compile()(*moved.arguments(x))[0].tolist() == [4.0, 4.0]


@pytest.mark.more
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train-step", ["-o", "step.mlir"]),
        ("compile", ["-o", "f.vmfb"]),
        ("run", ["--input", "3xf32=1,2,3"]),
        ("check", ["--wrt", "x"]),
    ],
)
def test_without_the_cache_every_import_calls_a_worker(
    command: str,
    options: list[str],
    tmp_path: Path,
    folder: Path,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = saved(tmp_path / "f.pt2")
    assert run([command, file, "--no-cache", *options]) == 0 and len(calls) == 2 and not folder.exists()
    monkeypatch.setenv("TIDUC_CACHE", "off")
    import_model(file)
    assert len(calls) == 4 and not folder.exists()
