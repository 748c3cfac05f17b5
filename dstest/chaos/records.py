"""What the proxies and the load write down, one JSON object a line, and how a file of them is read
whose writer may have been killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from dstest.chaos.profile import Kind
from dstest.core.errors import EvidenceError

Ended = Literal["answered", "reset", "dropped", "held", "client left", "upstream failed"]
"""How the proxy's connection to its client went on after a request. `held`: the client waited for
an answer until the end."""

Trouble = Literal["timeout", "reset", "closed", "refused", "no HTTP", "unfinished"]
"""Why there is no answer, as the client sees it. `unfinished`: the load was stopped before."""


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A request that came to a proxy. Times are of CLOCK_MONOTONIC, of the host that all is on."""

    proxy: str
    n: int
    endpoint: str
    request: int | None
    """Which request of the load it belongs to, where that was handed on; else None."""
    begin_ns: int
    end_ns: int
    ended: Ended
    status: int | None = None
    """What the proxy's client was answered."""
    id: str | None = None
    """Of the fault; None where the request was let through."""
    kind: Kind | None = None
    delay_s: float = 0.0


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A request of the load. Its latency counts from `due_ns`, when an open loop has it sent:
    whoever waits for a slow service waits for that too."""

    n: int
    endpoint: str
    due_ns: int
    begin_ns: int
    end_ns: int
    status: int | None = None
    trouble: Trouble | None = None
    chaos_id: str | None = None
    """Of the answer's header X-Chaos-Id."""
    ok: bool = False
    why: str = ""
    """Why it is no success, in words."""
    body: str = ""
    """The beginning of the answer of a failure."""

    @property
    def latency_s(self) -> float:
        return (self.end_ns - self.due_ns) / 1e9

    @property
    def service_s(self) -> float:
        """From when it was sent."""
        return (self.end_ns - self.begin_ns) / 1e9


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch with one share of faults begins, and the one before it ends. `share` is that of
    requests that meet a fault, summed over kinds: None for what each proxy's profile says."""

    name: str
    share: float | None
    at_ns: int


class ServiceEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The service's command ended before it was asked to."""

    exit: int
    at_ns: int


HOUR_NS = 3_600_000_000_000
"""No request lasts longer."""

T = TypeVar("T")


def read_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """The records of a file. A last line without its end is of a writer that was killed, and is
    left out; any other that cannot be read raises EvidenceError with its number."""
    decoder = msgspec.json.Decoder(kind)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise EvidenceError(
                        f"{path}:{number} is no line of this log: {error}",
                        remedy="run `dstest chaos` again; what is left of this one proves nothing",
                    ) from None
    except FileNotFoundError:
        return
