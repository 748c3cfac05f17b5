"""What a night left whose process died: tries that were being done, and those that had come back.

A worker dies with the process that started it, and the run that it had then heals and seals. What
such a run has come to counts where it was judged to its end, or has seen a violation; any other is
set aside, and its cell is run again. What a worker left that was lost while the night went on
counts where it has seen a violation, although its cell was run again in the meantime: no violation
is lost with a worker of this machine.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from dstest.core import clock
from dstest.core.errors import DstestError
from dstest.core.limits import HEAL_S
from dstest.fan.commands import STORE
from dstest.fan.desk_paths import FOLDER, WORK, folders_of
from dstest.nightly.state import Item, Night, NightDir
from dstest.runner.integrity import finished, verified
from dstest.runner.session import alive, recover
from dstest.steps.results import results_in
from dstest.store.layout import RunDir

_LOOK_S: Final = 0.5


def take_up(directory: NightDir, item: Item) -> Path | None:
    """The folder of the try that was running, in its place, where it counts; else None, and what
    it left stands aside."""
    assert item.running is not None
    name = f"{item.id}.{item.running.number}"
    place = directory.cells / name
    if place.is_dir():
        return place
    for folder in folders_of(directory.cells, name):
        aside = _free(directory.cells, f"{name}.died")
        runs = results_in(folder / STORE)
        counts = bool(runs) and _counts(RunDir.open(runs[-1]))
        folder.replace(place if counts else aside)
        if counts:
            return place
    return None


def lost(directory: NightDir, night: Night) -> Iterator[tuple[Item, int, Path]]:
    """What lost workers have left of any item: the folders of runs that have seen a violation, each
    with the number of a try that it may become in `cells`. All others stand aside."""
    for item, folder, runs in _of_workers(directory, night):
        if runs and _ended(RunDir.open(runs[-1])) and _violated(RunDir.open(runs[-1])):
            numbers = itertools.count(item.next_number)
            taken = {path.name for path in directory.cells.iterdir()}
            yield item, next(n for n in numbers if f"{item.id}.{n}" not in taken), folder
        elif runs:
            name = folder.parent.name.rpartition(".")[0]
            folder.replace(_free(directory.cells, f"{name}.died"))


def seen(directory: NightDir, night: Night) -> Iterator[tuple[Item, Path]]:
    """Runs that are over, of any item, in the folders of workers. Nothing is touched there: others
    may still be at it."""
    for item, _, runs in _of_workers(directory, night):
        for path in runs:
            with suppress(OSError, DstestError):  # it may be carried away meanwhile
                if finished(RunDir.open(path)):
                    yield item, path


def _of_workers(directory: NightDir, night: Night) -> Iterator[tuple[Item, Path, list[Path]]]:
    """(item, a folder that a worker has for it, the runs in there)"""
    items = {item.id: item for item in night.items}
    for path in sorted((directory.cells / WORK).glob("*.*.*.*")):
        folder, id_ = path / FOLDER, ".".join(path.name.split(".")[:2])
        if id_ in items and folder.is_dir():
            yield items[id_], folder, results_in(folder / STORE)


def clear(directory: NightDir) -> None:
    """Take away what is left of the workers' folders."""
    shutil.rmtree(directory.cells / WORK, ignore_errors=True)


def _free(folder: Path, name: str) -> Path:
    return next(path for path in _numbered(folder, name) if not path.exists())


def _numbered(folder: Path, name: str) -> Iterator[Path]:
    number = 0
    while True:
        number += 1
        yield folder / f"{name}-{number}"


def _counts(run: RunDir) -> bool:
    """Was it judged after all of its time, or has it seen a violation? The end of a night is also
    the end of the run that it waits for, which says nothing of what is tested."""
    try:
        return _ended(run) and (_whole(run) or _violated(run))
    except DstestError:
        return False


def _whole(run: RunDir) -> bool:
    meta = run.read_meta()
    return finished(run) and meta is not None and not meta.ended_by


def _ended(run: RunDir) -> bool:
    """Wait until it has healed its nodes; can it be read?"""
    try:
        meta = run.read_meta()
    except DstestError:
        return False
    deadline = clock.monotonic_ns() + int(HEAL_S * 1e9)
    while meta is not None and alive(meta) and clock.monotonic_ns() < deadline:
        clock.sleep_s(_LOOK_S)
    return True


def _violated(run: RunDir) -> bool:
    try:
        verdict = (verified(run) if finished(run) else recover(run.path)).verdict
    except DstestError:
        return False
    return verdict is not None and bool(verdict.verdict.failed)
