"""A run judged while it runs: parts of true histories are never called wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from raw_segments import append

from dstest.core import registry
from dstest.core.check import Budget
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.op import Outcome
from dstest.core.protocols import Workload
from dstest.core.run_record import RunSpec
from dstest.history.generator.true_histories import KINDS, history
from dstest.history.segment import SegmentWriter, Writer
from dstest.runner import streaming
from dstest.runner.plugins import resolve
from dstest.runner.streaming import Following, StreamCheck, prefix

pytestmark = pytest.mark.slow

STREAMED = [
    name for name, kind in KINDS.items() if registry.load("checkers", kind.checker).prefix_closed
]


@pytest.mark.parametrize("name", STREAMED)
def test_no_part_of_a_true_history_is_a_violation(name: str) -> None:
    kind = KINDS[name]
    checker = registry.load("checkers", kind.checker)
    for seed in range(2):
        made = history(name, seed, 120)
        last = max(op.invoke_ts for op in made.ops)
        for share in range(1, 10):
            part = History(header=made.header, ops=prefix(made.ops, last * share // 10))
            result = checker.check(part, kind.model, Budget())
            assert result.valid is not False, (name, seed, share, result.reason)


def test_what_had_not_ended_is_unknown() -> None:
    made = history("set-full", 1, 50)
    cut = made.ops[25].invoke_ts
    part = prefix(made.ops, cut)
    assert len(part) == 26
    for op in part:
        if op.outcome is not Outcome.UNKNOWN:
            assert op.complete_ts is not None and op.complete_ts <= cut
        else:
            assert op.output is None


def _segment(folder: Path, made: History) -> None:
    folder.mkdir()
    writer = SegmentWriter(folder / "worker-0.seg", Writer(worker=0))
    for op in made.ops:
        begun = ["i", op.op_id, op.process_id, op.invoke_ts, op.op_type, op.key, op.input, "n1"]
        append(writer, begun)
        if op.outcome is Outcome.OK:
            append(writer, ["o", op.op_id, op.complete_ts, op.output, "n1", None])
    writer.close()


def look(folder: Path, made: History, cut_ns: int) -> Any:
    _segment(folder, made)
    asked = StreamCheck(
        segments=str(folder), checker="set-full", model="linearizable", cut_ns=cut_ns
    )
    done = subprocess.run(
        [sys.executable, "-m", "dstest.runner.streaming"],
        input=msgspec.json.encode(asked) + b"\n",
        capture_output=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_look_at_the_segments_of_a_run(tmp_path: Path) -> None:
    made = history("set-full", 2, 80, unknown=0.0, fail=0.0)
    last = made.ops[-1]
    assert last.op_type == "read" and last.complete_ts is not None
    assert look(tmp_path / "clean", made, last.complete_ts)["valid"] is True
    broken = msgspec.structs.replace(last, output=last.output[:-1])
    ops = [*made.ops[:-1], broken]
    wrong = look(tmp_path / "broken", History(header=made.header, ops=ops), last.complete_ts)
    assert wrong["valid"] is False
    before = look(tmp_path / "before", History(header=made.header, ops=ops), last.invoke_ts - 1)
    assert before["valid"] is not False


def test_workloads_that_only_an_end_can_judge_are_refused() -> None:
    class Ledger(Workload):
        name, capability, model = "ledger", "register", "ledger"
        checkers = ("exactly-once",)
        op_types = frozenset({"pay", "audit"})
        options: Mapping[str, Any] = MappingProxyType({})
        doc = ""

    with pytest.raises(ConfigError, match="whole runs only"):
        resolve(RunSpec(stop_on_violation=True), [], workload=Ledger())


def test_a_line_that_is_seen_while_it_is_written_is_waited_for(tmp_path: Path) -> None:
    made = history("set-full", 2, 80, unknown=0.0, fail=0.0)
    _segment(tmp_path / "segments", made)
    path = tmp_path / "segments" / "worker-0.seg"
    data = path.read_bytes()
    middle = len(data) // 2
    in_flight = bytearray(data + bytes(1000))
    in_flight[middle - 3 : middle] = bytes(3)
    end_ns = max(op.complete_ts or op.invoke_ts for op in made.ops)

    path.write_bytes(in_flight)
    waiting = Following(tmp_path / "segments", keyed=False)
    assert len(waiting.look(end_ns)) < len(made.ops)
    path.write_bytes(data)
    assert len(waiting.look(end_ns)) == len(made.ops)

    path.write_bytes(in_flight)
    damaged = Following(tmp_path / "segments", keyed=False)
    first = damaged.look(end_ns)
    assert len(first) < len(damaged.look(end_ns))
    assert damaged.look(end_ns + 1) == []

    path.write_bytes(data[:-9] + b"\n")
    last = Following(tmp_path / "segments", keyed=False)
    first = last.look(end_ns)
    assert last.look(end_ns) == []
    path.write_bytes(data)
    assert len(last.look(end_ns)) == len(made.ops) >= len(first)


class Writing:
    """Segments that grow."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._writers = [
            SegmentWriter(folder / f"worker-{n}.seg", Writer(worker=n)) for n in (0, 1)
        ]

    def invoke(self, op_id: int, key: str, at_ns: int) -> None:
        append(self._writers[op_id % 2], ["i", op_id, op_id, at_ns, "add", key, op_id, "n1"])

    def done(self, op_id: int, at_ns: int) -> None:
        append(self._writers[op_id % 2], ["o", op_id, at_ns, None, "n1", None])


