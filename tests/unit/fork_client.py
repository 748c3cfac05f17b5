"""`fork_client.py SOCKET WORDS`: `dstest WORDS` by a fork of the server in fork_server.py, with the
standard descriptors, environment and directory of this process. Ends as the command does."""

from __future__ import annotations

import json
import os
import socket
import sys

place, *words = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(place)
    socket.send_fds(server, [b"."], [0, 1, 2])
    asked = {"words": words, "cwd": os.getcwd(), "env": dict(os.environ)}
    server.sendall(json.dumps(asked).encode() + b"\n")
    said = server.recv(16)
status = int(said) if said else 99
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
