"""Runs a command in the server at the socket $TIDUC_FORK_SERVER: fork_client.py COMMAND ARGUMENT..."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(os.environ["TIDUC_FORK_SERVER"])
    request = {"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}
    data = json.dumps(request).encode()
    sent = socket.send_fds(connection, [data], [0, 1, 2])
    connection.sendall(data[sent:])
    connection.shutdown(socket.SHUT_WR)
    status = connection.recv(1)
sys.exit(status[0] if status else f"{sys.argv[1]}: the server gave no exit status")
