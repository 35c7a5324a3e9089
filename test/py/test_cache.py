"""Tests the cache of compiled modules: its keys, damaged entries, limits of size and age, and concurrent processes."""

import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from iree.compiler.tools.binaries import find_tool

from tiduc.backends.iree import compile
from tiduc.cli import run
from tiduc.dialect.errors import TiducError
from tiduc.loading import load
from tiduc.runtime import cache

PROGRAM = """
func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %y = stablehlo.sine %x : tensor<3xf64>
  return %y : tensor<3xf64>
}
"""
FLAGS = ("--iree-hal-target-device=local",)
KEY = "0" * 64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDUC_CACHE", str(tmp_path / "cache"))
    for name in ("TIDUC_CACHE_SIZE", "TIDUC_CACHE_DAYS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixture: an attempt to start the compiler fails the test."""

    def started(*_: object) -> None:
        raise AssertionError("the compiler was started")

    monkeypatch.setattr(compile, "run_within", started)


def key(program: str, flags: tuple[str, ...] = FLAGS, compiler: str | None = None) -> str:
    return cache.key(program.encode(), flags, compiler or find_tool("iree-compile"))


SECOND = """
import sys
from tiduc.loading import load
from tiduc.backends.iree import compile
started = []
def run_within(*arguments):
    started.append(arguments)
    raise SystemExit("the compiler was started")
compile.run_within = run_within
print(load(sys.argv[1]).compile()(__import__("numpy").zeros(3))[0].tolist())
"""


def test_the_second_start_compiles_nothing(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "f.mlir").write_text(PROGRAM)
    assert run(["compile", str(tmp_path / "f.mlir"), "-o", str(tmp_path / "f.vmfb")]) == 0
    assert len(list(folder.iterdir())) == 1
    second = subprocess.run(
        [sys.executable, "-c", SECOND, tmp_path / "f.mlir"], capture_output=True, text=True
    )
    assert second.stdout == "[0.0, 0.0, 0.0]\n", second.stderr


@pytest.mark.parametrize(
    "same",
    [
        PROGRAM.replace("\n", "\n  // a comment (with a bracket and loc(\n\n"),
        PROGRAM.replace("\n}", ' loc("f.mlir":1:2)\n} loc(callsite("a)b" at "c"("d.py":7:3)))'),
        PROGRAM.replace("\n}", " loc(#loc3)\n}") + "#loc = loc(unknown)\n#loc3 = loc(fused[#loc, #loc])\n",
    ],
)
def test_equal_programs_share_an_entry(same: str) -> None:
    assert key(same) == key(PROGRAM)


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace("sine", "cosine"),
        PROGRAM.replace("%x: tensor<3xf64>)", '%x: tensor<3xf64> {a = "loc(x)  y"})'),
        PROGRAM.replace("%x: tensor<3xf64>)", '%x: tensor<3xf64> {a = "loc(z)  y"})'),
        PROGRAM.replace("%x: tensor<3xf64>)", '%x: tensor<3xf64> {a = "loc(z) y"})'),
        PROGRAM.replace("%x: tensor<3xf64>)", "%x: tensor<3xf64> {a = #loc5})"),
        PROGRAM.replace("%x: tensor<3xf64>)", "%x: tensor<3xf64> {a = #loc6})"),
        "ML\xefR// one",
        "ML\xefR// two",
    ],
)
def test_different_programs_have_different_entries(other: str) -> None:
    seen = test_different_programs_have_different_entries.__dict__.setdefault("seen", {key(PROGRAM): PROGRAM})
    assert (
        seen.setdefault(cache.key(other.encode("latin-1"), FLAGS, find_tool("iree-compile")), other) == other
    )


def test_flags_the_compiler_and_this_cpu_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = (*FLAGS, "--iree-llvmcpu-target-cpu=host")
    assert (
        len(
            {key(PROGRAM), key(PROGRAM, FLAGS * 2), key(PROGRAM, host), key(PROGRAM, compiler=sys.executable)}
        )
        == 4
    )
    before = key(PROGRAM), key(PROGRAM, host)
    monkeypatch.setattr(cache, "this_cpu", lambda: "another one")
    assert key(PROGRAM) == before[0] and key(PROGRAM, host) != before[1]
    monkeypatch.setattr(cache, "VERSION", "4.0")
    assert key(PROGRAM) != before[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_cpu_does_not_change_with_its_clock() -> None:
    cache.this_cpu.cache_clear()
    first = cache.this_cpu()
    cache.this_cpu.cache_clear()
    assert cache.this_cpu() == first and "MHz" not in first and len(first) > 100


@pytest.mark.parametrize("damage", [b"", b"x", bytes(40), None])
def test_a_damaged_entry_is_recompiled(folder: Path, damage: bytes | None) -> None:
    cache.write(KEY, b"module")
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] if damage is None else damage)
    assert cache.read(KEY) is None
    assert not entry.exists()
    cache.write(KEY, b"module")
    assert cache.read(KEY) == b"module"


