"""What a machine says of itself when it is looked at (`agent_look.py`), as typed data."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from clusters.labs.existing import agent_look

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


def address_in(text: str) -> str:
    """The IP address that a node has named. Raises ValueError for anything else, and for one with
    a zone: whatever stands behind the % would be one."""
    if "%" in text:
        raise ValueError(f"{text[:60]!r} has a zone")
    return str(ipaddress.ip_address(text))


class Looked(msgspec.Struct, frozen=True):
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
    residues: dict[str, Looked]
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
    folds = {path for path in {*was, *there} if path.endswith(agent_look.FOLD)}
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


_TC_COUNTED: Final = re.compile(r"\b(refcnt|\w+_(stat|stats|packets|pkts|bytes)|backlog) \S+")
_COUNTED: Final = re.compile(
    r"\b(packets \d+|bytes \d+|used \d+ \w+|expires \w+|last used \w+)|^\[\d+:\d+\] "
)
"""Of rules, with their quotas, and of what is in sets for a time."""
