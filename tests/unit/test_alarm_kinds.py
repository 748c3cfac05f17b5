"""Which lines of a log are alarms: crashes in any dress, and none of what a healthy etcd writes."""

from __future__ import annotations

import re._parser as _parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.systems.etcd.system import SYSTEM
from dstest.judge import audit_rows
from dstest.judge.audit_rows import kind_of


def kind(line: str) -> tuple[str, bool] | None:
    return kind_of(line, SYSTEM.logs.alarms, SYSTEM.logs.harmless)


CERTAIN = {
    "panic: runtime error: invalid memory address or nil pointer dereference": "panic",
    '{"level":"panic","ts":"2026-11-22T18:00:00.0Z","msg":"tocommit(7) is out of range"}': "panic",
    "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x7a1]": "signal",
    "Aborted (core dumped)": "signal",
    "*** stack smashing detected ***: terminated": "signal",
    "server: raft.c:77: apply: Assertion `index == last + 1' failed.": "assertion",
    "fatal error: concurrent map writes": "fatal",
    "WARNING: DATA RACE": "race",
    "database is corrupt: checksum mismatch": "corruption",
    "ERROR: page 17 is corrupted": "corruption",
    '{"level":"fatal","msg":"failed to read WAL","error":"wal: crc mismatch"}': "corruption",
    "2026-11-22 18:00:00.1 E | DATA LOSS: entry 7 is gone": "corruption",
}

TALK = {
    "Out of memory: Killed process 1234 (etcd)": "oom",
    "fatal error: runtime: out of memory": "oom",
    "java.lang.OutOfMemoryError: Java heap space": "oom",
    '{"level":"fatal","msg":"failed to save Raft state","error":"input/output error"}': "fatal",
    "FATAL: could not open the socket": "fatal",
    "Traceback (most recent call last):": "exception",
    "Exception in thread main": "exception",
    "java.lang.NullPointerException: x": "exception",
    "500 Internal Server Error": "internal",
    "we fear that the index may be inconsistent: check for corruption of the disk": "corruption",
    '{"level":"info","msg":"the snapshot was corrupted once, and was repaired"}': "corruption",
    "entering panic mode": "panic",
}

CALM = [
    (
        '{"level":"info","ts":"2026-11-22T17:59:40.869Z","caller":"embed/etcd.go:305","msg":"starting'
        ' an etcd server","initial-corrupt-check":false,"corrupt-check-time-interval":"0s"}'
    ),
    (
        '{"level":"warn","caller":"etcdserver/util.go:167","msg":"apply request took too long",'
        '"error":"etcdserver: request timed out"}'
    ),
    '{"level":"warn","msg":"lost TCP streaming connection with remote peer","error":"EOF"}',
    '{"level":"info","msg":"received signal; shutting down","signal":"terminated"}',
    '{"level":"warn","msg":"failed to reach the peer URL","error":"connect: connection refused"}',
    '{"level":"info","msg":"saved snapshot","snapshot-index":100002}',
    '{"level":"warn","msg":"leader failed to send out heartbeat on time; took too long"}',
    '{"level":"info","msg":"initial corruption checking passed; no corruption"}',
    "raft2026/11/22 18:00:00 INFO: 7 became leader at term 3",
    "goroutine 1 [running]:",
]


@pytest.mark.parametrize("line", CERTAIN)
def test_certain(line: str) -> None:
    assert kind(line) == (CERTAIN[line], True)
    if '"level"' not in line:
        assert kind(f"\t{line.upper()}  ") in ((CERTAIN[line], True), (CERTAIN[line], False))


@pytest.mark.parametrize("line", TALK)
def test_alarms_that_may_be_talk(line: str) -> None:
    assert kind(line) == (TALK[line], False)
    found = kind(line.swapcase())
    assert found is not None
    assert found[0] == TALK[line]


@pytest.mark.parametrize("line", CALM)
def test_healthy_lines(line: str) -> None:
    assert kind(line) is None


def test_what_is_harmless_hides_nothing_else() -> None:
    line = '"initial-corrupt-check":false but the database is corrupt'
    assert kind(line) == ("corruption", True)


def test_alarms_of_the_systems_own() -> None:
    assert kind_of("elephants on the stairs", ("elephants",), ()) == ("alarm", False)
    assert kind_of("elephants on the stairs", (), ()) is None


def test_what_is_denied_has_not_happened() -> None:
    found = kind("finished without data loss")
    assert found == ("corruption", False)


@pytest.mark.parametrize(
    "line",
    [
        "panic: hash mismatch",
        "panic: invalid checksum",
        "panic: bad magic number",
        "panic: assert failed: page",
        "panic: out of memory for page",
        '{"level":"panic","msg":"check failed"}',
        "no corruption found yesterday, and now the data of this member is in a file corrupted",
    ],
)
def test_what_can_only_be_a_crash_decides_over_what_else_a_line_tells(line: str) -> None:
    found = kind_of(line, (), ())
    assert found is not None
    assert found[1], found


def test_each_alarm_has_a_hint_that_is_looked_for_first() -> None:
    """What every alternative of a pattern needs, by taking the patterns apart."""

    def shortest(node: Any) -> Iterator[str]:
        """Texts of which one is in whatever the pattern finds; what may be left out is left out."""
        found = [""]
        for op, value in node:
            match str(op):
                case "LITERAL":
                    more = [chr(value)]
                case "BRANCH":
                    more = [text for branch in value[1] for text in shortest(branch)]
                case "SUBPATTERN":
                    more = list(shortest(value[3]))
                case "IN":
                    more = ["\0"]
                case "MAX_REPEAT" | "MIN_REPEAT":
                    more = list(shortest(value[2])) if value[0] else [""]
                case _:
                    more = [""]
            found = [text + end for text in found for end in more]
        yield from found

    for _, pattern in audit_rows._PATTERNS:
        for text in shortest(_parser.parse(pattern)):
            assert any(hint in text for hint in audit_rows._HINTS), (pattern, text)
