"""Runs on a node: which processes belong to a service, by a control group of its own.

A group holds whatever a service forks, also in another session and under another parent. It lies
below the freezer of cgroup v1 where the node has one mounted, else in version 2, so that freezing
it stops all of them at one instant. In version 2 a process is in one group only: those of services
lie below one, `PARENT`, whose limits hold for all of them. Where neither version can be written,
the processes of a service are its main one and what descends from it. Standard library only; Python
3.9 or newer.
"""

from __future__ import annotations

import contextlib
import glob
import os
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import process_info

PREFIX = "dstest-service-"
PARENT = "dstest"
"""In version 2, the group above those of all services."""

IN_USE = "/run/dstest-*/dstest"
"""Links to it of those who set limits."""


class Groups:
    """The control groups of this node's services, as its mounts were when this was made."""

    def __init__(self) -> None:
        self._mount = next(iter(_mounts()), None)

    def of(self, service: str) -> dict[str, str] | None:
        """Kind (`v1`, `v2`) and path of a service's group, which need not be there yet."""
        if self._mount is None:
            return None
        kind, mount = self._mount
        above = f"{mount}/{PARENT}" if kind == "v2" else mount
        return {"kind": kind, "path": f"{above}/{PREFIX}{service}"}

    def holds(self, group: str) -> bool:
        """Is a process in the group of a service also in this one, of any hierarchy?"""
        if self._mount is None or self._mount[0] != "v2":
            return False
        return os.path.realpath(group) == f"{self._mount[1]}/{PARENT}"

    def join(self, service: str) -> None:
        """Put the calling process into the service's group. OSError where that is refused."""
        group = self.of(service)
        if group is not None:
            os.makedirs(group["path"], exist_ok=True)
            Path(group["path"], "cgroup.procs").write_text("0", encoding="ascii")

    def leave(self, service: str) -> None:
        """Remove the service's group, where it is empty."""
        group = self.of(service)
        if group is not None:
            with contextlib.suppress(OSError):
                os.rmdir(group["path"])
                if group["kind"] == "v2" and not glob.glob(IN_USE):
                    os.rmdir(os.path.dirname(group["path"]))

    def frozen(self, service: str) -> bool:
        """Do all processes of the group stand still? False while they are still freezing."""
        group = self.of(service)
        if group is None:
            return False
        with contextlib.suppress(OSError):
            if group["kind"] == "v1":
                return Path(group["path"], "freezer.state").read_text().strip() == "FROZEN"
            return "frozen 1" in Path(group["path"], "cgroup.events").read_text().splitlines()
        return False

    def set_frozen(self, service: str, wanted: bool) -> None:
        """Freeze the group or thaw it; a group that is not there is thawed already."""
        group = self.of(service)
        if group is None or not os.path.isdir(group["path"]):
            if wanted:
                raise FileNotFoundError(
                    f"service {service} has no control group that can be frozen"
                )
            return
        v1 = group["kind"] == "v1"
        text = ("FROZEN" if wanted else "THAWED") if v1 else str(int(wanted))
        name = "freezer.state" if v1 else "cgroup.freeze"
        Path(group["path"], name).write_text(text, encoding="ascii")

    def members(self, service: str) -> list[int] | None:
        """Pids in the service's group, the dead among them; None where no group can be read.

        A process of another pid namespace reads 0 there and is left out.
        """
        group = self.of(service)
        if group is None:
            return None
        try:
            with open(f"{group['path']}/cgroup.procs", "rb", buffering=0) as handle:
                return [pid for word in handle.read().split() if (pid := int(word))]
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            return None

    def processes_of(self, service: str, main: Any) -> list[Any]:
        """(pid, start time) of each process of a service, `main` first where that runs."""
        pids = self.members(service)
        if pids is None:
            pids = _below(main[0]) if main else []
        rows = []
        for pid in dict.fromkeys(pids):
            info = process_info(pid)
            if info["start_time"] is not None and (info["alive"] or _threads(pid) > 1):
                rows.append((pid, info["start_time"]))
        return sorted(rows, key=lambda row: (tuple(row) != tuple(main or ()), row))


def _mounts() -> list[tuple[str, str]]:
    """(kind, path) of the hierarchies that can freeze and be written, the one to use first."""
    mounts = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            _, mount, filesystem, options = line.split()[:4]
            flags = options.split(",")
            if "rw" not in flags:
                continue
            if filesystem == "cgroup" and "freezer" in flags:
                mounts.append(("v1", mount))
            elif filesystem == "cgroup2":
                mounts.append(("v2", mount))
    return sorted(mounts)


def _parents() -> dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            info = process_info(int(name))
            if info["alive"]:
                found[int(name)] = info["ppid"]
    return found


def _below(main: int) -> list[int]:
    """A process and all that descend from it."""
    parents, found, more = _parents(), [main], [main]
    while more:
        more = [pid for pid, parent in parents.items() if parent in more and pid not in found]
        found += more
    return found


def _threads(pid: int) -> int:
    """A process whose main thread has ended holds its ports until its last thread has."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