def test_a_damaged_entry_of_a_program(folder: Path) -> None:
    vmfb = compile.compile_module(PROGRAM)
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    assert compile.compile_module(PROGRAM) == vmfb
    assert entry.read_bytes() == whole


def test_off_by_variable_and_by_flag(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(PROGRAM)
    assert run(["compile", "--no-cache", str(tmp_path / "f.mlir"), "-o", os.devnull]) == 0
    load(PROGRAM).compile(cached=False)
    monkeypatch.setenv("TIDUC_CACHE", "off")
    compile.compile_module(PROGRAM)
    assert not folder.exists() and cache.info().folder is None and cache.clear() == 0


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIDUC_CACHE", str(tmp_path / "file" / "cache"))
    cache.write(KEY, b"module")
    assert cache.read(KEY) is None
    for ask in (cache.info, cache.clear):
        with pytest.raises(TiducError, match="cache: error: cannot read: Not a directory"):
            ask()


def test_only_the_user_may_write_there(folder: Path) -> None:
    cache.write(KEY, b"module")
    assert os.name != "posix" or stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_size_and_age_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDUC_CACHE_SIZE", "0.01")
    now = time.time()
    k = [f"{i:064x}" for i in range(7)]
    for i in range(5):
        cache.write(k[i], bytes(3000))
        os.utime(folder / f"{k[i]}.vmfb", (now - 100 + i, now - 100 + i))
    assert {path.stem for path in folder.iterdir()} == {k[2], k[3], k[4]}
    assert cache.read(k[2]) is not None  # this read makes k[2] the most recently used entry
    cache.write(k[5], bytes(3000))
    assert {path.stem for path in folder.iterdir()} == {k[2], k[4], k[5]}
    os.utime(folder / f"{k[4]}.vmfb", (now - 40 * 86400,) * 2)
    old, new = (folder / f".{k[0]}.vmfb.{'0' * 7}{i}.tmp" for i in range(2))
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (now - 86400,) * 2)
    cache.write(k[6], b"module")
    assert {path.stem for path in folder.iterdir()} == {k[2], k[5], k[6], new.stem}
    for text in ("much", "inf", "nan", "-1"):
        monkeypatch.setenv("TIDUC_CACHE_SIZE", text)
        with pytest.raises(
            TiducError, match=f"TIDUC_CACHE_SIZE must be a number of at least 0, not: '{text}'"
        ):
            cache.info()
        with pytest.raises(TiducError, match="TIDUC_CACHE_SIZE"):  # an entry is not read either
            cache.read(k[2])


def test_info_and_clear(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for i in range(3):
        cache.write(f"{i:064x}", bytes(2**20))
    assert run(["cache", "info"]) == 0
    shown = capfd.readouterr().out
    assert (
        str(folder) in shown and "entries  3" in shown and "3.0 MiB of 1024" in shown and "30 days" in shown
    )
    assert run(["cache", "clear"]) == 0
    assert capfd.readouterr().out == "removed 3 entries\n"
    assert cache.info().entries == 0
    assert run(["cache", "forget"]) == 2


WRITER = """
import sys
from tiduc.runtime import cache
module, own, shared = bytes([int(sys.argv[1])]) * 100_000, sys.argv[1] * 64, "f" * 64
for _ in range(150):
    cache.write(shared, module)
    read = cache.read(shared)
    assert read is None or (len(read) == 100_000 and len(set(read)) == 1), "torn"
    cache.write(own, module)
    cache.clear() if sys.argv[1] == "1" else cache.info()
"""


def test_processes_side_by_side(folder: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(i)], stderr=subprocess.PIPE) for i in (1, 2, 3)
    ]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [(b"", 0)] * 3
    assert all(path.suffix == ".vmfb" for path in folder.iterdir())


@pytest.mark.usefixtures("no_compiler")
def test_threads_read_one_entry() -> None:
    from tiduc.backends.iree.targets import find_target

    target = find_target("cpu")
    cache.write(key(PROGRAM, (*target.flags, *compile._linkers(target))), b"module")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: compile.compile_module(PROGRAM), range(64))) == {b"module"}


def test_results_are_those_of_the_program() -> None:
    x = np.array([0.1, 0.2, 0.3])
    first, second = load(PROGRAM).compile(), load(PROGRAM).compile()
    assert first.vmfb == second.vmfb
    np.testing.assert_array_equal(first(x)[0], second(x)[0])
