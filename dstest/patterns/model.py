"""What a pattern is, what looks for it, and what is found: plain data.

A pattern has *signs*. A sign says what it asks, what it needs of a run to be able to ask, and holds
a pure function from a `Scene` to what it found. Where none of what a sign needs is there, it was
not looked for, which is another thing than not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from dstest.core.printable import one_line
from dstest.logs.findings import SEVERITIES, Severity
from dstest.logs.windows import NO_WINDOWS

if TYPE_CHECKING:
    from dstest.patterns.scene import Scene

Family = Literal["consensus", "messages", "values", "state", "performance", "partition", "progress"]
AT_STAKE: Final[Mapping[Family, str]] = {
    "consensus": "what members agree on",
    "messages": "what is delivered",
    "values": "data",
    "state": "the copies of data",
    "performance": "speed",
    "partition": "availability",
    "progress": "progress",
}
"""What patterns of a family endanger."""

Strength = Literal["proven", "strong", "indicated", "weak"]
STRENGTHS: Final[tuple[Strength, ...]] = ("proven", "strong", "indicated", "weak")
"""How much a sign says, the most first. `proven`: no healthy system gives such evidence. `strong`:
a healthy one gives it only where the clock, the load or the record is not what it is taken for.
`indicated`: it goes with the pattern, and with others as well. `weak`: words, or one figure."""

Source = Literal["operation", "anomaly", "log", "journal", "fault", "sample", "span", "state"]

ROWS_MAX: Final = 6
"""Rows shown of one finding; all are counted."""

_WIDTH: Final = 200


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence. `place` is `file:line` where it is a line, `time_ns` run time, `ops`
    the ids of operations."""

    source: Source
    place: str
    time_ns: int | None = None
    node: str = ""
    text: str = ""
    ops: list[int | str] = []


def row(
    source: Source,
    place: str,
    text: str,
    time_ns: int | None = None,
    node: str = "",
    ops: Sequence[int | str] = (),
) -> Row:
    """With the text on one line, and no longer than can be shown."""
    said = one_line(text.strip())
    said = said if len(said) <= _WIDTH else said[: _WIDTH - 1] + "…"
    return Row(source=source, place=place, time_ns=time_ns, node=node, text=said, ops=list(ops))


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign found, before it is anybody's. `at_ns` is when it began and `nodes` whom it is
    about: by these a fault may explain it, unless the sign cannot be excused. `strength` and
    `severity` stand for those of the sign where this finding says more or less. `expected` is given
    where the finding has judged itself what explains it, with `window` and `why`. `kinds` are those
    of anomalies that it claims. `acknowledged`: it shows that what is gone had been acknowledged.
    `basis` names the record that it was read from, where other signs may read the same one."""

    said: str
    rows: list[Row] = []
    count: int = 1
    nodes: list[str] = []
    at_ns: int | None = None
    strength: Strength | None = None
    severity: Severity | None = None
    window: str = ""
    expected: bool | None = None
    why: str = ""
    kinds: list[str] = []
    acknowledged: bool = False
    basis: str = ""


def _nothing(scene: Scene) -> str:
    return ""


class Need(msgspec.Struct, frozen=True):
    """Something that a run may have kept. `missing` gives a sentence where it did not, else
    nothing; `how` says how the next run is made to keep it, for systems that have this `option`
    where it takes one. `lost` gives a sentence where a part of it is not there: what is found in
    the rest is found, what is not may have been in that part."""

    name: str
    what: str
    how: str
    missing: Callable[[Scene], str]
    option: str = ""
    lost: Callable[[Scene], str] = _nothing

    def how_for(self, scene: Scene) -> str:
        """How the next run of this system is made to keep it."""
        if self.option and self.option not in scene.options:
            return f"a system that keeps it (-o {self.option} is none of this one's)"
        return self.how


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """`excusable`: what it finds is expected while a fault stands that explains it; what is against
    safety never is. `strength` and `severity` hold for what says nothing else. `words`: it finds
    what servers chose to say, so that where they say nothing, nothing is known. `basis` is the
    record that it reads, where others read the same one: they are one witness."""

    id: str
    asks: str
    needs: tuple[Need, ...]
    find: Callable[[Scene], Iterable[Found]]
    strength: Strength
    severity: Severity
    excusable: bool = True
    words: bool = False
    basis: str = ""


def sign(
    id_: str,
    asks: str,
    need: Need | tuple[Need, ...],
    find: Callable[[Scene], Iterable[Found]],
    strength: Strength = "proven",
    severity: Severity = "critical",
    *,
    excusable: bool = False,
    words: bool = False,
) -> Sign:
    """One that asks for what no healthy system shows, unless it says otherwise."""
    return Sign(
        id=id_,
        asks=asks,
        needs=need if isinstance(need, tuple) else (need,),
        find=find,
        strength=strength,
        severity=severity,
        excusable=excusable,
        words=words,
    )


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of one sign of one pattern, judged by the faults that stood."""

    pattern: str
    sign: str
    said: str
    strength: Strength
    severity: Severity
    rows: list[Row]
    count: int
    nodes: list[str]
    window: str
    expected: bool
    why: str
    at_ns: int | None = None
    kinds: list[str] = []
    acknowledged: bool = False
    basis: str = ""

    @property
    def in_window(self) -> bool:
        """Is there a window that it lies in?"""
        return self.window not in NO_WINDOWS

    @property
    def alarm(self) -> bool:
        """Does it speak against the system?"""
        return not self.expected and self.severity in ("critical", "high")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What looking for one pattern came to: the signs that were looked for in what was measured,
    those that were looked for in words of servers alone, and by sign what the others needed and how
    to get it. `partly` says by sign that was looked for what it could not look at."""

    pattern: str
    detections: list[Detection]
    looked: list[str]
    words: list[str]
    missing: dict[str, str]
    hows: dict[str, str] = {}
    partly: dict[str, str] = {}

    @property
    def state(self) -> Literal["found", "expected", "not found", "not looked for"]:
        """`expected`: all that was found, a fault explains."""
        if any(not one.expected for one in self.detections):
            return "found"
        if self.detections:
            return "expected"
        return "not found" if self.looked else "not looked for"


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """`number` is that of the catalogue (1 to 27), `symptoms` what people see of it, `causes` what
    it usually comes of, `mitigations` what helps, `measure` what to measure next. `severity` is the
    worst that its signs give."""

    id: str
    number: int
    name: str
    family: Family
    symptoms: str
    causes: tuple[str, ...]
    mitigations: tuple[str, ...]
    measure: tuple[str, ...]
    signs: tuple[Sign, ...]

    @property
    def severity(self) -> Severity:
        return min((sign.severity for sign in self.signs), key=SEVERITIES.index)

    @property
    def inputs(self) -> list[str]:
        """Names of all that its signs can look at."""
        return sorted({need.name for sign in self.signs for need in sign.needs})
