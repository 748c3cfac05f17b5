"""Logs that were kept: alarms and their times, and what is missing of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_meta import meta
from made_plugins import declaring

from clusters.systems.etcd.system import SYSTEM
from dstest.core.protocols import System
from dstest.core.run_record import KeptLog, Logs, RunMeta
from dstest.history.layout import RunDir
from dstest.judge.facts import ProcessFacts
from dstest.runner.logs import ALARMS_PER_SECOND_MAX, log_names, scan_logs

START = (
    '{"level":"info","ts":"1970-01-01T00:00:01.000Z","caller":"embed/etcd.go:305",'
    '"msg":"starting an etcd server","initial-corrupt-check":false}'
)
PANIC = '{"level":"panic","ts":"1970-01-01T00:00:05.500Z","msg":"tocommit is out of range"}'
NODES = ["n1", "n2", "n3"]


def kept(path: Path, **logs: str | None) -> tuple[RunDir, RunMeta]:
    """A run directory with these logs (None: none was kept), and run.json."""
    run = RunDir(path)
    logs_kept = Logs()
    for node in NODES:
        text = logs.get(node, f"{START}\n")
        if text is None:
            continue
        log = run.nodes / node / "etcd.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
        logs_kept.files[f"{node}/etcd.log"] = KeptLog(bytes=len(text), kept=len(text))
    return run, meta(origin_ns=1, clock_start_ns=2, load_s=20.0, nodes=NODES, logs=logs_kept)


def scan(run: RunDir, run_meta: RunMeta, **lives: int) -> Any:
    seen = ProcessFacts(lives={**dict.fromkeys(NODES, 1), **lives})
    return scan_logs(run, SYSTEM, log_names(SYSTEM, run_meta), run_meta, seen)


def test_whole_logs_have_no_gap(tmp_path: Path) -> None:
    found = scan(*kept(tmp_path))
    assert (found.lines, found.alarms, found.gaps) == (dict.fromkeys(NODES, 1), [], [])


def test_folders_beside_the_logs_are_no_logs(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path)
    (run.nodes / "n1" / "config").mkdir()
    (run.nodes / "n1" / "config" / "db.conf").write_text("panic: as a setting\n")
    found = scan(run, run_meta)
    assert (found.lines, found.alarms, found.gaps) == (dict.fromkeys(NODES, 1), [], [])


@pytest.mark.parametrize(
    "stamp",
    [
        "1970-01-01T00:00:05.500Z",
        "1970-01-01 00:00:05,500",
        "1970-01-01 00:00:05.500000+00:00",
        "1970-01-01 01:00:05.5+01:00",
        "[7] 1970/01/01 00:00:05.500123",
        "1970-01-01  0:00:05.5",
        "7:M 01 Jan 1970 00:00:05.500",
    ],
)
def test_stamps_of_many_kinds(tmp_path: Path, stamp: str) -> None:
    (alarm,) = scan(*kept(tmp_path, n1=f"{START}\n{stamp} panic: tocommit\n")).alarms
    assert alarm.ts is not None
    assert 5_499_000_000 < alarm.ts < 5_501_000_000


def test_a_line_without_a_stamp_is_of_the_time_of_the_one_before(tmp_path: Path) -> None:
    text = f"panic: before any stamp\n{START}\n{PANIC}\npanic: tocommit\n\ngoroutine 1 [running]:\n"
    found = scan(*kept(tmp_path, n1=text))
    assert found.lines["n1"] == 6
    assert [a.ts for a in found.alarms] == [None, 5_499_999_997, 5_499_999_997]
    assert {(a.kind, a.certain, a.node) for a in found.alarms} == {("panic", True, "n1")}
    assert found.alarms[2].line == "panic: tocommit"


@pytest.mark.parametrize(
    "line",
    [
        "Out of memory: Killed process 1234 (etcd)",
        "[signal SIGSEGV: segmentation violation code=0x1]",
        "fatal error: runtime: out of memory",
        "database is corrupt: checksum mismatch",
    ],
)
def test_lines_of_a_crash_are_found_wherever_they_are(tmp_path: Path, line: str) -> None:
    found = scan(*kept(tmp_path, n1=f"{line}\n{START}\n", n2=f"{START}\nx {line}\n{START}\n"))
    assert [(a.node, a.ts) for a in found.alarms] == [("n1", None), ("n2", 999_999_997)]


GAPS: dict[str, tuple[dict[str, Any], dict[str, int], str]] = {
    "one missing": ({"n2": None}, {}, "n2: no etcd.log was kept"),
    "one empty": ({"n3": ""}, {}, "n3: etcd.log is empty"),
    "silent": ({"n1": "hello\n"}, {}, "n1: etcd.log is silent: it tells of 0 starts"),
    "a start that is not told of": ({}, {"n1": 2}, "n1: etcd.log is silent: it tells of 1 starts"),
    "of another run": (
        {"n1": START.replace("1970", "1999") + "\n"},
        {},
        "n1: no line of etcd.log is of the time of this run",
    ),
}


@pytest.mark.parametrize("case", GAPS)
def test_gaps(tmp_path: Path, case: str) -> None:
    logs, lives, said = GAPS[case]
    run, run_meta = kept(tmp_path, **logs)
    found = scan(run, run_meta, **lives)
    assert len(found.gaps) == 1
    assert found.gaps[0].startswith(said)
    assert found.lines is not None


def test_a_log_of_another_version_is_told(tmp_path: Path) -> None:
    told = START.replace('"msg"', '"etcd-version":"3.4.23","msg"')
    run, run_meta = kept(tmp_path, n1=f"{told}\n")
    run_meta.system_version = "3.4.23"
    assert scan(run, run_meta).gaps == []
    run_meta.system_version = "3.5.0"
    (gap,) = scan(run, run_meta).gaps
    assert gap == "n1: etcd.log is of version 3.4.23, and the run is said to be of 3.5.0"
    run_meta.spec["builds"] = ["v1", "v2"]
    assert scan(run, run_meta).gaps == [], "versions are mixed on purpose"


def test_each_service_has_a_log_of_its_own(tmp_path: Path) -> None:
    """One that was not struck starts less often than the one beside it."""
    run, run_meta = kept(tmp_path)
    for told, gaps in (({"etcd.log": 1, "other.log": 2}, 0), ({"etcd.log": 2}, 1), ({}, 1)):
        seen = ProcessFacts(lives={**dict.fromkeys(NODES, 1), "n1": 2}, lives_by_log={"n1": told})
        found = scan_logs(run, SYSTEM, log_names(SYSTEM, run_meta), run_meta, seen)
        assert len(found.gaps) == gaps


def test_a_stamp_in_words(tmp_path: Path) -> None:
    line = "9541:S 01 Jan 1970 00:00:02.500 # panic: disk"
    found = scan(*kept(tmp_path, n1=f"{START}\n{line}\n"))
    assert [a.ts for a in found.alarms] == [2_499_999_997]


def test_all_empty_or_all_gone_is_missing_evidence(tmp_path: Path) -> None:
    empty = scan(*kept(tmp_path / "a", **dict.fromkeys(NODES, "")))
    gone = scan(*kept(tmp_path / "b", **dict.fromkeys(NODES)))
    for found in (empty, gone):
        assert found.lines == dict.fromkeys(NODES, 0)
        assert len(found.gaps) == 3


def test_a_log_that_was_cut_or_changed_since(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path)
    assert run_meta.logs is not None
    files = run_meta.logs.files
    whole = files["n1/etcd.log"]
    files["n1/etcd.log"] = KeptLog(bytes=whole.bytes + 1, kept=whole.kept)
    (run.nodes / "n2" / "etcd.log").write_text(f"{START}\n{START}\n")
    del files["n3/etcd.log"]
    gaps = scan(run, run_meta).gaps
    assert "was cut" in gaps[0]
    assert "were fetched" in gaps[1]
    assert "not recorded" in gaps[2]


def test_why_a_log_was_lost_is_said(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path, n2=None)
    assert run_meta.logs is not None
    run_meta.logs.lost["n2/etcd.log"] = "n2: connection lost"
    assert scan(run, run_meta).gaps == ["n2: no etcd.log was kept (n2: connection lost)"]


HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "/opt/own/server.py", line 7, in do_GET\n    self.wfile.write(body)\n    ~~~^^^\n'


def traceback(raised: str) -> str:
    return f"{HEAD}{FRAME}{raised}\n"


CAUGHT = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (traceback("BrokenPipeError: [Errno 32] Broken pipe"), ["disconnect"]),
        (traceback("ValueError: no int"), ["exception"]),
        (traceback("KeyError"), ["exception"]),
        # What was being handled is told by what came of it, but for a crash.
        (traceback("x.SyncError") + CAUGHT + traceback("BrokenPipeError: x"), ["disconnect"]),
        (
            traceback("AssertionError: no") + CAUGHT + traceback("BrokenPipeError: x"),
            ["assertion", "disconnect"],
        ),
        # Two of them are two, and one that is cut off counts.
        (traceback("ValueError: a") + "\n" + traceback("ValueError: b"), ["exception"] * 2),
        (traceback("ValueError: a") + "Traceback (most recent call last):\n", ["exception"] * 2),
        (f"Traceback (most recent call last):\n{FRAME}panic: lost\n", ["panic", "exception"]),
        # What another thread logs meanwhile ends none.
        (f"{HEAD}{FRAME}ERROR: connection reset by peer\nValueError: a\n", ["exception"]),
        (traceback("harmless.Known: as documented"), []),
        # Two threads at once.
        (
            f"{HEAD}----\n{HEAD}{FRAME}BrokenPipeError: a\n----\n{FRAME}ValueError: b\n",
            ["disconnect", "exception"],
        ),
    ],
)
def test_a_traceback_is_told_by_the_exception_in_which_it_ends(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    run, run_meta = kept(tmp_path, n1=f"{START}\n{text}")
    system = declaring(
        System,
        deployment=SYSTEM.deployment,
        logs=msgspec.structs.replace(
            SYSTEM.logs, harmless=(*SYSTEM.logs.harmless, "harmless.Known")
        ),
    )
    found = scan_logs(run, system, log_names(SYSTEM, run_meta), run_meta)
    assert [alarm.kind for alarm in found.alarms] == told
    assert all(a.line.startswith(HEAD.strip()) for a in found.alarms if not a.certain)


def test_a_flood_hides_no_other_alarm(tmp_path: Path) -> None:
    flood = "FATAL: no\n" * 5000
    found = scan(*kept(tmp_path, n1=f"{START}\n{flood}panic: here\n"))
    assert len(found.alarms) == ALARMS_PER_SECOND_MAX + 1
    assert found.alarms[-1].line == "panic: here"


def test_a_system_without_logs_has_none(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path, **dict.fromkeys(NODES))
    assert scan_logs(run, SYSTEM, {}, run_meta).lines is None


class Bare:
    """A system without logs."""

    deployment = object


def test_which_files_a_system_has(tmp_path: Path) -> None:
    run_meta = kept(tmp_path, n3=None)[1]
    assert log_names(SYSTEM, run_meta) == {n: ["etcd.log"] for n in NODES}
    said = msgspec.structs.replace(run_meta, log_files=["/opt/a/db.log", "/opt/a/proxy.log"])
    assert log_names(SYSTEM, said) == {n: ["db.log", "proxy.log"] for n in NODES}
    assert log_names(Bare(), said) == {}
    assert log_names(SYSTEM, msgspec.structs.replace(run_meta, log_files=[])) == {}


def test_logs_of_one_base_name_have_names_of_their_own() -> None:
    told = {"n1": ["/opt/db/log", "/opt/proxy/log", "/opt/db.log"], "n2": ["/opt/db/log"], "n3": []}
    names = {"n1": ["db-log", "db.log", "proxy-log"], "n2": ["log"], "n3": []}
    assert log_names(SYSTEM, meta(nodes=NODES, log_files=told)) == names


def test_a_member_misses_no_log_that_it_does_not_have(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path, n3=None)
    told: dict[str, list[str]] = {"n1": ["/l/etcd.log"], "n2": ["/l/etcd.log"], "n3": []}
    found = scan(run, msgspec.structs.replace(run_meta, log_files=told))
    assert (found.lines, found.gaps, found.none) == ({"n1": 1, "n2": 1}, [], {"n3"})


def test_a_run_that_does_not_say_which_logs_there_are_misses_them(tmp_path: Path) -> None:
    run, run_meta = kept(tmp_path, **dict.fromkeys(NODES))
    names = log_names(SYSTEM, meta(nodes=NODES))
    assert names == {n: ["log"] for n in NODES}
    assert len(scan_logs(run, SYSTEM, names, run_meta).gaps) == len(NODES)
