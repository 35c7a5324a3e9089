"""Runs a command in the server at the socket $TIDUC_FORK_SERVER: fork_client.py COMMAND ARGUMENT..."""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence


def status_in_fork(
    server: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str, streams: Sequence[int]
) -> int | None:
    """The exit status of a command in a fork of the server at a socket. None if the server does not send it.

    `streams` are the descriptors of the command's standard input, output and error.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        request = {"arguments": [*arguments], "environment": dict(environment), "folder": folder}
        data = json.dumps(request).encode()
        sent = socket.send_fds(connection, [data], streams)
        connection.sendall(data[sent:])
        connection.shutdown(socket.SHUT_WR)
        status = connection.recv(1)
    return status[0] if status else None


if __name__ == "__main__":
    code = status_in_fork(os.environ["TIDUC_FORK_SERVER"], sys.argv[1:], os.environ, os.getcwd(), [0, 1, 2])
    sys.exit(f"{sys.argv[1]}: the server gave no exit status" if code is None else code)
