"""Who uses a lab right now, and which lab a run used.

A lab is used by the processes that own it (they are bringing it up, or take it down when they end)
and by whoever holds its lock, which is a run in it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.node import Inspects
from dstest.core.run_meta import RunMeta
from dstest.runner.lab_lock import in_use, lock_of


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a lab. `run` is the run directory that it writes, if it writes one; `pid`
    is None where the kernel does not tell who holds the lock."""

    pid: int | None
    run: str | None
    command: str

    def describe(self) -> str:
        """`run store/x/y (pid 7)`, or the command line where there is no run."""
        who = f"run {self.run}" if self.run else self.command
        return f"{who} (pid {self.pid or 'unknown'})"


def users_of(lab: Any, lab_id: str) -> list[Use]:
    """The other processes that use this lab, whole or not, in order of their pids."""
    if not isinstance(lab, Inspects):
        return []
    pids = {*lab.users(lab_id)}
    known = lab.known(lab_id)
    held = known is not None and in_use(known)
    holders = _holders(lock_of(known)) if known is not None and held else set()
    uses = [_use(pid) for pid in sorted((pids | holders) - {os.getpid()})]
    if held and not holders:
        uses.append(Use(pid=None, run=None, command="a run"))
    return uses


def _holders(lock: Path) -> set[int]:
    """Processes that hold a lock on this file, as the kernel lists them."""
    try:
        inode = lock.stat().st_ino
        rows = [row.split() for row in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return set()
    # 1: FLOCK ADVISORY WRITE 686 fe:01:1234 0 EOF; who waits for it has -> before its kind.
    held = [row for row in rows if len(row) > 5 and row[1] == "FLOCK"]
    return {int(row[4]) for row in held if row[5].rpartition(":")[2] == str(inode)}


def _use(pid: int) -> Use:
    return Use(pid=pid, run=_run_of(pid), command=_command(pid))


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return "a process"
    return shlex.join(word.decode(errors="replace") for word in words)[:200]


def _run_of(pid: int) -> str | None:
    """The run directory whose segments this process has open."""
    try:
        files = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return None
    segments = (Path(name) for name in files if name.endswith(".seg"))
    return next((str(s.parent.parent) for s in segments if s.parent.name == "segments"), None)


def lab_of_run(lab: Any, meta: RunMeta) -> str | None:
    """The lab that is still there of a run, by its run.json; None where none is, or nobody knows.

    A run that died before its lab was whole left one that is named after its process.
    """
    named = meta.lab_id or f"run-{meta.pid}"
    return named if named in lab.list() else None
