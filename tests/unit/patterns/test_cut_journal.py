"""Journals too long to be kept: their beginning is what all else follows from."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from planted_runs import Cluster, journal_files, planted

from dstest.debug.patterns.diagnosis import Diagnosis, diagnose
from dstest.history.layout import RunDir
from dstest.runner.logs import fetch_logs

pytestmark = pytest.mark.slow


class OnDisk:
    """A node with one long file."""

    def __init__(self, rows: list[str]) -> None:
        self.text = "".join(f"{row}\n" for row in rows).encode()

    async def call(self, verb: str, **_: Any) -> dict[str, Any]:
        return {"exists": True, "size": len(self.text)}

    async def get(self, path: str, *, bytes_max: int, from_start: bool = False) -> bytes:
        return self.text[:bytes_max] if from_start else self.text[-bytes_max:]


def fetched(path: Path, cluster: Cluster) -> Diagnosis:
    """What is found where two thirds of each journal fit."""
    files = journal_files(cluster)
    longest = max(len("".join(rows)) for rows in files.values())
    nodes = {name.partition("/")[0]: OnDisk(rows) for name, rows in files.items()}
    deployment = SimpleNamespace(log_files=lambda: {n: ["/l/protocol.jsonl"] for n in nodes})
    aside = RunDir(path / "fetched")
    kept = asyncio.run(fetch_logs(aside, nodes, deployment, bytes_max=longest * 2 // 3))
    assert kept is not None
    assert all(0 < (one.hole_at or 0) < one.kept < one.bytes for one in kept.files.values())
    there = {name: (aside.nodes / name).read_text().splitlines() for name in files}
    run = planted(path / "run", files=there)
    told = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_bytes(msgspec.json.encode({**told, "logs": msgspec.to_builtins(kept)}))
    return diagnose(run)


def elected(*, doubled: bool) -> Cluster:
    """n1 leads; with `doubled` n3 comes back at 5 s and is listed twice. Then much happens."""
    cluster = Cluster()
    cluster.elect(0.5, 1, 1)
    index = cluster.steady(1.0, 5.0)
    if doubled:
        row = [1, "config", [1, 2, 3, 3]]
        cluster.note(5, 1, "append", term=1, index=index, row=row)
        for server in (2, 3):
            cluster.note(5, server, "accept", term=1, leader=1, first=index, rows=[row])
        index += 1
    cluster.steady(5.1, 79, first=index)
    return cluster


def test_members_that_are_listed_twice_are_found_in_its_beginning(
    tmp_path: Path,
) -> None:
    found = fetched(tmp_path, elected(doubled=True))
    first = found.hypotheses[0]
    assert (first.number, first.alarm) == (3, True)
    tally = next(one for one in first.detections if one.sign == "tally")
    assert "a member stands in the list of voters twice" in tally.said
    assert tally.strength == "strong", "what is missing may have said more"
    notes = "\n".join(found.notes)
    assert "n1/protocol.jsonl: " in notes and "bytes were not kept, behind the first" in notes
    assert "lines are missing" in notes


def test_what_was_not_kept_is_not_missed(tmp_path: Path) -> None:
    """No entry is late and no member absent because their lines are gone."""
    found = fetched(tmp_path, elected(doubled=False))
    assert found.alarms == []
    assert found.hypotheses == []
    boxes = found.checklists["consensus"]
    open_ = {box.text for box in boxes if box.state == "open"}
    assert {
        "one vote a term",
        "decisions within 5 s",
        "leaders counted the votes that were given",
    } <= open_
    assert {box.state for box in boxes if box.text == "logs of all nodes are there"} == {"seen"}


def test_of_a_whole_one_the_boxes_are_ticked(tmp_path: Path) -> None:
    found = diagnose(planted(tmp_path, files=journal_files(elected(doubled=False))))
    ticked = {box.text for box in found.checklists["consensus"] if box.state == "ok"}
    assert {"one vote a term", "decisions within 5 s"} <= ticked
