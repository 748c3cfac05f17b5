"""Runs on a node: starts services, always with the same environment and limits, and tells by a
control group which processes belong to each. Standard library only; Python 3.9 or newer.

A group holds whatever a service forks, also in another session and under another parent. It lies
below the freezer of cgroup v1 where the node has one mounted, else in version 2, so that freezing
it stops all of them at one instant. In version 2 a process is in one group only: those of services
lie below one, `PARENT`, whose limits hold for all of them. Where neither version can be written,
the processes of a service are its main one and what descends from it.

What whoever asks for a start has set for itself (ignored signals, niceness in the eyes of the
out-of-memory killer, open files) is not handed on. A keeper, the parent of the main process, waits
for its end and writes down how it ended.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import json
import os
import pwd
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from clusters.remote.agent_exec import ENVIRONMENT, process_info, write_atomic

PREFIX = "dstest-service-"
PARENT = "dstest"
"""In version 2, the group above those of all services."""

IN_USE = "/run/dstest-*/dstest"
"""Links to it of those who set limits."""

FILES_MAX = 65536
PREPARE_S = 120.0
"""Of each command that prepares empty data."""

PRINTED_MAX = 300
"""Of what a command that failed has printed, at its end, in bytes."""

STARTED = "dstest-services starts"
"""Each start leaves this in the service's log: one that is silent is told from one that is lost."""


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


def _owner(service: dict[str, Any]) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(service["user"])
    except KeyError:
        raise OSError(f"{service['name']}: there is no user {service['user']}") from None


def _environment(service: dict[str, Any]) -> dict[str, str]:
    return {**ENVIRONMENT, "HOME": _owner(service).pw_dir, **service["env"]}


def _make(folder: str, owner: pwd.struct_passwd) -> None:
    """A directory, with those above it that are missing; what is made belongs to the owner."""
    if not os.path.isdir(folder):
        _make(os.path.dirname(folder), owner)
        os.mkdir(folder)
        os.chown(folder, owner.pw_uid, owner.pw_gid)


def prepare(home: Path, service: dict[str, Any]) -> None:
    """Directories and files that are missing; on empty data also its commands, once, and then its
    files within the data, over what the commands have made.

    Directories, data and files belong to the service's user, whoever has made them; the directory
    of a log or of a file does only where it is made here.
    """
    owner = _owner(service)
    (home / service["name"]).mkdir(parents=True, exist_ok=True)
    for folder in [*service["directories"], *service["data"]]:
        _make(folder, owner)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    _make(os.path.dirname(service["log"]), owner)
    every = [*service["files"], *service.get("given", ())]
    within = [path for path in every if _is_within(path, service["data"])]
    for path in {*every} - {*within}:
        _lay(path, service, owner)
    done = home / service["name"] / "prepared"
    if service["prepare"] and not done.exists():
        _fill(home, service, owner)
        for path in within:
            _lay(path, service, owner, over=True)
        write_atomic(done, "")
    for path in within:
        _lay(path, service, owner)