def seen(following_: Following, cut_ns: int) -> list[tuple[Any, Any, bool]]:
    return [(op.op_id, op.key, op.timeout_marker) for op in following_.look(cut_ns)]


def test_each_look_gives_whole_keys_in_which_something_is_new(tmp_path: Path) -> None:
    run = Writing(tmp_path / "segments")
    keyed, whole = Following(run.folder, keyed=True), Following(run.folder, keyed=False)
    run.invoke(0, "a", 10)
    run.invoke(1, "b", 11)
    run.done(0, 20)
    run.done(1, 31)
    assert seen(keyed, 30) == seen(whole, 30) == [(0, "a", False), (1, "b", True)]
    assert seen(keyed, 40) == [(1, "b", False)]
    assert seen(whole, 40) == [(0, "a", False), (1, "b", False)]
    assert seen(keyed, 50) == seen(whole, 50) == []
    run.invoke(2, "a", 60)
    assert seen(keyed, 55) == seen(whole, 55) == []
    assert seen(keyed, 70) == [(0, "a", False), (2, "a", True)]
    assert len(seen(whole, 70)) == 3


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    run = Writing(tmp_path / "segments")
    following_ = Following(run.folder, keyed=True)
    run.invoke(0, "a", 10)
    path = run.folder / "worker-0.seg"
    whole = path.read_bytes().rstrip(b"\0")
    path.write_bytes(whole[:-5])
    assert seen(following_, 20) == []
    path.write_bytes(whole)
    assert seen(following_, 20) == [(0, "a", True)]


def test_keys_without_news_are_forgotten_and_stay_so(tmp_path: Path) -> None:
    run = Writing(tmp_path / "segments")
    following_ = Following(run.folder, keyed=True)
    run.invoke(0, "a", 10)
    run.done(0, 11)
    assert seen(following_, 20) == [(0, "a", False)]
    late = 20 + streaming.IDLE_NS + 1
    run.invoke(1, "b", late)
    assert seen(following_, late) == [(1, "b", True)]
    run.invoke(2, "a", late + 1)
    run.invoke(4, "b", late + 1)
    assert seen(following_, late + 2) == [(1, "b", True), (4, "b", True)]


def test_whole_histories_are_kept_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "OPS_MAX", 3)
    run = Writing(tmp_path / "segments")
    following_ = Following(run.folder, keyed=False)
    for n in range(3):
        run.invoke(n, "a", n)
    assert len(seen(following_, 10)) == 3
    run.invoke(3, "a", 11)
    assert seen(following_, 20) == []
    run.invoke(4, "a", 21)
    assert seen(following_, 30) == []
