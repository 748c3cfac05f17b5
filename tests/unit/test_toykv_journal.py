"""The journals of toykv: what a line comes from stands before it, whatever clocks and disks do."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from clusters.systems.toykv.agents.consensus import Consensus
from clusters.systems.toykv.agents.storage import Around, Disk, Journal
from dstest.sim.files import SimFiles
from dstest.spec.merge import merge


class Host:
    """Its disk and what its servers wrote outlive them."""

    def __init__(self, name: str, member: int) -> None:
        self.name, self.member, self.wall_ns = name, member, 0
        self.files = SimFiles(random.Random(member))
        self.lines: list[str] = []

    def start(self, wall_ns: int) -> Journal:
        self.wall_ns = wall_ns
        around = Around(
            files=self.files,
            numbers=random.Random(1),
            die=lambda code: pytest.fail(f"died with {code}"),
            now_s=lambda: 0.0,
            wall_ns=lambda: self.wall_ns,
            write=lambda _: None,
            keep=self.lines.append,
        )
        disk = Disk(around)
        if disk.fresh:
            disk.save_meta(id=self.member)
        return Consensus(disk, around, self.name, "none").journal


def votes(*hosts: Host) -> list[Any]:
    """What was voted and counted, in the merged order."""
    files = {one.name: "".join(f"{line}\n" for line in one.lines).encode() for one in hosts}
    said = merge(files)
    assert not said.left_out and not said.damaged
    return [event.fields["term"] for event in said.events if event.kind in ("vote", "count")]


def heard_from(n2: Host, journal: Journal, term: int, n1: Journal) -> None:
    journal.note("vote", term=term)
    n1.heard(journal.stamp)


@pytest.mark.parametrize("again_ns", [500, 50, 100], ids=["later", "earlier", "the same"])
def test_a_clock_that_is_set_back_between_two_starts(again_ns: int) -> None:
    n1, n2 = Host("n1", 1), Host("n2", 2)
    counts = n1.start(1)
    heard_from(n2, n2.start(100), 1, counts)
    heard_from(n2, n2.start(again_ns), 2, counts)
    counts.note("count", term=3)
    assert votes(n1, n2) == [1, 2, 3]


@pytest.mark.parametrize("loses", ["power", "disk"])
def test_a_start_after_what_a_disk_can_lose(loses: str) -> None:
    """A power cut takes what is not synced; a disk that is wiped is that of another member."""
    n1, n2 = Host("n1", 1), Host("n2", 2)
    counts = n1.start(1)
    heard_from(n2, n2.start(100), 1, counts)
    if loses == "power":
        n2.files.lose_power()
    else:
        n2.files.wipe()
        n2.member = 22
    heard_from(n2, n2.start(100), 2, counts)
    counts.note("count", term=3)
    assert votes(n1, n2) == [1, 2, 3]


def test_runs_are_heard_of_in_any_order() -> None:
    """A message of an earlier run that comes late hides nothing of the later one."""
    n1, n2 = Host("n1", 1), Host("n2", 2)
    counts = n1.start(1)
    before = n2.start(100)
    before.note("vote", term=1)
    late = before.stamp
    heard_from(n2, n2.start(50), 2, counts)
    counts.heard(late)
    counts.note("count", term=3)
    assert votes(n1, n2) == [1, 2, 3]
    assert len(json.loads(n1.lines[-1])["saw"]["n2"]) == 2


def test_a_start_is_on_the_disk_before_it_says_anything() -> None:
    n2 = Host("n2", 2)
    runs = [n2.start(5).stamp for _ in range(3)]
    assert [stamp[1] for stamp in runs if stamp] == ["2.1", "2.2", "2.3"]
    assert json.loads(n2.files.read("meta"))["starts"] == 3
