"""Runs `tiduc` and `filecheck` for lit, in forks of one process that has loaded their libraries.

Loading the libraries takes ten times as long as the work of a typical RUN line. The commands in `bin/` pass their
arguments, environment and standard streams to this server (`fork_client.py`). A fork of the server runs the command and
answers with the exit status. The server ends when its standard input closes.

`bin/forked_python` runs Python code for the tests of pages. The server's arguments are modules that it imports for this
code, if they are installed.
"""

import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import filecheck.main

import tiduc.__main__
import tiduc.cli


def run_code() -> int:
    """Runs the code in the first argument as a program of its own."""
    try:
        exec(compile(sys.argv[1], "<code>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        return 1
    return 0


MAINS = {"filecheck": filecheck.main.main, "forked_python": run_code, "tiduc": tiduc.__main__.main}
_CHUNK = 1 << 16


def serve() -> None:
    """Prints the path of a socket, then answers each connection in a fork."""
    for module in pkgutil.iter_modules(tiduc.cli.__path__, "tiduc.cli."):
        import_module(module.name)
    for name in sys.argv[1:]:
        with suppress(ImportError):
            import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system discards the forks that have ended
    folder = Path(tempfile.mkdtemp())
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
            listener.listen(64)
            print(folder / "socket", flush=True)
            while 0 not in (ready := select.select([0, listener.fileno()], [], [])[0]) and ready:
                connection, _ = listener.accept()
                if not os.fork():
                    listener.close()
                    answer(connection)
                connection.close()
    finally:
        shutil.rmtree(folder)


def answer(connection: socket.socket) -> NoReturn:
    """Runs the command that a client sends, with the client's streams, and sends the exit status."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        data, streams, *_ = socket.recv_fds(connection, _CHUNK, 3)
        while chunk := connection.recv(_CHUNK):
            data += chunk
        request = json.loads(data)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # Files of Python remember whether they can seek: a file may have become a pipe.
        sys.stdin, sys.stdout, sys.stderr = (open(i, mode, closefd=False) for i, mode in enumerate("rww"))
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = request["arguments"]
        status = _status(Path(sys.argv[0]).name)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        connection.sendall(bytes([status]))
        os._exit(0)


def _status(name: str) -> int:
    try:
        code = MAINS[name]()
    except SystemExit as ending:
        code = ending.code
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve()
