"""A night from its beginning to its end: everything is checked before anything is touched, its
cells go to a worker pool, what failed once more, and each step is on disk before the next.

A verdict is read out of the run directory that came back, held to its sums (`outcome.py`), in a
process of its own, so that judging does not hold up the night.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from dstest import __version__
from dstest.campaign.nightly.cells import (
    Cell,
    NightlyConfig,
    cells_of,
    read_config,
    require_fitting,
    word_of,
)
from dstest.campaign.nightly.outcome import TryResult, judge_run
from dstest.campaign.nightly.page import counts_line, headline
from dstest.campaign.nightly.reports import JUNIT, PAGE, write_pages
from dstest.campaign.nightly.seeds import digest_of, items_of, kept_seeds, new_night_seed
from dstest.campaign.nightly.state import (
    Item,
    Night,
    NightDir,
    Nights,
    Try,
    alone,
    nights_in,
    number_after,
)
from dstest.campaign.nightly.verdict import clear, exit_of, judge_again, lost, settle, take_up
from dstest.campaign.steps.commands import results_in
from dstest.campaign.workers.commands import IMAGE_S, STORE, given_files, run_command, why_no_run
from dstest.campaign.workers.pool import UP_S, WorkerPool, location_of, require_pool, worker_pool
from dstest.campaign.workers.task import Task, TaskResult
from dstest.core import clock, registry
from dstest.core.errors import ConfigError, Exit
from dstest.core.processes import end_with_parent
from dstest.history.layout import require_within
from dstest.report.meanings import mistyped, table_meaning
from dstest.runner.session import process_start_time

T = TypeVar("T")
Say = Callable[[str], None]

OnStart = Callable[[Path], object]
"""Is given the directory of a night before any of its cells is run."""
_NAMED: Final = 5
_NIGHT: Final = "a night"


def _ends_with_us() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Aside:
    """One process that works through calls."""

    def __init__(self) -> None:
        self._pool = self._new()

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=context, initializer=_ends_with_us)

    async def call(self, function: Callable[..., T], *args: object) -> T | None:
        """What a function answers there; None where the process died of it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._new()
            return None

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def aside() -> Iterator[Aside]:
    """A process until the end of the block."""
    made = Aside()
    try:
        yield made
    finally:
        made.close()


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
        self._say(f"{counts_line(night)}; {self._dir.path / PAGE}, {JUNIT} beside it")
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
            async with worker_pool(night.at, workers=night.workers, into=self._dir.cells) as pool:
                for turn in range(1 + night.reruns):
                    await self._turn(pool, turn)

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
            done = TaskResult(id=f"{item.id}.{item.running.number}", folder=folder)
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
            done = TaskResult(id=folder.name, folder=folder)
            path = self._arrived(item, done)
            judged = None if path is None else judge_run(path, item.argv, item.seed)
            self._settled(item, judged, done)
            self._say(f"{item.id}: a lost worker has left {one.standing}: {one.why_not}")

    async def _turn(self, pool: WorkerPool, turn: int) -> None:
        """Every cell that was not run yet, or that is not as it must be and may be run again."""
        due = [item for item in self._night.items if self._is_due(item, turn)]
        by_id = {item.id: item for item in due}
        judging: list[asyncio.Task[None]] = []
        try:
            async for done in pool.run(self._tasks(due)):
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

    async def _judge(self, item: Item, done: TaskResult) -> None:
        path = self._arrived(item, done)
        one = item.running
        assert one is not None
        judged = None
        if path is not None:
            judged = await self._aside.call(judge_run, path, item.argv, item.seed)
        self._settled(item, judged, done)
        self._say(f"{item.id}: {one.standing}{f', {one.why_not}' if one.why_not else ''}")

    def _arrived(self, item: Item, done: TaskResult) -> Path | None:
        """What came back of the try that was running: its run directory."""
        one = item.running
        assert one is not None
        one.ended, one.worker, one.lost = clock.utc_stamp(), done.worker, done.lost
        if done.value is not None:
            one.exit_code, one.took_s = done.value
        runs = [] if done.folder is None else results_in(done.folder / STORE)
        one.result = os.path.relpath(runs[-1], self._dir.path) if runs else ""
        return runs[-1] if runs else None

    def _settled(self, item: Item, judged: TryResult | None, done: TaskResult) -> None:
        one = item.running
        assert one is not None
        settle(item, one, judged, why_no_run(done))
        self._seen.add(done.id)
        item.tries.append(one)
        item.running = None
        self._save()


