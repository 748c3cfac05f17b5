"""Runs on a node: what /proc says of some processes at one look. Standard library only."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import process_info

KILLS = ("memory.oom_control", "memory.events")
"""Of version 1 of control groups, and of version 2."""

V1 = re.compile(r"^\d+:(?:[^:]*,)?freezer(?:,[^:]*)?:(.*)$", re.MULTILINE)
V2 = re.compile(r"^0::(.*)$", re.MULTILINE)


def look(idents: list[list[int]]) -> list[dict[str, Any]]:
    """Per process, given by pid and start time, in this order:

    `alive`, `running` (threads that are not in state T, and would not be before they run on),
    `ticks` of CPU, and `frozen`, the control group in which it stands still (empty: in none).
    """
    freezers = _freezers()
    return [_one(pid, start, freezers) for pid, start in idents]


def _one(pid: int, start: int, freezers: list[tuple[str, str]]) -> dict[str, Any]:
    info = process_info(pid)
    states = _threads(pid)
    alive = info["start_time"] == start and bool(states) and (info["alive"] or len(states) > 1)
    if not alive:
        return {"alive": False, "running": 0, "ticks": 0, "frozen": ""}
    return {
        "alive": True,
        "running": sum(state not in "Tt" for state in states),
        "ticks": info["utime"] + info["stime"],
        "frozen": _frozen(pid, freezers),
    }


def _threads(pid: int) -> list[str]:
    """The state of each thread; T for one that waits in the kernel with a SIGSTOP pending.

    Such a one forks by vfork, and its child was stopped before it ran a program.
    """
    threads = []
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for name in names:
        try:
            text = Path(f"/proc/{pid}/task/{name}/stat").read_bytes()
        except OSError:
            continue
        state = text.rpartition(b")")[2].split()[0].decode()
        threads.append("T" if state == "D" and _to_stop(pid, name) else state)
    return threads


def _to_stop(pid: int, thread: str) -> bool:
    try:
        text = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", text, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGSTOP - 1) & 1 for mask in pending)


def _freezers() -> list[tuple[str, str]]:
    """(`v1` or `v2`, mount) of each hierarchy that can freeze."""
    found = []
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, filesystem, options = line.split()[:4]
        if filesystem == "cgroup" and "freezer" in options.split(","):
            found.append(("v1", mount))
        elif filesystem == "cgroup2":
            found.append(("v2", mount))
    return found


def _frozen(pid: int, freezers: list[tuple[str, str]]) -> str:
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        for kind, mount in freezers:
            match = (V1 if kind == "v1" else V2).search(groups)
            if match is None:
                continue
            folder = Path(mount + match[1])
            if kind == "v1" and (folder / "freezer.state").is_file():
                stands = (folder / "freezer.state").read_text().strip() == "FROZEN"
            else:
                events = folder / "cgroup.events"
                stands = events.is_file() and "frozen 1" in events.read_text().splitlines()
            if stands:
                return match[1]
    except OSError:
        return ""
    return ""


def memory_kills(groups: str = "/sys/fs/cgroup", machine: str = "/proc/vmstat") -> dict[str, int]:
    """Processes that the kernel has killed for lack of memory, by the file that says so: of each
    control group; where no group tells, of the whole machine, which may be too many.

    Read here and without programs: of a slow node they would take more than its servers can spare.
    """
    paths = [
        f"{folder}/{name}"
        for folder, _, names in os.walk(groups)
        for name in KILLS
        if name in names
    ]
    return _counts(paths) or _counts([machine])


def _counts(paths: list[str]) -> dict[str, int]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    found[path] = int(line.split()[1])
    return found
