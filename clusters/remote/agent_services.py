"""Runs on a node: starts the services of a member, finds all their processes, ends them.

    services VERB [WORD...]

    start [SERVICE...]          those that do not run, in the order of `member.json`
    stop [SERVICE...]           SIGKILL to all their processes; returns when they are gone
    kill [SERVICE...]           as `stop`, also while somebody starts or stops others
    signal NUMBER [SERVICE...]  to all their processes, other than SIGKILL
    terminate [SERVICE...]      the main ones are asked to end, each with the signal of its `ending`
    freeze, thaw [SERVICE...]   stop their control groups, let them go on
    list                        JSON: processes, exit and group of each service
    hold COMMAND...             runs a command while nobody else starts or stops anything
    residue WHAT                what an earlier run left: tell of its servers (`look`) and of those
                                that are `frozen`; end what has lost its main process (`strays`),
                                end everything (`all`)

Everything lies in `HOME`: `member.json`, and per service a directory with `pid` (pid and start
time), `exit` (how the main process ended), `override.json` (a `program` and `argv` to add) and
`prepared`. `groups` lists control groups that services join before they start. HOME is on disk, and
this program beside it: a node that was restarted starts its services by itself.
Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import Refused, process_info, send_signal
from clusters.remote.agent_groups import Groups, launch, prepare

HOME = Path("/opt/dstest-services")
HELD = "DSTEST_SERVICES_HELD"
LOCK_S = 8.0
GONE_S = 9.0
"""A janitor gives a command ten seconds."""

FREEZE_S = 2.0
POLL_S = 0.001
LOOK_AGAIN_S = 0.02
STRIKES = ("kill", "terminate", "freeze", "thaw")


class Services:
    """The services of this node. Raises Refused for names that are none of them."""

    def __init__(self, home: Path = HOME, groups: Groups | None = None) -> None:
        self.home = home
        self.groups = groups or Groups()
        self.specs: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError), open(f"{home}/member.json", "rb", 0) as handle:
            self.specs = json.load(handle)["services"]

    def chosen(self, names: list[str]) -> list[dict[str, Any]]:
        """These services, all without names."""
        known = [spec["name"] for spec in self.specs]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise Refused(f"no service {', '.join(unknown)}; there are {', '.join(known)}")
        return [spec for spec in self.specs if not names or spec["name"] in names]

    def main_of(self, name: str) -> tuple[int, int] | None:
        """Pid and start time of a service's main process, None where it does not run."""
        try:
            pid, start = map(int, (self.home / name / "pid").read_text().split())
        except (OSError, ValueError):
            return None
        found = process_info(pid)
        return (pid, start) if found["alive"] and found["start_time"] == start else None

    def all_of(self, name: str) -> list[Any]:
        """Pid and start time of each process of a service, the main one first."""
        return self.groups.processes_of(name, self.main_of(name))

    def start(self, names: list[str]) -> None:
        """Those that do not run; children that outlived their main process end first."""
        for spec in self.chosen(names):
            if self.main_of(spec["name"]) is None:
                self.kill([spec])
                prepare(self.home, spec)
                launch(self.home, spec)

    def kill(self, specs: list[dict[str, Any]]) -> None:
        """SIGKILL until nothing of them is left."""
        deadline = time.monotonic() + GONE_S
        while left := [row for spec in specs for row in self.all_of(spec["name"])]:
            if time.monotonic() > deadline:
                raise Refused(f"still there after SIGKILL: {sorted(pid for pid, _ in left)}")
            for spec in specs:
                # A process that cgroup v1 has frozen does not die.
                self.groups.set_frozen(spec["name"], False)
            # Then look again: something may have been forked, or frozen, in between.
            if struck := send(left, signal.SIGKILL):
                wait_for_end(struck, LOOK_AGAIN_S)
            else:
                time.sleep(POLL_S)
        for spec in specs:
            self.groups.leave(spec["name"])

    def signal(self, number: int, names: list[str]) -> None:
        """To all processes, until none is left that did not get it.

        It waits for nothing, and looks no longer than it must: one server goes on while another one
        has stopped. So it takes a pid that was read just now for the process that had it.
        """
        for name in [spec["name"] for spec in self.chosen(names)]:
            reached: set[int] = set()
            while more := self._pids(name) - reached:
                for pid in sorted(more):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                reached |= more

    def _pids(self, name: str) -> set[int]:
        """Of all processes of a service; where there are no control groups, by a walk of /proc."""
        members = self.groups.members(name)
        return {pid for pid, _ in self.all_of(name)} if members is None else set(members)

    def terminate(self, names: list[str]) -> None:
        """Ask the main processes to end, which pass it on as they see fit."""
        for spec in self.chosen(names):
            main = self.main_of(spec["name"])
            send([main] if main else [], spec["ending"]["signal"])

    def freeze(self, names: list[str], wanted: bool) -> None:
        """Returns when the groups stand still, or go on."""
        specs = self.chosen(names)
        for spec in specs:
            self.groups.set_frozen(spec["name"], wanted)
        deadline = time.monotonic() + FREEZE_S
        while any(self.groups.frozen(spec["name"]) != wanted for spec in specs):
            if time.monotonic() > deadline:
                raise Refused("the groups do not " + ("stand still" if wanted else "go on"))
            time.sleep(POLL_S)

    def rows(self) -> dict[str, Any]:
        """What `list` prints."""
        by_service = {}
        for spec in self.specs:
            name = spec["name"]
            end = self.home / name / "exit"
            by_service[name] = {
                "main": self.main_of(name),
                "processes": self.all_of(name),
                "exit": json.loads(end.read_text()) if end.exists() else None,
                "group": self.groups.of(name),
                "frozen": self.groups.frozen(name),
            }
        return by_service

    def residue(self, what: str) -> None:
        """Servers of an earlier run."""
        for spec in self.specs:
            name = spec["name"]
            pids, main = self.all_of(name), self.main_of(name)
            if (what == "strays" and pids and main is None) or what == "all":
                self.kill([spec])
            elif what == "frozen" and self.groups.frozen(name):
                sys.stdout.write(f"ours frozen service {name}\n")
            elif what == "look":
                kind = "server" if main else "stray server"
                for pid, _ in pids:
                    sys.stdout.write(f"{kind} {pid} of {name}\n")


