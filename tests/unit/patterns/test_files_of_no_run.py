"""Logs, spans and samples that are of no run: what was planted is named among the first three, and
healthy clusters raise no alarm. The scripts were written before the rules that read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_logs import Case, cases, write

from dstest.core.errors import ConfigError, Exit, HistoryError
from dstest.debug.patterns.analysis import OF_FILES, PATTERNS
from dstest.debug.patterns.diagnosis import Diagnosis, as_brief, as_object, as_text, diagnosis_of
from dstest.debug.patterns.files import FilesScene

BEGIN_NS = 1_709_633_730_000_000_000
"""2024-03-05T10:15:30Z."""


def looked(folder: Path, **more: object) -> Diagnosis:
    return diagnosis_of(FilesScene(folder, **more), OF_FILES)  # type: ignore[arg-type]


def by_id(one: Case) -> str:
    return one.id


@pytest.mark.parametrize("case", cases("fault"), ids=by_id)
def test_what_was_planted_is_among_the_first_three(case: Case, tmp_path: Path) -> None:
    found = looked(write(case, tmp_path))
    names = [one.name.lower() for one in found.hypotheses[:3]]
    assert any(word in name for word in case.named for name in names), names
    assert not any(one.expected for one in found.hypotheses)


@pytest.mark.parametrize("case", cases("healthy"), ids=by_id)
def test_a_healthy_cluster_raises_no_alarm(case: Case, tmp_path: Path) -> None:
    found = looked(write(case, tmp_path))
    assert [one.name for one in found.hypotheses] == [] and found.code is Exit.PASS


def test_the_scripts_are_ten_and_ten() -> None:
    assert (len(cases("fault")), len(cases("healthy"))) == (10, 10)


def lines(folder: Path, node: str, *rows: tuple[float, str]) -> None:
    folder.mkdir(exist_ok=True)
    text = [f"2024-03-05T10:{15 + int(at) // 60:02}:{at % 60:06.3f}Z {said}" for at, said in rows]
    (folder / f"{node}.log").write_text("\n".join(text) + "\n")


def names(found: Diagnosis) -> list[str]:
    return [one.name for one in found.hypotheses]


def test_few_words_of_what_heals_are_no_partition(tmp_path: Path) -> None:
    """Four lines, or many in a few seconds, or all as the servers begin."""
    few = [(30.0 + 10 * n, "[WARN] failed to reach n2: i/o timeout") for n in range(4)]
    burst = [(30.0 + n / 10, "[WARN] failed to reach n2: i/o timeout") for n in range(50)]
    early = [(n / 2, "[WARN] failed to reach n2: i/o timeout") for n in range(20)]
    for at, rows in enumerate((few, burst, early)):
        lines(tmp_path / str(at), "n1", (0, "[INFO] begun"), *rows, (90, "[INFO] on"))
        lines(tmp_path / str(at), "n2", (0, "[INFO] begun"), (90, "[INFO] on"))
        assert names(looked(tmp_path / str(at))) == []


def test_who_is_refused_has_reached_the_machine(tmp_path: Path) -> None:
    rows = [(20.0 + 2 * n, "[WARN] dial n2: connection refused") for n in range(20)]
    lines(tmp_path, "n1", (0, "[INFO] begun"), *rows)
    lines(tmp_path, "n2", (0, "[INFO] begun"), (60, "[INFO] begun"))
    assert names(looked(tmp_path)) == ["Member down or crashed"]


def test_a_partition_of_a_member_that_stopped_writing_is_only_indicated(tmp_path: Path) -> None:
    rows = [(20.0 + 2 * n, "[WARN] failed to reach n2: i/o timeout") for n in range(20)]
    for node in ("n1", "n3"):
        lines(tmp_path, node, (0, "[INFO] begun"), *rows)
    lines(tmp_path, "n2", (0, "[INFO] begun"), (15, "[INFO] on"))
    (one,) = looked(tmp_path).hypotheses
    assert one.name == "Network partition"
    assert [d.strength for d in one.detections] == ["indicated"]
    assert "n2 had stopped writing before" in one.detections[0].said


def test_a_partition_that_is_told_in_one_line(tmp_path: Path) -> None:
    said = "[error] <0.210.0> mnesia_event got {inconsistent_database, running_partitioned_network}"
    lines(tmp_path, "q1", (0, "[info] begun"), (40, said))
    assert names(looked(tmp_path)) == ["Network partition"]


def test_a_clock_that_goes_back_is_seen_by_its_stamps(tmp_path: Path) -> None:
    lines(tmp_path, "n1", (10, "[INFO] a"), (20, "[INFO] b"), (14, "[INFO] c"), (15, "[INFO] d"))
    assert names(looked(tmp_path)) == ["Clock jump or skew"]
    lines(tmp_path, "n1", (10, "[INFO] a"), (20, "[INFO] b"), (18.5, "[INFO] c"))
    assert names(looked(tmp_path)) == []


def test_stamps_without_a_year_are_of_that_of_their_neighbours(tmp_path: Path) -> None:
    """Whatever the year is now, and over the end of one."""
    days = [("2022-12-30T10:00:00Z a", "Dec 30 10:00:05 n1 app: b"), ("Jan  2 10:00:00 n1 app: c",)]
    days += [("2023-01-02T10:00:01Z d", "Jan  9 10:00:00 n1 app: e")]
    (tmp_path / "n1.log").write_text("\n".join(row for day in days for row in day) + "\n")
    (tmp_path / "n2.log").write_text("Dec 30 10:00:00 n2 app: f\nJan  9 10:00:00 n2 app: g\n")
    found = looked(tmp_path)
    assert names(found) == [] and found.end_ns - found.begin_ns == 10 * 86_400_000_000_000


@pytest.mark.parametrize(
    "said",
    [
        "split-brain resolver enabled",
        "no data loss, 0 lost acknowledged",
        "unclean.leader.election.enable = false max.clock.offset = 5",
        "checking for high clock skew",
        "client 10.0.0.9: i/o timeout",
        "fsync took 2 ms",
        "partition handling: pause_minority, network partition strategy",
    ],
)
def test_what_is_denied_set_or_of_a_client_counts_for_nothing(said: str, tmp_path: Path) -> None:
    rows = [(20.0 + 3 * n, f"[INFO] {said}") for n in range(2)]
    lines(tmp_path, "n1", (0, "[INFO] begun"), *rows)
    assert names(looked(tmp_path)) == []


def test_what_needs_a_history_says_so_and_is_never_ticked(tmp_path: Path) -> None:
    found = looked(write(cases("healthy-01")[0], tmp_path), nodes="n1,n2,n3")
    by = {one.pattern: one for one in found.answers}
    assert "needs a history" in by["causal-violation"].missing["read-behind"]
    assert by["causal-violation"].state == "not looked for"
    for boxes in found.checklists.values():
        assert all(box.state in ("open", "seen") or "logs" in box.text for box in boxes), boxes
    text = "\n".join(as_brief(found))
    assert "no history: what clients asked" in text and "no metrics: --metrics FILE" in text
    assert "dstest replay" not in "\n".join(as_text(found)) and as_object(found)["exit"] == 0


def test_a_member_without_a_log_is_missed(tmp_path: Path) -> None:
    write(cases("healthy-01")[0], tmp_path)
    found = looked(tmp_path, nodes="n1,n2,n3,n4")
    assert [(one.name, one.detections[0].nodes) for one in found.alarms] == [
        ("Byzantine silent failure", ["n4"])
    ]


def test_samples_that_grow_are_found_in_any_form(tmp_path: Path) -> None:
    lines(tmp_path / "logs", "n1", (0, "[INFO] begun"), (90, "[INFO] on"))
    rows = [(BEGIN_NS // 1_000_000_000 + 5 * n, 1e9 + 5e7 * n) for n in range(40)]
    csv = tmp_path / "m.csv"
    csv.write_text("time,node,name,value\n" + "".join(f"{t},n1,rss,{v}\n" for t, v in rows))
    prometheus = tmp_path / "m.prom"
    name = 'process_resident_memory_bytes{instance="n1:9100"}'
    prometheus.write_text("# TYPE x gauge\n" + "".join(f"{name} {v} {t}000\n" for t, v in rows))
    openmetrics = tmp_path / "m.om"
    openmetrics.write_text("".join(f"{name} {v} {t}.0\n" for t, v in rows) + "# EOF\n")
    for path in (csv, prometheus, openmetrics):
        (one,) = looked(tmp_path / "logs", metrics=[path]).hypotheses
        assert one.pattern == "resource-exhaustion"
        assert "rss of n1 grows by 36,000,000,000 an hour" in one.detections[0].said


def test_samples_without_times_are_told_to_be_none(tmp_path: Path) -> None:
    lines(tmp_path / "logs", "n1", (0, "[INFO] begun"))
    (tmp_path / "m.prom").write_text("up 1\nrss 5\n")
    found = looked(tmp_path / "logs", metrics=[tmp_path / "m.prom"])
    assert "2 samples have no time, such as up" in "\n".join(found.notes)


@pytest.mark.parametrize(
    "text",
    ["time,node,name,value\n1,n1,rss\n", "time,node,name,value\nsoon,n1,rss,1\n", "what is this\n"],
)
def test_samples_that_cannot_be_read_are_refused(text: str, tmp_path: Path) -> None:
    lines(tmp_path / "logs", "n1", (0, "[INFO] begun"))
    (tmp_path / "m").write_text(text)
    with pytest.raises(HistoryError):
        looked(tmp_path / "logs", metrics=[tmp_path / "m"])
    with pytest.raises(ConfigError):
        looked(tmp_path / "logs", metrics=[tmp_path / "none"])


def test_spans_are_looked_at_beside_logs(tmp_path: Path) -> None:
    lines(tmp_path / "logs", "n1", (0, "[INFO] begun"))
    (tmp_path / "s.jsonl").write_text(
        '{"traceId":"t","spanId":"a","nodeId":"n1","operation":"x","timestamp":1709633790000,"duration":9,'
        '"vectorClock":{"n1":5}}\n'
        '{"traceId":"t","spanId":"b","parentSpanId":"a","nodeId":"n2","operation":"y",'
        '"timestamp":1709633790001,"duration":2,"vectorClock":{"n2":1}}\n'
    )
    found = looked(tmp_path / "logs", spans=[tmp_path / "s.jsonl"])
    assert names(found) == ["Causal ordering violation"]
    times = [row.time_ns for row in found.hypotheses[0].detections[0].rows]
    assert all(at is not None and 89 <= at / 1e9 <= 91 for at in times), times


def test_the_catalogue_of_runs_is_as_it_was() -> None:
    assert [one.number for one in OF_FILES] == list(range(1, 32))
    assert {one.id for one in PATTERNS} < {one.id for one in OF_FILES}
    signs = {sign.id for one in PATTERNS for sign in one.signs}
    assert "told-split" not in signs
