"""LXC containers: one node each, an overlay over the lab's base image, systemd as process 1."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from clusters.labs import host, image, state
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

CUT_TIMEOUT_S = 15.0

CGROUP = Path("/sys/fs/cgroup")

COMMON = """\
lxc.environment = container=lxc
lxc.console.path = none
lxc.tty.max = 0
lxc.hook.version = 1
lxc.hook.start-host = {lab}/addresses
lxc.net.0.type = veth
lxc.net.0.flags = up
lxc.net.0.name = eth0
lxc.net.0.link = {bridge}
lxc.net.0.veth.pair = {tag}{name}
lxc.net.0.hwaddr = {hwaddr}
"""
"""What each node's configuration ends with."""

CONFIG = """\
lxc.include = /usr/share/lxc/config/common.conf
lxc.uts.name = {name}
lxc.rootfs.path = overlay:{image}/rootfs:{folder}/upper
lxc.apparmor.profile = unconfined
lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed
lxc.mount.entry = /dev/fuse dev/fuse none bind,create=file,optional 0 0
lxc.init.cmd = /sbin/init
lxc.signal.halt = SIGRTMIN+3
"""


def lxc_path(lab_id: str) -> Path:
    """What `lxc-* -P` gets: the directory of the lab's containers."""
    return state.lab_dir(lab_id) / "nodes"


def prepare(lab: LabState, form: str = CONFIG) -> None:
    """Write each node's configuration, which begins in this form."""
    folder = state.lab_dir(lab.lab_id)
    for index, name in enumerate(lab.names, 1):
        upper = image.own_files(lab, name)
        config = (form + COMMON).format(
            name=name,
            image=lab.image,
            folder=upper.parent,
            lab=folder,
            bridge=lab.bridge,
            tag=lab.tag,
            hwaddr=image.hwaddr(lab, index),
        )
        (upper.parent / "rootfs").mkdir()
        (upper.parent / "config").write_text(config)


def start(lab: LabState) -> None:
    """Start all nodes. Raises LabError with the end of LXC's log where one does not start."""
    host.each(lambda name: _start_one(lab, name), lab.names)


def _start_one(lab: LabState, name: str) -> None:
    path = lxc_path(lab.lab_id)
    container = lab.container(name)
    log = path / container / "log"
    argv = ["lxc-start", "-P", str(path), "-n", container, "-d", "-l", "WARN", "-o", str(log)]
    done = host.run(argv, timeout_s=60.0, check=False)
    if done.returncode == 0:
        return
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line.rpartition(" - ../src")[2] for line in lines if " ERROR " in line]
    why = " | ".join(errors[:4]) or done.stderr.strip()
    raise LabError(
        f"container {container} does not start: {why}",
        remedy=f"run `dstest doctor`; then `dstest lab down --lab-id {lab.lab_id}` and try again",
    )


def states(lab: LabState) -> dict[str, bool]:
    """Node name -> is its container running?"""
    path = str(lxc_path(lab.lab_id))

    def running(name: str) -> bool:
        argv = ["lxc-info", "-P", path, "-n", lab.container(name), "-s", "-H"]
        return host.run(argv, check=False).stdout.strip() == "RUNNING"

    return dict(zip(lab.names, host.each(running, lab.names), strict=True))


def boots(lab: LabState) -> dict[str, str | None]:
    """Node name -> pid and start time of its process 1, None while it does not run."""
    path = str(lxc_path(lab.lab_id))

    def look(name: str) -> str | None:
        argv = ["lxc-info", "-P", path, "-n", lab.container(name), "-p", "-H"]
        pid = host.run(argv, check=False).stdout.strip()
        start = host.proc_start(int(pid)) if pid.isdigit() else None
        return None if start is None else f"{pid}@{start}"

    return dict(zip(lab.names, host.each(look, lab.names), strict=True))


def cut(lab: LabState, names: Sequence[str]) -> None:
    """Kill all that runs on these nodes at once. Raises LabError where a container does not end."""

    def kill(name: str) -> None:
        argv = ["lxc-stop", "-P", str(lxc_path(lab.lab_id)), "-n", lab.container(name), "-k"]
        host.run(argv, timeout_s=30.0, check=False)

    host.each(kill, names)
    ending = {lab.container(name) for name in names}
    deadline_ns = clock.monotonic_ns() + int(CUT_TIMEOUT_S * 1e9)
    while ending & {container for _, container in monitors(lab.lab_id).values()}:
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(f"these do not end: {', '.join(sorted(ending))}")
        clock.sleep_s(0.02)
    for container in ending:
        _remove_cgroups(container)


def boot(lab: LabState, names: Sequence[str]) -> None:
    """Start those of the nodes that do not run; return when their sshd answers."""
    running = states(lab)
    host.each(lambda name: _start_one(lab, name), [n for n in names if not running[n]])
    image.wait_ssh(lab, names)


def attach(lab: LabState, name: str, argv: Sequence[str]) -> None:
    """Run a program on a node from outside, without its sshd."""
    path = str(lxc_path(lab.lab_id))
    words = ["lxc-attach", "-P", path, "-n", lab.container(name), "--clear-env", "--", *argv]
    host.run(words, timeout_s=30.0, check=False)


def monitors(lab_id: str | None = None) -> dict[int, tuple[str, str]]:
    """LXC monitor processes below our directory: pid -> (lab id, container)."""
    base = str(state.root_dir() / "labs") + "/"
    monitors_of = {}
    for pid, (path, container) in host.lxc_monitors().items():
        owner = path.removeprefix(base).split("/")[0]
        if path.startswith(base) and lab_id in (None, owner):
            monitors_of[pid] = (owner, container)
    return monitors_of


def stop(lab_id: str) -> list[str]:
    """Kill the lab's containers, by its own path only, and remove their control groups."""
    path = lxc_path(lab_id)
    names = {container for _, container in monitors(lab_id).values()}
    if path.exists():
        names |= {entry.name for entry in path.iterdir() if (entry / "config").exists()}

    def kill(name: str) -> str | None:
        argv = ["lxc-stop", "-P", str(path), "-n", name, "-k"]
        done = host.run(argv, timeout_s=30.0, check=False)
        return f"container {name}" if done.returncode == 0 else None

    removed = [text for text in host.each(kill, sorted(names)) if text]
    left = _wait_monitors_gone(lab_id)
    if left:
        raise LabError(
            f"containers of lab {lab_id} do not end: {', '.join(left)}",
            remedy=f"look at processes {', '.join(map(str, monitors(lab_id)))}",
        )
    for name in sorted(names):
        removed += _remove_cgroups(name)
    return removed


def _wait_monitors_gone(lab_id: str, timeout_s: float = 10.0) -> list[str]:
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    while left := monitors(lab_id):
        if clock.monotonic_ns() > deadline_ns:
            return [container for _, container in left.values()]
        clock.sleep_s(0.02)
    return []


def _remove_cgroups(container: str) -> list[str]:
    """Control groups that outlived their container; a new one of the name would get a suffix."""
    removed = []
    pattern = f"lxc.*.{container}"
    for group in [*CGROUP.glob(pattern), *CGROUP.glob(f"*/{pattern}")]:
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                break
        if not group.exists():
            removed.append(f"cgroup {group}")
    return removed
