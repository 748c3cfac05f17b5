"""`fork_server.py SOCKET`: has all of dstest imported, and forks for each command that
fork_client.py asks for. A command whose client goes is killed; so are all when standard input ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Any

from typer.testing import CliRunner

from dstest.__main__ import main
from dstest.cli.app import app
from dstest.core import registry
from dstest.report.html import templates

GROUPS = ("checkers", "nemeses", "systems", "workloads")
LATE = (
    *("check.file", "check.transactions", "check.objects", "check.stream", "cli.report"),
    *("gate.decision", "campaign.nightly.driver", "plans.execution.driver", "store.inventory"),
    *("campaign.session", "runner.replay", "campaign.shrink.driver", "report.plots"),
)
"""What commands import when they are called."""

Calls = dict[int, tuple[socket.socket, int, int]]
"""Client, process and its descriptor, by each of the two descriptors."""


def become(words: list[str], cwd: str, env: dict[str, str], standard: list[int]) -> None:
    """This process is the command now, and ends as it does."""
    for fd, given in enumerate(standard):
        os.dup2(given, fd)
        os.close(given)
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    places = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    sys.argv = ["dstest", *words]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def begin(listening: socket.socket, calls: Calls) -> None:
    client, _ = listening.accept()
    standard = socket.recv_fds(client, 1, 3)[1]
    with client.makefile() as said:
        asked = json.loads(said.readline())
    if (pid := os.fork()) == 0:
        listening.close()
        client.close()
        become(asked["words"], asked["cwd"], asked["env"], standard)
    for fd in standard:
        os.close(fd)
    ended = os.pidfd_open(pid)
    calls[client.fileno()] = calls[ended] = client, pid, ended


def end(call: tuple[socket.socket, int, int]) -> None:
    client, pid, ended = call
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with client, contextlib.suppress(OSError):  # which has gone
        client.sendall(str(status).encode())


def serve(listening: socket.socket) -> None:
    calls: Calls = {}
    with selectors.DefaultSelector() as events:
        events.register(listening, selectors.EVENT_READ)
        events.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fd == 0:
                    for _, pid, _ in calls.values():
                        os.kill(pid, signal.SIGKILL)
                    return
                if key.fd == listening.fileno():
                    known = {*calls}
                    begin(listening, calls)
                    for fd in {*calls} - known:
                        events.register(fd, selectors.EVENT_READ)
                elif (call := calls.get(key.fd)) is not None:
                    client, pid, ended = call
                    if key.fd != ended:
                        os.kill(pid, signal.SIGKILL)
                    for fd in (client.fileno(), ended):
                        events.unregister(fd)
                        del calls[fd]
                    end(call)


def prepare() -> None:
    """Imports what commands import; the last line, what typer does for the first of them."""
    for name in LATE:
        import_module(f"dstest.{name}")
    for group in GROUPS:
        for name in registry.names(group):
            registry.load(group, name)
    CliRunner().invoke(app, ["check", "nowhere", "--json"])
    for page in ("report.html.j2", "session.html.j2"):
        templates().get_template(page)
    gc.freeze()


if __name__ == "__main__":
    prepare()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen(64)
        os.write(1, b"ready\n")
        serve(listening)
