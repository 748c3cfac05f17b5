"""Look at the system's processes once a second, for the whole run, whatever the faults do.

Which process serves on a node is asked of a deployment of its own, so that nothing of what a
nemesis knows is touched; who ended is told by pid and start time. The kernel's count of processes
that it killed for lack of memory, and core files, are read beside that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.core.errors import DstestError
from dstest.core.log_names import kept_as
from dstest.core.protocols import Deployment, LogFiles, Process, Processes, Service, System
from dstest.judge.process_facts import ProcessFacts, Seen

LOOK_S: Final = 1.0
LOOK_TIMEOUT_S: Final = 4.0
UNSEEN_S: Final = 12.0
"""A node that could not be asked for so long may have lost a process and got it back."""

OOM_EVERY: Final = 5

_CORES: Final = """\
pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in
'|'*) echo '|'; exit 0 ;;
/*) folders=${pattern%/*}; name=${pattern##*/} ;;
*) folders=$(for pid in $1; do readlink /proc/$pid/cwd; done; echo "$2"); name=$pattern ;;
esac
for folder in $folders; do
    find "$folder" -maxdepth 1 -type f -name "$(printf %s "$name" | sed 's/%./*/g')" \
        -newermt "@$0" 2>/dev/null
done | sort -u
"""


class _Node:
    """What is known of one node; the deployment is that of all of them."""

    def __init__(self, node: Any, deployment: Deployment) -> None:
        self.node = node
        member = deployment.members.get(node.name)
        self.services: Sequence[Service] = member.services if member else ()
        paths = [service.log for service in self.services]
        if isinstance(deployment, LogFiles):
            paths = deployment.log_files().get(node.name, [])
        self.log_names = kept_as(paths)
        self.servers = deployment if isinstance(deployment, Processes) else None
        self.mains: set[Process] = set()
        self.seen_ns: int | None = None
        self.looks = 0
        self.folder = ""
        self.lives: set[Process] = set()
        self.oom: dict[str, int] | None = None
        self.oom_ns = 0


class ProcessWatch:
    """`run()` looks until it is cancelled; `finish()` gives what was seen."""

    def __init__(
        self, system: System, nodes: Mapping[str, Any], options: Mapping[str, Any], run: RunClock
    ) -> None:
        whole = system.deploy(list(nodes.values()), options)
        self._nodes = [_Node(node, whole) for node in nodes.values()]
        self.offered = all(one.servers is not None for one in self._nodes)
        self._clock = run
        self._began_s = clock.wall_ns() // 1_000_000_000
        self._ends: list[Seen] = []
        self._unseen: list[Seen] = []
        self._oom: list[Seen] = []
        self._untaken: dict[str, str] = {}
        self._cores_elsewhere: list[str] = []

    async def run(self) -> None:
        """For ever."""
        turn = 0
        while True:
            await asyncio.gather(*(self._look(one, turn % OOM_EVERY == 0) for one in self._nodes))
            turn += 1
            await asyncio.sleep(LOOK_S)

    async def _look(self, one: _Node, with_oom: bool) -> None:
        if one.node.away:
            return
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                if self.offered and one.servers is not None:
                    running = await one.servers.processes([one.node.name])
                    self._note(one, running.get(one.node.name, []))
                if with_oom:
                    await self._count_kills(one)
        except (DstestError, TimeoutError, OSError):
            return

    def _note(self, one: _Node, found: list[Process]) -> None:
        now_ns, name = self._clock.now_ns(), one.node.name
        last_ns = now_ns if one.seen_ns is None else one.seen_ns
        if now_ns - last_ns > UNSEEN_S * 1e9:
            self._unseen.append(Seen(node=name, what="no look", after_ns=last_ns, before_ns=now_ns))
        mains = {process for process in found if process.main}
        for ended in sorted(one.mains - mains, key=lambda process: process.pid):
            what = f"process {ended.pid}"
            self._ends.append(Seen(node=name, what=what, after_ns=last_ns, before_ns=now_ns))
        one.lives |= mains
        one.mains, one.seen_ns = mains, now_ns
        one.looks += 1

    async def _count_kills(self, one: _Node) -> None:
        now: dict[str, int] = await one.node.call("memory_kills", timeout_s=LOOK_TIMEOUT_S)
        if not now:
            message = "the kernel's kills for lack of memory were not counted"
            self._untaken[f"{one.node.name} oom"] = f"{one.node.name}: {message}"
            return
        now_ns, before = self._clock.now_ns(), one.oom
        if before is not None:
            count = sum(max(0, n - before.get(path, 0)) for path, n in now.items())
            if count:
                what = f"{count} processes killed by the kernel for lack of memory"
                self._oom.append(
                    Seen(node=one.node.name, what=what, after_ns=one.oom_ns, before_ns=now_ns)
                )
        one.oom, one.oom_ns = now, now_ns
        if one.mains and not one.folder:
            argv = ["readlink", f"/proc/{min(p.pid for p in one.mains)}/cwd"]
            answer = await one.node.run(argv, timeout_s=LOOK_TIMEOUT_S, check=False)
            one.folder = answer.stdout.strip()

    async def finish(self) -> ProcessFacts:
        """A last look; then what was seen."""
        await asyncio.gather(*(self._look(one, True) for one in self._nodes))
        cores = await asyncio.gather(*map(self._cores, self._nodes))
        names = [one.node.name for one in self._nodes]
        return ProcessFacts(
            offered=self.offered,
            looks={one.node.name: one.looks for one in self._nodes},
            lives={one.node.name: _longest(one.lives) for one in self._nodes},
            lives_by_log={one.node.name: _lives_by_log(one) for one in self._nodes if one.services},
            ends=self._ends,
            unseen=self._unseen + self._not_at_the_end(),
            oom_kills=self._oom,
            cores={name: row for name, row in zip(names, cores, strict=True) if row},
            untaken=list(self._untaken.values()),
            cores_elsewhere=self._cores_elsewhere,
            until_ns=self._clock.now_ns(),
        )

    def _not_at_the_end(self) -> list[Seen]:
        now_ns = self._clock.now_ns()
        return [
            Seen(node=one.node.name, what="no look", after_ns=one.seen_ns, before_ns=now_ns)
            for one in self._nodes
            if one.seen_ns is not None and now_ns - one.seen_ns > UNSEEN_S * 1e9
        ]

    async def _cores(self, one: _Node) -> list[str]:
        pids = " ".join(str(process.pid) for process in one.lives)
        argv = ["sh", "-c", _CORES, str(self._began_s), pids, one.folder or "/nonexistent"]
        try:
            done = await one.node.run(argv, timeout_s=LOOK_TIMEOUT_S, check=False)
        except (DstestError, OSError):
            done = None
        if done is None or done.status != 0:
            self._untaken[f"{one.node.name} cores"] = f"{one.node.name}: no look for core files"
            return []
        cores: list[str] = done.stdout.split()
        if cores == ["|"]:
            self._cores_elsewhere.append(one.node.name)
            return []
        return cores


def _longest(lives: set[Process]) -> int:
    """Of how many main processes, one after the other, the service with the most consisted."""
    services = [process.service for process in lives]
    return max((services.count(name) for name in services), default=0)


def _lives_by_log(one: _Node) -> dict[str, int]:
    """Main processes, one after the other, of the services that write each log."""
    seen = [process.service for process in one.lives]
    found = dict.fromkeys(one.log_names.values(), 0)
    for service in one.services:
        if service.log in one.log_names:
            found[one.log_names[service.log]] += seen.count(service.name)
    return found


def as_facts(seen: ProcessFacts) -> dict[str, Any]:
    """For run.json."""
    found: dict[str, Any] = msgspec.to_builtins(seen)
    return found
