"""The entry point of the command `tiduc` and of `python -m tiduc`."""

import gc
import io
import os
import signal
import sys


def main() -> None:
    """Runs the command line. On Linux, a child process runs it, so that a crash of the child can be reported."""
    # Before libraries are loaded, nothing needs cleaning up, so an interrupt may end the process.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _occupy_closed_streams()
    if not sys.platform.startswith("linux"):
        sys.exit(_work())
    try:
        from tiduc.driver import drive

        status = drive(_work)
    except OSError as error:  # for example, if the limit of open files is too low to load libraries
        os.write(2, f"error: cannot start: {error.strerror}\n".encode())
        status = 1
    sys.exit(status)


def _work() -> int:
    gc.set_threshold(200_000)  # with Python's default of 700, imports of packages take a tenth longer
    from tiduc.dialect import progress

    progress.start()
    from tiduc.cli import attend, run

    _buffer_output()
    return run(loaded=attend)


def _buffer_output() -> None:
    """Adds a buffer to standard output if Python runs without one (PYTHONUNBUFFERED, `python -u`).

    A write to a file descriptor may write only a part of the data, as on a full disk. A buffer repeats the write until
    all data is written or an error occurs. Without a buffer, Python does not notice that data is missing.
    """
    if sys.stdout is not None and isinstance(sys.stdout.buffer, io.RawIOBase):
        own = sys.stdout
        sys.stdout = open(1, "w", encoding=own.encoding, errors=own.errors, buffering=1, closefd=False)


def _occupy_closed_streams() -> None:
    """Opens /dev/null on closed standard streams.

    Otherwise, the next file that is opened would receive printed output.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is the closed one


if __name__ == "__main__":
    main()
