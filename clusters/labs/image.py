"""Base images, built once by mmdebstrap from this host's own Debian sources and then shared; and
what a node is apart from others made of the same image: keys, names, addresses. Each kind of lab
lays `own_files` over the image in its own way.

An image is `images/<hash>/rootfs` with `image.json` beside it; any change of what it is made of
gives it a new hash. It is built under a temporary name and renamed, so that what carries the final
name is whole. It is Debian's minimal variant with systemd, sshd and Python, and nothing that a
package brings starts by itself: only what a test started may run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from clusters.labs import host, state
from clusters.labs.state import LabState
from dstest.core import clock, registry
from dstest.core.builds import Build, build_of, name_of
from dstest.core.errors import ConfigError, LabError

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

BUILD_TIMEOUT_S = 1800.0
"""A slow mirror and a Java runtime fit; a hung one does not."""

COPY_TIMEOUT_S = 300.0

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
FORWARDED = re.compile(
    r"Acquire::(https?::|Retries|ForceIPv|Check-Valid-Until|Check-Date|AllowReleaseInfoChange)"
)

Progress = Callable[[str], None]

SSH_ANSWER_TIMEOUT_S = 30.0
"""Cold caches and a busy host included; normally two seconds."""

# Runs on the host between the making of a node's network and the start of its process 1.
# Without link-local addresses there is no path between nodes that a partition could overlook.
ADDRESSES = """\
#!/bin/sh
set -eu
number="${{LXC_NAME##*-n}}"
exec nsenter --target "$LXC_PID" --net /bin/sh -eu <<SCRIPT
echo 0 > /proc/sys/net/ipv6/conf/lo/disable_ipv6
echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_ra
ip -batch - <<BATCH
link set eth0 addrgenmode none
addr flush dev eth0 scope link
addr add 10.77.{octet}.$number/24 dev eth0
addr add fd77:{octet:x}::$(printf %x "$number")/64 dev eth0 nodad
link set eth0 up
link set lo up
BATCH
SCRIPT
"""


def all_packages(packages: Sequence[str]) -> list[str]:
    """The base packages and `packages`, builds among them, sorted."""
    return sorted({*BASE_PACKAGES, *packages})


def image_hash(packages: Sequence[str], release: str) -> str:
    """Names the image of these packages from this Debian release on this machine's architecture."""
    recipe = [FORMAT, all_packages(packages), PREPARE, SETUP, release, os.uname().machine]
    if any(map(build_of, packages)):
        recipe += [PACKAGES, TREE]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def host_release() -> str:
    """Code name of this host's Debian release, for example `bookworm`."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', text, re.MULTILINE)
    return found[1] if found else "stable"


def image_path(packages: Sequence[str]) -> Path:
    """Where the image with these packages is, or will be."""
    return state.root_dir() / "images" / image_hash(packages, host_release())


def ensure(packages: Sequence[str], progress: Progress) -> Path:
    """The image's directory, built where it is not there yet. Raises LabError where that fails."""
    for package in packages:
        if build_of(package) is None and not PACKAGE.fullmatch(package):
            raise ConfigError(
                f"{package!r} cannot be a Debian package name",
                remedy="lower case letters, digits, + - and . as in `apt-cache search`",
            )
    path = image_path(packages)
    if (path / "image.json").exists():
        return path
    with state.lock(f"image-{path.name}", timeout_s=BUILD_TIMEOUT_S):
        if not (path / "image.json").exists():
            _build(path, packages, progress)
    return path


def apt_sources() -> tuple[str, list[str]]:
    """The release to install and the `deb` lines for it, from what apt on this host uses."""
    debian = _debian_archives()
    if not debian:
        host.run(["apt-get", "update"], timeout_s=300.0)
        debian = _debian_archives()
    names = [row[1] for row in debian]
    release = host_release()
    if release not in names:
        release = next((n for n in names if "-" not in n), "")
    if not release:
        raise LabError(
            "apt on this host knows no Debian archive to build nodes from",
            remedy="add a Debian source to /etc/apt/sources.list.d and run apt-get update",
        )
    wanted = {release, f"{release}-updates", f"{release}-security"}
    components: dict[tuple[str, str], list[str]] = {}
    for uri, name, _, component in debian:
        if name in wanted:
            components.setdefault((uri, name), []).append(component)
    return release, [
        f"deb {uri} {name} {' '.join(sorted(set(of)))}" for (uri, name), of in components.items()
    ]


def _debian_archives() -> list[list[str]]:
    """Rows of URI, code name, origin and component; none until apt has fetched its lists."""
    rows = [line.split() for line in _index_targets()]
    return [row for row in rows if len(row) == 4 and row[2] == "Debian"]


def _index_targets() -> list[str]:
    form = "$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)"
    done = host.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
    return done.stdout.splitlines()


