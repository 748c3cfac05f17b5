"""Runs on a node: the janitor, which heals when heartbeats stop. One per node.

A process of its own, in its own session: it survives the agent, sshd and the control node. It
looks twice a second, and at once when an agent pokes its socket. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import (
    TimedOut,
    process_info,
    run_program,
    short,
    write_atomic,
)

SCAN_S = 0.5
LOG_BYTES_MAX = 1 << 20
LOCK_TRIES = 100
LOCK_STEP_S = 0.02


class Janitor:
    """Watches `<run>/leases` (layout: `agent_lease`)."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.firing: list[threading.Thread] = []

    def log(self, text: str) -> None:
        """One line of the log, which is our standard output; it starts anew when it gets long."""
        with contextlib.suppress(OSError):
            if os.fstat(1).st_size > LOG_BYTES_MAX:
                os.ftruncate(1, 0)
        line = f"{time.monotonic_ns() / 1e9:.3f} {text}\n"
        with contextlib.suppress(OSError):
            os.write(1, line.encode())

    def scan(self) -> None:
        """Confirm leases that are new, fire those that ran out."""
        for folder in list((self.run / "leases").iterdir()):
            with contextlib.suppress(FileNotFoundError):
                self._look(folder)
        self.firing = [thread for thread in self.firing if thread.is_alive()]

    def _look(self, folder: Path) -> None:
        try:
            lease = json.loads((folder / "lease.json").read_text(encoding="utf-8"))
            beat_ns = int((folder / "beat").read_text(encoding="ascii"))
            ttl_s = float(lease["ttl_s"])
        except (ValueError, KeyError, TypeError) as error:
            self.log(f"lease {folder.name} cannot be read: {error}")
            return
        if not (folder / "ack").exists():
            write_atomic(folder / "ack", str(os.getpid()))
            commands = [short(argv) for argv in lease["heal"]]
            self.log(f"armed {folder.name} for {ttl_s:g} s: {commands}")
        if time.monotonic_ns() - beat_ns > ttl_s * 1e9:
            moved = self.run / "firing" / folder.name
            folder.rename(moved)
            self.fire(moved)

    def fire(self, folder: Path) -> None:
        """Run a lease's heal commands in a thread: one that hangs delays no other lease."""
        thread = threading.Thread(target=self._heal, args=(folder,))
        thread.start()
        self.firing.append(thread)

    def _heal(self, folder: Path) -> None:
        lease_id = folder.name
        self.log(f"lease {lease_id} ran out")
        rows: list[dict[str, Any]] = []
        lease = json.loads((folder / "lease.json").read_text(encoding="utf-8"))
        for argv in lease["heal"]:  # the next one runs whatever became of one
            try:
                done = run_program(argv, timeout_s=lease["step_s"])
                row = {"argv": argv, "status": done["status"], "stderr": done["stderr"][-500:]}
            except (TimedOut, OSError, ValueError) as error:
                row = {"argv": argv, "status": None, "stderr": str(error)}
            rows.append(row)
            self.log(f"lease {lease_id}: {short(argv)}: {row['status']} {row['stderr']}")
        record = {"healed_ns": time.monotonic_ns(), "commands": rows}
        write_atomic(self.run / "healed" / f"{lease_id}.json", json.dumps(record))
        shutil.rmtree(folder, ignore_errors=True)


def take_lock(handle: int) -> bool:
    """Is the lock ours? Whoever looks whether a janitor lives has it for a moment."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_STEP_S)
        else:
            return True
    return False


def main(run: Path, version: str) -> int:
    """Watch until SIGTERM; 0 where another janitor does."""
    for name in ("leases", "firing", "healed"):
        (run / name).mkdir(parents=True, exist_ok=True)
    lock = (run / "janitor.lock").open("ab")
    if not take_lock(lock.fileno()):
        return 0
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_IGN)
    # A node that runs out of memory must lose its healer last.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-900", encoding="ascii")
    me = os.getpid()
    facts = {"pid": me, "start_time": process_info(me)["start_time"], "version": version}
    write_atomic(run / "janitor.json", json.dumps(facts))
    address = run / "janitor.sock"
    address.unlink(missing_ok=True)
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(str(address))
    inbox.setblocking(False)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    janitor = Janitor(run)
    janitor.log(f"janitor {me} of version {version} watches")
    for folder in (run / "firing").iterdir():
        janitor.fire(folder)
    while not ending.is_set():
        try:
            janitor.scan()
        except OSError as error:
            janitor.log(f"scan failed: {error}")
        if select.select([inbox], [], [], SCAN_S)[0]:
            with contextlib.suppress(BlockingIOError):
                while inbox.recv(16):
                    pass
    for thread in janitor.firing:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
