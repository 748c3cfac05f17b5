"""Samples of a run that died, samples that cannot be read, and what is counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planted_runs import LOAD_S, ops_of, partition, planted

from dstest.debug.patterns.diagnosis import diagnose

GROWS: list[Any] = [(s, "n2", "rss", 100e6 + 8e6 * s) for s in range(LOAD_S)]


def test_a_last_line_that_is_torn_ends_the_samples_alone(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", metrics=GROWS)
    with (run / "metrics" / "nodes.jsonl").open("ab") as file:
        file.write(b'{"time_ns":8000')
    found = diagnose(run)
    assert [h.number for h in found.alarms] == [15] and len(found.answers) == 27


def test_a_line_amid_the_samples_that_is_none_costs_those_signs_alone(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", metrics=GROWS)
    path = run / "metrics" / "nodes.jsonl"
    path.write_bytes(b"torn\n" + path.read_bytes())
    found = diagnose(run)
    lacks = found.answers[14].missing["slope"]
    assert "nodes.jsonl, line 1, cannot be read" in lacks and len(found.answers) == 27
    assert any("line 1" in note for note in found.notes)


@pytest.mark.parametrize(("landed", "alarm"), [("yes", False), ("no", True)])
def test_what_grows_while_a_fault_stands_alone_is_the_faults(
    landed: str, alarm: bool, tmp_path: Path
) -> None:
    rows: list[Any] = [(s, "n2", "rss", 100e6 + 8e6 * min(max(0, s - 5), 65)) for s in range(80)]
    fault = partition(4, 71, landed=landed)
    found = diagnose(planted(tmp_path / "run", metrics=rows, records=[fault]))
    assert (15 in {h.number for h in found.hypotheses if not h.expected}) is alarm


def test_states_at_the_end_are_one_witness(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", ops_of(), replicas={"n1": "a", "n2": "b", "n3": "a"})
    one = next(h for h in diagnose(run).hypotheses if h.number == 10)
    assert {d.sign for d in one.detections} == {"states"}
    assert one.scores["evidence"].value == 0.7