def _strange(cells: Iterable[Cell]) -> Iterator[tuple[str, str]]:
    for cell in cells:
        own = any(path.endswith(".py") for path in cell.files)  # and may have names of its own
        for name in (*cell.expected.anomalies, *cell.expected.beside):
            if table_meaning(name) is None and not own:
                yield f"{cell.id} (line {cell.line})", name


def require_known(cells: Iterable[Cell]) -> list[str]:
    """What there is to say of anomalies that no checker of ours is known to find. Raises
    ConfigError for a name that is nearly one that is: such a control would never be red."""
    said = []
    for cell, name in _strange(cells):
        if near := mistyped(name):
            raise ConfigError(
                f"{cell}: no checker finds {name!r}", remedy=f"did you mean {' or '.join(near)}?"
            )
        said.append(f"{cell}: no checker that comes with dstest is known to find {name!r}")
    return said


def begin(
    config_path: Path,
    *,
    store: Path,
    at: str | None,
    workers: int | None,
    say: Say,
    chosen: Sequence[str] = (),
    night_seed: int | None = None,
    began: OnStart = Path,
) -> int:
    """Run a night, or go on with the newest one of this file that did not come to its end; the exit
    code. With `chosen` only the cells of these names; `night_seed` is before that of the file.
    Raises ConfigError where a cell cannot be run
    as it is, or another process runs a night of this name: then nothing was touched."""
    require_pool(_NIGHT)
    config, digest = read_config(config_path), _digest(config_path)
    location_of(at or config.at)
    require_within(store, config.name)
    folder = store / config.name
    if folder.is_dir():
        with alone(folder):
            before = nights_in(folder)
            open_ones = [one for one in before.whole[-1:] if not one[1].ended]
            if open_ones and _same(open_ones[0][1], digest, chosen, night_seed):
                directory, night = open_ones[0]
                say(f"going on with {directory.path}, which was begun with the same file")
                began(directory.path)
                return _go_on(directory, night, at=at, workers=workers, say=say)
    cells = plan_cells(config, config_path, chosen)
    with alone(folder):
        before = nights_in(folder)
        for told in [
            *require_known(cells),
            *before.damaged,
            *_no_longer_asked(config, before, cells, chosen),
        ]:
            say(told)
        night = night_after(before, config, cells, folder, chosen=chosen, night_seed=night_seed)
        night.config_sha256, night.at = digest, at or config.at
        night.workers = workers or config.workers
        directory = NightDir.create(store, night, config_path.read_bytes())
        began(directory.path)
        return Driver(directory, night, say).run()


def plan_cells(config: NightlyConfig, path: Path, chosen: Sequence[str] = ()) -> list[Cell]:
    """The cells of a file, all of which can be run. Raises ConfigError."""
    cells = cells_of(config, path.resolve().parent)
    ids = {_asked_by(name, cells, path) for name in chosen}
    asked = [cell for cell in cells if not chosen or cell.id in ids]
    require_fitting(asked)
    require_known(asked)
    if not chosen and all(cell.expected.control for cell in asked):
        raise ConfigError(
            f"{path} has nothing under test: each of its cells is a control",
            remedy="add a cell without control, or ask for controls alone with --cell",
        )
    return asked


