"""Forked workers. Each runs a function on one item after another, within limits of time and memory."""

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
LIFE = 12  # items per worker, because engines keep modules in memory


def forked(
    function: Callable[[Any], Any], items: Sequence[Any], seconds: float, mebibytes: int, life: int = LIFE
) -> Iterator[tuple[Any, Any]]:
    """Yields each item with the function's result, or with the `EOFError` or `TimeoutError` that ended its worker.

    The process must not have threads when it forks. It should import the libraries of workers beforehand, without
    starting threads.
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
        if failed:  # after the worker has ended and the machine is free
            yield failed


def _fork(function: Callable[[Any], Any], items: Sequence[Any], mebibytes: int) -> tuple[int, int]:
    """Starts a worker. Returns its process, and the pipe that delivers its results."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    try:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)  # ends the worker when its parent ends
        gc.freeze()  # keeps the collector from scanning imported objects again
        resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 2**20,) * 2)
        with open(os.devnull, "w") as nothing:  # keeps library output apart from results
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
    """The next result of a worker."""
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
