"""Beginning a night, or going on with one: what is checked before anything is touched."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from dstest import __version__
from dstest.core import clock, plugin_files
from dstest.core.errors import ConfigError
from dstest.fan.where import where
from dstest.nightly.cells import Cell, cells_of, require_fitting, word_of
from dstest.nightly.config import NightlyConfig, read_config
from dstest.nightly.driver import Driver
from dstest.nightly.known import require_known
from dstest.nightly.locks import alone
from dstest.nightly.seeds import digest_of, items_of, kept_seeds
from dstest.nightly.state import Night, NightDir, Nights, nights_in, number_after
from dstest.runner.session import process_start_time
from dstest.store.layout import require_within

Say = Callable[[str], None]
Began = Callable[[Path], object]
"""Is given the directory of a night before any of its cells is run."""
_NAMED: Final = 5


def begin(
    config_path: Path,
    *,
    store: Path,
    at: str | None,
    workers: int | None,
    say: Say,
    chosen: Sequence[str] = (),
    began: Began = Path,
) -> int:
    """Run a night, or go on with the newest one of this file that did not come to its end; the exit
    code. With `chosen` only the cells of these names. Raises ConfigError where a cell cannot be run
    as it is, or another process runs a night of this name: then nothing was touched."""
    config, digest = read_config(config_path), _digest(config_path)
    where(at or config.at)
    require_within(store, config.name)
    folder = store / config.name
    if folder.is_dir():
        with alone(folder):
            before = nights_in(folder)
            open_ones = [one for one in before.whole[-1:] if not one[1].ended]
            if open_ones and _same(open_ones[0][1], digest, chosen):
                directory, night = open_ones[0]
                say(f"going on with {directory.path}, which was begun with the same file")
                began(directory.path)
                return _go_on(directory, night, at=at, workers=workers, say=say)
    cells = planned(config, config_path, chosen)
    with alone(folder):
        before = nights_in(folder)
        for told in [
            *require_known(cells),
            *before.damaged,
            *_no_longer_asked(config, before, cells, chosen),
        ]:
            say(told)
        night = night_after(before, config, cells, folder, chosen=chosen)
        night.config_sha256, night.at = digest, at or config.at
        night.workers = workers or config.workers
        directory = NightDir.create(store, night, config_path.read_bytes())
        began(directory.path)
        return Driver(directory, night, say).run()


def planned(config: NightlyConfig, path: Path, chosen: Sequence[str] = ()) -> list[Cell]:
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
) -> Night:
    """The next night: its number, and what it asks."""
    number = number_after(folder, before)
    kept = kept_seeds([night for _, night in before.whole], config.passes)
    items = items_of(config.name, number, cells, kept)
    return Night(
        name=config.name,
        number=number,
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
    )


def _same(night: Night, digest: str, chosen: Sequence[str]) -> bool:
    return night.config_sha256 == digest and {*night.chosen} == {*chosen}


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
    if at is not None:
        where(at)
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
    plugin_files.use(name for item in night.items for name in item.files if name.endswith(".py"))
    night.at, night.workers = at or night.at, workers or night.workers
    night.gone_on.append(clock.utc_stamp())
    return Driver(directory, night, say).run()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
