"""What a night left whose process died: tries that were being done, and those that had come back.

A worker dies with the process that started it, and the run that it had then heals and seals. What
such a run has come to counts where it was judged to its end, or has seen a violation; any other is
set aside, and its cell is run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dstest.core import clock
from dstest.core.errors import DstestError
from dstest.fan.commands import STORE
from dstest.fan.desk_paths import WORK, folders_of
from dstest.nightly.state import Item, NightDir
from dstest.runner.integrity import finished
from dstest.runner.session import alive, recover
from dstest.steps.results import results_in
from dstest.store.layout import RunDir

__all__ = ["clear", "take_up"]

_HEALS_S: Final = 120.0
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
    """Was it judged, or has it seen a violation? It may still be healing its nodes."""
    try:
        meta = run.read_meta()
        deadline = clock.monotonic_ns() + int(_HEALS_S * 1e9)
        while meta is not None and alive(meta) and clock.monotonic_ns() < deadline:
            clock.sleep_s(_LOOK_S)
        if finished(run):
            return True
        verdict = recover(run.path).verdict
    except DstestError:
        return False
    return verdict is not None and bool(verdict.verdict.failed)
