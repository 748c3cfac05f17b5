"""How the logs of the systems look that have one line form of their own.

Sources: PostgreSQL 15, "Error Reporting and Logging" (log_line_prefix `%m [%p] `); MariaDB, "Error
Log"; NATS logger; RabbitMQ, "Logging"; Tarantool, say.c; ZooKeeper's logback.xml; Patroni, "log"
settings.
"""

from __future__ import annotations

from typing import Final

from clusters.supervise.log_lines import LineForm
from dstest.core.protocols import LogReader

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
