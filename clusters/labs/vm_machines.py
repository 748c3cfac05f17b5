"""Virtual machines: one qemu process per node, with disks of its own over those of the image.

A machine is found by its command line, which names a file in the lab's directory, and never by what
somebody wrote down. Both disks are fresh qcow2 files, and qemu's own cache of where their blocks
are is lost with it: SIGKILL to qemu is a power cut, and only what the guest has flushed survives.

On some hosts KVM takes a guest and never gets it through its first instructions, and /dev/kvm tells
nothing of that. So a guest is started that says one line and ends; where that line does not come,
guests are emulated (TCG). What came of it is kept in the directory of all labs, for this kernel,
this qemu and this guest kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.labs import host, image, state, vm_boot
from clusters.labs.state import LabState
from clusters.remote.login import ssh_argv
from dstest.core import clock, processes
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

SET_S: Final = 60.0

# It is ready before it is told, so that its own start costs no precision.
_SET: Final = """\
import sys, time
print("ready", flush=True)
ahead = float(sys.stdin.readline())
time.clock_settime(time.CLOCK_REALTIME, ahead)
print("set", flush=True)
"""

QEMU: Final = "qemu-system-x86_64"
KVM: Final = Path("/dev/kvm")
TRIAL_S: Final = 15.0
"""A guest under KVM needs one or two."""

TIMED_OUT: Final = (124, 137)
"""What `timeout` ends with."""

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


def ssh(lab: LabState, name: str) -> list[str]:
    """How a program is run on a node from here."""
    folder = state.lab_dir(lab.lab_id)
    info = NodeInfo(
        name=name,
        address=lab.address(lab.names.index(name) + 1),
        key_path=str(folder / "id_ed25519"),
        known_hosts_path=str(folder / "known_hosts"),
    )
    ssh, *words = ssh_argv(info)
    # What is said first holds. Nobody is there to be asked, and an emulated node takes a while.
    return [ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", *words]


def set_true(lab: LabState, name: str) -> None:
    """Set the node's clock to this host's: at its start it knows the time to a second only. Raises
    LabError where that is not possible.
    """
    program = shlex.join(["python3", "-I", "-S", "-c", _SET])
    with subprocess.Popen(
        ["timeout", f"{SET_S:g}", *ssh(lab, name), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        ready = asked.stdout.readline()
        try:
            asked.stdin.write(f"{clock.wall_ns() / 1e9:.6f}\n")
            asked.stdin.flush()
        except OSError:
            ready = ""
        said = asked.stdout.readline()
        if (ready.strip(), said.strip()) != ("ready", "set"):
            asked.kill()
            _, error = asked.communicate()
            raise LabError(f"the clock of {name} cannot be set: {error.strip()[-200:]}")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What guests run by (`kvm` or `tcg`), and `why`. The other fields say of what it holds."""

    accelerator: str
    why: str
    host_kernel: str
    qemu: str
    guest_kernel: str


def accelerator(base: Path) -> Trial:
    """Which one to use for guests of this image; where nobody knows, a trial is made."""
    now = (os.uname().release, _version(), vm_boot.release_of(base))
    path = state.root_dir() / "vm" / "trial.json"
    with state.lock("vm-trial"):
        known = _trial_in(path)
        if known and (known.host_kernel, known.qemu, known.guest_kernel) == now:
            return known
        found, why = _try_kvm(vm_boot.folder_of(base))
        trial = Trial(
            accelerator="kvm" if found else "tcg",
            why=why,
            host_kernel=now[0],
            qemu=now[1],
            guest_kernel=now[2],
        )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(msgspec.json.encode(trial))
        return trial


def write_trial(lab: LabState, trial: Trial) -> None:
    """Its machines are to be started by this, after a power cut as well."""
    _path_of(lab).write_bytes(msgspec.json.encode(trial))


def read_trial(lab: LabState) -> Trial | None:
    """What `write_trial` wrote down, None where that cannot be read."""
    return _trial_in(_path_of(lab))


