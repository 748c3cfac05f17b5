"""Formats of logs: which one a line has, its level, its words and its time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.core.errors import ConfigError
from dstest.core.log_lines import wall_time_ns
from dstest.debug.logs import formats
from dstest.debug.logs.formats import FORMS, PatternReader, plain_record
from dstest.debug.logs.lines import LINE_MAX, Source, about, each_line

AT_NS = 1_709_633_730_500_000_000
"""2024-03-05T10:15:30.5Z."""
READ_NS = AT_NS + 86_400_000_000_000

NGINX = (
    "2024/03/05 10:15:30.5 [error] 7#7: *1 gone, client: c, server: s, "
    'request: "GET /oom", upstream: "http://n2:1/", referrer: "http://x/split-brain"'
)
LINES = [
    ("json", "info", "started", '{"level":"info","ts":1709633730.5,"msg":"started"}'),
    ("json", "info", "started", '{"level":"info","ts":"2024-03-05T10:15:30.5Z","msg":"started"}'),
    ("json", "warning", "slow", '{"level":"warning","msg":"slow","time":"2024-03-05T10:15:30.5Z"}'),
    ("json", "error", "bad", '{"name":"a","level":50,"msg":"bad","time":"2024-03-05T10:15:30.5Z"}'),
    ("json", "info", "ok", '{"level":30,"time":1709633730500,"pid":1,"msg":"ok"}'),
    ("json", "info", "ok", '{"event":"ok","level":"info","timestamp":"2024-03-05T10:15:30.5Z"}'),
    ("json", "error", "n", '{"@timestamp":"2024-03-05T10:15:30.5Z","log.level":"ERROR","msg":"n"}'),
    ("json", "info", "n", '{"timeUnixNano":"1709633730500000000","severityText":"Info","msg":"n"}'),
    ("json", "info", "us", '{"ts":1709633730500000,"level":"info","msg":"us"}'),
    ("json", "warning", "x", '{"t":{"$date":"2024-03-05T10:15:30.5+00:00"},"s":"W","msg":"x"}'),
    ("logfmt", "warning", "slow put",
     'time=2024-03-05T10:15:30.5Z level=warn msg="slow put" took=2.5s'),
    ("logfmt", "error", 'say "no"', r'ts=1709633730.5 level=error msg="say \"no\"" code=7'),
    ("syslog", "critical", "it broke",
     '<34>1 2024-03-05T10:15:30.500Z n1 app 7 ID4 [x@1 a="]\\]"] it broke'),
    ("syslog", "error", "it broke", "<11>Mar  5 10:15:30.5 n1 app[7]: it broke"),
    ("syslog", "", "Killed process 7", "Mar  5 10:15:30.5 n1 kernel: Killed process 7"),
    ("syslog", "warning", "inner",
     '<14>Mar  5 10:15:30.5 n1 app[7]: level=warn msg=inner time=2024-03-05T10:15:30.5Z'),
    ("syslog", "", "inner", "2024-03-05T10:15:30.5+00:00 n1 app[7]: inner"),
    ("klog", "error", "lost lease", "E0305 10:15:30.500000       1 server.go:12] lost lease"),
    ("klog", "critical", "exit", "F0305 10:15:30.500000 77 main.go:1] exit"),
    ("stamped", "error", "it broke", "2024-03-05T10:15:30.5Z [ERROR]: it broke"),
    ("leveled", "warning", "[Raft id=1] no node",
     "[2024-03-05 10:15:30,500] WARN [Raft id=1] no node (org.apache.kafka.raft.RaftManager)"),
    ("leveled", "warning", "fsync took long",
     "2024-03-05 10:15:30,500 [myid:1] - WARN  [Sync:0:o.a.z.Txn@410] - fsync took long"),
    ("leveled", "info", "Started", "2024-03-05 10:15:30.500  INFO [main] o.s.b.App : Started"),
    ("leveled", "error", "java.io.IOException: gone",
     "2024-03-05 10:15:30,500 ERROR java.io.IOException: gone"),
    ("leveled", "info", "ready", "2024-03-05 10:15:30.500 UTC [12] LOG:  ready"),
    ("leveled", "debug", "SELECT 'deadlock detected'",
     "2024-03-05 10:15:30.500 UTC [12] STATEMENT:  SELECT 'deadlock detected'"),
    ("leveled", "info", "promoted", "2024-03-05 10:15:30,500 INFO: promoted"),
    ("plain", "", None, "2024-03-05 10:15:30.5 error is a word here"),
    ("plain", "", None, "2024-03-05T10:15:30.5Z checked foo: bar"),
    ("access", "info", "a request: status 200",
     '10.0.0.9 - - [05/Mar/2024:10:15:30 +0000] "GET / HTTP/1.1" 200 12'),
    ("access", "info", "a request: status 404",
     'n1:80 ::1 - al b [05/Mar/2024:10:15:30 +0000] "GET /split-brain?level=error&msg=x" 404 -'),
    ("access", "error", "a request: status 503",
     r'10.0.0.9 - - [05/Mar/2024:10:15:30 +0000] "GET /\"" 503 12 "x/split-brain" "oom"'),
    ("access", "info", "a request", '10.0.0.9 - - [05/Mar/2024:10:15:30 +0000] "GET /split-brain'),
    ("stamped", "error", '7#7: *1 gone, client: c, server: s, upstream: "http://n2:1/"',
     NGINX),
    ("klog", "info", "[n1] dialing",
     "I240305 10:15:30.500000 88 2@rpc/peer.go:590 ⋮ [n1] dialing"),
    ("klog", "error", "[n1,s1] disk stall",
     "E240305 10:15:30.500000 1234 storage/x.go:7 ⋮ [n1,s1] disk stall"),
    ("stamped", "error", "Unexpected exception",
     "ERROR [Native-1] 2024-03-05 10:15:30,500 File.java:121 - Unexpected exception"),
    ("stamped", "info", "Node is now part of the cluster",
     "INFO  [main] 2024-03-05 10:15:30,500 Gossiper.java:9 - Node is now part of the cluster"),
    ("stamped", "warning", "[o.e.c.c.Cluster] [n1] slow",
     "[2024-03-05T10:15:30,500][WARN ][o.e.c.c.Cluster] [n1] slow"),
    ("plain", "", None, "a text of no form"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "level", "message", "line"), LINES, ids=lambda x: str(x)[:30])
def test_a_line_is_read_as_its_format_has_it(
    form: str, level: str, message: str | None, line: str
) -> None:
    record, read_as = plain_record(line)
    assert (read_as, record.level, record.message) == (form, level, message or line)
    told_ns = wall_time_ns(line, READ_NS)
    if "of no form" in line:
        assert told_ns is None
    else:
        assert told_ns is not None and abs(told_ns - AT_NS) <= (
            500_000_000 if '"GET' in line else 9999
        )


def test_every_format_is_tried() -> None:
    assert {form for form, *_ in LINES} == set(FORMS)


@given(st.text(max_size=200))
def test_any_text_is_a_line(text: str) -> None:
    for head in ("", "<34>1 ", "Mar  5 10:15:30 n1 app: ", "2024-03-05 10:15:30 ", "level=x msg="):
        plain_record(head + text)
        wall_time_ns(head + text, READ_NS)


def test_syslog_within_syslog_ends() -> None:
    head = "Mar  5 10:15:30 n1 app: "
    assert plain_record(head * 150 + "end")[0].message.endswith("end")


def test_a_pattern_of_the_users_own() -> None:
    reader = PatternReader(r"(?P<time>\S+) \((?P<level>\w)\w*\) (?P<message>.*) \|(?P<duration>.*)")
    assert reader.record_of("other") is None
    reader = PatternReader(r"(?P<time>\S+) <(?P<level>\w+)> (?P<peer>\w+): (?P<message>.*)")
    told = reader.record_of("10:15 <WARN> n3: no answer")
    assert told is not None
    assert (told.level, told.peer, told.message) == ("warning", "n3", "no answer")


@pytest.mark.parametrize("pattern", ["(", "(?P<level>x)", r"(?P<message>.*)(?P<host>x)"])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        PatternReader(pattern)


@pytest.mark.parametrize(
    ("message", "vote", "took_ms"),
    [
        ("has received 2 MsgVoteResp votes and 0 vote rejections", "granted", None),
        ("vote rejected for term 3", "rejected", None),
        ("request served in 2500ms", "", 2500.0),
        ("Failed to connect within 30000 ms for fetch request", "", None),
        ("process 7 still waiting for ShareLock after 1000.1 ms", "", None),
        ("duration: 1312.5 ms  statement: SELECT 1", "", None),
    ],
)
def test_words_that_are_no_votes_and_no_durations(
    message: str, vote: str, took_ms: float | None
) -> None:
    record, _ = plain_record(message)
    assert (record.vote, record.duration_ms) == (vote, took_ms)


LONG = [
    "2026-11-28T12:00:01Z " + "[x] " * 5000,
    "2026-11-28T12:00:01Z - " + "[x] - " * 5000,
    "duration" + " " * 20_000,
    "took" + "\t" * 20_000,
    "reject " * 5000,
    "rejected proposa " * 2000,
    "timeout" + " " * 20_000,
    "consensus timeout 5" + " " * 20_000 + "x",
    'level=info msg="' + 'a="\\" ' * 5000,
    "<14>1 a b c d e [" + '"' * 19_999,
    "<14>1 a b c d e " + "[a]" * 7000,
    "2026-11-28 12:00:01 INFO " + " (a.b" * 4000,
    "2026-11-28 12:00:01 INFO " + "a." * 10_000,
    "no " * 7000 + "oom",
    "-xx:" * 5000,
    "a" * 20_000,
    "1" * 20_000,
    ', request: "' * 5000,
    "a b " * 5000 + "[05/Mar/2024",
    "ERROR [" + "[x] " * 5000,
    '{"msg": "' + "reject " * 5000 + '", "level": "info"}',
    '{"msg": "x", "duration": "' + "1" * 20_000 + '"}',
    '{"msg": "x", "vote": "' + "no reject " * 5000 + '"}',
    "timed out in " * 2000,
    "x" * (60 << 20),
]


@pytest.mark.parametrize("line", LONG, ids=lambda x: str(x)[:30])
def test_no_line_takes_long(line: str) -> None:
    """Each was seconds or hours where blanks or words could be divided in many ways."""
    began = time.process_time()
    about(plain_record(line)[0])
    wall_time_ns(line[:400], READ_NS)
    assert time.process_time() - began < 0.5


def test_a_line_is_read_up_to_a_limit_and_the_next_one_after_it(tmp_path: Path) -> None:
    path = tmp_path / "n1.log"
    path.write_bytes(b"x" * (3 * LINE_MAX) + b"y\nnext\n")
    found = list(each_line(Source("n1", path, "n1.log")))
    assert [(number, text[-1:]) for number, text in found] == [(1, "x"), (2, "t")]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?P<message>(a+)+)b", "a" * 5000),
        (r"(?P<message>(\w+\s*)*):", "word " * 3000),
        (r"(?P<message>.*.*.*.*)x", "y" * 300),
    ],
)
def test_a_pattern_that_takes_too_long_is_given_up(
    pattern: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_SECONDS_MOST", 0.2)
    reader = PatternReader(pattern)
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"took more than 0\.2 s for"):
        for _ in range(1000):
            reader.record_of(line)
    assert time.process_time() - began < 2


def test_a_pattern_that_is_quick_enough_reads_any_number_of_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "_SECONDS_MOST", 0.2)
    reader = PatternReader(r"(?P<level>\w+) (?P<message>.*)")
    for n in range(20_000):
        assert reader.record_of(f"WARN line {n}") is not None
    told = reader.record_of("WARN " + "x" * 9000)
    assert told is not None and len(told.message) < 4096
