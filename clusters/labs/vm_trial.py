"""Which accelerator runs a guest here? Tried, because /dev/kvm tells nothing of that.

On some hosts KVM takes a guest and never gets it through its first instructions. So a guest is
started that says one line and ends; where that line does not come, guests are emulated (TCG). What
came of it is kept in the directory of all labs, for this kernel, this qemu and this guest kernel.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from clusters.labs import host, state, vm_boot, vm_image
from clusters.labs.state import LabState

QEMU: Final = "qemu-system-x86_64"
KVM: Final = Path("/dev/kvm")
TRIAL_S: Final = 15.0
"""A guest under KVM needs one or two."""

TIMED_OUT: Final = (124, 137)
"""What `timeout` ends with."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What guests run by (`kvm` or `tcg`), and `why`. The other fields say of what it holds."""

    accelerator: str
    why: str
    host_kernel: str
    qemu: str
    guest_kernel: str


def accelerator(base: Path) -> Trial:
    """Which one to use for guests of this image; where nobody knows, a trial is made."""
    now = (os.uname().release, _version(), vm_image.release_of(base))
    path = state.root_dir() / "vm" / "trial.json"
    with state.lock("vm-trial"):
        known = _read(path)
        if known and (known.host_kernel, known.qemu, known.guest_kernel) == now:
            return known
        found, why = _try_kvm(vm_image.folder_of(base))
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


def keep(lab: LabState, trial: Trial) -> None:
    """Its machines are to be started by this, after a power cut as well."""
    _path_of(lab).write_bytes(msgspec.json.encode(trial))


def kept(lab: LabState) -> Trial | None:
    """What `keep` wrote down, None where that cannot be read."""
    return _read(_path_of(lab))


def accelerator_of(lab: LabState) -> str:
    """By what the machines of this lab run; the one that works everywhere where nobody knows."""
    trial = kept(lab)
    return trial.accelerator if trial else "tcg"


def _path_of(lab: LabState) -> Path:
    return state.lab_dir(lab.lab_id) / "vm.json"


def _read(path: Path) -> Trial | None:
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
