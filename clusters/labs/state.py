"""Where labs keep their things, and what is written about each of them.

    $DSTEST_LAB_DIR (/var/lib/dstest; without root ~/.local/share/dstest)
        images/<hash>/rootfs        base images, shared by all labs, never written to
        labs/<lab_id>/lab.json      `LabState`, written before anything else of the lab exists
        labs/<lab_id>/id_ed25519    the lab's client key; known_hosts beside it
        labs/<lab_id>/nodes/<container>/{config,upper,rootfs,log}
        locks/                      one lock per lab and per image

A lab has owners: processes that use it. `persistent` labs (made by `dstest lab up`) outlive them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from clusters.labs import host
from dstest.core import clock
from dstest.core.errors import ConfigError, LabError

LAB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_ODD: Final = re.compile(r"[\s\\'\",:]")
LOCK_TIMEOUT_S = 300.0
"""Somebody else's image build or `up` is waited for this long."""


class Owner(msgspec.Struct, frozen=True):
    """A process that uses a lab; the start time tells it from a later one with the same pid."""

    pid: int
    start: int

    @property
    def alive(self) -> bool:
        return host.proc_start(self.pid) == self.start


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """One lab. `octet` is X in 10.77.X.0/24 and fd77:X::/64; `tag` begins all its link names.

    `image` is what the nodes were made from: of a lab of `kind` lxc, a directory.
    """

    lab_id: str
    kind: str = "lxc"
    tag: str
    octet: int
    nodes: int
    packages: list[str]
    image: str
    persistent: bool
    owners: list[Owner]
    complete: bool = False

    @property
    def bridge(self) -> str:
        return self.tag

    @property
    def subnet(self) -> str:
        return f"10.77.{self.octet}.0/24"

    @property
    def subnet6(self) -> str:
        return f"fd77:{self.octet:x}::/64"

    @property
    def control(self) -> str:
        return f"10.77.{self.octet}.254"

    @property
    def control6(self) -> str:
        return f"fd77:{self.octet:x}::fe"

    @property
    def names(self) -> list[str]:
        return [f"n{i}" for i in range(1, self.nodes + 1)]

    def address(self, index: int) -> str:
        """IPv4 address of the node with this number, from 1."""
        return f"10.77.{self.octet}.{index}"

    def address6(self, index: int) -> str:
        """IPv6 address of the node with this number, from 1."""
        return f"fd77:{self.octet:x}::{index:x}"

    def container(self, name: str) -> str:
        """Container name: unique on this host, because control groups are."""
        return f"{self.tag}-{name}"


def root_dir() -> Path:
    """The directory of all labs; of an ordinary user's own, where that is who asks. Raises
    ConfigError for one that mount tables and options of mounts would write in another way."""
    if named := os.environ.get("DSTEST_LAB_DIR"):
        folder = Path(named)
    elif os.geteuid() == 0:
        folder = Path("/var/lib/dstest")
    else:
        data = os.environ.get("XDG_DATA_HOME", "")
        home = Path(data) if data.startswith("/") else Path("~/.local/share").expanduser()
        folder = home / "dstest"
    if odd := _ODD.search(str(folder)):
        raise ConfigError(
            f"labs cannot be kept in {str(folder)!r}, whose name has {odd[0]!r}",
            remedy="DSTEST_LAB_DIR=DIRECTORY, without spaces, quotes, and any of , : \\",
        )
    return folder


def check_lab_id(lab_id: str) -> str:
    """`lab_id` itself. Raises ConfigError where it cannot be one."""
    if not LAB_ID.fullmatch(lab_id):
        raise ConfigError(
            f"{lab_id!r} cannot be a lab id",
            remedy="use 1 to 32 lower-case letters, digits and dashes, for example --lab-id demo",
        )
    return lab_id


def tag_of(lab_id: str) -> str:
    """`dst` and eight hex digits; at most 15 characters remain for a link name's suffix."""
    return "dst" + hashlib.sha256(lab_id.encode()).hexdigest()[:8]


_LAB: Final = msgspec.json.Decoder(LabState)
"""Made here, because labs are looked at from several threads: msgspec learns a type at its first
use, and crashes where another thread uses it meanwhile."""


def lab_dir(lab_id: str) -> Path:
    """The directory of one lab."""
    return root_dir() / "labs" / check_lab_id(lab_id)


def adopted_dir() -> Path:
    """The directory of what is known of machines that were adopted."""
    return root_dir() / "adopted"


def adopted_ids() -> list[str]:
    """Ids of all sets of such machines."""
    return _ids(adopted_dir())


def _ids(folder: Path) -> list[str]:
    """Names of labs in a directory. Raises LabError where it is none."""
    try:
        return sorted(p.name for p in folder.iterdir() if LAB_ID.fullmatch(p.name))
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise LabError(
            f"{folder} is no directory", remedy="move it away, or DSTEST_LAB_DIR=DIRECTORY"
        ) from None


def lab_ids(kind: str | None = None) -> list[str]:
    """Ids of the labs that have a directory; of one kind, those of which nobody knows included."""
    found = _ids(root_dir() / "labs")
    return [lab_id for lab_id in found if kind is None or _may_be(lab_id, kind)]


def _may_be(lab_id: str, kind: str) -> bool:
    lab = load(lab_id)
    return lab is None or lab.kind == kind


def load(lab_id: str) -> LabState | None:
    """What is known of a lab; None where nothing, nothing readable, or something of another lab was
    written: by its tag links are found and removed."""
    try:
        lab = _LAB.decode((lab_dir(lab_id) / "lab.json").read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None
    return lab if (lab.lab_id, lab.tag) == (lab_id, tag_of(lab_id)) else None


def save(state: LabState) -> None:
    """Write `lab.json`, atomically."""
    path = lab_dir(state.lab_id) / "lab.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".lab.json.{os.getpid()}")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
    temporary.replace(path)


def me() -> Owner:
    """This process as an owner."""
    return Owner(os.getpid(), host.proc_start(os.getpid()) or 0)


def subnets_lock() -> contextlib.AbstractContextManager[None]:
    """Held while a subnet is chosen and its links are made; one for all lab directories."""
    return lock("subnets", folder=Path("/run/lock/dstest"))


def lock_path(name: str, folder: Path | None = None) -> Path:
    """The file of the lock called `name`, which is there while somebody holds it."""
    return (folder or root_dir() / "locks") / name


@contextlib.contextmanager
def lock(
    name: str, *, timeout_s: float = LOCK_TIMEOUT_S, folder: Path | None = None
) -> Iterator[None]:
    """Hold the lock called `name`. Raises LabError where it stays taken."""
    path = lock_path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    while (handle := _lock(path)) is None:
        if clock.monotonic_ns() > deadline_ns:
            raise LabError(
                f"{path} was held by another process for {timeout_s:g} s",
                remedy="wait for the other `dstest lab` command, or end it",
            )
        clock.sleep_s(0.05)
    try:
        yield
    finally:
        # Removed while held: who waits on the removed file sees that and opens the new one.
        path.unlink(missing_ok=True)
        handle.close()


def _lock(path: Path) -> IO[str] | None:
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(handle.fileno())):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    handle.close()
    return None
