"""Storms on a real etcd: two faults at once, each proven; a storm is repeated by its file."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from busy import assert_code, assert_passed
from runs import CALM, dstest, faults_of, latest, run_here

from dstest.core import registry
from dstest.core.node import LabInfo
from nemeses.mix import Mix

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

KINDS = ("partition", "latency", "kill", "pause", "clock")
OPTIONS = ("at_once=2", "fault_s=5", "quiet_s=4")


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["injected_at"] < other["healed_at"] and other["injected_at"] < one["healed_at"])


def test_two_at_once_are_both_proven(lab: LabInfo, tmp_path: Path) -> None:
    mix = Mix([registry.load("nemeses", name) for name in KINDS])
    done = run_here(lab, tmp_path, nemesis=mix, options=OPTIONS, time_limit_s=75.0, seed=2)
    faults = faults_of(done.path)
    assert_passed(done, faults)
    assert {fault["nemesis"] for fault in faults} == set(KINDS)
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
    assert any(_overlap(a, b) for a, b in itertools.combinations(faults, 2))


def test_what_reaches_into_the_system_joins_a_storm(lab: LabInfo, tmp_path: Path) -> None:
    """It stands alone; `scope` means another thing to it than to a pause."""
    kinds = ("partition", "pause", "compaction", "membership", "config")
    own = ("pause.scope=minority", "membership.scope=one", "way=freezer")
    mix = Mix([registry.load("nemeses", name) for name in kinds])
    done = run_here(lab, tmp_path, nemesis=mix, options=(*OPTIONS, *own), time_limit_s=75.0, seed=2)
    faults = faults_of(done.path)
    assert_passed(done, faults)
    assert {fault["nemesis"] for fault in faults} == set(kinds)
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
    asked = {(f["nemesis"], f["facts"].get("scope")) for f in faults}
    assert {("pause", "minority"), ("membership", "one")} <= asked
    within = [f for f in faults if f["nemesis"] in ("compaction", "membership", "config")]
    assert not any(_overlap(a, b) for a in within for b in faults if a is not b)


def test_a_schedule_is_followed_to_the_letter(lab: LabInfo, tmp_path: Path) -> None:
    stores = [tmp_path / name for name in ("first", "again")]
    common = (*CALM, "--lab-id", lab.lab_id, "--time-limit", "35")
    first = dstest(
        *common, "--seed", "7", "--nemesis", "partition,kill", "--store", stores[0],
        *("-o", "at_once=2", "-o", "fault_s=5"),
    )  # fmt: skip
    assert_code(first.returncode, latest(stores[0]), first.stdout)
    schedule = latest(stores[0]) / "schedule.json"
    again = dstest(*common, "--seed", "8", "--schedule", schedule, "--store", stores[1])
    assert_code(again.returncode, latest(stores[1]), again.stdout)
    assert (latest(stores[1]) / "schedule.json").read_bytes() == schedule.read_bytes()

    def asked(store: Path) -> list[tuple[Any, ...]]:
        return [
            (f["fault_id"], f["nemesis"], f["scheduled_at"], f["facts"].get("shape"))
            # Who leads is not in the schedule, and which of several is hit is in its seed.
            + (() if f["facts"].get("shape") in (None, "leader") else tuple(sorted(f["targets"])))
            for f in faults_of(latest(store))
        ]

    assert asked(stores[1]) == asked(stores[0])
