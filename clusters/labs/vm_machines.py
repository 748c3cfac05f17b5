"""Virtual machines: one qemu process per node, with disks of its own over those of the image.

A machine is found by its command line, which names a file in the lab's directory, and never by what
somebody wrote down. Both disks are fresh qcow2 files, and qemu's own cache of where their blocks
are is lost with it: SIGKILL to qemu is a power cut, and only what the guest has flushed survives.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.labs import host, identity, state, vm_boot, vm_image, vm_time
from clusters.labs.state import LabState
from clusters.labs.vm_trial import QEMU, accelerator_of
from dstest.core import clock
from dstest.core.errors import LabError

MEMORY_MIB: Final = 384
CODE_MIB: Final = 96
"""For what an emulated machine keeps of translated code."""

NODE_BYTES: Final = 512 << 20
"""What one machine takes of the host's memory at most, with qemu itself."""

BOOT_TIMEOUT_S: Final = {"kvm": 60.0, "tcg": 180.0}
END_TIMEOUT_S: Final = 10.0
START_S: Final = 30.0
PID_FILE: Final = "qemu.pid"

KERNEL_WORDS: Final = (
    "console=ttyS0 quiet loglevel=4 net.ifnames=0 panic=-1 nokaslr mitigations=off no_timer_check"
    " systemd.show_status=false systemd.unified_cgroup_hierarchy=1"
)


def folder_of(lab: LabState, name: str) -> Path:
    """A node's directory: its disks, what is laid over its root, its console."""
    return state.lab_dir(lab.lab_id) / "nodes" / lab.container(name)


