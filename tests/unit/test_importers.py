"""Foreign histories become ours, and broken ones are refused with a place and a remedy."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome
from dstest.history import jepsen
from dstest.history.importers import load_history
from dstest.history.jsonl import write_history

LOG = """\
some other line
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1   :invoke   :write   3
INFO  jepsen.core - Run complete
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - 2\t:invoke\t:cas\t[3 4]
INFO  jepsen.util - 1\t:info\t:write\t:timed-out
INFO  jepsen.util - 2\t:fail\t:cas\t[3 4]
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - :nemesis\t:info\t:start\t"cut off"
INFO  jepsen.util - 0\t:fail\t:read\t:timed-out
INFO  jepsen.util - 2\t:invoke\t:cas\t[0 1]
INFO  jepsen.util - 2\t:ok\t:cas\t[0 1]
INFO  jepsen.util - 3\t:invoke\t:write\t9
"""


def put(folder: Path, text: str, name: str = "h") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_log_lines(tmp_path: Path) -> None:
    history = load_history(put(tmp_path, LOG))
    assert [(o.op_type, o.outcome.value, o.input, o.output, o.error) for o in history.ops] == [
        ("read", "ok", None, None, None),
        ("write", "unknown", 3, None, "timed-out"),
        ("cas", "ok", [3, 4], False, None),
        ("read", "fail", None, None, "timed-out"),
        ("cas", "ok", [0, 1], True, None),
        ("write", "unknown", 9, None, "unfinished"),
    ]
    assert all(o.timeout_marker for o in history.ops if o.outcome is Outcome.UNKNOWN)
    assert history.header.counters == {"skipped-other-processes": 1}
    assert [o.op_id for o in history.ops] == list(range(6))
    assert history.header.clock is not None and history.header.clock.name == "event order"
    assert history.header.source == "log: h"


def test_later_log_lines_and_errors_of_failed_cas(tmp_path: Path) -> None:
    """A failure has had no effect, whatever stood there: only logs of 2013 say that it differed."""
    lead = "INFO [2016-01-02 03:04:05,678] jepsen worker 4 - jepsen.util"
    text = "\n".join(
        [
            f"{lead} 4\t:invoke\t:cas\t[0 1]",
            f"{lead} 4\t:fail\t:cas\t[0 1]\t:connection-refused",
            f"{lead} 4\t:invoke\t:cas\t[0 1]",
            f"{lead} 4\t:fail\t:cas\t[0 1]",
            "",
        ]
    )
    refused, differed = load_history(put(tmp_path, text)).ops
    assert (refused.outcome, refused.error) == (Outcome.FAIL, "connection-refused")
    assert (differed.outcome, differed.error) == (Outcome.FAIL, "fail")


EDN_OPS = """\
{:process 0, :type :invoke, :f :cas, :value [1 2], :time 10}
{:process :nemesis, :type :info, :f :start, :value nil, :time 11}
{:process 1, :type :invoke, :f :read, :value nil, :time 20}
{:process 0, :type :fail, :f :cas, :value [1 2], :time 20, :error [:no "way"]}
{:process 1, :type :ok, :f :read, :value 5, :time 20}
"""


@pytest.mark.parametrize("shape", ["lines", "vector", "tagged", "json", "json-lines"])
def test_the_same_history_in_every_notation(tmp_path: Path, shape: str) -> None:
    text = EDN_OPS
    if shape == "vector":
        text = f"; a comment\n[{EDN_OPS}]"
    elif shape == "tagged":
        text = EDN_OPS.replace("{:process", "#jepsen.history.Op{:process")
    elif shape.startswith("json"):
        events = [
            {"process": e.process, "type": e.type, "f": e.f, "value": e.value, "time": e.time_ns}
            | ({"error": json.loads(e.error)} if e.error else {})
            for e in jepsen.from_edn(EDN_OPS)
        ]
        lines = [json.dumps(e) for e in events]
        text = "\n".join(lines) if shape == "json-lines" else "[" + ",\n".join(lines) + "]"
    history = load_history(put(tmp_path, text))
    cas, read = history.ops
    # in op maps a failed cas is a failure; equal times stay in file order
    assert (cas.outcome, cas.error, cas.invoke_ts, cas.complete_ts) == (
        Outcome.FAIL,
        '["no", "way"]',
        10,
        21,
    )
    assert (read.output, read.invoke_ts, read.complete_ts) == (5, 20, 22)
    assert history.header.clock is not None and history.header.clock.name == "jepsen :time"
    packed = tmp_path / "h.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert load_history(packed).ops == history.ops


def test_times_that_step_back_contradict_the_file() -> None:
    text = EDN_OPS.replace(":time 10", ":time 900")
    with pytest.raises(HistoryError, match="comes after a later one"):
        jepsen.pair(jepsen.from_edn(text))


def test_times_that_step_back_by_a_moment_are_not_used() -> None:
    """Threads stamp and write at once."""
    clients = [e for e in jepsen.from_edn(EDN_OPS) if isinstance(e.process, int)]
    events = [replace(e, time_ns=t) for e, t in
              zip(clients, (900, 20, 2_000_000, 2_000_001), strict=True)]  # fmt: skip
    history = jepsen.pair(events)
    assert [(o.invoke_ts, o.complete_ts) for o in history.ops] == [(0, 2), (1, 3)]


def test_independent_keys() -> None:
    text = """{:process 0 :type :invoke :f :write :value ["x" 1]}
              {:process 0 :type :ok :f :write :value ["x" 1]}
              {:process 0 :type :invoke :f :read :value [7 nil]}
              {:process 0 :type :ok :f :read :value [7 3]}"""
    ops = jepsen.pair(jepsen.from_edn(text), independent=True).ops
    assert [(o.key, o.input, o.output) for o in ops] == [("x", 1, None), (7, None, 3)]
    with pytest.raises(HistoryError, match="tuple"):
        jepsen.pair(jepsen.from_edn(EDN_OPS.replace("[1 2]", "4")), independent=True)


def test_transactions_keep_their_micro_operations() -> None:
    text = """{:process 0 :type :invoke :f :txn :value [[:append 1 2] [:r 1 nil]]}
              {:process 0 :type :ok :f :txn :value [[:append 1 2] [:r 1 [2]]]}"""
    (op,) = jepsen.pair(jepsen.from_edn(text)).ops
    assert op.input == [["append", 1, 2], ["r", 1, None]]
    assert op.output == [["append", 1, 2], ["r", 1, [2]]]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{:process 0 :type :ok :f :read :value 1}", 1, "without an invocation"),
        (
            "{:process 0 :type :invoke :f :read}\n{:process 0 :type :invoke :f :read}",
            2,
            "of line 1 is open",
        ),
        (
            """{:process 0 :type :invoke :f :acquire}
            {:process 0 :type :info :f :acquire}
            {:process 0 :type :invoke :f :release}""",
            3,
            "of line 2 is unknown",
        ),
        (
            "{:process 0 :type :invoke :f :read}\n\n{:process 0 :type :ok :f :write}",
            3,
            "but invoked read in line 1",
        ),
        (
            (
                "{:process 0 :type :invoke :f :write :value ##NaN}\n"
                "{:process 0 :type :ok :f :write :value ##NaN}"
            ),
            2,
            "no number that can be compared",
        ),
        ("{:type :invoke :f :read}", 1, "no process"),
        ("{:process 0 :f :read}", 1, "no type"),
        ("\n{:process 0 :type :maybe :f :read}", 2, "'maybe'"),
        ("{:process 0.5 :type :invoke :f :read}", 1, "process 0.5"),
        ('[{"process": 0, "type": "invoke", "f": "read"}, 3]', 1, "expected an operation"),
        ('[{"process": 0, "type": "invoke",\n "f": }]', 2, "Expecting value"),
        ('[{"process": 0, "type": "invoke", "f": "read"}', 1, "never closed"),
        ('[{"process": 0, "type": "invoke", "f": "read"}]\n[]', 1, "does not end here"),
        ("[1 2]", None, "expected an operation map"),
        ("INFO jepsen.util - 0 :ok :read 1\n", 1, "without an invocation"),
        ("INFO jepsen.util - 0 :invoke :read [1\n", 1, "never finished"),
        ("x\nINFO jepsen.util - :invoke :read nil nil\n", 2, "not a Jepsen event"),
        ("INFO jepsen.util - 0 :invoke :read nil", 1, "cut off in its last line"),
    ],
)
def test_broken_histories(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        load_history(put(tmp_path, text))
    assert message in caught.value.message
    assert caught.value.line == line
    assert caught.value.remedy


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x00\x01abc")
    (tmp_path / "latin").write_bytes(b"[\xff]")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(EDN_OPS.encode())[:40])
    put(tmp_path, " \n ", "empty")
    put(tmp_path, "Dear reader", "letter")
    put(tmp_path, "; only a comment", "comment")
    cases = {
        "binary": "is binary",
        "latin": "not text",
        "cut.gz": "not whole",
        "empty": "is empty",
        "letter": "not a history",
        "comment": "holds no edn event",
        "absent": "cannot read",
        ".": "is a directory",
    }
    for name, message in cases.items():
        with pytest.raises(HistoryError, match=message) as caught:
            load_history(tmp_path / name)
        assert caught.value.remedy
    with pytest.raises(ConfigError):
        load_history(tmp_path / "letter", "xml")


def test_an_empty_vector_is_an_empty_history(tmp_path: Path) -> None:
    assert load_history(put(tmp_path, "[]")).ops == []


def test_our_own_histories(tmp_path: Path) -> None:
    op = Op(op_id=1, process_id=2, invoke_ts=3, complete_ts=4, op_type="read", key="k", output=5)
    history = History(header=Header(workload="register", model="register"), ops=[op])
    path = tmp_path / "history.jsonl"
    write_history(path, history)
    assert load_history(path) == history
    packed = tmp_path / "history.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_history(packed) == history


def test_counters_of_jepsen_add_and_sets_do_too(tmp_path: Path) -> None:
    def events(value: str) -> str:
        return (
            "{:process 0, :type :invoke, :f :add, :value 3}"
            "{:process 0, :type :ok, :f :add, :value 3}"
            "{:process 1, :type :invoke, :f :read, :value nil}"
            f"{{:process 1, :type :ok, :f :read, :value {value}}}"
        )

    path = tmp_path / "history.edn"
    path.write_text(events("3"))
    counter = load_history(path)
    assert [(op.op_type, op.input, op.output) for op in counter.ops] == [
        ("inc", 3, None),
        ("read", None, 3),
    ]
    result = registry.load("checkers", "counter-bounds").check(counter, "counter-bounds", Budget())
    assert result.valid is True
    path.write_text(events("[3]"))
    assert [op.op_type for op in load_history(path).ops] == ["add", "read"]


def test_banks_of_jepsen_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:process 0, :type :invoke, :f :transfer, :value {:from 0, :to 1, :amount 3}}"
        "{:process 0, :type :ok, :f :transfer, :value {:from 0, :to 1, :amount 3}}"
        "{:process 1, :type :invoke, :f :read, :value nil}"
        "{:process 1, :type :ok, :f :read, :value {0 7, 1 13}}"
        "{:process 1, :type :invoke, :f :read, :value nil}"
        "{:process 1, :type :ok, :f :read, :value {0 7, 1 12}}"
    )
    history = load_history(path)
    bank = registry.load("checkers", "bank")
    result = bank.check(history, "snapshot-isolation", Budget())
    assert result.anomaly_types == ["wrong-total"]


def test_a_small_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.edn.gz"
    path.write_bytes(gzip.compress(b" " * 5000))
    monkeypatch.setattr("dstest.history.importers.UNPACKED_BYTES_MAX", 4000)
    with pytest.raises(HistoryError, match="unpacks to more"):
        load_history(path)
