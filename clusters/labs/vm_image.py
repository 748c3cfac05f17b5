"""What virtual machines are made from: of a node image a disk, and beside it kernel and initrd.

    images/<hash>/vm/disk       a file system with the image's files, never written to
    images/<hash>/vm/data       an empty one: a node's data is on a disk of its own
    images/<hash>/vm/{kernel,initrd,release}

It is made once per image, offline and without mounting anything, and goes with its image.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters.labs import host, image, state, vm_boot
from clusters.labs.image import Progress
from dstest.core.errors import LabError

MORE_PACKAGES: Final = ("busybox-static", "linux-image-cloud-amd64")
MAKE_S: Final = 300.0
SPARE_MIB: Final = 1536
"""What a node's own files may take beside those of the image; a sparse disk takes what is used."""

DATA_MIB: Final = 2048
WRITES_BYTES: Final = (SPARE_MIB + DATA_MIB) << 20
"""What one machine can write at most: a host whose disk fills looks like a fault from inside."""


def folder_of(base: Path) -> Path:
    """Where the disk of an image is, or will be."""
    return base / "vm"


def release_of(base: Path) -> str:
    """The release of the kernel of its guests."""
    return (folder_of(base) / "release").read_text().strip()


def room(path: Path, needed_bytes: int, what: str) -> None:
    """Raises LabError where the disk below `path` has not that much room."""
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    if free < needed_bytes:
        raise LabError(
            f"{what} {needed_bytes / 1e9:.1f} GB of disk, and {free / 1e9:.1f} GB are free"
            f" at {path}",
            remedy="free some (dstest lab gc --images), or point DSTEST_LAB_DIR elsewhere",
        )


def ensure(packages: Sequence[str], say: Progress) -> Path:
    """The image with these packages that has a disk too. Raises LabError where that fails."""
    base = image.ensure(sorted({*packages, *MORE_PACKAGES}), say)
    if not folder_of(base).exists():
        with state.lock(f"image-{base.name}", timeout_s=MAKE_S):
            if not folder_of(base).exists():
                say("making a disk of the node image (once)")
                _make(base)
    return base


def _make(base: Path) -> None:
    used = int(host.run(["du", "-sm", str(base / "rootfs")], timeout_s=MAKE_S).stdout.split()[0])
    room(base, 2 * used << 20, "a disk of the node image needs")
    # Named as a broken-off image build is, so that it is collected like one.
    work = base.parent / f".{base.name}-vm.{os.getpid()}"
    work.mkdir(mode=0o700)
    try:
        release, kernel = vm_boot.kernel_of(base / "rootfs")
        _file_system(work / "disk", used + SPARE_MIB, base / "rootfs")
        _file_system(work / "data", DATA_MIB)
        shutil.copyfile(kernel, work / "kernel")
        (work / "initrd").write_bytes(vm_boot.initrd(base / "rootfs", release))
        (work / "release").write_text(f"{release}\n")
        work.rename(folder_of(base))
    finally:
        host.remove_tree(work)


def _file_system(path: Path, size_mib: int, content: Path | None = None) -> None:
    # Tables that are written when the file is made are not written by each guest.
    options = ["-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"]
    source = ["-d", str(content)] if content else []
    argv = ["mke2fs", "-q", "-t", "ext4", "-m", "0", *options, *source, str(path), f"{size_mib}M"]
    host.run(argv, timeout_s=MAKE_S)
