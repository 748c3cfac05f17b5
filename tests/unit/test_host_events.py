"""Samples of the control host: how they are taken, and what in them is an event."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.core.clock import RunClock, monotonic_ns
from dstest.history.layout import RunDir
from dstest.judge.host_events import HOST, HostSample, events_of, near, watched
from dstest.runner.blame_probes import read_samples
from dstest.runner.samplers import HostSampler

pytestmark = pytest.mark.slow

S = 1_000_000_000


def samples(count: int = 10, **at_five: Any) -> list[HostSample]:
    """One a second, the sixth and all after it with these values."""
    calm: dict[str, Any] = {
        "wall_minus_mono_ns": 7 * S, "steal": 0.0, "oom_kills": 3, "swapped": 9,
        "stalled": {"memory": 1.0, "cpu": 1.0}, "fsync_ns": 1_000, "free_bytes": 1 << 40,
    }  # fmt: skip
    return [
        HostSample(time_ns=n * S, cpu=2.0 * n, **(calm | (at_five if n >= 5 else {})))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({}, []),
        ({"wall_minus_mono_ns": 7 * S + 30_000_000}, ["clock-set"]),
        ({"wall_minus_mono_ns": 7 * S - 30_000_000}, ["clock-set"]),
        ({"wall_minus_mono_ns": 7 * S + 1_000_000}, []),
        ({"steal": 0.5}, ["steal"]),
        ({"steal": 0.1}, []),
        ({"throttled": {"/lab": 0.3}}, ["throttled"]),
        ({"throttled": {"/lab": 0.01}}, []),
        ({"oom_kills": 4}, ["oom-kill"]),
        ({"swapped": 5000}, ["swap"]),
        ({"stalled": {"memory": 1.7, "cpu": 1.0}}, ["memory-stall"]),
        ({"stalled": {"memory": 1.0, "cpu": 2.0}}, []),
        ({"steal": None, "oom_kills": None, "swapped": None, "stalled": {}}, []),
    ],
)
def test_what_is_an_event(change: dict[str, Any], kinds: list[str]) -> None:
    found = events_of(samples(**change))
    assert [event.kind for event in found] == kinds
    assert [(e.start_ns, e.end_ns) for e in found] == [(4 * S, 5 * S)] * len(kinds)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"late_ns": 2 * S}, "stood-still"),
        ({"fsync_ns": 2 * S}, "disk-stall"),
        ({"free_bytes": 1 << 20}, "store-full"),
    ],
)
def test_what_lasts_is_an_event_in_each_second(change: dict[str, Any], kind: str) -> None:
    assert [event.kind for event in events_of(samples(**change))] == [kind] * 5


def test_near_is_two_seconds() -> None:
    events = events_of(samples(oom_kills=4))
    assert near(events, [(0, 2 * S)]) == events
    assert near(events, [(0, 2 * S - 1)]) == []
    assert near(events, [(7 * S, 9 * S)]) == events
    assert near(events, [(7 * S + 1, 9 * S)]) == []


def test_where_nobody_looked_nothing_is_known() -> None:
    taken = samples()
    assert watched(taken, [(S, 3 * S), (5 * S, 9 * S)])
    assert not watched(taken, [(S, 3 * S), (15 * S, 16 * S)])
    assert not watched(taken, [])
    assert not watched([], [(0, S)])


def test_samples_of_this_host(tmp_path: Path) -> None:
    async def go() -> None:
        sampler = HostSampler(RunDir(tmp_path), RunClock(monotonic_ns()))
        task = asyncio.create_task(sampler.run())
        await asyncio.sleep(1.5)
        task.cancel()

    asyncio.run(go())
    taken = read_samples(RunDir(tmp_path))
    assert len(taken) == 2
    assert 0.9 * S < taken[1].time_ns - taken[0].time_ns < 3 * S
    assert taken[0].cpu is not None
    assert taken[0].free_bytes is not None
    assert abs(taken[1].wall_minus_mono_ns - taken[0].wall_minus_mono_ns) < S


def test_a_line_that_was_cut_off_is_no_sample(tmp_path: Path) -> None:
    line = msgspec.json.encode(samples(1)[0])
    (tmp_path / HOST).write_bytes(line + b"\n" + line[:20])
    assert read_samples(RunDir(tmp_path)) == samples(1)


def test_what_a_host_does_not_say_is_none(tmp_path: Path) -> None:
    taken = HostSampler(RunDir(tmp_path), RunClock(0), proc=tmp_path / "proc").sample()
    assert (taken.steal, taken.cpu, taken.oom_kills, taken.swapped) == (None,) * 4
    assert taken.stalled == {}


def test_a_disk_that_refuses_ends_it_in_silence(tmp_path: Path) -> None:
    (tmp_path / HOST).mkdir()
    asyncio.run(HostSampler(RunDir(tmp_path), RunClock(0)).run())