def prepare(lab: LabState) -> None:
    """Keys, files, disks and a tap for each node."""
    base = vm_image.folder_of(Path(lab.image))

    identity.write_keys(lab)
    identity.write_files(lab)
    common = (base / "initrd").read_bytes()
    for index, name in enumerate(lab.names, 1):
        folder = folder_of(lab, name)
        own = vm_boot.node_archive(
            identity.own_files(lab, name), lab.address(index), lab.address6(index)
        )
        (folder / "initrd").write_bytes(common + own)
        (folder / "initrd").chmod(0o600)
        for disk in ("disk", "data"):
            backing = ["-b", str(base / disk), "-F", "raw"]
            argv = ["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(folder / disk)]
            host.run(argv)
        tap = f"{lab.tag}{name}"
        make = f"tuntap add dev {tap} mode tap\nlink set {tap} addrgenmode none\n"
        host.run(["ip", "-batch", "-"], stdin=f"{make}link set {tap} master {lab.bridge} up\n")


def start(lab: LabState, names: Sequence[str]) -> None:
    """Start these machines; returns when they answer SSH and tell the right time.

    Raises LabError with qemu's words, or with the end of a console, where one does not start.
    """
    accelerator = accelerator_of(lab)
    host.each(lambda name: _start_one(lab, name, accelerator), names)
    try:
        identity.wait_ssh(lab, names, timeout_s=BOOT_TIMEOUT_S[accelerator])
    except LabError as error:
        said = [f"{name}: {_console(lab, name)}" for name in names]
        raise LabError(f"{error.message}; the consoles end with {' | '.join(said)}") from None
    host.each(lambda name: vm_time.set_true(lab, name), names)


def _start_one(lab: LabState, name: str, accelerator: str) -> None:
    folder, base = folder_of(lab, name), vm_image.folder_of(Path(lab.image))
    accel = {"kvm": "kvm", "tcg": f"tcg,thread=multi,tb-size={CODE_MIB}"}[accelerator]
    index = lab.names.index(name) + 1
    disks = []
    for disk in ("disk", "data"):
        # A flush of the guest is one of the host's file, and nothing is safe before it.
        where = f"file={folder / disk},format=qcow2,if=none,id={disk},cache=writeback"
        disks += ["-drive", where, "-device", f"virtio-blk-pci,drive={disk}"]
    card = f"virtio-net-pci,netdev=net,mac={identity.hwaddr(lab, index)},romfile="
    argv = [
        *(QEMU, "-name", lab.container(name), "-machine", "q35", "-accel", accel),
        *("-cpu", "host" if accelerator == "kvm" else "max"),
        *("-smp", "1", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-kernel", str(base / "kernel"), "-initrd", str(folder / "initrd")),
        *("-append", KERNEL_WORDS, *disks),
        *("-netdev", f"tap,id=net,ifname={lab.tag}{name},script=no,downscript=no"),
        *("-device", card, "-rtc", "base=utc,clock=host", "-display", "none"),
        *("-serial", f"file:{folder / 'console'}", "-daemonize", "-pidfile"),
        str(folder / PID_FILE),
    ]
    (folder / PID_FILE).unlink(missing_ok=True)
    done = host.run(argv, timeout_s=START_S, check=False)
    if done.returncode != 0:
        said = done.stderr.strip()[-300:]
        raise LabError(f"machine {lab.container(name)} does not start: {said}")


def _console(lab: LabState, name: str) -> str:
    with contextlib.suppress(OSError):
        text = (folder_of(lab, name) / "console").read_text(errors="replace")
        return repr(text.strip()[-200:])
    return "nothing"


def _machines(lab_id: str | None = None) -> dict[int, tuple[str, str]]:
    """Our qemu processes: pid -> (lab id, machine)."""
    below = re.escape(f"{state.root_dir()}/labs/")
    ours = re.compile(rf"{below}([^/]+)/nodes/([^/]+)/{re.escape(PID_FILE)}")
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if Path(words[0]).name != QEMU:
            continue
        for match in filter(None, map(ours.fullmatch, words)):
            if lab_id in (None, match[1]):
                found[int(entry.parent.name)] = (match[1], match[2])
    return found


def monitors(lab_id: str | None = None) -> dict[int, tuple[str, str]]:
    """See `Machines.monitors`."""
    return {pid: of for pid, of in _machines(lab_id).items() if host.proc_start(pid) is not None}


def boots(lab: LabState) -> dict[str, str | None]:
    """Node name -> pid and start time of its qemu, None while it does not run."""
    lives = {of[1]: f"{pid}@{host.proc_start(pid)}" for pid, of in monitors(lab.lab_id).items()}
    return {name: lives.get(lab.container(name)) for name in lab.names}


def states(lab: LabState) -> dict[str, bool]:
    """See `Machines.states`."""
    return {name: life is not None for name, life in boots(lab).items()}


def _kill(pids: Mapping[int, str]) -> None:
    """End these processes as a power cut does. Raises LabError where one stays."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline_ns = clock.monotonic_ns() + int(END_TIMEOUT_S * 1e9)
    while left := [name for pid, name in pids.items() if host.proc_start(pid) is not None]:
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(f"these do not end: {', '.join(sorted(left))}")
        clock.sleep_s(0.02)


def cut(lab: LabState, names: Sequence[str]) -> None:
    """Cut the power of these nodes. Raises LabError where one goes on."""
    ending = {lab.container(name) for name in names}
    found = monitors(lab.lab_id).items()
    _kill({pid: machine for pid, (_, machine) in found if machine in ending})


def boot(lab: LabState, names: Sequence[str]) -> None:
    """Start those of the nodes that do not run, on the disks they have."""
    running = states(lab)
    start(lab, [name for name in names if not running[name]])


def attach(lab: LabState, name: str, argv: Sequence[str]) -> None:
    """Run a program on a node; the only way in is its sshd."""
    host.run([*vm_time.ssh(lab, name), *argv], timeout_s=60.0, check=False)


def stop(lab_id: str) -> list[str]:
    """See `Machines.stop`. One that is being started shows up a moment later: look again."""
    removed: list[str] = []
    while found := monitors(lab_id):
        _kill({pid: machine for pid, (_, machine) in found.items()})
        removed += [f"machine {machine}" for _, machine in found.values()]
    return sorted({*removed})
