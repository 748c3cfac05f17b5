"""Containers of podman: one node each, with systemd as process 1, on a network that we make.

podman is asked for a container without a network. Between its making and its first instruction the
container gets a link to the lab's bridge, as LXC would give it: addresses of both families, names
that say whose it is, and no rule, route or setting of this host that podman would change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from clusters.labs import host, image, podman_host, state
from clusters.labs.podman_host import Settings, podman
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

CGROUP = Path("/sys/fs/cgroup")
STORE = "podman"
"""The lab's store, below the lab's directory."""

END_TIMEOUT_S = 15.0
EMPTY_TIMEOUT_S = 2.0
LOOK_S = 0.02

CAPABILITIES = ("AUDIT_WRITE", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE")
"""Besides podman's own: for sshd's logins, rules and queues, mounts of faults, and clocks."""


def options(of: Settings) -> list[str]:
    """What every node is made with, apart from names."""
    words = [
        "--network=none",
        "--no-hosts",
        "--systemd=always",
        "--cgroupns=private",
        "--log-driver=none",
        "--shm-size=512m",
        "--security-opt=apparmor=unconfined",
        "--security-opt=label=disable",
    ]
    words += [f"--cap-add={name}" for name in CAPABILITIES]
    return [*words, "--device=/dev/fuse"] if of.fuse else words


def group_above() -> str:
    """The control group above those of the labs of this lab directory: others are not ours."""
    where = str(state.root_dir().resolve())
    return f"dstest-podman-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def _store(lab_id: str) -> Path:
    return state.lab_dir(lab_id) / STORE


def _pid_file(lab: LabState, name: str) -> Path:
    return image.own_files(lab, name).parent / "pid"


def prepare(lab: LabState) -> None:
    """The lab's store, and in it a container for each node, which does not run yet."""
    of = podman_host.settings()
    store = _store(lab.lab_id)
    podman_host.write(store, of, podman_host.store())

    def make(name: str) -> None:
        words = ["--name", lab.container(name), "--hostname", name]
        words += [
            "--cgroup-parent",
            f"/{group_above()}/{lab.tag}",
            "--pidfile",
            str(_pid_file(lab, name)),
        ]
        podman(store, "create", *words, *options(of), lab.image, "/sbin/init")
        podman(store, "cp", f"{image.own_files(lab, name)}/.", f"{lab.container(name)}:/")

    host.each(make, lab.names)


def start(lab: LabState, names: Sequence[str]) -> None:
    """Start these nodes. Raises LabError with podman's words where one does not start."""
    host.each(lambda name: _start_one(lab, name), names)


def _start_one(lab: LabState, name: str) -> None:
    store, container = _store(lab.lab_id), lab.container(name)
    _pid_file(lab, name).unlink(missing_ok=True)
    podman(store, "init", container)
    pid = _pid(lab, name)
    if pid is None:
        raise LabError(f"container {container} ended before it began", remedy="dstest doctor")
    _wire(lab, name, pid)
    freezer = CGROUP / "freezer"
    if freezer.is_dir():
        # Its own group only, and no more than what a container of the lab `lxc` has.
        remount = ["mount", "-o", "remount,bind,rw,nosuid,nodev,noexec", str(freezer)]
        host.run(["nsenter", "--target", str(pid), "--mount", *remount], check=False)
    podman(store, "start", container)


def _wire(lab: LabState, name: str, pid: int) -> None:
    """A link from the bridge to the container, with its addresses."""
    link, index = f"{lab.tag}{name}", lab.names.index(name) + 1
    # What it had before a restart may not have followed its namespace yet.
    host.run(["ip", "link", "del", link], check=False)
    batch = f"""
link add {link} type veth peer name eth0 address {image.hwaddr(lab, index)} netns {pid}
link set {link} addrgenmode none
link set {link} master {lab.bridge}
link set {link} up
"""
    host.run(["ip", "-batch", "-"], stdin=batch)
    hook = state.lab_dir(lab.lab_id) / "addresses"
    host.run(["env", f"LXC_NAME={lab.container(name)}", f"LXC_PID={pid}", str(hook)])


def _pid(lab: LabState, name: str) -> int | None:
    """The node's process 1, while it runs; whoever has its number otherwise is not taken for it."""
    try:
        pid = int(_pid_file(lab, name).read_text())
    except (OSError, ValueError):
        return None
    return pid if podman_host.is_first_of(pid, _store(lab.lab_id)) else None


def boots(lab: LabState) -> dict[str, str | None]:
    """See `RestartableMachines.boots`."""
    found: dict[str, str | None] = {}
    for name in lab.names:
        pid = _pid(lab, name)
        start = None if pid is None else host.proc_start(pid)
        found[name] = None if start is None else f"{pid}@{start}"
    return found


def states(lab: LabState) -> dict[str, bool]:
    """See `Machines.states`."""
    return {name: life is not None for name, life in boots(lab).items()}