def _asked_by(name: str, cells: Sequence[Cell], path: Path) -> str:
    """Id of the cell that `--cell` means: one whose id is written so in the file, or is shown so,
    before one whose id is the same word. Raises ConfigError where there is none, or more than
    one."""
    exact = [cell.id for cell in cells if name in (cell.named, cell.id)]
    found = exact or [cell.id for cell in cells if _is_word(name, cell)]
    if len(found) == 1:
        return found[0]
    shown = f"`dstest nightly show {path}` has their names"
    if found:
        raise ConfigError(
            f"--cell {name}: {path} has {len(found)} such cells, shown as {' and '.join(found)}",
            remedy=f"give them ids that differ by more than signs and capitals; {shown}",
        )
    near = get_close_matches(word_of(name), [cell.id for cell in cells], n=3)
    raise ConfigError(
        f"--cell {name}: {path} has no such cell",
        remedy=f"did you mean {' or '.join(near)}?" if near else shown,
    )


def _is_word(name: str, cell: Cell) -> bool:
    return word_of(name) in (word_of(cell.named or cell.id), cell.id)


def night_after(
    before: Nights,
    config: NightlyConfig,
    cells: Sequence[Cell],
    folder: Path,
    *,
    chosen: Sequence[str] = (),
    night_seed: int | None = None,
) -> Night:
    """The next night: its number, and what it asks. `night_seed` is before that of the file."""
    kept = kept_seeds([night for _, night in before.whole], config.passes)
    drawn_by = config.night_seed if night_seed is None else night_seed
    drawn_by = new_night_seed() if drawn_by is None else drawn_by
    items = items_of(config.name, drawn_by, cells, kept)
    return Night(
        name=config.name,
        number=number_after(folder, before),
        config_sha256="",
        at=config.at,
        workers=config.workers,
        budget_s=config.budget_s,
        reruns=config.reruns,
        passes=config.passes,
        dstest=__version__,
        started=clock.utc_stamp(),
        pid=os.getpid(),
        pid_start_time=process_start_time(os.getpid()),
        items=items,
        chosen=[*chosen],
        asked_sha256=digest_of(items),
        night_seed=drawn_by,
    )


def _same(night: Night, digest: str, chosen: Sequence[str], night_seed: int | None) -> bool:
    """Is this the night that is asked for?"""
    drawn = night_seed in (None, night.night_seed)
    return drawn and night.config_sha256 == digest and {*night.chosen} == {*chosen}


def _no_longer_asked(
    config: NightlyConfig, before: Nights, cells: Sequence[Cell], chosen: Sequence[str]
) -> list[str]:
    """What there is to say of seeds that failed in cells which the file does not have any more."""
    kept = kept_seeds([night for _, night in before.whole], config.passes)
    items = [item for _, night in before.whole for item in night.items]
    names = {item.key: item.cell for item in items}
    gone = Counter(
        {
            names[key]: len(seeds)
            for key, seeds in kept.items()
            if key not in {cell.key for cell in cells}
        }
    )
    if chosen or not gone:
        return []
    named = [f"{name} ({count})" for name, count in gone.most_common(_NAMED)]
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    count = sum(gone.values())
    said = (
        f"{count} kept seeds of cells that are no longer in the file, or not with the "
        f"same command, are not asked any more: {', '.join(named)}{more}"
    )
    return [said]


def resume(path: Path, *, at: str | None, workers: int | None, say: Say) -> int:
    """Go on with a night whose process is gone; the exit code. Raises ConfigError where it still
    runs, or is over."""
    require_pool(_NIGHT)
    if at is not None:
        location_of(at)
    directory = NightDir.open(path)
    with alone(directory.path.parent):
        return _go_on(directory, directory.read(), at=at, workers=workers, say=say)


def _go_on(
    directory: NightDir, night: Night, *, at: str | None, workers: int | None, say: Say
) -> int:
    path = directory.path
    if night.runs and night.pid != os.getpid():
        raise ConfigError(f"{path} is still running (pid {night.pid})", remedy="wait for its end")
    if night.ended:
        raise ConfigError(
            f"{path} is over", remedy=f"`dstest nightly report {path}`, or begin a new night"
        )
    registry.use(name for item in night.items for name in item.files if name.endswith(".py"))
    night.at, night.workers = at or night.at, workers or night.workers
    night.gone_on.append(clock.utc_stamp())
    return Driver(directory, night, say).run()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