def _apt_options() -> list[str]:
    """Proxies, certificates and date checks that apt on this host needs to reach its sources."""
    dump = host.run(["apt-config", "dump"]).stdout.splitlines()
    kept = [line for line in dump if FORWARDED.match(line) and not line.endswith(' "";')]
    return [f"--aptopt={line.removesuffix(';')}" for line in kept]


def _build(path: Path, packages: Sequence[str], progress: Progress) -> None:
    started_ns = clock.monotonic_ns()
    images = path.parent
    images.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_temporaries()
    progress(f"building the node image {path.name} (once; about a minute)")
    release, sources = apt_sources()
    work = images / f".{path.name}.{os.getpid()}"
    work.mkdir(mode=0o755)
    try:
        builds = [build for package in packages if (build := build_of(package))]
        laid = _lay(builds, work / "builds")
        hooks = {"prepare": PREPARE, **laid, "setup": SETUP}
        for name, text in hooks.items():
            (work / name).write_text(text, encoding="utf-8")
            (work / name).chmod(0o755)
        argv = [
            "mmdebstrap",
            "--variant=minbase",
            "--mode=root",
            f"--include={','.join(p for p in all_packages(packages) if not build_of(p))}",
            "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            '--aptopt=APT::Install-Recommends "false"',
            *_apt_options(),
            f"--essential-hook={work / 'prepare'}",
            *(f"--customize-hook={work / name}" for name in laid),
            f"--customize-hook={work / 'setup'}",
            release,
            str(work / "rootfs"),
            *sources,
        ]
        _mmdebstrap(argv, work / "log")
        facts = {"packages": all_packages(packages), "release": release, "sources": sources}
        facts["built"] = clock.utc_stamp()
        (work / "image.json").write_bytes(msgspec.json.encode(facts))
        host.remove_tree(path)
        work.rename(path)
    finally:
        host.remove_tree(work)
    progress(f"node image built in {(clock.monotonic_ns() - started_ns) / 1e9:.0f} s")


def _lay(builds: Sequence[Build], folder: Path) -> dict[str, str]:
    """The scripts that put builds into an image, packages first, from copies that nobody changes.
    ConfigError where one is not what was named."""
    files: list[str] = []
    trees: list[str] = []
    for number, build in enumerate(builds):
        copy = folder / str(number) if build.path.is_dir() else folder / f"{number}.deb"
        folder.mkdir(exist_ok=True)
        host.run(["cp", "-a", str(build.path), str(copy)], timeout_s=COPY_TIMEOUT_S)
        if Build(build.path, _hash_of(copy)) != build:
            raise ConfigError(
                f"{build.path} has changed since it was named",
                remedy="start again, with --system-version, for what it is now",
            )
        (trees if copy.is_dir() else files).append(shlex.quote(str(copy)))
    packages = PACKAGES.replace("FILES", " ".join(files))
    scripts = {"packages": packages} if files else {}
    return scripts | {f"tree{i}": TREE.replace("FOLDER", path) for i, path in enumerate(trees)}


def _hash_of(path: Path) -> str:
    build = build_of(name_of(path))
    return build.sha256 if build else ""


