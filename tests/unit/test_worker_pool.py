"""Work on local workers: answers, directories, errors, and workers that are lost."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pool_work import double, fail, leave_files, link_out, lose_worker_once, stuck, version

from clusters.labs.state import check_lab_id
from dstest import __version__
from dstest.campaign.workers.agent import forget, part
from dstest.campaign.workers.pool import WorkerPool, location_of, worker_pool
from dstest.campaign.workers.task import Task, TaskResult
from dstest.core import processes
from dstest.core.errors import ConfigError

pytestmark = pytest.mark.slow


async def _all(tasks: list[Task], into: Path, workers: int = 2) -> dict[str, TaskResult]:
    async with worker_pool("local", workers=workers, into=into) as pool:
        return {done.id: done async for done in pool.run(tasks)}


def test_answers_directories_and_errors_come_back(tmp_path: Path) -> None:
    tasks = [Task(id=f"d{n}", work=double, args=(n,), lab=False) for n in range(8)]
    tasks += [Task(id=f"f{n}", work=leave_files, args=(f"text {n}",)) for n in range(3)]
    tasks += [Task(id="bad", work=fail), Task(id="link", work=link_out)]
    found = asyncio.run(_all(tasks, tmp_path))
    assert [found[f"d{n}"].value for n in range(8)] == [2 * n for n in range(8)]
    for n in range(3):
        folder = found[f"f{n}"].folder
        assert folder == tmp_path / f"f{n}"
        assert (folder / "below" / "a.txt").read_text() == f"text {n}"
    assert len({found[f"f{n}"].value for n in range(3)}) == 3, "two tasks had one lab"
    assert found["bad"].error == "ValueError: not this one"
    linked = found["link"].folder
    assert linked is not None
    assert [path.name for path in linked.iterdir()] == ["kept"]
    assert [path.name for path in (tmp_path / ".work").iterdir()] == []


def test_a_lost_worker_costs_one_task_which_is_done_elsewhere(tmp_path: Path) -> None:
    tasks = [
        Task(id="lost", work=lose_worker_once, args=(tmp_path / "marker",)),
        *(Task(id=f"d{n}", work=double, args=(n,)) for n in range(4)),
    ]
    found = asyncio.run(_all(tasks, tmp_path / "into"))
    assert found["lost"].lost == 1
    assert found["lost"].error is None
    assert sorted(d.value for d in found.values() if d.id != "lost") == [0, 2, 4, 6]


def _without(monkeypatch: pytest.MonkeyPatch, lost: Callable[..., Any]) -> None:
    """The worker is lost when it is asked for this."""
    asked = WorkerPool._at

    async def at(pool: WorkerPool, worker: str, function: Callable[..., Any], *args: Any) -> Any:
        if function is lost:
            raise ConnectionError(f"{worker} is gone")
        return await asked(pool, worker, function, *args)

    monkeypatch.setattr(WorkerPool, "_at", at)


def test_a_worker_that_is_lost_after_all_has_arrived_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, forget)
    found = asyncio.run(_all([Task(id="f", work=leave_files, args=("text",))], tmp_path, 1))["f"]
    assert (found.error, found.lost, found.folder) == (None, 0, tmp_path / "f")
    assert [path.name for path in (tmp_path / ".work").iterdir()] == []


def test_a_worker_that_is_lost_on_the_way_costs_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, part)
    found = asyncio.run(_all([Task(id="f", work=leave_files, args=("text",))], tmp_path, 1))["f"]
    assert (found.error, found.folder) == ("3 workers were lost with it", None)


def test_a_full_disk_here_is_no_lost_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, *args: Any, **more: Any) -> Any:
        if path.suffix == ".arriving" and args == ("ab",):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, *args, **more)

    monkeypatch.setattr(Path, "open", full)
    found = asyncio.run(_all([Task(id="f", work=leave_files, args=("text",))], tmp_path, 1))["f"]
    assert found.error is not None
    assert "cannot be written: [Errno 28] No space left on device" in found.error
    assert found.lost == 0


@pytest.mark.parametrize("text", ["", "here", "ssh:", "ssh:a,,b", "http://x"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        location_of(text)


def test_places() -> None:
    assert location_of("ssh:a, b").hosts == ("a", "b")
    assert location_of("tcp://h:1").address == "tcp://h:1"


def test_a_command_runs_on_a_worker(tmp_path: Path) -> None:
    found = asyncio.run(_all([Task(id="v", work=version)], tmp_path, workers=1))["v"]
    code, said = found.value
    assert (code, said) == (0, f"$ dstest --version\n{__version__}\n")


def _waiting(fifo: Path) -> list[int]:
    """Processes that were started with this file."""
    word = str(fifo).encode()
    return [pid for pid, line in processes.each("cmdline") if word in line.split(b"\0")]


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    tasks = [Task(id="s", work=stuck, args=(fifo, 3.0))]
    found = asyncio.run(_all(tasks, tmp_path / "into", workers=1))["s"]
    assert found.value != 0
    assert not _waiting(fifo)


def test_what_runs_ends_with_the_fan(tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")

    async def given_up() -> None:
        running = asyncio.create_task(
            _all([Task(id="s", work=stuck, args=(fifo, 100.0))], tmp_path / "into", workers=1)
        )
        while not _waiting(fifo):
            assert not running.done()
            await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(given_up(), 100.0))
    assert not _waiting(fifo)


def test_labs_have_names_that_labs_can_have(tmp_path: Path) -> None:
    tasks = [Task(id=f"f{n}", work=leave_files, args=("",)) for n in range(2)]
    for done in asyncio.run(_all(tasks, tmp_path)).values():
        assert check_lab_id(done.value) == done.value
