"""From nightly.toml to an exit code: cells on the workers of a fan, what failed once more, and all
of it on disk at each step, so that whoever kills this loses no more than the cells that ran.

A verdict is read out of the run directory that came back, held to its sums here (`outcome.py`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from dstest.core import clock
from dstest.core.errors import ConfigError, Exit
from dstest.fan.commands import IMAGE_S, STORE, given_files, run_command, why_no_run
from dstest.fan.fan import Fan, fan_out
from dstest.fan.task import Done, Task
from dstest.fan.where import UP_S
from dstest.nightly.aside import aside
from dstest.nightly.judged import exit_of, judge_again, settle
from dstest.nightly.leftovers import clear, lost, take_up
from dstest.nightly.outcome import Judged, judge_run
from dstest.nightly.page import counted, headline
from dstest.nightly.state import Item, Night, NightDir, Try
from dstest.nightly.write import JUNIT, PAGE, write_pages
from dstest.runner.session import process_start_time
from dstest.steps.results import results_in

Say = Callable[[str], None]


class Driver:
    """One process's part of a night."""

    def __init__(self, directory: NightDir, night: Night, say: Say) -> None:
        self._dir, self._night, self._say = directory, night, say
        self._begun_ns = clock.monotonic_ns()
        self._spent_before_s = night.spent_s
        self._seen: set[str] = set()

    def run(self) -> int:
        """Do what is left. Ctrl-C and SIGTERM end the cells that run, which heal and seal; the rest
        is left to `resume`."""
        night = self._night
        night.pid, night.pid_start_time = os.getpid(), process_start_time(os.getpid())
        self._save()
        self._say(f"night {night.number} of {night.name}: {self._dir.path}")
        try:
            asyncio.run(self._all())
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._save()
            self._say(f"stopped: `dstest nightly resume {self._dir.path}` goes on")
            return int(Exit.INTERRUPTED)
        return self._finish()

    def _finish(self) -> int:
        night = self._night
        for item in night.items:
            for one in item.tries:
                if f"{item.id}.{one.number}" not in self._seen:
                    judge_again(self._dir, item, one)
        self._take_up_lost()
        night.ended = clock.utc_stamp()
        night.exit = int(exit_of(night.items, night.chosen))
        self._save()
        clear(self._dir)
        write_pages(self._dir, night)
        word, sentence = headline(night)
        self._say(f"{counted(night)}; {self._dir.path / PAGE}, {JUNIT} beside it")
        self._say(f"{word} (exit {night.exit}): {sentence}")
        return night.exit

    def _save(self) -> None:
        self._night.spent_s = self._spent_s()
        self._dir.save(self._night)

    def _spent_s(self) -> float:
        return self._spent_before_s + (clock.monotonic_ns() - self._begun_ns) / 1e9

    async def _all(self) -> None:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
        for item in self._night.items:
            if item.running is not None:
                self._take_up(item)
        self._take_up_lost()
        night = self._night
        if night.at != "local":
            self._say(f"waiting for workers at {night.at}, {UP_S:.0f} s at most")
        with aside() as self._aside:
            async with fan_out(night.at, workers=night.workers, into=self._dir.cells) as fan:
                for turn in range(1 + night.reruns):
                    await self._turn(fan, turn)

    def _take_up(self, item: Item) -> None:
        """Count the try that ran when this night's process died, where it came to an end."""
        assert item.running is not None
        folder = take_up(self._dir, item)
        if folder is None:
            self._say(f"{item.id}: its run died, and is run again")
            item.running, item.died = None, item.died + 1
            self._save()
        else:
            self._say(f"{item.id}: its run had come to an end")
            done = Done(id=f"{item.id}.{item.running.number}", folder=folder)
            path = self._arrived(item, done)
            judged = None if path is None else judge_run(path, item.argv, item.seed)
            self._settled(item, judged, done)

    def _take_up_lost(self) -> None:
        """Count the violations that lost workers have left."""
        for item, number, left in lost(self._dir, self._night):
            one = Try(number=number, started=clock.utc_stamp(), left=True)
            item.running = one
            self._save()  # whoever goes on from here finds it in its place, or here again
            folder = self._dir.cells / f"{item.id}.{number}"
            left.replace(folder)
            done = Done(id=folder.name, folder=folder)
            path = self._arrived(item, done)
            judged = None if path is None else judge_run(path, item.argv, item.seed)
            self._settled(item, judged, done)
            self._say(f"{item.id}: a lost worker has left {one.standing}: {one.why_not}")

    async def _turn(self, fan: Fan, turn: int) -> None:
        """Every cell that was not run yet, or that is not as it must be and may be run again."""
        due = [item for item in self._night.items if self._is_due(item, turn)]
        by_id = {item.id: item for item in due}
        judging: list[asyncio.Task[None]] = []
        try:
            async for done in fan.run(self._tasks(due)):
                item = by_id[done.id.rpartition(".")[0]]
                judging.append(asyncio.create_task(self._judge(item, done)))
        finally:
            await asyncio.gather(*judging)

    def _is_due(self, item: Item, turn: int) -> bool:
        if turn == 0:
            return not item.made
        return item.standing != "as-it-must" and item.made == turn and not item.repeats

    def _tasks(self, due: list[Item]) -> Iterator[Task]:
        """The next one is asked for once a worker is free."""
        for item in due:
            if self._spent_s() >= self._night.budget_s:
                item.skipped = item.skipped or "the time of the night was spent before its turn"
                self._save()
                continue
            try:
                files = given_files(item.files)
            except ConfigError as error:
                item.skipped = error.message
                self._save()
                self._say(f"{item.id}: not run: {error.message}")
                continue
            number = item.next_number
            item.running, item.skipped = Try(number=number, started=clock.utc_stamp()), ""
            self._save()
            self._say(f"{item.id}: try {number}: dstest {' '.join(item.argv)}")
            yield Task(
                id=f"{item.id}.{number}",
                work=run_command,
                args=(item.image, item.argv, files, item.limit_s),
                limit_s=IMAGE_S + item.limit_s,
            )

    async def _judge(self, item: Item, done: Done) -> None:
        path = self._arrived(item, done)
        one = item.running
        assert one is not None
        judged = None
        if path is not None:
            judged = await self._aside.call(judge_run, path, item.argv, item.seed)
        self._settled(item, judged, done)
        self._say(f"{item.id}: {one.standing}{f', {one.why_not}' if one.why_not else ''}")

    def _arrived(self, item: Item, done: Done) -> Path | None:
        """What came back of the try that was running: its run directory."""
        one = item.running
        assert one is not None
        one.ended, one.worker, one.lost = clock.utc_stamp(), done.worker, done.lost
        if done.value is not None:
            one.exit_code, one.took_s = done.value
        runs = [] if done.folder is None else results_in(done.folder / STORE)
        one.result = os.path.relpath(runs[-1], self._dir.path) if runs else ""
        return runs[-1] if runs else None

    def _settled(self, item: Item, judged: Judged | None, done: Done) -> None:
        one = item.running
        assert one is not None
        settle(item, one, judged, why_no_run(done))
        self._seen.add(done.id)
        item.tries.append(one)
        item.running = None
        self._save()
