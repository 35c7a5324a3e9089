"""Runs `tiduc` and `filecheck` for tests of pages, in forks of a process that has loaded their libraries.

Loading the libraries takes ten times as long as a typical command. The commands in `bin/` send their arguments,
environment and standard streams to this server (`fork_client.py`). A fork of the server runs the command and answers
with the exit status. The server ends when its standard input closes.

`bin/forked_python` runs the Python code of pages. The server's arguments name modules to import for this code, if they
are installed.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from forked import prepare, status_of

_CHUNK = 1 << 16


def serve() -> None:
    """Prints the path of a socket, then answers each connection in a fork."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            import_module(name)
    prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system then discards ended forks
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
        gc.unfreeze()  # bindings report objects that are not freed when the interpreter ends


def answer(connection: socket.socket) -> NoReturn:
    """Runs the command that a client sends, with the client's streams. Replies with the exit status."""
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
        os.chdir(request["folder"])
        status = status_of(request["arguments"], request["environment"])
    finally:
        connection.sendall(bytes([status]))
        os._exit(0)


if __name__ == "__main__":
    serve()
