"""What is written down of adopted machines, on the control host.

$DSTEST_LAB_DIR/adopted/<lab_id>/lab.json      `Adopted`
.../known_hosts                                the pinned host keys
.../sudo-<node>                                a password, for nobody else to read
.../found-<node>.json                          what was there before us
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.labs import state
from clusters.labs.existing.facts import LeftNow, address_in
from dstest.core.errors import LabError
from dstest.core.node import Foreign, NodeInfo


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """One set of adopted machines. `aliases` are the user's names, `about` a line on each machine.
    `homes` are the directories that runs may make there, each of which was asked about; `names` are
    the lines for /etc/hosts by node. By node as well: `lacks` says why a feature is not there,
    `taken` and `as_found` are as in `Foreign`. `marked`: all machines have carried our marker;
    `releasing`: a release has begun, so that some may carry it no more."""

    lab_id: str
    nodes: list[NodeInfo]
    aliases: dict[str, str]
    control: str
    control6: str | None
    ssh_from: list[str]
    about: dict[str, str]
    lacks: dict[str, dict[str, str]]
    taken: dict[str, list[str]]
    as_found: dict[str, list[str]]
    homes: list[str] = msgspec.field(default_factory=list)
    names: dict[str, str] = msgspec.field(default_factory=dict)
    marked: bool = False
    releasing: bool = False

    @property
    def whole(self) -> bool:
        """May a run use them?"""
        return self.marked and not self.releasing

    def __post_init__(self) -> None:
        """Raises ValueError where what goes into rules is no address."""
        for address in (self.control, self.control6, *self.ssh_from):
            if address is not None:
                address_in(address)

    @property
    def facts(self) -> dict[str, Any]:
        """For `LabInfo`."""
        return {"machines": self.about, "there_before": self.as_found}

    @property
    def foreign(self) -> Foreign:
        """For `LabInfo`."""
        return Foreign(taken=self.taken, as_found=self.as_found, called=self.aliases)


HELD_S: Final = 1.0

_ADOPTED: Final = msgspec.json.Decoder(Adopted)


def folder_of(lab_id: str) -> Path:
    """The directory of one set."""
    return state.adopted_dir() / state.check_lab_id(lab_id)


@contextlib.contextmanager
def held(lab_id: str) -> Iterator[None]:
    """Whoever adopts or releases a set has its record alone, and no lab of this id is brought up
    meanwhile. Raises LabError where another process has it."""
    with contextlib.ExitStack() as stack:
        try:
            name = f"lab-{state.check_lab_id(lab_id)}"
            stack.enter_context(state.lock(name, timeout_s=HELD_S))
        except LabError:
            raise LabError(
                f"lab {lab_id} is being adopted, released or brought up by another process",
                remedy="wait for its end, or take another --lab-id",
            ) from None
        yield


def load(lab_id: str) -> Adopted | None:
    """What is known of a set; None where nothing is. Raises LabError for what cannot be read, or is
    not there any more."""
    path = folder_of(lab_id) / "lab.json"
    why = ""
    try:
        adopted = _ADOPTED.decode(path.read_bytes())
    except FileNotFoundError:
        if not any(path.parent.glob("found-*.json")):
            return None
        why = "it is not there, and machines may carry our marks"
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        why = str(error)
    else:
        if adopted.nodes and adopted.lab_id == lab_id:
            return adopted
        why = f"it names lab {adopted.lab_id!r}, with {len(adopted.nodes)} machines"
    raise LabError(f"{path}: {why}", remedy=f"dstest lab release --lab-id {lab_id} --forget")


def save(adopted: Adopted) -> None:
    """Write `lab.json`, atomically."""
    _write(
        folder_of(adopted.lab_id) / "lab.json",
        msgspec.json.format(msgspec.json.encode(adopted)) + b"\n",
    )


def write_secret(path: Path, text: str) -> None:
    """A file that only we can read, from its first moment on."""
    _write(path, text.encode() + b"\n")


def write_found(lab_id: str, node: str, found: LeftNow) -> None:
    """What is on a machine before we touch it."""
    _write(folder_of(lab_id) / f"found-{node}.json", msgspec.json.encode(found))


def read_found(lab_id: str, node: str) -> LeftNow | None:
    """What was on a machine before us; None where nobody wrote it down."""
    try:
        text = (folder_of(lab_id) / f"found-{node}.json").read_bytes()
        return msgspec.json.decode(text, type=LeftNow)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def forget(lab_id: str) -> None:
    """Remove all that is written down of a set."""
    shutil.rmtree(folder_of(lab_id), ignore_errors=True)
