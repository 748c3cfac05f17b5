"""Logs whose lines have one form: a pattern with a level and a message, and words of votes.

How the logs of the systems look that have one line form of their own.

Sources: PostgreSQL 15, "Error Reporting and Logging" (log_line_prefix `%m [%p] `); MariaDB, "Error
Log"; NATS logger; RabbitMQ, "Logging"; Tarantool, say.c; ZooKeeper's logback.xml; Patroni, "log"
settings.

What a line of Redis' log says, of a server, of one in a cluster, and of a sentinel.

Source: server.c (serverLogRaw: the letter of the role), replication.c, cluster.c and sentinel.c of
Redis 7.0 for what is written when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dstest.core.protocols import LogReader, LogRecord
from dstest.core.protocols.systems import Role, Topic, Vote

_CALM: Final[frozenset[Topic]] = frozenset({"calm"})


class LineForm:
    """`pattern` has the groups `level` and `message`; `levels` say what the first one means.

    `granted` and `rejected` find votes in messages, with the group `ballot` where they say of what.
    `calm` are texts of healthy lines whose words look like trouble.
    """

    def __init__(
        self,
        form: str,
        pattern: str,
        levels: Mapping[str, str],
        *,
        granted: str = "",
        rejected: str = "",
        calm: Sequence[str] = (),
    ) -> None:
        self.form = form
        self._pattern = re.compile(pattern)
        self._levels = levels
        votes: list[tuple[Vote, str]] = [("granted", granted), ("rejected", rejected)]
        self._votes = [(vote, re.compile(text)) for vote, text in votes if text]
        self._calm = tuple(calm)

    def record_of(self, line: str) -> LogRecord | None:
        """None for a line that is not of this form."""
        found = self._pattern.match(line)
        if found is None:
            return None
        message = found["message"]
        vote, ballot = self._vote(message)
        return LogRecord(
            message=message,
            level=self._levels.get(found["level"], ""),
            vote=vote,
            ballot=ballot,
            topics=_CALM if any(text in message for text in self._calm) else frozenset(),
        )

    def _vote(self, message: str) -> tuple[Vote, str]:
        for vote, pattern in self._votes:
            if found := pattern.search(message):
                return vote, found.groupdict().get("ballot") or ""
        return "", ""


class AnyOf:
    """Of a system with several programs, whose logs have several forms."""

    def __init__(self, *readers: LogReader) -> None:
        self.form = ", ".join(reader.form for reader in readers)
        self._readers = readers

    def record_of(self, line: str) -> LogRecord | None:
        """By the first that knows it."""
        told = (reader.record_of(line) for reader in self._readers)
        return next((record for record in told if record is not None), None)


_DAY: Final = r"\d{4}-\d\d-\d\d"
_CLOCK: Final = r"\d\d:\d\d:\d\d"

POSTGRESQL_LINES: Final[LogReader] = LineForm(
    "PostgreSQL's",
    rf"{_DAY} {_CLOCK}\.\d+ \S+ \[\d+\](?:-\d+)? (?:\S*@\S* )?"
    r"(?P<level>[A-Z]+\d?):\s+(?P<message>.*)",
    {
        **{f"DEBUG{n}": "debug" for n in range(1, 6)},
        **dict.fromkeys(("INFO", "NOTICE", "LOG", "DETAIL", "HINT", "CONTEXT"), "info"),
        "STATEMENT": "info",
        "WARNING": "warning",
        "ERROR": "error",
        "FATAL": "error",  # it ends one session
        "PANIC": "critical",
    },
)

MARIADB_LINES: Final[LogReader] = LineForm(
    "MariaDB's",
    rf"{_DAY}\s+\d?\d:\d\d:\d\d\s+\d+\s+\[(?P<level>Note|Warning|ERROR)\]\s+(?P<message>.*)",
    {"Note": "info", "Warning": "warning", "ERROR": "error"},
)

NATS_LINES: Final[LogReader] = LineForm(
    "NATS'",
    rf"\[\d+\] \d{{4}}/\d\d/\d\d {_CLOCK}(?:\.\d+)? \[(?P<level>[A-Z]{{3}})\] (?P<message>.*)",
    {
        **dict.fromkeys(("TRC", "DBG"), "debug"),
        "INF": "info",
        "WRN": "warning",
        "ERR": "error",
        "FTL": "critical",
    },
)

RABBITMQ_LINES: Final[LogReader] = LineForm(
    "RabbitMQ's",
    rf"{_DAY} {_CLOCK}\.\d+\S* \[(?P<level>\w+)\] (?:<[\d.]+> )?(?P<message>.*)",
    {
        "debug": "debug",
        **dict.fromkeys(("info", "notice"), "info"),
        "warning": "warning",
        "error": "error",
        **dict.fromkeys(("critical", "alert", "emergency"), "critical"),
    },
)

TARANTOOL_LINES: Final[LogReader] = LineForm(
    "Tarantool's",
    rf"{_DAY} {_CLOCK}\.\d+ (?:\S+ )?\[\d+\](?: \S+)* (?P<level>[F!ECWIVD])> (?P<message>.*)",
    {
        **dict.fromkeys(("F", "C"), "critical"),
        **dict.fromkeys(("!", "E"), "error"),
        "W": "warning",
        "I": "info",
        **dict.fromkeys(("V", "D"), "debug"),
    },
)

ZOOKEEPER_LINES: Final[LogReader] = LineForm(
    "ZooKeeper's",
    rf"{_DAY} {_CLOCK},\d+ (?:\[myid:\d*\] )?- (?P<level>[A-Z]+)\s+\[.*?\] - (?P<message>.*)",
    {
        **dict.fromkeys(("TRACE", "DEBUG"), "debug"),
        "INFO": "info",
        "WARN": "warning",
        "ERROR": "error",
        "FATAL": "critical",
    },
)

PATRONI_LINES: Final[LogReader] = LineForm(
    "Patroni's",
    rf"{_DAY} {_CLOCK},\d+ (?P<level>[A-Z]+): (?P<message>.*)",
    {
        "DEBUG": "debug",
        "INFO": "info",
        "WARNING": "warning",
        "ERROR": "error",
        "CRITICAL": "critical",
    },
)

_LINE: Final = re.compile(
    r"\d+:(?P<letter>[XCSMU]) \d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d+ (?P<level>[-.*#]) "
    r"(?P<message>.*)"
)
_LEVELS: Final = {".": "debug", "-": "debug", "*": "info", "#": "warning"}
_ROLES: Final[Mapping[str, Role]] = {"M": "primary", "S": "replica"}

_CUT: Final[frozenset[Topic]] = frozenset({"cut-off"})
_LOST: Final[frozenset[Topic]] = frozenset({"connection"})
_LATE: Final[frozenset[Topic]] = frozenset({"consensus-timeout"})
_ODDS: Final[frozenset[Topic]] = frozenset({"conflict"})


class _Rule(NamedTuple):
    """`pattern` has the groups `peer`, `voter`, `ballot` and `id`, as far as a line says them; `id`
    is an alias of `peer`, and of the log's owner where there is none."""

    pattern: re.Pattern[str]
    topics: frozenset[Topic]
    vote: Vote
    role: Role
    turned: bool


