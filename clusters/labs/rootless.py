"""The `rootless` lab: LXC containers for an ordinary user, in namespaces of the command's own.

    dstest run --lab rootless --workload register --nemesis partition

Nodes live as long as the command that runs within; sshd is their only service. What needs root of
the host itself is refused by the nemeses that need it: groups of memory and of the freezer, FUSE.

A command within namespaces of its own: root of them, its own network, mounts and processes.

An ordinary user may be root there over a bridge, containers and firewall rules that nobody else
sees, by the range of user ids that /etc/subuid gives. All processes within end with the command,
and that with who has started it; of the network and the mounts nothing is left then.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, ClassVar, Final

import msgspec

from clusters.labs import bridged, container, host, image, state
from clusters.labs.bridged import Progress
from clusters.labs.lxc import LxcBased
from clusters.labs.state import LabState
from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import LabInfo

MARK = "DSTEST_SECLUDED"
TRIAL_S = 10.0
LOOKERS_S: Final = 0.5
TOOLS = {"unshare": "util-linux", "newuidmap": "uidmap", "newgidmap": "uidmap"}
"""Program -> the Debian package that has it."""

MAPPED = ("unshare", "--user", "--map-root-user", "--map-auto", "--mount")
ALONE = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL")

SETUP = """\
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/lxc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ip link set lo up
"""

WATCHED = (
    SETUP
    + """\
exec 3<&0
( trap '' INT TERM HUP; read -r word || :; kill -KILL -1 ) <&3 >/dev/null 2>&1 &
set +e
"$@" </dev/null 3<&-
exit $?
"""
)
"""Standard input is a pipe from whoever has started it: its end is the end of all that is here."""

TRIAL = SETUP + "ip link add b0 type bridge\nnft list ruleset\nmount -t proc proc /proc\n"


def inside() -> bool:
    """Is this process root of such namespaces?"""
    return os.environ.get(MARK) == "1" and os.geteuid() == 0


def _environment() -> dict[str, str]:
    """That of the command: it is called root there, and keeps to the lab directory of the user."""
    spool = state.root_dir() / "tmp"
    spool.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = {MARK: "1", "DSTEST_LAB_DIR": str(state.root_dir().resolve()), "TMPDIR": str(spool)}
    return {**os.environ, **own, "PATH": host.search_path()}


def as_mapped_root(argv: Sequence[str], *, timeout_s: float) -> int:
    """Run a program as root of a user namespace that has this host's network; its exit status."""
    done = subprocess.run(
        [*MAPPED, "--", *argv], env=_environment(), timeout=timeout_s, check=False
    )
    return done.returncode


def trial() -> str:
    """What was found, where such namespaces are possible here. LabError says why they are not."""
    if lacks := host.missing_tools(TOOLS):
        raise LabError(f"this host lacks {', '.join(lacks)}", remedy=host.apt_remedy(lacks, TOOLS))
    try:
        host.run(
            ["env", f"PATH={host.search_path()}", *MAPPED, *ALONE, "sh", "-c", TRIAL],
            timeout_s=TRIAL_S,
        )
    except LabError as error:
        raise LabError(
            f"namespaces of one's own: {error.message.rpartition(' ended with ')[2]}",
            remedy="user namespaces switched on, and a range of ids for the user in /etc/subuid and"
            " /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 NAME)",
        ) from None
    return "a bridge was made in namespaces of one's own"


def _lock(lab_id: str) -> Path:
    return state.root_dir() / "rootless" / lab_id


class Holder(msgspec.Struct, frozen=True):
    """A command has the lab in its namespaces; `pid` is None where it has not said yet which."""

    pid: int | None


def holder_of(lab_id: str) -> Holder | None:
    """Who has the lab in namespaces of its own, None where nobody has.

    Asked of a lock, which ends with all that hold it: pids within mean nothing elsewhere.
    """
    try:
        with _lock(lab_id).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        text = _lock(lab_id).read_text().strip()
        return Holder(int(text) if text.isdigit() else None)
    except OSError:
        return None