def rows(home: str = str(HOME), groups: Groups | None = None) -> dict[str, Any]:
    """As `list`; for the agent."""
    return Services(Path(home), groups).rows()


def strike(
    act: str, services: list[str], home: str = str(HOME), groups: Groups | None = None
) -> None:
    """One of STRIKES. It must not wait for whoever starts a server just now; all but `terminate`
    return when it is done."""
    found = deployed(home, groups, even_none=act == "thaw")
    if act == "kill":
        found.kill(found.chosen(services))
    elif act == "terminate":
        found.terminate(services)
    elif act in STRIKES:
        found.freeze(services, act == "freeze")
    else:
        raise Refused(f"no strike {act!r}")


def signal_services(
    number: int, services: list[str], home: str = str(HOME), groups: Groups | None = None
) -> None:
    """A signal by which nothing ends at once: SIGKILL is a strike, which waits."""
    if number == signal.SIGKILL:
        raise Refused("SIGKILL is sent by `kill`, which waits until all is gone")
    deployed(home, groups).signal(number, services)


def deployed(home: str, groups: Groups | None, even_none: bool = False) -> Services:
    """The services of this node. Raises Refused where it has none, unless that is right."""
    services = Services(Path(home), groups)
    if not services.specs and not even_none:
        raise Refused("no member was deployed on this node")
    return services


def send(processes: list[Any], number: int) -> list[Any]:
    """A signal to each of them that is still the process it was; those that got it."""
    reached = []
    for pid, start in processes:
        try:
            send_signal(pid, start, number)
        except (Refused, OSError):
            continue
        reached.append((pid, start))
    return reached


def wait_for_end(processes: list[Any], timeout_s: float) -> None:
    """Until the last thread of each of them has ended, or the time is over."""
    deadline = time.monotonic() + timeout_s
    for pid, start in processes:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if process_info(pid)["start_time"] == start:
                waiting = select.poll()
                waiting.register(descriptor, select.POLLIN)
                waiting.poll(max(0.0, deadline - time.monotonic()) * 1e3)
        finally:
            os.close(descriptor)


def lock(home: Path) -> Any:
    """Held until it is closed; None where whoever called us holds it."""
    if os.environ.get(HELD):
        return None
    home.mkdir(parents=True, exist_ok=True)
    handle = (home / "lock").open("ab")
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() > deadline:
                handle.close()
                raise Refused("another one starts or stops the services of this node") from None
            time.sleep(POLL_S)


def act(services: Services, verb: str, words: list[str]) -> int:
    """What changes the services; the lock is held."""
    if verb == "hold":
        return subprocess.run(words, env={**os.environ, HELD: "1"}, check=False).returncode
    if verb == "start":
        services.start(words)
    elif verb == "stop":
        services.kill(services.chosen(words))
    elif verb == "residue":
        services.residue(words[0])
    else:
        raise Refused(f"unknown verb {verb!r}")
    return 0


def main(argv: list[str], home: Path = HOME) -> int:
    """The program; 1 with the reason on standard error where it was not done."""
    verb, words = argv[0], argv[1:]
    services = Services(home)
    try:
        if verb == "list":
            sys.stdout.write(json.dumps(services.rows()) + "\n")
        elif verb == "residue" and words[0] in ("look", "frozen"):
            services.residue(words[0])
        elif verb == "signal":
            signal_services(int(words[0]), words[1:], str(home))
        elif verb in STRIKES:
            strike(verb, words, str(home))
        else:
            held = lock(home)
            try:
                return act(services, verb, words)
            finally:
                if held is not None:
                    held.close()
    except (Refused, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
