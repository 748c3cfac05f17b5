"""Images for podman, each made once from the root directory of an image of the lab `lxc`.

They are in a store of their own, which the stores of all labs read.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from clusters.labs import host, image, podman_host, state
from clusters.labs.podman_host import podman
from clusters.labs.podman_processes import helpers

IMPORT_S = 600.0
REPOSITORY = "localhost/dstest-node"


def store() -> Path:
    """The directory of the store with all images."""
    return state.root_dir() / "podman"


def ensure(packages: Sequence[str], say: image.Progress) -> str:
    """The name of the image with these packages, made where it is not there yet."""
    base = image.ensure(packages, say)
    name = f"{REPOSITORY}:{base.name}"
    if exists(name):
        return name
    with state.lock("podman"):
        podman_host.write(store(), podman_host.settings())
        if not exists(name):
            say(f"importing the image {name} into podman (once)")
            _import(base / "rootfs", name)
    return name


def exists(name: str) -> bool:
    """Is it in the store?"""
    if not (store() / podman_host.CONF).exists():
        return False
    argv = [*podman_host.environment(store()), "podman", "image", "exists", name]
    return host.run(argv, check=False).returncode == 0


def _import(rootfs: Path, name: str) -> None:
    pack = ["tar", "-C", str(rootfs), "--numeric-owner", "--xattrs", "-cf", "-", "."]
    load = [*podman_host.environment(store()), "podman", "import", "-q"]
    load += ["--change", "STOPSIGNAL SIGRTMIN+3", "-", name]
    script = f"set -o pipefail; {shlex.join(pack)} | {shlex.join(load)}"
    host.run(["bash", "-c", script], timeout_s=IMPORT_S)


def remove_unused(used: set[str]) -> list[str]:
    """Remove the images that are not in `used` (names); returns what was removed."""
    if not (store() / podman_host.CONF).exists():
        return []
    with state.lock("podman"):
        listed = podman(store(), "images", "--format", "{{.Repository}}:{{.Tag}}").split()
        unused = [name for name in listed if name not in used]
        for name in unused:
            podman(store(), "rmi", "--force", name)
    return [f"image {name}" for name in unused]


def remove_temporaries() -> list[str]:
    """Remove what an import that was killed left behind; returns the paths."""
    removed = []
    with state.lock("podman"):
        if helpers(store()):  # of an import whose command is gone
            return []
        for path in podman_host.spool(store()).glob("*"):
            removed += host.remove_tree(path) if path.is_dir() else [f"file {path}"]
            path.unlink(missing_ok=True)
    return removed
