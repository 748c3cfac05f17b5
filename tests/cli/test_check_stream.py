"""`dstest check --stream`: histories that are larger than memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from checkers.txn import api
from checkers.txn.columns import UnfitError
from dstest.check.stream import judge_stream
from dstest.cli.app import app
from dstest.core.check import Budget
from dstest.core.errors import ConfigError, HistoryError
from dstest.history.generator.histories import Spec, events, lines

HEAD: dict[str, Any] = {"schema": "dstest.history/1", "workload": "list-append"}
Mops = list[list[Any]]


def record(
    op_id: int | str, begin: int, end: int | None, mops: Mops, **more: Any
) -> dict[str, Any]:
    asked = [[f, key, None if f == "r" else value] for f, key, value in mops]
    told = None if end is None or more.get("error") else mops
    return {
        "op_id": op_id, "process_id": op_id, "invoke_ts": begin, "complete_ts": end,
        "op_type": "txn", "key": None, "input": asked, "output": told, "error": None,
        "timeout_marker": end is None, "node_seen": None, "fault_epoch": None,
    } | more  # fmt: skip


def one_by_one(*txns: Mops) -> list[dict[str, Any]]:
    return [record(i, 10 * i, 10 * i + 5, mops) for i, mops in enumerate(txns)]


def many(n: int, *, last: Mops | None = None) -> list[dict[str, Any]]:
    """Appends to a key each, in turn with reads of that; and a last one."""
    txns: list[Mops] = []
    for i in range(n):
        txns += [[["append", i, 1]], [["r", i, [1]]]]
    return one_by_one(*txns, *([] if last is None else [last]))


def written(path: Path, records: list[dict[str, Any]], head: dict[str, Any] = HEAD) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in (head, *records)))
    return path


def judged(path: Path, memory_mb: int = 64, **how: Any) -> Any:
    return judge_stream(path, None, Budget(time_s=60, memory_mb=memory_mb), {}, **how)


def run(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", str(path), *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_a_clean_history_is_valid_and_says_what_that_took(tmp_path: Path) -> None:
    code, said = run(written(tmp_path / "h.jsonl", many(50)), "--stream")
    assert code == 0
    assert "executed while it was read" in said
    assert "100 of 100 operations judged" in said


def test_a_violation_comes_with_its_records(tmp_path: Path) -> None:
    path = written(tmp_path / "h.jsonl", many(50, last=[["r", 3, []]]))
    code, said = run(path, "--stream", "--json")
    result = json.loads(said)
    assert code == 1
    assert result["anomaly_types"] == ["G-single-item-realtime"]
    found = result["anomalies"]["G-single-item-realtime"][0]
    assert found["ops"] == [6, 100]
    assert [row["input"][0][0] for row in found["witness"]] == ["r", "append"]
    assert result["ops"]["total"] == 101


@pytest.mark.parametrize("far", [0, 40])
def test_a_read_of_what_was_never_appended_needs_the_whole_file(tmp_path: Path, far: int) -> None:
    garbage = many(1 + far)
    garbage[1]["output"] = [["r", 0, [1, 7]]]
    path = written(tmp_path / "h.jsonl", garbage)
    assert judged(path, window_bytes=0, piece_bytes=300).anomaly_types == ["garbage-read"]
    late = [*garbage, record(10_000, 99_990, 99_995, [["append", 0, 7]])]
    result = judged(written(path, late), window_bytes=0, piece_bytes=300)
    assert "garbage-read" not in result.anomaly_types
    assert result.valid is False


def test_values_and_ids_are_held_to_be_unique_over_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    twice = many(60, last=[["append", 0, 1]])
    with pytest.raises(HistoryError, match=r"line 122.*appended to its key before"):
        judged(written(path, twice), window_bytes=0, piece_bytes=300)
    again = many(60)
    again[-1]["op_id"] = 3
    with pytest.raises(HistoryError, match=r"line 121.*op_id stands twice"):
        judged(written(path, again), window_bytes=0, piece_bytes=300)
    busy = many(60)
    busy[0] |= {"complete_ts": 10_000}
    busy[-1]["process_id"] = 0
    with pytest.raises(HistoryError, match="two operations at a time"):
        judged(written(path, busy), window_bytes=0, piece_bytes=300)


def test_what_is_wrong_after_a_violation_is_refused_all_the_same(tmp_path: Path) -> None:
    rows = many(60)
    rows[1]["output"] = [["r", 0, []]]
    path = written(tmp_path / "h.jsonl", rows)
    assert judged(path, window_bytes=0, piece_bytes=300).valid is False
    rows[-1]["op_id"] = 3
    with pytest.raises(HistoryError, match="op_id stands twice"):
        judged(written(path, rows), window_bytes=0, piece_bytes=300)
    counted = {**HEAD, "counters": {"ok": 7}}
    with pytest.raises(HistoryError, match="counted 7 ok"):
        judged(written(path, many(60), counted))


def test_an_order_that_is_read_beyond_the_window_is_left_open(tmp_path: Path) -> None:
    both = [record(0, 0, 100, [["append", "x", 1]]), record(1, 1, 100, [["append", "x", 2]])]
    rest = [record(i, 10 * i + 100, 10 * i + 105, [["append", i, 1]]) for i in range(2, 40)]
    last = record(99, 1000, 1001, [["r", "x", [2, 1]]])
    path = written(tmp_path / "h.jsonl", [*both, *rest, last])
    near = judged(path, window_bytes=0, piece_bytes=300)
    assert near.valid == "unknown"
    assert "operation 99 could not be executed" in near.reason
    assert "a larger --budget-mb looks further ahead" in near.reason
    assert judged(path).valid is True


def test_an_unknown_append_took_effect_when_somebody_reads_it(tmp_path: Path) -> None:
    lost = record(0, 0, None, [["append", "x", 1], ["append", "y", 1]])
    rest = [record(i, 10 * i, 10 * i + 5, [["append", i, 1]]) for i in range(1, 40)]
    seen = record(99, 1000, 1005, [["r", "y", [1]], ["append", "y", 2]])
    path = written(tmp_path / "h.jsonl", [lost, *rest, seen])
    assert judged(path, window_bytes=0, piece_bytes=300).valid is True
    half = record(100, 1010, 1015, [["r", "x", []]])
    assert judged(written(path, [lost, *rest, seen, half]), piece_bytes=300).valid is False


def test_what_it_cannot_hold_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    late = [*many(40), record(999, 0, 1, [["r", 39, []]])]
    result = judged(written(path, late), window_bytes=0, piece_bytes=300)
    assert result.valid == "unknown"
    assert "not in order of invocation" in result.reason
    named = [record("a", 0, 1, [["append", 0, 1]])]
    assert "strings" in judged(written(path, named)).reason
    few = judged(written(path, many(6000)), memory_mb=1, window_bytes=1 << 20)
    assert few.valid == "unknown"
    assert "memory budget spent" in few.reason
    slow = judge_stream(path, None, Budget(time_s=1e-9, memory_mb=64), {})
    assert slow.valid == "unknown"
    assert "time budget spent" in str(slow.reason)


def test_a_history_beyond_the_memory_is_judged_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    spec = Spec(txns=20_000, seed=1)
    path.write_bytes(b"".join(lines(events(spec), spec, "jsonl")))
    code, said = run(path, "--budget-mb", "6")
    assert code == 0
    assert "executed while it was read" in said
    assert "executed while it was read" not in run(path)[1]


def test_gzipped(tmp_path: Path) -> None:
    path = written(tmp_path / "h.jsonl", many(500))
    packed = tmp_path / "h.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert judged(packed).valid is True
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(HistoryError, match="not whole"):
        judged(packed)


def test_wrong_usage_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "h.jsonl", many(5))
    for more in (["--proof", str(tmp_path / "o.json")], ["-o", "anomalies=G0"]):
        with pytest.raises(ConfigError, match="--stream"):
            run(path, "--stream", *more)
    with pytest.raises(ConfigError, match="--stream"):
        run(path, "--stream", "--workload", "rw-register")
    edn = tmp_path / "h.edn"
    edn.write_text("{:process 0 :type :ok :f :txn :value [[:append 1 1]]}\n")
    with pytest.raises(ConfigError, match="--stream"):
        run(edn, "--stream")
    with pytest.raises(ConfigError, match="no initial state"):
        run(path, "--stream", "--initial", "7")


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "No such file"), ("", "is empty"), ("x\n", "reads histories of ours")],
)
def test_why_a_file_cannot_be_streamed_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "h.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises((ConfigError, HistoryError), match=said):
        run(path, "--stream")


def violated(path: Path) -> Path:
    return written(path, many(20, last=[["r", 0, []]]))


def test_a_fault_of_ours_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be judged is said to be unknown; what goes wrong in judging is not."""
    path = violated(tmp_path / "h.jsonl")
    assert judged(path).valid is False

    def broken(*_: Any) -> Any:
        raise ValueError("zip() argument 2 is longer than argument 1")

    monkeypatch.setattr(api, "check", broken)
    with pytest.raises(ValueError, match="zip"):
        judged(path)


@pytest.mark.parametrize("error", [HistoryError("no such"), UnfitError("at 3: no such")])
def test_what_cannot_be_judged_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unfit(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(api, "check", unfit)
    found = judged(violated(tmp_path / "h.jsonl"))
    assert found.valid == "unknown" and "no such" in found.reason


def test_a_model_without_sessions_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "h.jsonl", many(3))
    options = {"session-order?": True}
    with pytest.raises(ConfigError, match="no form that counts sessions"):
        judge_stream(path, "PL-CS", Budget(time_s=60, memory_mb=64), options)