def _rule(
    pattern: str,
    topics: frozenset[Topic] = _CALM,
    vote: Vote = "",
    *,
    role: Role = "",
    turned: bool = False,
) -> _Rule:
    return _Rule(re.compile(pattern), topics, vote, role, turned)


_ID: Final = r"[0-9a-f]{40}"
_OF: Final = r"(?:master|slave|sentinel) \S+ (?P<peer>\S+) \d+"
"""An instance as sentinels name it: what it is, its name, address and port."""

_SENTINEL: Final = (
    _rule(rf"\+sentinel sentinel (?P<id>{_ID}) (?P<peer>\S+) "),
    _rule(rf"\+[so]down {_OF}", _CUT),
    _rule(rf"\+vote-for-leader {_ID} (?P<ballot>\d+)", _CALM, "granted"),
    _rule(r"-failover-abort-(?:not-elected|slave-timeout)", _LATE),
    _rule(r"\+new-epoch (?P<ballot>\d+)"),
    _rule(
        r"[+-](?:[so]down|monitor|slave|switch-master|config-update-from|elected-leader"
        r"|try-failover|selected-slave|promoted-slave|convert-to-slave|reboot|fix-slave-config"
        r"|failover-\S+|slave-reconf-\S+)\b"
    ),
)
"""Lines that begin with a sign: what sentinels see, and what they do."""

