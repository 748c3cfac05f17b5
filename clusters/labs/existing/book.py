"""Adopted machines as typed data: what one says of itself when it is looked at (`agent_survey.py`),
which one it is, and what is written down of them on the control host.

    $DSTEST_LAB_DIR/adopted/<lab_id>/lab.json      `Adopted`
    .../known_hosts                                the pinned host keys
    .../sudo-<node>                                a password, for nobody else to read
    .../found-<node>.json                          what was there before us
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from clusters.labs import state
from clusters.labs.existing import agent_survey
from dstest.core.errors import LabError, NotALabNode
from dstest.core.node import Foreign, NodeInfo

if TYPE_CHECKING:
    from clusters.labs.existing.entry import HostEntry

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]

_TC_COUNTED: Final = re.compile(r"\b(refcnt|\w+_(stat|stats|packets|pkts|bytes)|backlog) \S+")
_COUNTED: Final = re.compile(
    r"\b(packets \d+|bytes \d+|used \d+ \w+|expires \w+|last used \w+)|^\[\d+:\d+\] "
)
"""Of rules, with their quotas, and of what is in sets for a time."""

HELD_S: Final = 1.0


def address_in(text: str) -> str:
    """The IP address that a node has named. Raises ValueError for anything else, and for one with
    a zone: whatever stands behind the % would be one."""
    if "%" in text:
        raise ValueError(f"{text[:60]!r} has a zone")
    return str(ipaddress.ip_address(text))


class LookAnswer(msgspec.Struct, frozen=True):
    """How a search for leftovers ended, and what it printed."""

    status: int
    text: str


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`features` name what is not there with the reason, None for what is. `processes` is the
    namespace of process 1's, empty where that is not to be read; `network` is ours there. `names`
    are what the names of nodes lead to. `packages` are those of the systems that are installed,
    None where nobody can tell. `paths` are those that were asked about and are there. `addresses`
    are its own, of both families, without those of loopback."""

    os: str
    kernel: str
    machine: str
    python: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}[0-9A-Za-z.+-]{0,40}$")]
    uid: int
    boot_id: str
    processes: str
    network: str
    marker: str | None
    wall_ns: Number
    cpus: Number | None
    memory_bytes: Number
    disk_free_bytes: Number
    features: dict[str, str | None]
    packages: list[str] | None
    names: dict[str, str]
    paths: list[str]
    residues: dict[str, LookAnswer]
    addresses: list[str]

    def __post_init__(self) -> None:
        """Raises ValueError where one of its addresses is none."""
        for address in self.addresses:
            address_in(address)


class LeftNow(msgspec.Struct, frozen=True, kw_only=True):
    """What is on a machine: `etc` by path, `hosts` all of /etc/hosts in base64, the rest as lines;
    `places` are names in directories where programs put their own. Records of older versions have
    no `hosts` and no `links`."""

    etc: dict[str, str]
    places: list[str]
    run: list[str]
    nft: list[str]
    iptables: list[str]
    tc: list[str]
    mounts: list[str]
    cgroups: list[str]
    processes: list[str]
    hosts: str | None = None
    links: list[str] | None = None


class Difference(msgspec.Struct, frozen=True):
    """Something that is not as it was. `ours`: a run has made it, or may have taken it away."""

    what: str
    ours: bool


def same_machine(one: HostFacts, other: HostFacts) -> bool:
    """Would a fault on the one hit the other? They share a kernel's life, and a network or all
    processes in it."""
    if one.boot_id != other.boot_id:
        return False
    pairs = ((one.network, other.network), (one.processes, other.processes))
    return any(mine == yours != "" for mine, yours in pairs)


def differences(before: LeftNow, now: LeftNow, homes: Sequence[str] = ()) -> list[Difference]:
    """What is not as it was, in words. `homes` are directories that runs may have made."""
    rows: list[str] = []
    for kind in LeftNow.__struct_fields__:
        was, there = getattr(before, kind), getattr(now, kind)
        if kind == "hosts":
            continue  # it is one of `etc`
        if was is None or there is None:
            continue
        if kind == "etc":
            rows += _of_files(was, there)
            continue
        rows += [f"{kind}: {line} is new" for line in _more(kind, there, was)]
        rows += [f"{kind}: {line} is gone" for line in _more(kind, was, there)]
    return [Difference(row, _is_ours(row, homes)) for row in rows]