def _mmdebstrap(argv: list[str], log: Path) -> None:
    with log.open("wb") as out:
        try:
            done = subprocess.run(
                argv,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=BUILD_TIMEOUT_S,
                check=False,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
            trouble = None if done.returncode == 0 else f"status {done.returncode}"
        except FileNotFoundError:
            raise LabError(
                "mmdebstrap is not installed", remedy=host.apt_remedy(["mmdebstrap"])
            ) from None
        except subprocess.TimeoutExpired:
            trouble = f"no end within {BUILD_TIMEOUT_S:g} s"
    if trouble is None:
        return
    tail = "\n".join(log.read_text(errors="replace").strip().splitlines()[-12:])
    raise LabError(
        f"mmdebstrap could not build the node image ({trouble}); its last words:\n{tail}",
        remedy="check that `apt-get update` works on this host, that the packages exist there, and"
        " that a --system-version needs none that they do not have",
    )


def remove_unused(used: set[str]) -> list[str]:
    """Remove the images that are not in `used` (paths); returns what was removed."""
    removed = []
    for record in (state.root_dir() / "images").glob("*/image.json"):
        path = record.parent
        if str(path) not in used:
            with state.lock(f"image-{path.name}"):
                record.unlink(missing_ok=True)
                removed += host.remove_tree(path)
    return removed


def remove_temporaries() -> list[str]:
    """Remove what builders that are gone left behind; returns the paths. Where a child of one still
    writes, it stays for the next look."""
    removed = []
    for work in (state.root_dir() / "images").glob(".*.*"):
        builder = work.name.rpartition(".")[2]
        if builder.isdigit() and host.proc_start(int(builder)) is None:
            try:
                host.remove_tree(work)
            except LabError:
                continue
            removed.append(str(work))
    return removed


def shared_packages() -> tuple[str, ...]:
    """The union over the systems of this distribution that share an image, sorted."""
    ours = [registry.load("systems", name) for name in registry.names("systems", ours=True)]
    alike = [system for system in ours if not system.own_image]
    return tuple(sorted({package for system in alike for package in system.packages}))


def packages_for(systems: Iterable[Any], builds: Sequence[str] = ()) -> tuple[str, ...]:
    """Those of the image for these systems, the shared one where it has all that they need; and
    the builds."""
    wanted = {package for system in systems for package in system.packages}
    shared = shared_packages()
    return tuple(sorted({*(wanted if absent(wanted, shared) else shared), *builds}))


def absent(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """What nodes lack whose image was made with the packages and builds `there`."""
    return sorted({*wanted} - {*there, *BASE_PACKAGES})


def strange(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """Builds on such nodes that nobody asks for: what runs there would be another version."""
    return sorted(name for name in {*there} - {*wanted} if build_of(name))


def own_files(lab: LabState, name: str) -> Path:
    """The directory of what a node has besides, or in place of, the files of its image."""
    return state.lab_dir(lab.lab_id) / "nodes" / lab.container(name) / "upper"


def hwaddr(lab: LabState, index: int) -> str:
    """The same after a restart: what the others remember of a node stays right."""
    return f"02:64:73:74:{lab.octet:02x}:{index:02x}"


def write_hook(lab: LabState) -> Path:
    """The program that sets a node's addresses: LXC_NAME and LXC_PID say whose."""
    hook = state.lab_dir(lab.lab_id) / "addresses"
    hook.write_text(ADDRESSES.format(octet=lab.octet))
    hook.chmod(0o755)
    return hook


def write_keys(lab: LabState) -> None:
    """The lab's client key, a host key for each node, and `known_hosts` that pins them."""
    folder = state.lab_dir(lab.lab_id)
    paths = [folder / "id_ed25519"]
    for name in lab.names:
        keys = own_files(lab, name) / "etc/ssh"
        keys.mkdir(parents=True, mode=0o755)
        paths.append(keys / "ssh_host_ed25519_key")
    host.each(lambda path: _keygen(path, f"dstest-{lab.lab_id}"), paths)
    lines = []
    for index, name in enumerate(lab.names, 1):
        public = (own_files(lab, name) / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        hosts = f"{lab.address(index)},{lab.address6(index)},{name}"
        lines.append(f"{hosts} {public[0]} {public[1]}\n")
    (folder / "known_hosts").write_text("".join(lines))


def _keygen(path: Path, comment: str) -> None:
    host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def write_files(lab: LabState) -> None:
    """Write what differs from the image, after `write_keys`."""
    authorized = (state.lab_dir(lab.lab_id) / "id_ed25519.pub").read_text()
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for index, name in enumerate(lab.names, 1):
        hosts += [f"{lab.address(index)} {name}", f"{lab.address6(index)} {name}"]
    for name in lab.names:
        upper = own_files(lab, name)
        files = {
            "etc/hostname": f"{name}\n",
            "etc/hosts": "\n".join(hosts) + "\n",
            "etc/machine-id": f"{uuid4().hex}\n",
            MARKER_PATH.lstrip("/"): f"{lab.lab_id}\n",
        }
        for relative, text in files.items():
            (upper / relative).write_text(text)
            (upper / relative).chmod(0o644)
        (upper / "root/.ssh").mkdir(parents=True)
        (upper / "root/.ssh/authorized_keys").write_text(authorized)
        for relative, mode in {"": 0o755, "etc": 0o755, "etc/ssh": 0o755}.items():
            (upper / relative).chmod(mode)
        for relative in ("root", "root/.ssh"):
            (upper / relative).chmod(0o700)


def wait_ssh(
    lab: LabState,
    names: Sequence[str] | None = None,
    *,
    timeout_s: float = SSH_ANSWER_TIMEOUT_S,
) -> None:
    """Return when sshd on all nodes has said its banner; LabError names those that have not."""
    wanted = lab.names if names is None else list(names)
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)

    def answers(index: int) -> bool:
        while clock.monotonic_ns() < deadline_ns:
            try:
                with socket.create_connection((lab.address(index), 22), timeout=1.0) as peer:
                    if peer.recv(4) == b"SSH-":
                        return True
            except OSError:
                pass
            clock.sleep_s(0.03)
        return False

    answered = host.each(answers, [lab.names.index(name) + 1 for name in wanted])
    silent = [name for name, ok in zip(wanted, answered, strict=True) if not ok]
    if silent:
        raise LabError(
            f"no SSH answer from {', '.join(silent)} within {timeout_s:g} s",
            remedy="run `dstest doctor`: often it is a host firewall",
        )
