"""Can podman run nodes on this host? Tried with a container of the host's own programs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from clusters.labs import host, podman_host, podman_machines, state
from clusters.labs.podman_host import Settings, podman
from dstest.core.errors import LabError

TRIAL_S = 30.0
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}


def tried() -> str:
    """What was found, where it can. Raises LabError with podman's reason where it cannot.

    The container has all that a node has but systemd and a network, and its root is an overlay.
    """
    if lacks := podman_host.missing():
        raise LabError(
            f"no --lab podman: this host lacks {', '.join(lacks)}",
            remedy="; ".join(dict.fromkeys(lacks.values())),
        )
    host.require_root()
    of = podman_host.settings()
    parent = state.root_dir()
    while not parent.exists():
        parent = parent.parent
    store = Path(tempfile.mkdtemp(prefix=".dstest-podman-", dir=parent))
    try:
        _try(store, of)
    finally:
        podman_machines.end_all(store, store.name)
        podman_machines.remove_groups(store.name)
        host.remove_tree(store)
    limits = f"limits {' '.join(of.ulimits)}" if of.ulimits else "podman's own limits"
    fuse = "/dev/fuse" if of.fuse else "no /dev/fuse, so no faults of disks"
    return f"a container ran; {Path(of.runtime).name}, {limits}, {fuse}"


def _try(store: Path, of: Settings) -> None:
    podman_host.write(store, of)
    root = store / "root"
    (root / "usr").mkdir(parents=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    words = [word for word in podman_machines.options(of) if not word.startswith("--systemd")]
    words += ["--rm", "--cgroup-parent", f"/{podman_machines.group_above()}/{store.name}"]
    words += ["--volume", "/usr:/usr:ro", "--rootfs", f"{root}:O", "/usr/bin/true"]
    podman(store, "run", *words, timeout_s=TRIAL_S)