_WORDS: Final = (
    _rule(rf"(?P<voter>{_ID}) voted for {_ID} (?P<ballot>\d+)", _CALM, "granted"),
    _rule(rf"Sentinel ID is (?P<id>{_ID})"),
    _rule(rf"(?:No cluster configuration found|Node configuration loaded), I'm (?P<id>{_ID})"),
    _rule(r"Redis version=.* just started", turned=True),
    # Who votes for whom in a cluster, and who has won.
    _rule(rf"Failover auth granted to {_ID} for epoch (?P<ballot>\d+)", _CALM, "granted"),
    _rule(r"Failover auth denied to ", _CALM, "rejected"),
    _rule(r"Starting a failover election for epoch (?P<ballot>\d+)"),
    _rule(r"Start of election delayed"),
    _rule(r"Failover election won: I'm the new master", role="primary", turned=True),
    _rule(
        r"configEpoch set to (?P<ballot>\d+) after successful failover",
        role="primary",
        turned=True,
    ),
    _rule(r"MASTER MODE enabled", role="primary", turned=True),
    _rule(r"(?:Currently unable to failover: Waiting for votes|Failover attempt expired)", _LATE),
    # Who is a replica of whom.
    _rule(
        rf"Configuration change detected\. Reconfiguring myself as a replica of (?P<peer>{_ID})",
        role="replica",
        turned=True,
    ),
    _rule(r"(?:REPLICAOF|SLAVE OF) (?P<peer>\S+) enabled", role="replica", turned=True),
    _rule(r"Connecting to MASTER (?P<peer>\S+)", role="replica", turned=True),
    _rule(r"MASTER <-> REPLICA sync"),
    _rule(r"Replica (?P<peer>\S+) asks for synchronization"),
    # Who does not see whom.
    _rule(rf"FAIL message received from {_ID} about (?P<peer>{_ID})", _CUT),
    _rule(rf"Marking node (?P<peer>{_ID}) as failing", _CUT),
    _rule(r"Cluster state changed: fail", _CUT),
    _rule(r"Cluster state changed: ok"),
    _rule(rf"Clear FAIL state for node (?P<peer>{_ID})"),
    _rule(
        r"Connection with (?:master|replica (?P<peer>[\d.]+:\d+)|replica client id \S+) lost", _LOST
    ),
    _rule(r"MASTER timeout: no data nor PING received", _LOST),
    _rule(r"Disconnecting timedout replica \(\S+ sync\): (?P<peer>\S+)", _LOST),
    _rule(r"Timeout connecting to the MASTER", _LOST),
)

_OFFSETS: Final = re.compile(
    r"Requested offset for second ID was (\d+), but I can reply up to (\d+)"
)
"""A replica that was primary asks for what follows its own last write."""


class RedisLines:
    """A letter on each line says whether a server is a primary or a replica."""

    form = "Redis'"

    def record_of(self, line: str) -> LogRecord | None:
        """None for a line that is not of this form."""
        found = _LINE.match(line)
        if found is None:
            return None
        message = found["message"]
        level, role = _LEVELS[found["level"]], _ROLES.get(found["letter"], "")
        if (offsets := _OFFSETS.search(message)) and int(offsets[1]) > int(offsets[2]):
            return LogRecord(message=message, level=level, role=role, topics=_ODDS)
        for rule in _SENTINEL if message[:1] in "+-" else _WORDS:
            if told := rule.pattern.match(message):
                return _record(rule, told.groupdict(), message, level, role)
        return LogRecord(message=message, level=level, role=role)


def _record(
    rule: _Rule, said: Mapping[str, str | None], message: str, level: str, role: Role
) -> LogRecord:
    id_, peer = said.get("id"), said.get("peer") or ""
    return LogRecord(
        message=message,
        level=level,
        peer=peer,
        aliases={id_: peer} if id_ else {},
        vote=rule.vote,
        voter=said.get("voter") or "",
        ballot=said.get("ballot") or "",
        role=rule.role if rule.turned else role,
        turned=rule.turned,
        topics=rule.topics,
    )


REDIS_LINES: Final[LogReader] = RedisLines()