def _is_ours(row: str, homes: Sequence[str]) -> bool:
    """Whatever a run makes is called dstest, or lies in one of its directories."""
    return "dstest" in row.lower() or any(
        re.search(rf"(?<![\w./-]){re.escape(home)}(?![\w.-])", row) for home in homes
    )


def _of_files(was: dict[str, str], there: dict[str, str]) -> list[str]:
    """Where one side has a row for all below a directory and the other has not, nobody can tell
    of that directory."""
    folds = {path for path in {*was, *there} if path.endswith(agent_survey.FOLD)}
    lone = [path for path in folds if path not in was or path not in there]
    unsure = tuple(sorted(path[: -len("...")] for path in lone))
    rows = [f"{place} cannot be compared: there are, or were, too many files" for place in unsure]
    paths = (path for path in sorted({*was, *there}) if not path.startswith(unsure))
    return rows + [
        f"{path} {_how(was.get(path), there.get(path))}"
        for path in paths
        if was.get(path) != there.get(path)
    ]


def _how(was: Any, there: Any) -> str:
    return "is new" if was is None else "is gone" if there is None else "differs"


def _more(kind: str, here: list[str], there: list[str]) -> list[str]:
    """Lines that are here and not there, in whatever order."""
    rest = Counter(_meant(kind, line) for line in there)
    found = []
    for line in here:
        if rest[meant := _meant(kind, line)]:
            rest[meant] -= 1
        else:
            found.append(line)
    return found


def _meant(kind: str, line: str) -> str:
    """A line without what the kernel makes up anew each time: counters, what is left of a time,
    numbers of queues that nobody has numbered, and how many refer to one."""
    if kind in ("nft", "iptables"):
        return _COUNTED.sub("", line)
    if kind != "tc":
        return line
    numbered = re.sub(r"(?<!\S)(0|[89a-f][0-9a-f]{3})?:", "its own:", line)
    return _TC_COUNTED.sub("", numbered)


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


_ADOPTED: Final = msgspec.json.Decoder(Adopted)


def folder_of(lab_id: str) -> Path:
    """The directory of one set."""
    return state.adopted_dir() / state.check_lab_id(lab_id)


@contextlib.contextmanager
def lock(lab_id: str) -> Iterator[None]:
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


def write_before(lab_id: str, node: str, found: LeftNow) -> None:
    """What is on a machine before we touch it."""
    _write(folder_of(lab_id) / f"found-{node}.json", msgspec.json.encode(found))


def read_before(lab_id: str, node: str) -> LeftNow | None:
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


def _here() -> HostFacts:
    empty: dict[str, Any] = {
        "features": {},
        "residues": {},
        "packages": [],
        "names": [],
        "paths": [],
    }
    return msgspec.convert(agent_survey.facts(empty), HostFacts)


def refuse_this_machine(entry: HostEntry, facts: HostFacts) -> None:
    """Raises NotALabNode."""
    if same_machine(facts, _here()):
        raise NotALabNode(
            f"{entry.alias} ({entry.ssh.where}) is this machine itself, or shares its network;"
            " faults are never made here",
            remedy="name other machines as nodes",
        )


def refuse_doubles(seen: Sequence[tuple[str, str, HostFacts]]) -> None:
    """Raises NotALabNode where two of them (the user's name, address, facts) are one machine."""
    for i, (alias, address, facts) in enumerate(seen):
        for other, there, known in seen[:i]:
            if same_machine(facts, known) or address == there:
                raise NotALabNode(
                    f"{other} and {alias} are one machine",
                    remedy="a fault on one node must not hit another: name each machine once",
                )


def not_its_own(alias: str, named: Sequence[str | None], facts: HostFacts) -> str | None:
    """What is wrong with the addresses that a list names of a machine; None where it has them. A
    partition drops what comes from an address: one that is translated on the way, or another
    machine's, would prove nothing."""
    strange = [address for address in named if address and address not in facts.addresses]
    if not strange:
        return None
    own = [a for a in facts.addresses if not ipaddress.ip_address(a).is_link_local]
    return (
        f"{alias} does not have {', '.join(strange)} itself, by which other nodes would know it"
        f" (a translated address, or another machine's?); it has {', '.join(own) or 'none'}"
    )
