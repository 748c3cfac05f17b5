"""The page of systems keeps what it knows of pairs that were not tried again."""

from __future__ import annotations

from pathlib import Path

import msgspec
from selftest_table import Seen
from systems_table import Tried, systems_table

from dstest.core.evidence import LandingRecord, Signal

TEST = "tests/integration/test_systems.py::test_a_fault_lands_and_heals"


def a_run(system: str, nemesis: str, **changes: object) -> Seen:
    moved = Signal(signal="counter", during={"n1": 1}, moved=True)
    record = LandingRecord(
        fault_id="f1",
        nemesis=nemesis,
        targets=["n1"],
        scheduled_at=0,
        epoch="f1",
        injector=moved,
        victim=moved,
        landed="yes",
        heal_verified=True,
    )
    told = msgspec.structs.replace(record, **changes)
    return Seen("test", "PASS-smoke", [], system, [told])


def row(page: str, nemesis: str) -> dict[str, str]:
    """Of the grid, which comes before the sections."""
    lines = page.partition("| fault |")[2].partition("##")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line]
    cells[0] = ["fault", *cells[0]]
    found = next(line for line in cells if line[0] == nemesis)
    return dict(zip(cells[0], found, strict=True))


def test_what_was_not_tried_again_stays(tmp_path: Path) -> None:
    page = tmp_path / "systems.md"
    tests = {f"{TEST}[zookeeper-kill]", f"{TEST}[redis-sentinel-disk-full]"}
    first = systems_table(
        [a_run("zookeeper", "kill"), a_run("redis-sentinel", "disk-full")], tests, page
    )
    assert row(first, "kill")["zookeeper"] == "**landed**"
    assert row(first, "kill")["redis-sentinel"] == "-"
    assert row(first, "disk-full")["redis-sentinel"] == "**landed**"

    kept = msgspec.json.decode(page.with_suffix(".json").read_bytes(), type=list[Tried])
    assert {row.system for row in kept if row.landed} == {"zookeeper", "redis-sentinel"}

    second = systems_table([a_run("nats", "kill")], {f"{TEST}[nats-kill]"}, page)
    assert row(second, "kill")["zookeeper"] == "**landed**"
    assert row(second, "kill")["nats"] == "**landed**"


def test_what_no_longer_lands_is_not_said_to(tmp_path: Path) -> None:
    page, tests = tmp_path / "systems.md", {f"{TEST}[zookeeper-kill]"}
    systems_table([a_run("zookeeper", "kill")], tests, page)
    assert row(systems_table([], tests, page), "kill")["zookeeper"] == "missed"
    for change in ({"landed": "no"}, {"heal_verified": False}):
        tried = systems_table([a_run("zookeeper", "kill", **change)], tests, page)
        assert row(tried, "kill")["zookeeper"] == "missed"


def test_why_a_fault_misses_is_said_until_it_lands(tmp_path: Path) -> None:
    page, tests = tmp_path / "systems.md", {f"{TEST}[nats-slow-disk]"}
    known = [Tried(system="nats", nemesis="slow-disk", landed="", why="it never syncs")]
    page.with_suffix(".json").write_bytes(msgspec.json.encode(known))
    assert "| nats | slow-disk | it never syncs |" in systems_table([], tests, page)
    assert "it never syncs" not in systems_table([a_run("nats", "slow-disk")], tests, page)
    assert "it never syncs" not in systems_table([], tests, page)


def test_a_fault_that_a_system_lacks_is_dropped(tmp_path: Path) -> None:
    page = tmp_path / "systems.md"
    stale = [Tried(system="memcached", nemesis="partition", landed="once")]
    page.with_suffix(".json").write_bytes(msgspec.json.encode(stale))
    assert row(systems_table([], set(), page), "partition")["memcached"] == "no"
    assert msgspec.json.decode(page.with_suffix(".json").read_bytes()) == []


def test_the_page_is_what_its_data_make(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = tmp_path / "systems.md"
    page.with_suffix(".json").write_bytes((docs / "systems.json").read_bytes())
    assert systems_table([], set(), page) == (docs / "systems.md").read_text()
    assert page.with_suffix(".json").read_bytes() == (docs / "systems.json").read_bytes()
