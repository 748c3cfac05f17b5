"""What a virtual machine boots before its own system: a few modules, its disks, its addresses.

A memory disk of one static program and an `init` of ours. What differs between nodes is a second
archive behind it: `node/settings` and files that are laid over the root, once.
"""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from clusters.labs import cpio
from dstest.core.errors import LabError

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
        **dict.fromkeys(("proc", "sys", "dev", "root", "node"), (cpio.DIRECTORY, b"")),
    }
    order = []
    for path in _modules(rootfs / "lib/modules" / release):
        data = path.read_bytes()
        name = path.name.removesuffix(".xz")
        order.append(name)
        text = lzma.decompress(data) if path.suffix == ".xz" else data
        entries[f"modules/{name}"] = (stat.S_IFREG | 0o644, text)
    entries["modules/order"] = (stat.S_IFREG | 0o644, ("\n".join(order) + "\n").encode())
    return cpio.archive(entries)


def node_archive(files: Path, address: str, address6: str) -> bytes:
    """What is one node's own: its addresses, and the files below `files`."""
    settings = f"address={address}\naddress6={address6}\n"
    entries = dict(cpio.files_below(files, "node/files"))
    entries["node/settings"] = (stat.S_IFREG | 0o644, settings.encode())
    return cpio.archive(entries)


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
