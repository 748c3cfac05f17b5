"""What a virtual machine boots: the disk, kernel and initrd that are made of a node image.

    images/<hash>/vm/disk       a file system with the image's files, never written to
    images/<hash>/vm/data       an empty one: a node's data is on a disk of its own
    images/<hash>/vm/{kernel,initrd,release}

They are made once per image, offline and without mounting anything, and go with their image. The
initrd is one static program, a few modules and an `init` of ours. What differs between nodes is a
second archive behind it: `node/settings` and files that are laid over the root, once. Archives are
cpio in the "new" format, uncompressed; a kernel takes several of them, one after the other, as one.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.labs import host, image, state
from clusters.labs.image import Progress
from dstest.core.errors import LabError

DIRECTORY: Final = stat.S_IFDIR | 0o755
ALIGNED: Final = 4

MODULES: Final = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
TRIAL: Final = "dstest.trial"
"""On the kernel's command line: say `RUNS` on the console, and end."""

RUNS: Final = "dstest: this guest runs"

INIT: Final = rf"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
case " $($b cat /proc/cmdline) " in *" {TRIAL} "*)
    echo "{RUNS}" > /dev/console
    $b poweroff -f ;;
esac
for module in $($b cat /modules/order); do $b insmod /modules/$module; done
. /node/settings
for link in lo eth0; do
    echo 0 > /proc/sys/net/ipv6/conf/$link/disable_ipv6
    echo 0 > /proc/sys/net/ipv6/conf/$link/accept_ra
    echo 0 > /proc/sys/net/ipv6/conf/$link/dad_transmits
    echo 1 > /proc/sys/net/ipv6/conf/$link/addr_gen_mode
done
$b ip link set lo up
$b ip link set eth0 up
$b ip addr add $address/24 dev eth0
$b ip -6 addr add $address6/64 dev eth0
for disk in vda vdb; do
    tries=0
    while [ ! -b /dev/$disk ] && [ $tries -lt 200 ]; do $b usleep 20000; tries=$((tries + 1)); done
done
$b mount -t ext4 /dev/vda /root && $b mount -t ext4 /dev/vdb /root/opt || $b poweroff -f
if [ ! -e /root/etc/dstest-node ]; then
    $b cp -a /node/files/. /root/
    $b sync
    echo laid > /root/etc/dstest-node
fi
$b chroot /root /sbin/modprobe -a fuse nfnetlink_queue
$b mount --move /dev /root/dev
$b umount /sys
$b umount /proc
exec $b switch_root /root /sbin/init
"""
"""Without link-local addresses there is no path between nodes that a partition could overlook."""

MORE_PACKAGES: Final = ("busybox-static", "linux-image-cloud-amd64")
MAKE_S: Final = 300.0
SPARE_MIB: Final = 1536
"""What a node's own files may take beside those of the image; a sparse disk takes what is used."""

DATA_MIB: Final = 2048
WRITES_BYTES: Final = (SPARE_MIB + DATA_MIB) << 20
"""What one machine can write at most: a host whose disk fills looks like a fault from inside."""


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNED)


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _pad(header + path) + _pad(data)


def archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Relative path -> (mode with its type, content); directories above them are made, root's."""
    rows = dict(entries)
    for name in entries:
        for parent in list(Path(name).parents)[:-1]:
            rows.setdefault(str(parent), (DIRECTORY, b""))
    ordered = sorted(rows)
    parts = [_entry(i, name, *rows[name]) for i, name in enumerate(ordered, 1)]
    return b"".join([*parts, _entry(0, "TRAILER!!!", 0, b"")])


def files_below(folder: Path, prefix: str) -> Iterable[tuple[str, tuple[int, bytes]]]:
    """What lies below `folder`, directories and plain files, as entries below `prefix`."""
    yield prefix, (folder.stat().st_mode, b"")
    for where, names, files in os.walk(folder):
        for name in [*names, *files]:
            path = Path(where, name)
            mode = path.lstat().st_mode
            data = path.read_bytes() if stat.S_ISREG(mode) else b""
            yield f"{prefix}/{path.relative_to(folder)}", (mode, data)


def kernel_of(rootfs: Path) -> tuple[str, Path]:
    """Release and file of the kernel that an image has. LabError where there is not just one."""
    found = sorted((rootfs / "boot").glob("vmlinuz-*"))
    if len(found) != 1:
        raise LabError(f"{rootfs} has {len(found)} kernels, not one")
    return found[0].name.removeprefix("vmlinuz-"), found[0]


def initrd(rootfs: Path, release: str) -> bytes:
    """The memory disk for a kernel of this image; `node_archive` is to follow it."""
    entries = {
        "init": (stat.S_IFREG | 0o755, INIT.encode()),
        "bin/busybox": (stat.S_IFREG | 0o755, (rootfs / "bin/busybox").read_bytes()),
        **dict.fromkeys(("proc", "sys", "dev", "root", "node"), (DIRECTORY, b"")),
    }
    order = []
    for path in _modules(rootfs / "lib/modules" / release):
        data = path.read_bytes()
        name = path.name.removesuffix(".xz")
        order.append(name)
        text = lzma.decompress(data) if path.suffix == ".xz" else data
        entries[f"modules/{name}"] = (stat.S_IFREG | 0o644, text)
    entries["modules/order"] = (stat.S_IFREG | 0o644, ("\n".join(order) + "\n").encode())
    return archive(entries)


def node_archive(files: Path, address: str, address6: str) -> bytes:
    """What is one node's own: its addresses, and the files below `files`."""
    settings = f"address={address}\naddress6={address6}\n"
    entries = dict(files_below(files, "node/files"))
    entries["node/settings"] = (stat.S_IFREG | 0o644, settings.encode())
    return archive(entries)


def _modules(folder: Path) -> Iterable[Path]:
    """The modules that we need, each after those that it needs; without what is built in."""
    built_in = {Path(line).name for line in (folder / "modules.builtin").read_text().split()}
    needs: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {Path(path).name.partition(".")[0]: path for path in needs}
    ordered: list[str] = []

    def add(path: str) -> None:
        # The list of a module is in the order of removal: the last one goes in first.
        for other in reversed(needs[path]):
            add(other)
        if path not in ordered:
            ordered.append(path)

    for name in MODULES:
        if name in by_name:
            add(by_name[name])
        elif f"{name}.ko" not in built_in:
            raise LabError(f"the kernel in {folder} has no {name}")
    return [folder / path for path in ordered]


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
        release, kernel = kernel_of(base / "rootfs")
        _file_system(work / "disk", used + SPARE_MIB, base / "rootfs")
        _file_system(work / "data", DATA_MIB)
        shutil.copyfile(kernel, work / "kernel")
        (work / "initrd").write_bytes(initrd(base / "rootfs", release))
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