def accelerator_of(lab: LabState) -> str:
    """By what the machines of this lab run; the one that works everywhere where nobody knows."""
    trial = read_trial(lab)
    return trial.accelerator if trial else "tcg"


def _path_of(lab: LabState) -> Path:
    return state.lab_dir(lab.lab_id) / "vm.json"


def _trial_in(path: Path) -> Trial | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trial)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def _version() -> str:
    return host.run([QEMU, "--version"]).stdout.partition("\n")[0].strip()


def _try_kvm(folder: Path) -> tuple[bool, str]:
    """Did a guest run under KVM, and what was seen."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return False, f"{KVM} is not there, or may not be opened"
    argv = [
        # Ends by itself where we do not live to see it.
        *("timeout", "--kill-after=1", f"{TRIAL_S:g}"),
        *(QEMU, "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256", "-smp", "1"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", str(folder / "kernel"), "-initrd", str(folder / "initrd")),
        *("-append", f"console=ttyS0 quiet {vm_boot.TRIAL}"),
    ]
    done = host.run(argv, timeout_s=2 * TRIAL_S, check=False)
    if vm_boot.RUNS in done.stdout:
        return True, "a guest ran under KVM"
    if done.returncode in TIMED_OUT:
        return False, f"a guest under KVM said nothing within {TRIAL_S:g} s"
    said = " ".join((done.stderr or done.stdout).split())
    return False, f"KVM runs no guest: {said[-200:]}"


def folder_of(lab: LabState, name: str) -> Path:
    """A node's directory: its disks, what is laid over its root, its console."""
    return state.lab_dir(lab.lab_id) / "nodes" / lab.container(name)


def prepare(lab: LabState) -> None:
    """Keys, files, disks and a tap for each node."""
    base = vm_boot.folder_of(Path(lab.image))

    image.write_keys(lab)
    image.write_files(lab)
    common = (base / "initrd").read_bytes()
    for index, name in enumerate(lab.names, 1):
        folder = folder_of(lab, name)
        own = vm_boot.node_archive(
            image.own_files(lab, name), lab.address(index), lab.address6(index)
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
        image.wait_ssh(lab, names, timeout_s=BOOT_TIMEOUT_S[accelerator])
    except LabError as error:
        said = [f"{name}: {_console(lab, name)}" for name in names]
        raise LabError(f"{error.message}; the consoles end with {' | '.join(said)}") from None
    host.each(lambda name: set_true(lab, name), names)


def _start_one(lab: LabState, name: str, accelerator: str) -> None:
    folder, base = folder_of(lab, name), vm_boot.folder_of(Path(lab.image))
    accel = {"kvm": "kvm", "tcg": f"tcg,thread=multi,tb-size={CODE_MIB}"}[accelerator]
    index = lab.names.index(name) + 1
    disks = []
    for disk in ("disk", "data"):
        # A flush of the guest is one of the host's file, and nothing is safe before it.
        where = f"file={folder / disk},format=qcow2,if=none,id={disk},cache=writeback"
        disks += ["-drive", where, "-device", f"virtio-blk-pci,drive={disk}"]
    card = f"virtio-net-pci,netdev=net,mac={image.hwaddr(lab, index)},romfile="
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
    for pid, line in processes.each("cmdline"):
        words = line.decode(errors="replace").split("\0")
        if Path(words[0]).name != QEMU:
            continue
        for match in filter(None, map(ours.fullmatch, words)):
            if lab_id in (None, match[1]):
                found[pid] = (match[1], match[2])
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
    host.run([*ssh(lab, name), *argv], timeout_s=60.0, check=False)


def stop(lab_id: str) -> list[str]:
    """See `Machines.stop`. One that is being started shows up a moment later: look again."""
    removed: list[str] = []
    while found := monitors(lab_id):
        _kill({pid: machine for pid, (_, machine) in found.items()})
        removed += [f"machine {machine}" for _, machine in found.values()]
    return sorted({*removed})
