"""Opens a folder that no other user can write to.

    /  ->  home  ->  me  ->  .cache  ->  tiduc        each folder is opened relative to its parent, then checked

Other users may change links that they own, so a path may lead to another folder after the check. Files are therefore
read and written relative to the descriptor of the checked folder. Systems other than POSIX have neither such
descriptors nor such permissions. On these systems, files are opened by their path, and nothing is checked.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiduc.runtime.files import open_regular

_POSIX = os.name == "posix"
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY)  # opens a parent folder even if the user may not list its files


class NotPrivate(Exception):
    """Raised if other users could write to a folder. The message gives the reason."""


@dataclass(frozen=True)
class Folder:
    """An open folder. The descriptor is None on systems that are not POSIX."""

    path: Path
    descriptor: int | None

    def place(self, name: str) -> dict[str, Any]:
        """Returns the keyword arguments, such as `path` and `dir_fd`, that denote the file `name` in calls of `os`."""
        if self.descriptor is None:
            return {"path": self.path / name}
        return {"path": name, "dir_fd": self.descriptor}

    def read(self, name: str, limit: int) -> bytes:
        """Returns all bytes of a regular file of the folder.

        Raises OSError if the file is a link, belongs to another user, or has more than `limit` bytes.
        """
        place = self.place(name)
        with open_regular(place["path"], getattr(os, "O_NOFOLLOW", 0), place.get("dir_fd")) as file:
            status = os.fstat(file.fileno())
            if _POSIX and status.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "belongs to another user")
            # The size is checked first, because reading a huge file could exhaust the memory.
            contents = b"" if status.st_size > limit else file.read(limit + 1)
        if max(status.st_size, len(contents)) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return contents

    def write(self, name: str, contents: bytes, unfinished: str) -> None:
        """Writes a file that only this user can access. The file has the name `unfinished` until it is complete."""

        def private(_: str, flags: int) -> int:
            return os.open(**self.place(unfinished), flags=flags, mode=0o600)

        try:
            with open(unfinished, "xb", opener=private) as file:
                file.write(contents)
            if self.descriptor is None:
                os.replace(self.path / unfinished, self.path / name)
            else:
                os.replace(unfinished, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with suppress(OSError):
                self.remove(unfinished)
            raise

    def remove(self, name: str) -> None:
        """Removes a file of the folder."""
        os.unlink(**self.place(name))

    def mark_used(self, name: str) -> None:
        """Sets the access time and the modification time of a file to the present time."""
        os.utime(**self.place(name))

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yields the name and the status of each regular file in the folder."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process may remove the file
                    if entry.is_file(follow_symlinks=False):
                        yield entry.name, entry.stat(follow_symlinks=False)


@contextmanager
def opened(path: Path, make: bool = False) -> Iterator[Folder]:
    """A context with the open folder at `path`, to which only this user can write.

    With `make`, missing folders are created, and only the user can access them. Raises `NotPrivate` if the folder does
    not belong to the user, if a folder above it belongs neither to the user nor to root, or if others can write to one
    of these folders. A folder above may be writable for others if it has the sticky bit, as /tmp has, because users
    then cannot rename files of others. Raises `OSError` for a folder that is missing or cannot be opened.
    """
    real = Path(os.path.realpath(path))
    if not _POSIX:
        if make:
            real.mkdir(parents=True, exist_ok=True)
        yield Folder(real, None)
        return
    descriptor: int | None = None
    try:
        for part in (*reversed(real.parents), real):
            inner = _open(part, part == real, descriptor, make)
            if descriptor is not None:
                os.close(descriptor)
            descriptor = inner
            _check(part, os.fstat(descriptor), part == real)
        yield Folder(real, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(part: Path, itself: bool, above: int | None, make: bool) -> int:
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | (os.O_RDONLY if itself else _SEARCH)
    name = part if above is None else part.name
    if make and above is not None:
        with suppress(FileExistsError):
            try:
                return os.open(name, flags, dir_fd=above)
            except FileNotFoundError:
                os.mkdir(
                    name, 0o700, dir_fd=above
                )  # `os.makedirs` could create folders that others can write to
    return os.open(name, flags, dir_fd=above)


def _check(part: Path, status: os.stat_result, itself: bool) -> None:
    user = os.geteuid()
    if status.st_uid != user and (itself or status.st_uid != 0):
        raise NotPrivate(f"{part} belongs to another user")
    sticky = status.st_mode & stat.S_ISVTX and not itself
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise NotPrivate(f"others may write to {part} (`chmod go-w` removes the permission)")
