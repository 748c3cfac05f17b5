"""What a node's base image is made of. A change of anything here gives an image a new hash.

The image is Debian's minimal variant with systemd, sshd and Python. Nothing that a package brings
starts by itself: tests start, stop and kill the systems, and only what a test started may run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence

from dstest.core.builds import build_of

FORMAT = 1

MARKER_PATH = "/etc/dstest-lab"
"""On every node: the id of its lab. Faults are refused on a host without it."""

BASE_PACKAGES = (
    "iproute2",
    "iptables",
    "iputils-ping",
    "nftables",
    "openssh-server",
    "procps",
    "python3",
    "systemd-sysv",
)

PREPARE = r"""#!/bin/sh
set -eu
root="$1"
mkdir -p "$root/usr/sbin"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
"""
"""Runs before packages are configured: a package's scripts may not start its daemon."""

SETUP = r"""#!/bin/sh
set -eu
root="$1"

# Root logs in with dash and no start-up files: a bash that reads ~/.bashrc costs every command
# up to a tenth of a second.
sed -i 's#^root:x:0:0:root:/root:.*#root:x:0:0:root:/root:/bin/sh#' "$root/etc/passwd"
rm -f "$root/root/.bashrc" "$root/root/.profile" "$root/etc/motd"
rm -rf "$root/etc/update-motd.d" "$root/etc/profile.d"
printf 'LANG=C.UTF-8\n' > "$root/etc/default/locale"

rm -f "$root"/etc/ssh/ssh_host_*
cat > "$root/etc/ssh/sshd_config" <<'CONFIG'
HostKey /etc/ssh/ssh_host_ed25519_key
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
PermitUserRC no
MaxSessions 10
MaxStartups 100
ClientAliveInterval 3
ClientAliveCountMax 3
Subsystem sftp internal-sftp
CONFIG

mkdir -p "$root/etc/systemd/journald.conf.d" "$root/etc/systemd/system-preset"
printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=8M\n' \
    > "$root/etc/systemd/journald.conf.d/dstest.conf"
printf 'enable ssh.service\ndisable *\n' > "$root/etc/systemd/system-preset/00-dstest.preset"
chroot "$root" systemctl preset-all >/dev/null 2>&1
rm -f "$root"/etc/rc?.d/S* "$root"/etc/rc?.d/K*
chroot "$root" systemctl set-default multi-user.target >/dev/null 2>&1
chroot "$root" systemctl mask \
    getty.target console-getty.service getty-static.service systemd-logind.service \
    systemd-firstboot.service systemd-machine-id-commit.service systemd-repart.service \
    systemd-binfmt.service systemd-modules-load.service systemd-random-seed.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service \
    systemd-ask-password-console.path systemd-ask-password-wall.path \
    systemd-journal-flush.service systemd-remount-fs.service systemd-sysctl.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
    systemd-udev-trigger.service kmod-static-nodes.service \
    cryptsetup.target veritysetup.target integritysetup.target \
    dev-hugepages.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount \
    sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount systemd-tmpfiles-clean.timer >/dev/null 2>&1

# Nodes have no way out of the lab, so package sources and proxy settings are of no use there.
rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* \
    "$root"/etc/apt/apt.conf.d/99mmdebstrap
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
: > "$root/etc/machine-id"
"""
"""Runs when all packages are installed."""


PACKAGES = r"""#!/bin/sh
set -eu
mkdir "$1/builds"
cp FILES "$1/builds/"
chroot "$1" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    --no-remove --reinstall --allow-downgrades /builds/*.deb'
rm -r "$1/builds"
"""
"""Installs FILES, Debian packages, all at once, while the image still has its package sources."""

TREE = r"""#!/bin/sh
set -eu
tar -C FOLDER --owner=0 --group=0 --numeric-owner -cf - . \
    | chroot "$1" tar -C / --keep-directory-symlink --no-overwrite-dir -xpf -
"""
"""Lays FOLDER over the image, whose own directories stay what they are."""


def all_packages(packages: Sequence[str]) -> list[str]:
    """The base packages and `packages`, builds among them, sorted."""
    return sorted({*BASE_PACKAGES, *packages})


def image_hash(packages: Sequence[str], release: str) -> str:
    """Names the image of these packages from this Debian release on this machine's architecture."""
    recipe = [FORMAT, all_packages(packages), PREPARE, SETUP, release, os.uname().machine]
    if any(map(build_of, packages)):
        recipe += [PACKAGES, TREE]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
