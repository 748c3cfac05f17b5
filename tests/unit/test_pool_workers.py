"""Tasks are given to workers that are there, and their clock begins when a worker begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from pool_work import double, hang_once, hold, meet

from dstest.campaign.workers import pool
from dstest.campaign.workers.pool import LAB, worker_pool
from dstest.campaign.workers.task import Task, TaskResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Creating scratch directories"),
]


@asynccontextmanager
async def _scheduler(workers: int) -> AsyncIterator[Any]:
    """One that somebody else has started."""
    made = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        threads_per_worker=1,
        resources={LAB: 1},
        dashboard_address=":0",
        asynchronous=True,
    )
    async with made as cluster:
        yield cluster


async def _all(at: str, tasks: list[Task], into: Path) -> dict[str, TaskResult]:
    async with worker_pool(at, workers=1, into=into) as opened:
        return {done.id: done async for done in opened.run(tasks)}


def test_all_workers_of_a_scheduler_work(tmp_path: Path) -> None:
    (here := tmp_path / "here").mkdir()
    tasks = [Task(id=f"m{n}", work=meet, args=(here, 2)) for n in range(2)]

    async def run() -> dict[str, TaskResult]:
        async with _scheduler(2) as cluster:
            return await _all(cluster.scheduler_address, tasks, tmp_path / "into")

    found = asyncio.run(run())
    assert [found[one.id].value for one in tasks] == [2, 2]


def test_to_wait_for_a_worker_that_others_use_is_not_to_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_SILENCE_S", 4.0)
    marker, release = tmp_path / "marker", tmp_path / "release"

    async def run() -> dict[str, TaskResult]:
        async with _scheduler(1) as cluster:
            asked = Client(cluster.scheduler_address, asynchronous=True)  # type: ignore[no-untyped-call]
            async with asked as other:
                held = other.submit(hold, marker, release, resources={LAB: 1})
                while not marker.exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                tasks = [Task(id="d", work=double, args=(4,), limit_s=0.5)]
                ours = asyncio.create_task(
                    _all(cluster.scheduler_address, tasks, tmp_path / "into")
                )
                await asyncio.sleep(7.0)  # longer than silence and limit
                release.touch()
                await held.result()
                return await ours

    assert [(one.value, one.lost) for one in asyncio.run(run()).values()] == [(8, 0)]


def test_a_silent_worker_is_ended_before_its_task_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_SILENCE_S", 3.0)
    task = Task(id="h", work=hang_once, args=(tmp_path / "marker",), limit_s=0.5)
    found = asyncio.run(_all("local", [task], tmp_path / "into"))["h"]
    assert (found.value, found.lost) == ("done", 1)


def test_nothing_is_given_to_a_worker_that_is_gone() -> None:
    """The scheduler may take a while to know of it."""

    class Told:
        def __init__(self) -> None:
            self.there = {"a", "b"}

        @property
        def scheduler(self) -> Told:
            return self

        async def identity(self, n_workers: int) -> dict[str, Any]:
            return {"workers": dict.fromkeys(self.there, n_workers)}

    async def run() -> None:
        told = Told()
        made = pool.Workers(told)
        await made.look()
        made.gone("a")
        async with made.seat(0) as first:
            assert first == "b"
            await made.look()
            assert made.count == 1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0), made.seat(0):
                    pass
        told.there = {"b"}
        await made.look()
        told.there = {"a", "b"}
        await made.look()
        assert made.count == 2, "it came back"

    asyncio.run(run())