def cut(lab: LabState, names: Sequence[str]) -> None:
    """See `RestartableMachines.cut`."""
    store = _store(lab.lab_id)
    for name in names:
        _kill(_pid(lab, name))
    deadline_ns = clock.monotonic_ns() + int(END_TIMEOUT_S * 1e9)
    while left := [name for name in names if _pid(lab, name) is not None]:
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(f"these do not end: {', '.join(left)}")
        clock.sleep_s(LOOK_S)
    # podman has to have noticed before it may start them again.
    running = "{{.Names}} {{.State}}"
    while any(
        line.split() in [[lab.container(name), "running"] for name in names]
        for line in podman(store, "ps", "--format", running).splitlines()
    ):
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(f"podman does not notice the end of {', '.join(names)}")
        clock.sleep_s(LOOK_S)


def boot(lab: LabState, names: Sequence[str]) -> None:
    """See `RestartableMachines.boot`."""
    running = states(lab)
    start(lab, [name for name in names if not running[name]])
    image.wait_ssh(lab, names)


def attach(lab: LabState, name: str, argv: Sequence[str]) -> None:
    """See `RestartableMachines.attach`."""
    podman(_store(lab.lab_id), "exec", lab.container(name), *argv, timeout_s=30.0, check=False)


def monitors(lab_id: str | None = None) -> dict[int, tuple[str, str]]:
    """See `Machines.monitors`: first processes of containers."""
    labs = state.root_dir() / "labs"
    found = {}
    for pid, upper in podman_host.firsts(labs).items():
        owner, folder = upper.relative_to(labs).parts[:2]
        # Containers of other kinds of labs have their upper layers elsewhere there.
        if folder == STORE and lab_id in (None, owner):
            found[pid] = (owner, _container(owner, pid))
    return found


def _container(lab_id: str, pid: int) -> str:
    """Its name; its number where nobody has written it down yet."""
    for path in (state.lab_dir(lab_id) / "nodes").glob("*/pid"):
        with contextlib.suppress(OSError, ValueError):
            if int(path.read_text()) == pid:
                return path.parent.name
    return f"of process {pid}"


def stop(lab_id: str) -> list[str]:
    """See `Machines.stop`. podman itself is not asked: its store goes with the lab's directory."""
    names = sorted(name for _, name in monitors(lab_id).values())
    left = end_all(_store(lab_id), state.tag_of(lab_id))
    if left:
        raise LabError(
            f"containers of lab {lab_id} do not end: {', '.join(names)}",
            remedy=f"look at processes {', '.join(map(str, left))}",
        )
    return [f"container {name}" for name in names] + remove_groups(state.tag_of(lab_id))


def end_all(store: Path, group: str) -> list[int]:
    """End whatever runs from a store, in containers of this group; pids of those that stay."""
    deadline_ns = clock.monotonic_ns() + int(END_TIMEOUT_S * 1e9)
    # Monitors first: they would start a podman to clean up.
    while left := [*podman_host.helpers(store), *podman_host.firsts(store)]:
        if clock.monotonic_ns() > deadline_ns:
            return left
        _thaw(group)
        for pid in left:
            _kill(pid)
        clock.sleep_s(LOOK_S)
    return []


def _kill(pid: int | None) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _groups(tag: str) -> list[Path]:
    return [
        root / group_above() / tag
        for root in (CGROUP, *CGROUP.glob("*"))
        if (root / group_above() / tag).is_dir()
    ]


def _thaw(tag: str) -> None:
    """What version 1 has frozen does not even die of SIGKILL."""
    for group in _groups(tag):
        for path in group.rglob("freezer.state"):
            with contextlib.suppress(OSError):
                path.write_text("THAWED")


def remove_groups(tag: str) -> list[str]:
    """Control groups outlive what was in them, and a killed runtime does not remove them."""
    groups = _groups(tag)
    deadline_ns = clock.monotonic_ns() + int(EMPTY_TIMEOUT_S * 1e9)
    while left := [group for group in groups if not _remove(group)]:
        # The dead leave a moment after their end.
        if clock.monotonic_ns() > deadline_ns:
            break
        clock.sleep_s(LOOK_S)
    return [f"cgroup {group}" for group in groups if group not in left]


def stray_groups() -> list[str]:
    """Remove the empty groups of labs that are no more; returns what was removed."""
    known = {state.tag_of(lab_id) for lab_id in state.lab_ids()}
    named = {
        path.name
        for root in (CGROUP, *CGROUP.glob("*"))
        for path in root.glob(f"{group_above()}/dst*")
    }
    gone = [group for tag in sorted(named - known) for group in _groups(tag)]
    return [f"cgroup {group}" for group in gone if _remove(group)]


def _remove(group: Path) -> bool:
    """Is it gone, after an attempt? What a process is in stays."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    with contextlib.suppress(OSError):
        group.parent.rmdir()
    return not group.exists()
