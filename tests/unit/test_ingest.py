"""Histories from text into columns: notations, pairing, and what is refused where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkers.txn.columns import FAIL, INFO, NULL_READ, OK, TxnColumns
from checkers.txn.ingest import load
from dstest.core.errors import HistoryError, MemorySpent
from dstest.core.history import Header
from dstest.history.generator.histories import Spec, events, lines

pytestmark = pytest.mark.slow

HEADER = b'{"schema":"dstest.history/1"}\n'


def record(**fields: Any) -> bytes:
    full = {
        "op_id": 0, "process_id": 0, "invoke_ts": 1, "complete_ts": 2, "op_type": "txn",
        "key": None, "input": [["r", 1, None]], "output": [["r", 1, [5]]], "error": None,
        "timeout_marker": False, "node_seen": None, "fault_epoch": None,
    }  # fmt: skip
    return json.dumps({**full, **fields}).encode() + b"\n"


def same(a: TxnColumns, b: TxnColumns) -> None:
    for name in ("outcome", "process", "mop_start", "mop_kind", "elem_start"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert [a.key_names[i] for i in a.mop_key] == [b.key_names[i] for i in b.mop_key]
    assert [a.value_names[i] for i in a.elem] == [b.value_names[i] for i in b.elem]


def test_event_maps_in_every_notation_are_the_same_history() -> None:
    edn = b"""
    {:index 7, :type :invoke, :process 3, :f :txn, :value [[:append :x 1] [:r "y" nil]]}, ; hello
    #jepsen.history.Op{:index 8 :type :ok #_ skipped :process 3 :time #inst "2026" :f :txn
      :value ((:append :x 1) [:r "y" [1 -2 2.5 true]])}
    """
    events_ = [
        {"index": 7, "type": "invoke", "process": 3, "value": [["append", "x", 1], ["r", "y"]]},
        {"index": 8, "type": "ok", "process": 3, "extra": {"a": [1]},
         "value": [["append", "x", 1], ["r", "y", [1, -2, 2.5, True]]]},
    ]  # fmt: skip
    whole = load(edn)
    assert whole.txns == 1
    assert whole.op_index.tolist() == [8]
    assert (whole.invoke_pos.tolist(), whole.complete_pos.tolist()) == ([0], [1])
    assert [whole.value_names[i] for i in whole.elem] == [1, -2, 2.5, True]
    assert whole.skipped == {"tagged": 1}
    same(whole, load(b"[" + edn + b"]"))
    same(whole, load(json.dumps(events_).encode()))
    same(whole, load(b"\n".join(json.dumps(e).encode() for e in events_)))
    same(whole, load(gzip.compress(edn)))


def test_scalars_of_any_kind_are_told_apart() -> None:
    mops = [
        ["append", k, v] for k, v in [(1, 1), (1.0, 1.0), (True, True), ("1", "é\n"), (-1, 2**70)]
    ]
    history = [{"type": "ok", "process": 0, "value": mops}]
    columns = load(json.dumps(history).encode())
    assert [repr(k) for k in columns.key_names] == ["1", "True", "'1'", "-1"]
    assert [repr(v) for v in columns.value_names] == ["1", "True", "'é\\n'", repr(2**70)]


def test_values_of_edn_are_equal_where_they_are_for_objects() -> None:
    values = ["1", "1.0", "1M", "0x1", "1N", "0.1", "0.10M", "0.10000000000000000000000001M"]
    values += ["1/2", "0.5", "1/3", "\\a", ":a", '"a"']
    mops = "".join(f"[:r 1 [{value}]]" for value in values)
    columns = load(f"{{:type :ok :process 0 :value [{mops}]}}".encode(), "edn")
    assert columns.elem.tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7]
    assert columns.value_names[:5] == [1, 0.1, "0.10000000000000000000000001", 0.5, "1/3"]


def test_control_characters_in_strings_stay_where_they_are() -> None:
    text = b'{:type :ok :process 0 :value [[:w "a\\nb\tc" "x\ty\\tz\n"]]}'
    columns = load(text, "edn")
    assert columns.key_names == ["a\nb\tc"]
    assert columns.value_names == ["x\ty\tz\n"]


def test_null_is_told_from_an_empty_list_and_from_not_known() -> None:
    history = b"""{:type :ok :process 0 :value [[:r 1 nil] [:r 1 []]]}
    {:type :invoke :process 1 :value [[:r 1 nil]]}"""
    columns = load(history)
    assert columns.mop_known.tolist() == [NULL_READ, 1, 0]
    assert columns.outcome.tolist() == [OK, INFO]


def test_pairing_by_process_and_by_micro_ops() -> None:
    history = b"""
    {:type :invoke, :value [[:append 1 1]]}
    {:type :invoke, :value [[:append 1 2]]}
    {:type :ok, :value [[:append 1 2]]}
    {:type :fail, :value [[:append 1 1]]}
    {:type :info, :process :nemesis, :f :kill, :value {:n1 :down}}
    {:type :ok, :process 9, :value [[:r 1 [2]]]}
    """
    columns = load(history)
    assert columns.outcome.tolist() == [FAIL, OK, OK]
    assert columns.process.tolist() == [-1, -1, 0]
    assert columns.invoke_pos.tolist() == [0, 1, -1]
    assert columns.complete_pos.tolist() == [3, 2, 5]
    assert columns.skipped == {"process-not-an-integer": 1}


def test_two_open_operations_that_both_fit_are_refused() -> None:
    history = b"""{:type :invoke, :value [[:r 1 nil]]}
{:type :invoke, :value [[:r 1 nil]]}
 {:type :ok, :value [[:r 1 []]]}"""
    with pytest.raises(HistoryError, match="line 3, column 2: several operations"):
        load(history)


def test_records_have_their_outcomes_and_positions() -> None:
    text = HEADER + b"".join(
        [
            record(op_id=10, invoke_ts=5, complete_ts=9),
            record(op_id=11, process_id=1, invoke_ts=9, complete_ts=None, output=None),
            record(op_id=12, process_id=2, invoke_ts=3, error="conflict", output=None,
                   complete_ts=4),
            record(op_id=13, process_id=3, invoke_ts=9, timeout_marker=True, complete_ts=None,
                   output=None),
        ]
    )  # fmt: skip
    columns = load(text)
    assert columns.op_index.tolist() == [12, 10, 11, 13]
    assert columns.outcome.tolist() == [FAIL, OK, INFO, INFO]
    assert columns.invoke_pos.tolist() == [0, 2, 3, 4]
    assert columns.complete_pos.tolist() == [1, 5, -1, -1]
    assert columns.mop_known.tolist() == [0, 1, 0, 0]


FIRST = record(op_id=1, invoke_ts=5, complete_ts=9)
OPEN = record(op_id=1, invoke_ts=5, complete_ts=None, output=None)
TWICE = b'{"type":"ok","value":[["r",1,null]],"value":[["r",1,[1]]]}'
OTHER_KEY = b"""{:type :invoke, :process 0, :value [[:append 1 1] [:r 2 nil]]}
{:type :ok, :process 0, :value [[:append 3 1] [:r 2 []]]}"""


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (HEADER + record(timeout_marker=True, complete_ts=20), 2, "marked unknown, yet"),
        (HEADER + record(timeout_marker=True, complete_ts=None), 2, "marked unknown, yet"),
        (HEADER + record(complete_ts=None), 2, "never completed, yet"),
        (HEADER + record(error="conflict"), 2, "an output and an error"),
        (HEADER + record(output=[["r", 2, [5]]]), 2, "other micro-operations"),
        (HEADER + record(output=[]), 2, "other micro-operations"),
        (HEADER + record(output=[["r", 1, [5]], ["r", 1, [5]]]), 2, "other micro-operations"),
        (HEADER + record().replace(b'"error": null', b'"output": []'), 2, "stands twice"),
        (HEADER + record().replace(b"{", b'{"key": 1, "invoke_ts": 1, ', 1), 2, "stands twice"),
        (
            HEADER + FIRST + record(op_id=2, invoke_ts=7, complete_ts=20),
            3,
            "two operations at a time",
        ),
        (
            HEADER + OPEN + record(op_id=2, invoke_ts=7, complete_ts=20),
            3,
            "after an operation of unknown outcome",
        ),
        (TWICE, 1, "stands twice"),
        (OTHER_KEY, 2, "other micro-operations"),
        (OTHER_KEY.replace(b"[:append 3 1]", b""), 2, "other micro-operations"),
        (b"{:type :ok, :process 0, :f :delete, :value nil}", 1, "not a transaction"),
        (b"{:type :invoke, :process 0, :f :delete}", 1, "not a transaction"),
        (b"{:type :ok, :process 0, :f :txn, :key 1, :value [[:r 1 [1]]]}", 1, "key beside"),
    ],
)
def test_what_contradicts_itself_is_refused(text: bytes, line: int, why: str) -> None:
    for threads in (1, 2):
        with pytest.raises(HistoryError, match=why) as caught:
            load(text, threads=threads)
        assert caught.value.line == line


def test_ids_that_repeat_are_refused() -> None:
    for op_id in (7, "seven"):
        text = record(op_id=op_id) + record(op_id=op_id, process_id=8, invoke_ts=20, complete_ts=21)
        with pytest.raises(HistoryError, match=f"op_id {op_id} stands twice"):
            load(HEADER + text)
    with pytest.raises(HistoryError, match="index 4 stands twice"):
        load(
            b"".join(
                b"{:type :ok, :process %d, :index 4, :value [[:r 1 [1]]]}\n" % p for p in (1, 2)
            )
        )


def test_memory_is_bounded_with_what_is_unpacked() -> None:
    packed = gzip.compress(HEADER + record() + b"\n" * (64 << 20))
    with pytest.raises(MemorySpent):
        load(packed, memory_mb=8)
    assert load(packed, memory_mb=80).txns == 1


def test_what_is_missing_is_counted() -> None:
    open_ = record(op_id=2, process_id=1, complete_ts=None, output=None)
    silent = record(op_id=3, process_id=2, output=None)
    columns = load(HEADER + record(op_id=1) + open_ + silent)
    assert columns.weak == {
        "unfinished operations are not marked unknown": 1,
        "ok transactions that read tell no result": 1,
    }
    assert not columns.named
    assert load(HEADER + record(op_id="a")).named
    told = b"{:type :invoke, :process 0, :f :txn, :value [[:r 1 nil]]}\n{:type :ok, :process 0}"
    assert load(told).weak == {"ok transactions that read tell no result": 1}


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        (b'{"type": "ok"', 1, 14, "ends within"),
        (b'{"type": "okay"}', 1, 10, "invoke, ok, fail or info"),
        (b'{"process": 1}', 1, 1, "without a type"),
        (b'{"type":"ok","value":[["r",1,[1,]]]}', 1, 33, "after the comma"),
        (b'{"type":"ok","value":[["x",1,2]]}', 1, 24, "r, w or append"),
        (b'{"type":"ok","value":[["w",1,[2]]]}', 1, 30, "list cannot be written"),
        (b'{"type":"ok","value":[["w",1,null]]}', 1, 30, "needs a value"),
        (b'{"type":"ok","value":[["r",null,1]]}', 1, 27, "needs a key"),
        (b'{"type":"ok","value":7}', 1, 22, "list of micro-operations"),
        (b'{"type":"ok","x":01}', 1, 18, "begins with 0"),
        (b'[{"type":"ok"}] x', 1, 17, "end of the text"),
        (b'\n\n {"type":"ok","value":[["r","\xff",1]]}', 3, 29, "UTF-8"),
        (b"{:type :ok :value [[:r 1 [1 x]]]}", 1, 29, "symbol"),
        (b"{:type :ok :value [[:r #uuid \"1\" 2]]}", 1, 24, "need a scalar"),
        (b"{:type :ok :a}", 1, 14, "scalar|symbol|value"),
        (HEADER + record(op_type="read"), 2, 76, "no txn"),
        (HEADER + record(complete_ts=0), 2, 1, "before it was invoked"),
        (HEADER + record()[:-1], 2, 229, "no newline"),
        (b'{"schema":"dstest.other/1"}\n', 1, 11, "unknown schema"),
        (b"", None, None, "empty"),
        (b"hello", 1, 1, "not a history"),
        (b"[" * 2000, 1, None, "map|nested"),
        (b"{:a " + b"[" * 2000, 1, None, "nested"),
        (b"#_" * 2000, 1, None, "nested"),
    ],
)  # fmt: skip
def test_malformed_text_is_refused_at_its_place(
    text: bytes, line: int | None, column: int | None, why: str
) -> None:
    with pytest.raises(HistoryError, match=why) as caught:
        load(text)
    assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize("fmt", ["jsonl", "edn"])
def test_a_text_cut_anywhere_is_read_or_refused(fmt: str) -> None:
    spec = Spec(txns=6, concurrency=2, info_share=0.2)
    text = b"".join(lines(events(spec), spec, fmt))
    for cut in range(len(text)):
        try:
            load(text[:cut], "dstest" if fmt == "jsonl" else fmt)
        except HistoryError as error:
            assert error.line is not None
        else:
            assert fmt == "edn" or text[:cut].endswith(b"\n")


@pytest.mark.parametrize("fmt", ["jsonl", "edn"])
def test_two_threads_read_what_one_reads(fmt: str, tmp_path: Path) -> None:
    spec = Spec(txns=4000, concurrency=7, workload="rw-register", seed=5)
    path = tmp_path / "history"
    with path.open("wb") as file:
        file.writelines(lines(events(spec), spec, fmt))
    assert path.stat().st_size > 1 << 18
    one, two = load(path, threads=1), load(path, threads=2)
    same(one, two)
    for name in ("process", "invoke_pos", "complete_pos", "op_index", "mop_known"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_both_notations_of_a_generated_history_agree() -> None:
    spec = Spec(txns=500, seed=2, fail_share=0.1, info_share=0.0)
    ours, edn = (load(b"".join(lines(events(spec), spec, f))) for f in ("jsonl", "edn"))
    same(ours, edn)
    assert np.array_equal(ours.invoke_pos, edn.invoke_pos)
    assert np.array_equal(ours.complete_pos, edn.complete_pos)


def test_memory_is_bounded() -> None:
    spec = Spec(txns=20_000)
    text = b"".join(lines(events(spec), spec, "jsonl"))
    with pytest.raises(HistoryError, match="memory budget"):
        load(text, memory_mb=1)


def test_a_gzipped_text_is_read_or_refused_and_bounded() -> None:
    packed = gzip.compress(HEADER + record() * 3, mtime=0)
    for at in range(len(packed)):
        for broken in (packed[:at], packed[:at] + bytes([packed[at] ^ 64]) + packed[at + 1 :]):
            try:
                load(broken)
            except HistoryError as error:
                assert str(error)
    with pytest.raises(HistoryError, match="memory budget"):
        load(gzip.compress(HEADER + b"\n" * (2 << 20)), memory_mb=1)


def test_a_header_of_ours_is_recognised() -> None:
    import msgspec

    assert load(msgspec.json.encode(Header()) + b"\n").txns == 0


@pytest.mark.parametrize(
    "end", [b"", b"{:type :info, :process 0, :f :txn}", b"{:type :ok, :process 0}"]
)
def test_who_does_not_say_what_it_did_is_refused(end: bytes) -> None:
    """Others may have read what it wrote; not where it failed."""
    silent = b"{:type :invoke, :process 0, :f :txn, :value nil}\n"
    read = b"\n{:type :ok, :process 1, :f :txn, :value [[:r 1 2]]}"
    with pytest.raises(HistoryError, match="does not say what it did"):
        load(silent + end + read, "edn")
    assert load(silent + b"{:type :fail, :process 0}" + read, "edn").txns == 2
