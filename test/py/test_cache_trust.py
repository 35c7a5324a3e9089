"""The cache ignores entries that another user may have forged: in shared folders, under other keys, special files."""

import errno
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiduc.cli import run
from tiduc.dialect.errors import TiducError, TiducWarning
from tiduc.runtime import cache, private_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
KEY, OTHER = "0" * 64, "1" * 64
PROGRAM = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TIDUC_CACHE", str(tmp_path / "above" / "cache"))
    cache._warn.cache_clear()
    yield tmp_path / "above" / "cache"
    cache._warn.cache_clear()


def test_an_entry_under_another_key_is_not_used(folder: Path) -> None:
    cache.write(KEY, b"module")
    (folder / f"{KEY}.vmfb").rename(folder / f"{OTHER}.vmfb")
    assert cache.read(OTHER) is None
    assert not list(folder.iterdir())


@pytest.mark.parametrize("of_parent", [False, True])
@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, of_parent: bool, mode: int) -> None:
    cache.write(KEY, b"module")
    writable = folder.parent if of_parent else folder
    writable.chmod(mode)
    with pytest.warns(TiducWarning) as raised:
        assert cache.read(KEY) is None
        cache.write(OTHER, b"module")
        assert cache.read(KEY) is None
    assert [str(each.message) for each in raised] == [
        f"the cache of compiled modules is not used: others may write to {writable} "
        "(`chmod go-w` removes the permission)"
    ]
    assert [entry.name for entry in folder.iterdir()] == [f"{KEY}.vmfb"]
    with pytest.raises(TiducError, match="nothing is removed: others may write"):
        cache.clear()
    writable.chmod(0o700)
    assert cache.read(KEY) == b"module" and cache.clear() == 1


def test_a_folder_above_may_be_sticky(folder: Path) -> None:
    folder.parent.mkdir()
    folder.parent.chmod(0o1777)
    cache.write(KEY, b"module")
    assert cache.read(KEY) == b"module"
    folder.chmod(0o1777)
    with pytest.warns(TiducWarning, match="others may write"):
        assert cache.read(KEY) is None


@pytest.mark.parametrize("place", ["folder", "parent"])
def test_a_folder_of_another_user_is_not_used(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written to a cache folder of another user, such as the user's folder if root runs tiduc by `sudo`."""
    foreign = folder if place == "folder" else folder.parent
    foreign.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(foreign, 1234, 1234)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(TiducWarning, match="belongs to another user"):
        cache.write(KEY, b"module")
    assert not list(folder.parent.glob("**/*.vmfb")) and folder.exists() == (place == "folder")


def test_a_link_to_a_folder_is_looked_at_where_it_leads(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "open" / "cache").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "open" / "cache")
    with pytest.warns(TiducWarning, match="others may write to .*open "):
        cache.write(KEY, b"module")


@pytest.mark.parametrize("of_parent", [False, True])
def test_the_folder_that_was_checked_is_used(
    folder: Path, of_parent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the path is replaced by a link to another folder after the check, the checked folder's entry is read."""
    cache.write(KEY, b"module")
    monkeypatch.setenv("TIDUC_CACHE", str(tmp_path / "theirs" / "cache"))
    cache.write(KEY, b"another")
    monkeypatch.setenv("TIDUC_CACHE", str(folder))
    check = private_folder._check
    turned = folder.parent if of_parent else folder

    def checked(part: Path, status: os.stat_result, itself: bool) -> None:
        check(part, status, itself)
        if itself and not turned.is_symlink():
            turned.rename(tmp_path / "away")
            turned.symlink_to(tmp_path / "theirs" / ("" if of_parent else "cache"))

    monkeypatch.setattr(private_folder, "_check", checked)
    assert cache.read(KEY) == b"module"


def test_an_entry_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(KEY, b"module")
    entry = folder / f"{KEY}.vmfb"
    if os.geteuid() == 0:
        os.chown(entry, 1234, 1234)
    else:
        fstat = os.fstat

        def of_another(descriptor: int) -> os.stat_result:
            status = fstat(descriptor)
            values = list(status)
            if stat.S_ISREG(status.st_mode):
                values[stat.ST_UID] += 1
            return os.stat_result(values)

        monkeypatch.setattr(os, "fstat", of_another)
    assert cache.read(KEY) is None and entry.exists()
    if os.geteuid() == 0:
        cache.write(KEY, b"again")
        assert cache.read(KEY) == b"again"


def test_missing_folders_are_made_for_the_user_alone(folder: Path) -> None:
    umask = os.umask(0)
    try:
        cache.write(KEY, b"module")
    finally:
        os.umask(umask)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700] * 2
    assert (folder / f"{KEY}.vmfb").stat().st_mode & 0o777 == 0o600
    assert cache.read(KEY) == b"module"


def test_relative_folders_of_caches_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TIDUC_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert cache.folder() == tmp_path / ".cache" / "tiduc"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.folder() == Path("/caches/tiduc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "here")
    assert cache.folder() is None


ODD = {
    "fifo": lambda path: os.mkfifo(path),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(path.parent / "elsewhere"),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", ODD)
def test_files_of_other_kinds_are_not_entries(
    folder: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cache.write(KEY, b"module")
    (folder / f"{KEY}.vmfb").rename(folder / "elsewhere")
    ODD[kind](folder / f"{KEY}.vmfb")
    # A separate process, so that a hang fails the test instead of blocking it.
    ask = f"from tiduc.runtime import cache; print(cache.read('{KEY}'), cache.info().entries)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None 0\n"
    cache.write(OTHER, b"module")
    assert run(["cache", "clear"]) == 0
    assert capfd.readouterr().out == "removed 1 entries\n"
    assert {path.name for path in folder.iterdir()} == {f"{KEY}.vmfb", "elsewhere"}
    cache.write(KEY, b"another")  # replaces a file or a link, but does not write to the target of the link
    assert cache.read(KEY) == (None if kind == "folder" else b"another")
    assert len(list(folder.iterdir())) == 2


def test_an_entry_is_no_larger_than_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(KEY, bytes(2**20))
    with open(folder / f"{OTHER}.vmfb", "wb") as file:
        file.truncate(2**40)  # a sparse file, which takes no space on the disk
    assert cache.read(OTHER) is None
    monkeypatch.setenv("TIDUC_CACHE_SIZE", "0.5")
    assert cache.read(KEY) is None


def test_clear_leaves_files_that_are_not_the_caches(folder: Path) -> None:
    cache.write(KEY, b"module")
    (folder / "mine.vmfb").write_bytes(b"")
    (folder / "notes").write_bytes(b"")
    assert cache.clear() == 1
    assert {path.name for path in folder.iterdir()} == {"mine.vmfb", "notes"}


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write(OTHER, b"module")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    cache.write(KEY, b"module")
    assert [path.stem for path in folder.iterdir()] == [OTHER]


def test_the_command_line_says_it_once_and_compiles(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    for name in ("a", "b"):
        (tmp_path / f"{name}.mlir").write_text(PROGRAM)
    files = [str(tmp_path / f"{name}.mlir") for name in ("a", "b")]
    with warnings.catch_warnings():
        assert run(["compile", *files, "-o", str(tmp_path / "out")]) == 0
    assert capfd.readouterr().err == (
        f"warning: the cache of compiled modules is not used: others may write to {folder} "
        "(`chmod go-w` removes the permission)\n"
    )
    assert len(list((tmp_path / "out").iterdir())) == 2 and not list(folder.iterdir())
    assert run(["cache", "info"]) == 0
    assert f"not used others may write to {folder}" in capfd.readouterr().out
