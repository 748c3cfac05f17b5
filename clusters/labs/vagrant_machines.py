"""Containers that Vagrant's provider lxc has made for our labs: in LXC's own directory, by name.

Whatever Vagrant still knows of them, they are found and removed by what is on this host.
"""

from __future__ import annotations

import fcntl
import functools
import re
import shutil
from pathlib import Path

from clusters.labs import host, state
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import LabError

OURS = re.compile(r"(dst[0-9a-f]{8})-n[0-9]+")
HOOK = r"lxc\.hook\.start-host"
END_TIMEOUT_S = 15.0
DESTROY_S = 120.0


def home() -> Path:
    """Vagrant's own directory for our labs: boxes, and what it remembers."""
    return state.root_dir() / "vagrant"


def vagrant(folder: Path, *words: str, timeout_s: float, check: bool = True) -> str:
    """What Vagrant prints; `folder` has the Vagrantfile. Raises LabError with its last words.

    It runs there: what its provider lays aside in the working directory goes with the lab.
    """
    settings = [f"VAGRANT_HOME={home()}", "VAGRANT_CHECKPOINT_DISABLE=1"]
    argv = ["env", "-u", "VAGRANT_CWD", "-C", str(folder), *settings, "vagrant", *words]
    argv += ["--no-color"]
    return host.run(argv, timeout_s=timeout_s, check=check).stdout


def _lxc_path() -> Path:
    try:
        return _said_lxc_path()
    except LabError:  # without LXC there are no containers, wherever they would be
        return Path("/var/lib/lxc")


@functools.cache
def _said_lxc_path() -> Path:
    return Path(host.run(["lxc-config", "lxc.lxcpath"]).stdout.strip() or "/var/lib/lxc")


def _containers() -> dict[str, str]:
    """Our containers, running or not -> the lab of each.

    A container says in its configuration where the lab's directory is, and those of other lab
    directories are not ours. One that is half made does not say it yet: it is ours where there is a
    lab of that tag.
    """
    try:
        entries = list(_lxc_path().iterdir())
    except OSError:  # there is none, or only root may look
        return {}
    labs = {state.tag_of(lab_id): lab_id for lab_id in state.lab_ids("vagrant")}
    hook = re.compile(rf"^{HOOK} *= *{re.escape(str(state.root_dir()))}/labs/([^/\s]+)/", re.M)
    other = re.compile(rf"^{HOOK} *=", re.M)
    found = {}
    for entry in entries:
        if (name := OURS.fullmatch(entry.name)) is None:
            continue
        try:
            text = (entry / "config").read_text(errors="replace")
        except OSError:
            text = ""
        said = hook.search(text)
        owner = said[1] if said else None if other.search(text) else labs.get(name[1])
        if owner is not None:
            found[entry.name] = owner
    return found


def _names(lab_id: str) -> list[str]:
    return sorted(name for name, owner in _containers().items() if owner == lab_id)


def monitors(lab_id: str | None = None) -> dict[int, tuple[str, str]]:
    """See `Machines.monitors`."""
    ours = _containers()
    return {
        pid: (ours[name], name)
        for pid, (path, name) in host.lxc_monitors().items()
        if path == str(_lxc_path()) and name in ours and lab_id in (None, ours[name])
    }


def states(lab: LabState) -> dict[str, bool]:
    """See `Machines.states`."""
    running = {name for _, name in monitors(lab.lab_id).values()}
    return {name: lab.container(name) in running for name in lab.names}


def _abandoned(folder: Path) -> bool:
    """Was a container begun here whose maker is dead? LXC itself does not know it: it has no
    configuration yet, and `partial`, which its maker keeps locked."""
    if (folder / "config").exists():
        return False
    try:
        with (folder / "partial").open("r+") as begun:
            fcntl.lockf(begun, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def stop(lab_id: str) -> list[str]:
    """See `Machines.stop`: by LXC first, then Vagrant may forget them."""
    names = _names(lab_id)

    def remove(name: str) -> None:
        host.run(["lxc-stop", "-n", name, "-k"], timeout_s=30.0, check=False)
        host.run(["lxc-destroy", "-n", name, "-f"], timeout_s=DESTROY_S, check=False)
        if _abandoned(_lxc_path() / name):
            shutil.rmtree(_lxc_path() / name, ignore_errors=True)

    host.each(remove, names)
    deadline_ns = clock.monotonic_ns() + int(END_TIMEOUT_S * 1e9)
    while left := sorted({*_names(lab_id), *(name for _, name in monitors(lab_id).values())}):
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(
                f"containers of lab {lab_id} do not end: {', '.join(left)}",
                remedy=f"lxc-destroy -f -n {left[0]}",
            )
        clock.sleep_s(0.05)
    folder = state.root_dir() / "labs" / lab_id
    if (folder / "Vagrantfile").exists():
        vagrant(folder, "destroy", "--force", timeout_s=DESTROY_S, check=False)
    return [f"container {name}" for name in names]
