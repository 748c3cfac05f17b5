"""What servers of any system say of trouble around them, where no run says which faults stood:
disks, clocks, members that cannot be reached, replicas that fall behind, what was lost. Kept line
by line, in the pass of the log checks.

The words are those of etcd, Consul, ZooKeeper, Kafka, RabbitMQ, PostgreSQL, Patroni, Redis,
MongoDB, CockroachDB, chrony and the Linux kernel, as their sources write them.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from dstest.debug.logs.lines import tells
from dstest.debug.logs.scene import Line, Scene, Watch

KEPT_MAX: Final = 50_000
"""Lines of each kind; the first ones."""

START_NS: Final = 10_000_000_000
"""For so long after its first line a member meets others that are not there yet."""

BACK_NS: Final = 2_000_000_000
"""Stamps of a file that go back by more are of a clock that did: threads write in disorder, and
programs that share a file may write whole seconds."""

What = Literal[
    "disk",
    "clock",
    "partition",
    "unreached",
    "refused",
    "behind",
    "lost",
    "split",
    "crash",
    "clock went back",
]


class Phrase(NamedTuple):
    """Lines that match tell of `what`; `least` of them make a finding: one that a healthy server
    writes now and then takes several. Of one kind, what takes fewer stands first."""

    what: What
    least: int
    pattern: re.Pattern[str]


def _phrase(what: What, least: int, *patterns: str) -> Phrase:
    return Phrase(what, least, re.compile("|".join(patterns)))


_FEW: Final = 3
_MANY: Final = 5

PHRASES: Final = (
    _phrase(
        "disk",
        1,
        r"\bdisk (?:stall|slowness) detected|\bblocked for more than \d+ seconds",
        r"\bi/o error\b|\binput/output error\b|\bmedium error\b",
    ),
    _phrase(
        "disk",
        _FEW,
        r"\bslow f?(?:data)?sync|\bf(?:data)?sync\w*\b.{0,60}\b(?:took|taking|too long|slow)",
        r"\b(?:slow|overloaded|busy) (?:disk|storage)|\bdisk is busy|\bsync took too long",
    ),
    _phrase(
        "clock",
        1,
        r"\b(?:time|clock) (?:has )?(?:jumped|went|gone|moved|stepped|ran) (?:back|forward)",
        r"\bclock (?:was |is )?(?:stepped|wrong) by -?[1-9]\d*(?:\.\d+)? s",
        r"\b(?:backward|forward) (?:time|clock) jump|\bclock synchronization error",
    ),
    _phrase(
        "clock",
        _FEW,
        r"\b(?:high|large|excessive|too much) clock (?:drift|skew|offset|difference)",
        r"\bclock (?:drift|skew|offset) (?:is )?(?:too|exceed|above|detected|between)",
    ),
    _phrase(
        "partition",
        1,
        r"\b(?:network|partial) partition(?: (?:was|is|has been))?(?: detected| between|:)",
        r"partitioned_network\b|\bnetwork (?:was |is |has been )?partitioned\b",
    ),
    _phrase(
        "unreached",
        _MANY,
        r"\bi/o timeout\b|\bno route to host\b",
        r"\b(?:host|network|node|peer|member) (?:is )?unreachable",
        r"could not be established|\bpeer (?:became|is) inactive|\bunhealthy status\b",
        r"\blost (?:the )?(?:tcp )?(?:streaming )?connection (?:with|to)\b",
        r"\bconnection ?(?:attempt )?timed out|\bconnect ?timeout|\bmax retries exceeded",
        r"\bfailed to (?:connect|dial|contact|reach|ping|send heartbeat)\b",
        r"\b(?:can(?:not|'t)|could not|unable to) (?:connect|reach|contact)\b",
        r"\bheartbeat\b.{0,30}(?:timed out|timeout|failed|missed)|\bdeadline exceeded\b",
        r"\b(?:quorum is not active|lost quorum|no quorum)\b|\bnot reachable\b",
    ),
    _phrase("refused", _MANY, r"\bconnection refused\b|\bconnectionrefused"),
    _phrase(
        "behind",
        1,
        r"\bwal segment \w+ has already been removed|\binvalidating (?:obsolete )?replication slot",
        r"\btoo (?:stale|far behind)\b|\bfell behind\b.{0,40}\bresync|\boplog.{0,30}\bstale\b",
    ),
    _phrase(
        "behind",
        _MANY,
        r"\b(?:falling|fell|lagging|lags|is) behind\b|\breplication lag\b|\bout of sync replicas?:",
        r"\bslow follower\b|\breplication timeout\b|\bcaught up too slow",
    ),
    _phrase(
        "lost",
        1,
        r"\bunclean (?:leader election|partition change)|\bbelow (?:the )?high ?watermark\b",
        r"\blost \d+ (?:acknowledged|committed|records|writes|messages)|\bdata[- ]loss\b",
        r"\brolled back \d+ (?:operation|document|write|entr)|\b(?:writes|records) were lost\b",
    ),
    _phrase(
        "split",
        1,
        r"\bsplit[- ]brain\b|\bforked off current database system timeline\b",
        r"\b(?:two|multiple|several|more than one) (?:active )?(?:leader|primar|master|controller)",
        r"\banother (?:active )?(?:leader|primary|master|controller) (?:is|was|has|exists)\b",
        r"\btimelines? (?:has |have )?diverge|\bconflicting (?:leader|primar|master)",
    ),
    _phrase(
        "crash",
        1,
        r"\bterminated by signal [1-9]|\bsegmentation fault|\bcore dumped|\bkilled process \d",
        r"\bencountered fatal fault|^panic: |\bpanic: runtime error",
    ),
)

_SETTABLE: Final = re.compile(r"[a-z]\.[a-z]+(?:\.[a-z]+)* ?=")
"""A list of settings, as servers write it when they begin."""

_OF_CLIENT: Final = re.compile(r"\bclients?\b|\brejected connection\b")
_ANY: Final = re.compile("|".join(phrase.pattern.pattern for phrase in PHRASES))

_LEADS: Final = re.compile(r"\bleader with the lock\b|\bcontinuing to run as (?:the |a )?leader\b")
"""What one member of a whole cluster alone may say of itself, again and again (Patroni). Leaders of
one of many groups say other words."""


class Said(NamedTuple):
    """A line that tells of trouble, and how many like it make a finding."""

    line: Line
    least: int


class ToldNotes(Watch):
    """`said` by what it is about. `times` are by node its first and its last time. `leads` are who
    says that it leads the cluster, in the order of lines of each node."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.said: dict[What, list[Said]] = {}
        self.times: dict[str, tuple[int, int]] = {}
        self.leads: list[Line] = []
        self._last: dict[str, int] = {}

    def line(self, line: Line) -> None:
        at = line.time_ns
        if at is not None:
            self._timed(line, at)
        if "calm" in line.topics or line.record.level == "debug":
            return
        text = line.record.message.lower()
        if _LEADS.search(text) and len(self.leads) < KEPT_MAX:
            self.leads.append(line)
        if _ANY.search(text) is None:
            return
        for harmless in self.scene.harmless:
            text = text.replace(harmless.lower(), " ")
        calm = line.record.level not in ("error", "critical")
        told: dict[What, int] = {}
        for phrase in PHRASES:
            if tells(phrase.pattern, text, calm=calm) and not self._usual(phrase.what, line, text):
                told.setdefault(phrase.what, phrase.least)
        if "refused" in told:
            told.pop("unreached", None)  # who refuses has been reached
        for what, least in told.items():
            self._keep(what, Said(line, least))

    def _timed(self, line: Line, at: int) -> None:
        first, last = self.times.get(line.node, (at, at))
        self.times[line.node] = min(first, at), max(last, at)
        file = line.place.rpartition(":")[0]
        if at < self._last.get(file, at) - BACK_NS:
            self._keep("clock went back", Said(line, 1))
        self._last[file] = at

    def _usual(self, what: What, line: Line, text: str) -> bool:
        """Is it of a client, of a setting, or of members that are only beginning?"""
        if _SETTABLE.search(text):
            return True
        if what not in ("unreached", "refused"):
            return False
        first = self.times.get(line.node, (0, 0))[0]
        early = line.time_ns is not None and line.time_ns < first + START_NS
        return early or _OF_CLIENT.search(text) is not None

    def _keep(self, what: What, said: Said) -> None:
        rows = self.said.setdefault(what, [])
        if len(rows) < KEPT_MAX:
            rows.append(said)