def _lock_now(file: IO[str]) -> None:
    """Whoever only looks holds it for a moment; BlockingIOError where somebody stays."""
    deadline_ns = clock.monotonic_ns() + int(LOOKERS_S * 1e9)
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic_ns() > deadline_ns:
                raise
            clock.sleep_s(0.02)
        else:
            return


@contextlib.contextmanager
def _holding(lab_id: str) -> Iterator[int]:
    path = _lock(lab_id)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a+") as file:
        try:
            _lock_now(file)
        except BlockingIOError:
            raise LabError(
                f"another command has lab {lab_id} now", remedy="another --lab-id, or wait"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield file.fileno()
        finally:
            path.unlink(missing_ok=True)


def run_inside(lab_id: str, argv: Sequence[str]) -> int:
    """Run `dstest ARGV` within, to its end; returns what it exits with. Signals are passed on."""
    reading, writing = os.pipe()
    words = ["sh", "-c", WATCHED, "sh", sys.executable, "-m", "dstest", *argv]
    with (
        _holding(lab_id) as held,
        subprocess.Popen(
            [*MAPPED, *ALONE, "--", *words],
            env=_environment(),
            stdin=reading,
            pass_fds=(held,),
            # A Ctrl-C comes to us alone, and to the command by us: once, not twice.
            start_new_session=True,
        ) as child,
    ):
        os.close(reading)
        earlier = _pass_on(child.pid)
        try:
            status = child.wait()
        finally:
            os.close(writing)
            for number, handler in earlier.items():
                signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _pass_on(pid: int) -> dict[int, Any]:
    def handler(number: int, _: FrameType | None) -> None:
        for first in _children(pid):
            for inner in _children(first):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(inner, number)

    return {
        number: signal.signal(number, handler)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }


def _children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


IMAGE_S = 1800.0
MAKE = "import json, sys; from clusters.labs import image; image.ensure(json.loads(sys.argv[1]), "
MAKE += "lambda text: print(text, file=sys.stderr))"

CONFIG = """\
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/userns.conf
lxc.uts.name = {name}
lxc.rootfs.path = dir:{folder}/rootfs
lxc.apparmor.profile = unconfined
lxc.mount.auto = proc:mixed sys:mixed
lxc.mount.entry = tmpfs run tmpfs rw,nosuid,nodev,mode=755 0 0
lxc.init.cmd = /usr/local/sbin/dstest-init
lxc.signal.halt = SIGKILL
"""

INIT = """\
#!/bin/sh
# Process 1 of a node without systemd: it collects what others leave behind.
mkdir -p /run/sshd
/usr/sbin/sshd -D -e 2>/dev/null &
wait
"""


class RootlessLab(LxcBased):
    """Implements `dstest.core.node.Lab`, `Inspects`, `Restarts` and `Secluded`."""

    name = "rootless"
    doc = "LXC containers without root, in namespaces that last as long as the command"
    tools: ClassVar[Mapping[str, str]] = {**host.TOOLS, **TOOLS}

    def inside(self) -> bool:
        """See `Secluded.inside`."""
        return inside()

    def within(self, lab_id: str, packages: Sequence[str] | None, argv: Sequence[str]) -> int:
        """See `Secluded.within`."""
        state.check_lab_id(lab_id)
        if lacks := self.missing():
            raise LabError(
                f"this host cannot run a {self.name} lab; it lacks {', '.join(lacks)}",
                remedy="; ".join(dict.fromkeys(lacks.values())),
            )
        if packages is not None:
            self._have_image(packages)
        return run_inside(lab_id, argv)

    def prepare(self, packages: Sequence[str], *, progress: Progress | None = None) -> None:
        """See `Prepares.prepare`. Its steps are told on standard error."""
        self._have_image(packages)

    def _have_image(self, packages: Sequence[str]) -> None:
        """Made with this host's network, which is not there within."""
        if (image.image_path(packages) / "image.json").exists():
            return
        words = [sys.executable, "-c", MAKE, json.dumps(list(packages))]
        if as_mapped_root(words, timeout_s=IMAGE_S) != 0:
            raise LabError("the node image cannot be made", remedy="the lines above say why")

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Progress | None = None,
        persistent: bool = False,
    ) -> LabInfo:
        """See `Lab.up`. ConfigError for a lab that is to outlive the command."""
        if persistent or not self.inside():
            raise ConfigError(
                f"nodes of a {self.name} lab live as long as the command that uses them",
                remedy=f"dstest run --lab {self.name}",
            )
        return super().up(lab_id, nodes, packages=packages, progress=progress)

    def start(self, lab: LabState, say: Progress) -> None:
        image.write_keys(lab)
        image.write_hook(lab)
        image.write_files(lab)
        for name in lab.names:
            init = image.own_files(lab, name) / "usr/local/sbin/dstest-init"
            init.parent.mkdir(parents=True)
            init.write_text(INIT)
            init.chmod(0o755)
        container.prepare(lab, CONFIG)
        for name in lab.names:
            _mount_root(lab, name)
        container.start(lab)
        image.wait_ssh(lab)

    def down(self, lab_id: str) -> list[str]:
        """See `Lab.down`."""
        if self.inside():
            return super().down(lab_id)
        if (held := holder_of(lab_id)) is not None:
            raise LabError(
                f"lab {lab_id} lives in process {held.pid or 'that is just starting'}",
                remedy=f"kill {held.pid or 'it'}",
            )
        if not state.lab_dir(lab_id).exists():
            return []
        words = ("lab", "down", "--lab", self.name, "--lab-id", lab_id)
        if run_inside(f"{lab_id[:29]}-rm", words) != 0 or state.lab_dir(lab_id).exists():
            raise LabError(f"lab {lab_id} is not gone", remedy="dstest lab gc")
        return [f"directory {state.lab_dir(lab_id)}"]

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`: from outside, no lab can be used."""
        return super().status(lab_id) if self.inside() else None

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        if self.inside():
            return super().examine(lab_id)
        if holder_of(lab_id) is not None:
            return ["its nodes are in the namespaces of that command, and nowhere else"]
        return ["its command is gone, and with it the nodes"] if self.load(lab_id) else []

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`."""
        if self.inside():
            return super().users(lab_id)
        held = holder_of(lab_id)
        return [] if held is None else [held.pid or 0]

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        return self.inside() and super().starting(lab_id)

    def gc(self, *, images: bool = False) -> Sequence[str]:
        """Remove what dead labs left; what a living command has stays."""
        if not self.inside():
            return []
        held = {i for i in state.lab_ids(self.name) if holder_of(i) is not None}
        return bridged.collect(self.name, self.machines, images=images, keep=frozenset(held))

    # The monitors of LXC that this host shows are those of other labs.
    def list(self) -> builtins.list[str]:
        """See `Lab.list`: by their files alone, which outlive the namespaces."""
        return state.lab_ids(self.name)

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`."""
        lacks = {t: host.apt_remedy([t], self.tools) for t in host.missing_tools(self.tools)}
        if self.inside() or lacks:
            return lacks
        if os.geteuid() == 0:
            return {"an ordinary user": "--lab lxc, which root may have"}
        try:
            trial()
        except LabError as error:
            return {error.message: error.remedy or ""}
        return {}


def _mount_root(lab: LabState, name: str) -> None:
    """LXC itself would not mount an overlay so that a user namespace may."""
    upper = image.own_files(lab, name)
    work = upper.with_name("work")
    work.mkdir()
    layers = f"lowerdir={lab.image}/rootfs,upperdir={upper},workdir={work},userxattr"
    where = str(upper.with_name("rootfs"))
    host.run(["mount", "-t", "overlay", "overlay", "-o", layers, where])


LAB = RootlessLab()