def _is_within(path: str, folders: list[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _lay(
    path: str, service: dict[str, Any], owner: pwd.struct_passwd, *, over: bool = False
) -> None:
    """A file of the service, where it is missing; with `over` whatever is there."""
    _make(os.path.dirname(path), owner)
    if path in service["files"]:
        if over or not os.path.exists(path):
            Path(path).write_bytes(base64.b64decode(service["files"][path]))
    elif over or not os.path.exists(path):
        waiting, mode = service["given"][path]
        shutil.copyfile(waiting, path)
        os.chmod(path, mode)
    os.chown(path, owner.pw_uid, owner.pw_gid)


def _fill(home: Path, service: dict[str, Any], owner: pwd.struct_passwd) -> None:
    """Run the commands for empty data; where they were cut off before, empty it first."""
    begun = home / service["name"] / "preparing"
    if begun.exists():
        for folder in service["data"]:
            _empty(folder)
    begun.touch()
    # A file, since what a command leaves running may hold on to a pipe.
    with open(home / service["name"] / "prepare.log", "w+b") as printed:
        for argv in service["prepare"]:
            try:
                subprocess.run(
                    argv,
                    check=True,
                    timeout=PREPARE_S,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    env=_environment(service),
                    cwd=service["cwd"],
                    user=owner.pw_uid,
                    group=owner.pw_gid,
                    extra_groups=[],
                )
            except (OSError, subprocess.SubprocessError) as error:
                printed.seek(max(0, printed.seek(0, os.SEEK_END) - PRINTED_MAX))
                text = printed.read().decode("utf-8", "replace").strip() or "nothing"
                raise OSError(f"{service['name']}: its prepare: {error}; printed: {text}") from None


def _empty(folder: str) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _command(home: Path, service: dict[str, Any]) -> list[str]:
    """The service's argv, as its override has it."""
    argv = list(service["argv"])
    with contextlib.suppress(FileNotFoundError):
        found = json.loads((home / service["name"] / "override.json").read_text())
        argv = [found.get("program") or argv[0], *argv[1:], *found.get("argv", [])]
    return argv


def _become(home: Path, service: dict[str, Any]) -> None:
    """Turn the calling process into the service."""
    argv, owner = _command(home, service), _owner(service)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    groups = Groups()
    groups.join(service["name"])
    with contextlib.suppress(FileNotFoundError):
        for group in (home / "groups").read_text().split():
            if groups.holds(group):
                continue
            Path(group, "cgroup.procs").write_text("0", encoding="ascii")
    Path("/proc/self/oom_score_adj").write_text("0", encoding="ascii")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    os.umask(0o022)
    output = os.open(service["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.fchown(output, owner.pw_uid, owner.pw_gid)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    os.write(output, f"{stamp} {STARTED} {service['name']}\n".encode())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if owner.pw_uid:
        os.initgroups(service["user"], owner.pw_gid)
        os.setgid(owner.pw_gid)
        os.setuid(owner.pw_uid)
    os.chdir(service["cwd"])
    os.execvpe(argv[0], argv, _environment(service))


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _keep(home: Path, service: dict[str, Any], report: int) -> None:
    """The keeper: fork the service, tell its pid or what went wrong, wait for its end.

    A pipe that exec closes tells whether the program could be started.
    """
    os.setsid()
    status_in, status_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(status_in)
            os.setsid()
            _become(home, service)
        except BaseException as error:
            os.write(status_out, str(error).encode()[:1000])
        os._exit(127)
    os.close(status_out)
    trouble = os.read(status_in, 1000)
    start = process_info(pid)["start_time"] or 0
    if not trouble:
        write_atomic(home / service["name"] / "pid", f"{pid} {start}\n")
        (home / service["name"] / "exit").unlink(missing_ok=True)
    os.write(report, trouble or b"ok")
    os.close(report)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _close_all_but({0, 1, 2})
    _, raw = os.waitpid(pid, 0)
    status = -os.WTERMSIG(raw) if os.WIFSIGNALED(raw) else os.WEXITSTATUS(raw)
    if not trouble:
        row = {"pid": pid, "start_time": start, "status": status}
        write_atomic(home / service["name"] / "exit", json.dumps(row))


def launch(home: Path, service: dict[str, Any]) -> None:
    """Start it; returns when the program runs. Raises OSError with the reason where it does not."""
    report_in, report_out = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        try:
            os.close(report_in)
            # Nobody waits for the keeper: init does.
            if os.fork() == 0:
                _keep(home, service, report_out)
        finally:
            os._exit(0)
    os.close(report_out)
    os.waitpid(keeper, 0)
    message = os.read(report_in, 1000)
    os.close(report_in)
    if message != b"ok":
        raise OSError(f"{service['name']} cannot be started: {message.decode('utf-8', 'replace')}")
