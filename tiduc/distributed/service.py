"""join: connects this process to the others through JAX's distributed service."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from tiduc.dialect import progress
from tiduc.dialect.errors import RequestError, TiducError, first_line
from tiduc.distributed.launchers import Rank, rank

HEARTBEAT = 10
"""Seconds without a sign of life after which a process counts as dead, and the others end."""

_START = 300  # seconds to wait for the other processes at the start


def join(given: Rank, devices: int | None = None, target: str = "cpu", timeout: int = _START) -> None:
    """Connects this process to the other processes. Programs compiled with XLA then use the devices of all.

    Must be called before JAX uses a device. `devices` is the number of devices of this process: on a CPU, XLA divides
    the CPU into as many devices; of the GPUs of a host, each process takes the next ones. By default, the process takes
    all devices of its host. `timeout` is the time in seconds to wait for the other processes.

    If a process dies later, JAX ends the others within about `HEARTBEAT` seconds, or when they communicate with the
    dead process. JAX also ends this process if another does not connect in time. `tiduc run` reports both cases.
    Raises `TiducError` if JAX is missing, or cannot connect for another reason, such as a device that is in use.
    """
    try:
        import jax
    except ImportError:
        raise TiducError("the engine xla needs JAX: pip install 'tiduc[xla]'") from None
    local = None
    progress.join()
    try:
        if target.startswith("cpu"):
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
            if devices is not None:
                jax.config.update("jax_num_cpu_devices", devices)
        elif devices is not None and given.local is not None:
            local = list(range(given.local * devices, (given.local + 1) * devices))
        jax.distributed.initialize(
            given.address,
            given.count,
            given.index,
            local_device_ids=local,
            cluster_detection_method=None if given.address is None else "deactivate",
            initialization_timeout=timeout,
            heartbeat_timeout_seconds=HEARTBEAT,
        )
        jax.local_devices()
    except Exception as error:  # JAX raises several types of exceptions
        raise TiducError(
            f"process {given.index} cannot connect to the others: {first_line(error)}"
        ) from error


def leave() -> None:
    """Disconnects this process, after all processes have called this function.

    Raises `TiducError` if another process has died.
    """
    import jax

    try:
        jax.distributed.shutdown()
    except Exception as error:  # JAX raises several types of exceptions
        raise TiducError(f"another process has died: {first_line(error)}") from error
    progress.leave()


@contextmanager
def joined(devices: int | None = None, target: str = "cpu", count: int | None = None) -> Iterator[Rank]:
    """A context in which this process is connected to the others; for scripts that a launcher starts.

    The arguments are those of `join` and `rank`. In the context, native code and child processes print nothing to
    standard output, where Gloo would report its connections. If the body raises an exception, prints the traceback and
    ends the process at once, because libraries would wait at exit for processes that wait for this one. Raises
    `RequestError` if no launcher has started the process, and the errors of `join` and `leave`.
    """
    own = rank(count)
    if own is None:
        raise RequestError(
            "no launcher has started this process: use tiduc.distributed.launch, srun or mpirun"
        )
    with native_output_dropped():
        join(own, devices, target)
        try:
            yield own
        except BaseException as error:
            _end(error)
    leave()


def _end(error: BaseException) -> NoReturn:
    """Ends this process at once, with the message and the exit status that Python gives the exception."""
    status = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        traceback.print_exc()
    elif isinstance(status, str):
        print(status, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


@contextmanager
def native_output_dropped() -> Iterator[None]:
    """In a block, drops what native code and child processes print to standard output, but not what Python prints.

    Gloo reports each connection on standard output.
    """
    stream = sys.stdout
    stream.flush()
    own, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        with open(own, "w", encoding=stream.encoding, errors=stream.errors, buffering=1) as sys.stdout:
            os.dup2(nothing, 1)
            try:
                yield
            finally:
                os.dup2(own, 1)
    finally:
        sys.stdout = stream
        os.close(nothing)
