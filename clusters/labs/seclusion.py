"""A command within namespaces of its own: root of them, its own network, mounts and processes.

An ordinary user may be root there over a bridge, containers and firewall rules that nobody else
sees, by the range of user ids that /etc/subuid gives. All processes within end with the command,
and that with who has started it; of the network and the mounts nothing is left then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

import msgspec

from clusters.labs import host, state
from dstest.core import clock
from dstest.core.errors import LabError

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


def tried() -> str:
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


class Held(msgspec.Struct, frozen=True):
    """A command has the lab in its namespaces; `pid` is None where it has not said yet which."""

    pid: int | None


def held_by(lab_id: str) -> Held | None:
    """Who has the lab in namespaces of its own, None where nobody has.

    Asked of a lock, which ends with all that hold it: pids within mean nothing elsewhere.
    """
    try:
        with _lock(lab_id).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        text = _lock(lab_id).read_text().strip()
        return Held(int(text) if text.isdigit() else None)
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
