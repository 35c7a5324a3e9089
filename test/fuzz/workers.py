"""Forked worker processes. Each applies a function to several items in turn, within limits of time and memory."""

import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

_PDEATHSIG = 1
LIFE = 12  # the number of items of a worker; more would take too much memory, because engines do not free modules


def forked(
    function: Callable[[Any], Any], items: Sequence[Any], seconds: float, mebibytes: int, life: int = LIFE
) -> Iterator[tuple[Any, Any]]:
    """Applies a function to items in forked processes. Yields each item and the result for it.

    Instead of a result, yields an `EOFError` if the process died, and a `TimeoutError` if it took more than `seconds`.
    The current process must not have threads when it forks. It should import the libraries of the workers before,
    without starting threads.
    """
    left = list(items)
    while left:
        process, pipe = _fork(function, left[:life], mebibytes)
        failed = None
        try:
            for item in left[:life]:
                result = _read(pipe, seconds)
                left.pop(0)
                if isinstance(result, EOFError | TimeoutError):
                    failed = item, result
                    break
                yield item, result
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(pipe)
        if failed:  # is yielded only after the worker has ended, so that it does not slow down the caller
            yield failed


def _fork(function: Callable[[Any], Any], items: Sequence[Any], mebibytes: int) -> tuple[int, int]:
    """Starts a worker. Returns the id of its process, and the pipe from which its results can be read."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    try:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # kills the worker when its parent ends
        gc.freeze()  # the garbage collector then ignores all objects that exist before the fork
        resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)
        with open(os.devnull, "w") as nothing:  # discards the output of libraries
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        for item in items:
            data = pickle.dumps(function(item))
            os.write(writer, struct.pack("<Q", len(data)))
            view = memoryview(data)
            while view:
                view = view[os.write(writer, view) :]
    finally:
        os._exit(0)


def _read(pipe: int, seconds: float) -> Any:
    """Returns the next result of a worker, or the `EOFError` or `TimeoutError` if there is none."""
    end = time.monotonic() + seconds
    try:
        (size,) = struct.unpack("<Q", _bytes(pipe, 8, end))
        return pickle.loads(_bytes(pipe, size, end))
    except (EOFError, TimeoutError) as error:
        return error


def _bytes(pipe: int, count: int, end: float) -> bytes:
    data = b""
    while len(data) < count:
        if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError("no result in time")
        more = os.read(pipe, count - len(data))
        if not more:
            raise EOFError("the process died")
        data += more
    return data
