"""What sampling costs a node: CPU time of an agent that samples, beside that of one that does not.

    .venv/bin/python tests/bench/bench_monitor.py [SECONDS]

The agent runs here over pipes, as on a node, and samples itself as if it were a service of that
node, with a server that answers status requests beside it; it is asked for its samples every two
seconds, as in a run. `sampler` is what its samples say that they have cost, which leaves out what
it takes to send them.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from clusters.remote.connection import end_janitors, local_agent
from clusters.systems.toykv.system import ASKS

__all__ = ["main"]

SECONDS: Final = 20.0
FETCH_S: Final = 2.0
LIMIT: Final = 2.0
"""Percent of a CPU."""


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answer(server: socket.socket) -> None:
    said = {"term": 1, "leads": True, "commit": 5, "applied": 5, "last": 5}
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with peer:
            peer.recv(1 << 12)
            peer.sendall(json.dumps({"ok": said}).encode() + b"\n")


async def _spent(seconds: float, port: int | None) -> tuple[float, float, int]:
    """(CPU seconds of the agent, percent by its own samples, samples); no port: no sampling."""
    with tempfile.TemporaryDirectory() as folder:
        run, marker = Path(folder) / "run", Path(folder) / "marker"
        marker.write_text("bench\n")
        async with local_agent("bench", run=run, marker=marker) as (client, pid):
            await asyncio.sleep(1)  # its start is none of it
            before = cpu_s(pid)
            after, told = 0, list[float]()
            if port is not None:
                await client.call("samples_start", _config(port), 5.0)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await asyncio.sleep(FETCH_S)
                found = await client.call("samples" if port else "ping", _after(port, after), 5.0)
                for number, _, values in found.get("rows", []):
                    after = number
                    told += [values["sampler"]] if "sampler" in values else []
            spent = cpu_s(pid) - before
        end_janitors(run)
    return spent, sum(told) / len(told) if told else 0.0, after


def _after(port: int | None, after: int) -> dict[str, Any]:
    return {} if port is None else {"after": after}


def _config(port: int) -> dict[str, Any]:
    (ask,) = ASKS
    asked = {
        "address": "127.0.0.1",
        "port": port,
        "send": ask.send,
        "form": ask.form,
        "every_s": ask.every_s,
        "values": [[r.name, r.kind, r.scale, r.at, r.over] for r in ask.readings],
    }
    return {"services": ["bench"], "every_s": 1.0, "disk": "/", "asks": [asked]}


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) == 2 and sys.argv[1][0].isdigit() else SECONDS
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        idle, _, _ = asyncio.run(_spent(seconds, None))
        busy, told, samples = asyncio.run(_spent(seconds, port))
    share = 100 * (busy - idle) / seconds
    say("agent that does not sample", f"{100 * idle / seconds:.2f} % of a CPU")
    say(f"agent that samples once a second, {samples} samples", f"{100 * busy / seconds:.2f} %")
    say("sampling, by the difference; by the samples themselves", f"{share:.2f} %; {told:.2f} %")
    say("within the limit", f"{'yes' if share < LIMIT else 'NO'}, {LIMIT:g} % of a CPU of a node")
    return 0 if share < LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
