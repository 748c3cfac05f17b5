"""The files of a chaos run's directory: what the proxies and the load write down, one JSON object a
line, how a file is read whose writer may have been killed, and the sums of the logs, for what was
changed after the end of a run is no evidence. And which fault a request meets: the n-th of an
endpoint at a proxy meets the same in each run of a seed, however others lie between.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.rng import stream

Kind = Literal["delay", "error", "reset", "drop", "blackhole"]
KINDS: Final[tuple[Kind, ...]] = ("delay", "error", "reset", "drop", "blackhole")

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]

Ended = Literal["answered", "reset", "dropped", "held", "client left", "upstream failed"]
"""How the proxy's connection to its client went on after a request. `held`: the client waited for
an answer until the end."""

Trouble = Literal["timeout", "reset", "closed", "refused", "no HTTP", "unfinished"]
"""Why there is no answer, as the client sees it. `unfinished`: the load was stopped before."""

HOUR_NS = 3_600_000_000_000
"""No request lasts longer."""

T = TypeVar("T")

_FLUSH_S: Final = 0.1

CONFIG: Final = "chaos-config.json"
"""Settings, ports, version; written before the first request."""

PASSED: Final = "chaos-log.jsonl"
"""Every request that came to a proxy, and which fault it met."""

ENTRIES: Final = "load-log.jsonl"
"""Every request of the load, as it ended."""

PHASES: Final = "phases.jsonl"

HOST: Final = "host.jsonl"
"""How long the service waited for a core."""

RESULTS: Final = "load-results.json"
PATTERNS: Final = "failure-patterns.json"
PROPOSALS: Final = "fix-proposals.json"
REPORT: Final = "chaos-test-report.md"

SERVICE: Final = "service.log"
"""What the service's command wrote."""

SERVICE_END: Final = "service-end.json"
"""When and how the service's command ended, where it did before its time."""

SUMS: Final = "sha256sums"
"""Of the logs of a run that came to its end."""

_NAMES: Final = (CONFIG, ENTRIES, HOST, PASSED, PHASES, SERVICE)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each fault comes. The shares are of all requests that the profile is for, and add
    up to 1 at most: a request meets one fault or none.

    delay      the request is forwarded after `delay_low_s` to `delay_high_s`, drawn evenly
    error      `error_status` is answered, and nothing is forwarded
    reset      the connection is reset (TCP RST), and nothing is forwarded
    drop       the connection is closed without an answer, and nothing is forwarded
    blackhole  nothing is answered while the client waits, and nothing is forwarded
    """

    delay: Share = 0.0
    delay_low_s: float = 0.1
    delay_high_s: float = 2.0
    error: Share = 0.0
    error_status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    reset: Share = 0.0
    drop: Share = 0.0
    blackhole: Share = 0.0
    only: tuple[str, ...] = ()
    """`GET /orders`, as endpoints are named; all that pass the proxy where it is empty."""

    def __post_init__(self) -> None:
        low, high = self.delay_low_s, self.delay_high_s
        if not (math.isfinite(low) and math.isfinite(high) and 0 <= low <= high):
            raise ValueError(f"a delay of {low} to {high} s: it begins at 0 and does not shrink")
        if self.share > 1 + 1e-9:
            raise ValueError(f"the shares of faults add up to {self.share:.3g}, more than 1")

    @property
    def share(self) -> float:
        """Of requests that meet a fault."""
        return math.fsum(getattr(self, kind) for kind in KINDS)

    def scaled(self, share: float) -> Profile:
        """The same mixture of kinds, so often that `share` of all requests meet a fault.

        Raises ConfigError where the profile has no fault at all.
        """
        if self.share <= 0:
            raise ConfigError(
                "a ramp needs faults to scale, and the profile has none",
                remedy="name one, as [proxy.faults] error = 0.1",
            )
        factor = share / self.share
        shares = {kind: min(1.0, getattr(self, kind) * factor) for kind in KINDS}
        return msgspec.structs.replace(self, **shares)


class DrawnFault(msgspec.Struct, frozen=True):
    """A fault that was drawn. `delay_s` is 0 of all but a delay."""

    kind: Kind
    delay_s: float = 0.0


class Faults:
    """Draws for each request of one proxy, in the order in which they came to each endpoint."""

    def __init__(self, profile: Profile, seed: int, proxy: str) -> None:
        self.profile = profile
        self._seed = seed
        self._proxy = proxy
        self._streams: dict[str, random.Random] = {}

    def draw(self, endpoint: str) -> DrawnFault | None:
        """What the next request of an endpoint meets; None where it is let through."""
        profile = self.profile
        if profile.only and endpoint not in profile.only:
            return None
        found = self._streams.get(endpoint)
        if found is None:
            found = self._streams[endpoint] = stream(self._seed, "chaos", self._proxy, endpoint)
        point, length = found.random(), found.random()  # both, so that no draw shifts the next
        for kind in KINDS:
            point -= getattr(profile, kind)
            if point < 0:
                low, high = profile.delay_low_s, profile.delay_high_s
                return DrawnFault(kind, low + (high - low) * length if kind == "delay" else 0.0)
        return None


class ProxyRequest(msgspec.Struct, frozen=True, kw_only=True):
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


class PhaseBegin(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch with one share of faults begins, and the one before it ends. `share` is that of
    requests that meet a fault, summed over kinds: None for what each proxy's profile says."""

    name: str
    share: float | None
    at_ns: int


class ServiceEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The service's command ended before it was asked to."""

    exit: int
    at_ns: int


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


class LineWriter:
    """A file that grows by lines; what is not a tenth of a second old may be lost with the
    process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._encoder = msgspec.json.Encoder()
        self._lines: list[bytes] = []

    def add(self, record: Any) -> None:
        self._lines.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Raises OSError where the disk has no room."""
        if self._lines:
            lines, self._lines = self._lines, []
            self._file.write(b"\n".join(lines) + b"\n")
            self._file.flush()

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()


async def stdin_lines() -> asyncio.StreamReader:
    """Standard input, to be read by lines."""
    import sys

    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _sums(directory: Path) -> str:
    lines = []
    for name in _NAMES:
        path = directory / name
        if path.is_file():
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def seal(directory: Path) -> None:
    """At the end of a run: nothing is written to its logs any more."""
    (directory / SUMS).write_text(_sums(directory), encoding="ascii")


def sealed_sums(directory: Path) -> str:
    """The sums of a run that came to its end; empty where it did not. Raises EvidenceError where
    its files are others now."""
    try:
        said = (directory / SUMS).read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{directory / SUMS}: {error}", remedy="run it again") from None
    if said != _sums(directory):
        mine = set(_sums(directory).splitlines())
        other = sorted(line.partition("  ")[2] for line in set(said.splitlines()) ^ mine)
        raise EvidenceError(
            f"{directory}: {', '.join(dict.fromkeys(other))}: not as at the end of the run",
            remedy="run it again; what was changed proves nothing",
        )
    return said
