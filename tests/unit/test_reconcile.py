"""What workers, board, journal and run.json say of one run must agree; each way it may not."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_meta import PLANNED, WHOLE
from raw_segments import append, encode_line

from dstest.core.evidence import LandingRecord
from dstest.core.run_record import RunMeta
from dstest.history.segment import Header, Late, SegmentWriter, Writer, fold
from dstest.runner.judgement import Reconciled, issued, reconcile

NODES = ("n1", "n2")
PLANS = [{"fault_id": "f1", "nemesis": "partition", "start_ns": 100, "duration_ns": 9, "facts": {}}]
SPEC = {"nodes": 2, "time_limit_s": 9.0, "options": {"fault_s": 5.0}}
RECORD = LandingRecord(
    fault_id="f1", nemesis="partition", targets=["n1"], scheduled_at=100, epoch="f1"
)


def worker(path: Path, number: int, ops: int = 20) -> None:
    """Ten operations per node, one of them failed, one unknown."""
    writer = SegmentWriter(path / f"worker-{number}.seg", Writer(worker=number, workers=2))
    for i in range(ops):
        op_id, node, at = 2 * i + number, NODES[i % 2], 1000 * i
        append(writer, ["i", op_id, op_id, at, "write", "k", i, node])
        if i in (4, 5):
            append(writer, ["f", op_id, at + 9, "refused", node, None])
        elif i in (6, 7):
            append(writer, ["u", op_id, at + 9, "TimeoutError", None])
        else:
            append(writer, ["o", op_id, at + 9, None, node, None])
    writer.finish()
    writer.close()


def run(path: Path, plans: list[dict[str, Any]] = PLANS) -> dict[str, Any]:
    """The segments of a whole run in `path`; returns its run.json."""
    worker(path, 0)
    worker(path, 1)
    control = SegmentWriter(path / "control.seg", Writer(control=True))
    append(control, ["note", 1, {"planned": plans}])
    append(control, ["fault", msgspec.to_builtins(RECORD)])
    control.finish()
    control.close()
    per_node = {"invoked": 20, "ok": 16, "fail": 2, "unknown": 2}
    return WHOLE | {
        "spec": SPEC,
        "nodes": list(NODES),
        "workers": 2,
        "worker_exits": [0, 0],
        "clock_start_ns": 1,
        "faults_planned": 1,
        "load": {"offered": 40},
        "traffic": {node: dict(per_node) for node in NODES},
        "ended_by": None,
    }


def agreed(path: Path, meta: dict[str, Any]) -> Reconciled:
    return reconcile(fold(path), RunMeta.of(meta))


def test_a_whole_run_agrees(tmp_path: Path) -> None:
    meta = run(tmp_path)
    assert agreed(tmp_path, meta) == Reconciled([], [])
    assert issued(RunMeta.of(meta)) == {"issued": 40, "ok": 32, "fail": 4, "unknown": 4}


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def flip_a_bit(path: Path, _: dict[str, Any]) -> None:
    data = bytearray((path / "worker-0.seg").read_bytes())
    data[len(data) // 2] ^= 4
    (path / "worker-0.seg").write_bytes(bytes(data))


def cut_whole_lines(path: Path, _: dict[str, Any]) -> None:
    kept = lines(path / "worker-1.seg")
    (path / "worker-1.seg").write_bytes(b"".join(kept[:-3]))


def drop_one_inside(path: Path, _: dict[str, Any]) -> None:
    kept = lines(path / "worker-1.seg")
    (path / "worker-1.seg").write_bytes(b"".join(kept[:5] + kept[7:]))


def tear_the_end(path: Path, _: dict[str, Any]) -> None:
    data = (path / "worker-1.seg").read_bytes()
    (path / "worker-1.seg").write_bytes(data[:-4])


def insert(*events: list[Any]) -> Callable[[Path, dict[str, Any]], None]:
    """The events, with right checksums, before the last line; the last line corrected."""

    def change(path: Path, _: dict[str, Any]) -> None:
        file = path / "worker-0.seg"
        kept = lines(file)[:-1] + [encode_line(event) for event in events]
        file.write_bytes(b"".join(kept) + encode_line(["e", len(kept)]))

    return change


def remove(path: Path, _: dict[str, Any]) -> None:
    (path / "worker-1.seg").unlink()


def a_third(path: Path, _: dict[str, Any]) -> None:
    (path / "worker-7.seg").write_bytes((path / "worker-0.seg").read_bytes())


def swap(path: Path, _: dict[str, Any]) -> None:
    one, two = path / "worker-0.seg", path / "worker-1.seg"
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def headless(path: Path, _: dict[str, Any]) -> None:
    kept = lines(path / "worker-0.seg")
    (path / "worker-0.seg").write_bytes(b"".join(kept[1:]))


def headed(name: str, **changes: Any) -> Callable[[Path, dict[str, Any]], None]:
    """Another header, with a right checksum; what is None is left out."""

    def change(path: Path, _: dict[str, Any]) -> None:
        file = path / name
        said = {**msgspec.to_builtins(Header.of(Writer(worker=0, workers=2)))[1], **changes}
        header = encode_line(
            ["h", {key: value for key, value in said.items() if value is not None}]
        )
        file.write_bytes(header + b"".join(lines(file)[1:]))

    return change


def note_out_of_time(path: Path) -> list[dict[str, Any]]:
    insert(["note", 77, {"time_ns": 5, "planned": []}])(path, {})
    return fold(path).notes


def no_control(path: Path, _: dict[str, Any]) -> None:
    (path / "control.seg").unlink()


def fact(**changes: Any) -> Callable[[Path, dict[str, Any]], None]:
    def change(_: Path, meta: dict[str, Any]) -> None:
        meta.update(changes)

    return change


def without(*keys: str) -> Callable[[Path, dict[str, Any]], None]:
    def change(_: Path, meta: dict[str, Any]) -> None:
        for key in keys:
            del meta[key]

    return change


OF_NO_OP = ["o", 999, 5, None, "n1", None]
BROKEN: dict[str, tuple[Callable[[Path, dict[str, Any]], None], str]] = {
    "a bit": (flip_a_bit, "cannot be read"),
    "whole lines cut": (cut_whole_lines, "its end is missing"),
    "lines inside": (drop_one_inside, "its writer wrote"),
    "torn, nobody died": (tear_the_end, "did not die"),
    "answered twice": (insert(["o", 0, 9, 5, "n1", None]), "completed twice"),
    "answer to nothing": (insert(OF_NO_OP), "belong to no operation"),
    "unknown kind": (insert(["x", 1]), "no known shape"),
    "too short": (insert(["i", 900, 1]), "no known shape"),
    "wrong type": (insert(["i", "a", 1, "now", "write", "k", 1, "n1"]), "no known shape"),
    "one more": (insert(["i", 900, 901, 5, "write", "k", 1, "n1"]), "the workers counted"),
    "no record": (insert(["fault", {"fault_id": 7}]), "no known shape"),
    "a segment gone": (remove, "worker-1.seg is missing"),
    "a segment twice": (a_third, "of no worker of this run"),
    "segments swapped": (swap, "is the segment of worker"),
    "no header": (headless, "does not begin with its header"),
    "another schema": (headed("worker-0.seg", schema="somebody.else/7"), "begin with its header"),
    "no schema": (headed("worker-0.seg", schema=None), "begin with its header"),
    "no end meant": (headed("worker-0.seg", ends=False), "begin with its header"),
    "an end in words": (headed("worker-0.seg", ends="no"), "begin with its header"),
    "more of a header": (headed("worker-0.seg", zzz=1), "begin with its header"),
    "of 99 workers": (headed("worker-0.seg", workers=99), "one of 99 workers, and there were 2"),
    "a worker's journal": (headed("control.seg"), "control.seg is the segment of worker 0"),
    "more of a record": (
        insert(["fault", {**msgspec.to_builtins(RECORD), "zzz": 1}]),
        "no known shape",
    ),
    "no journal": (no_control, "control.seg is missing"),
    "other plan": (fact(faults_planned=0), "plans 0 faults"),
    "no status of any worker": (fact(worker_exits=[]), "exit statuses of 0 workers, there were 2"),
    "no status of one": (fact(worker_exits=[0]), "exit statuses of 1 workers, there were 2"),
    "a status too many": (fact(worker_exits=[0, 0, 0]), "exit statuses of 3 workers"),
    "other count": (fact(load={"offered": 39}), "offered 39"),
    "no count": (without("traffic", "load"), "does not say how many"),
    "a node twice": (fact(nodes=["n1", "n1"]), "other nodes"),
    "a node less": (fact(nodes=["n1"]), "other nodes"),
    "no end": (without("ended_by"), "how the run ended"),
    **{
        f"no {key}": (without(key), f"lacks {key}")
        for key in sorted(RunMeta.AT_THE_END - PLANNED.keys() - {"traffic", "load"})
    },
    "no exits": (without("worker_exits", "traffic"), "does not say how many"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_agree_is_named(name: str, tmp_path: Path) -> None:
    meta = run(tmp_path)
    change, said = BROKEN[name]
    change(tmp_path, meta)
    found = agreed(tmp_path, meta)
    assert any(said in line for line in found.wrong), found
    assert found.forgiven == []


def test_edges_of_which_the_workers_heard_late_are_said(tmp_path: Path) -> None:
    meta = run(tmp_path)
    late = [Late("f1", 5_000_000, 6_000_000), Late("f1", 20_000_000, 62_000_000)]
    found = reconcile(fold(tmp_path)._replace(late=late), RunMeta.of(meta))
    assert found.wrong == []
    assert any("late of 2" in line and "42 ms" in line for line in found.forgiven)


def test_a_note_is_of_the_time_of_its_line(tmp_path: Path) -> None:
    run(tmp_path)
    assert [note["time_ns"] for note in note_out_of_time(tmp_path)] == [1, 77]


def test_a_killed_worker_is_forgiven_its_last_line_and_no_more(tmp_path: Path) -> None:
    meta = run(tmp_path) | {"worker_exits": [0, -9]}
    kept = lines(tmp_path / "worker-1.seg")
    # Killed after it wrote an event, before it counted it.
    file = tmp_path / "worker-1.seg"
    file.write_bytes(b"".join(kept[:-1]) + kept[3][:9])
    meta["traffic"]["n2"]["ok"] -= 1
    found = agreed(tmp_path, meta)
    assert found.wrong == []
    assert [line for line in found.forgiven if "is torn" in line]
    assert [line for line in found.forgiven if "a worker was killed" in line]
    meta["traffic"]["n2"]["ok"] -= 1
    assert agreed(tmp_path, meta).wrong
    meta["traffic"]["n2"]["ok"] += 5
    assert agreed(tmp_path, meta).wrong


def test_an_unknown_status_is_missing_and_one_before_the_load_may_be(tmp_path: Path) -> None:
    meta = run(tmp_path)
    said = "run.json has exit statuses of 1 workers, there were 2"
    assert said in agreed(tmp_path, meta | {"worker_exits": [0, None]}).wrong
    assert said in agreed(tmp_path, meta | {"worker_exits": [0], "ended_by": "x"}).wrong
    early = meta | {"worker_exits": [0], "ended_by": "x", "clock_start_ns": None}
    assert said not in agreed(tmp_path, early).wrong


def test_a_dead_run_is_forgiven_what_it_could_not_write(tmp_path: Path) -> None:
    meta = run(tmp_path)
    for name in ("worker_exits", "workers", "traffic", "load"):
        del meta[name]
    meta["ended_by"] = "the process died"
    for name in ("worker-0.seg", "worker-1.seg", "control.seg"):
        kept = lines(tmp_path / name)
        (tmp_path / name).write_bytes(b"".join(kept[:-1]))
    found = agreed(tmp_path, meta)
    assert found.wrong == []
    assert len(found.forgiven) == 4


def test_a_crc_that_is_right_for_another_line_is_no_line() -> None:
    body = b' ["i",1]\n'
    assert encode_line(["i", 1]) == b"%08x" % zlib.crc32(body) + body


def test_a_run_that_was_stopped_by_a_violation_waited_for_nothing(tmp_path: Path) -> None:
    meta = run(tmp_path)
    del meta["healthy"], meta["load_end_ns"]
    assert agreed(tmp_path, meta).wrong == ["run.json lacks healthy, load_end_ns"]
    assert agreed(tmp_path, meta | {"stopped_by": "linearizable found"}).wrong == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start_ns": 200}, "control.seg plans it as partition at 2e-07"),
        ({"nemesis": "kill"}, "control.seg plans it as kill"),
        ({"fault_id": "f7"}, "control.seg has none"),
    ],
)
def test_a_plan_that_was_not_followed(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    meta = run(tmp_path, [{**PLANS[0], **changes}])
    assert said in " ".join(agreed(tmp_path, meta).wrong)


def test_a_plan_of_another_number_of_faults(tmp_path: Path) -> None:
    assert "control.seg 2" in " ".join(agreed(tmp_path, run(tmp_path, PLANS * 2)).wrong)
