"""A night judged, each try by its run directory, and what killed nights and lost workers left.

A worker dies with the process that started it; its run heals and seals. Such a run counts where it
was judged to its end or has seen a violation, else it is set aside and its cell runs again. What a
lost worker left counts where it has seen a violation, although its cell was run again meanwhile.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dstest.campaign.nightly.cells import cells_of, read_config
from dstest.campaign.nightly.outcome import TryResult, judge_run, never_run, not_held, standing_of
from dstest.campaign.nightly.seeds import digest_of
from dstest.campaign.nightly.state import CONFIG, NIGHT, Item, Night, NightDir, Try
from dstest.campaign.steps.commands import results_in
from dstest.campaign.workers.commands import STORE
from dstest.campaign.workers.task import FOLDER, WORK, folders_of
from dstest.core import clock
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.core.limits import HEAL_S
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.runner.integrity import is_finished, verify_run
from dstest.runner.session import alive, recover

_LOOK_S: Final = 0.5

_SET_ASIDE: Final = re.compile(r"\.died-\d+$")
"""What a process that died has left, of a try that was made again."""


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


def runs_left(directory: NightDir, night: Night) -> Iterator[tuple[Item, Path]]:
    """Runs that are over, of any item, in the folders of workers. Nothing is touched there: others
    may still be at it."""
    for item, _, runs in _of_workers(directory, night):
        for path in runs:
            with suppress(OSError, DstestError):  # it may be carried away meanwhile
                if is_finished(RunDir.open(path)):
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
    return is_finished(run) and meta is not None and not meta.ended_by


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
        verdict = (verify_run(run) if is_finished(run) else recover(run.path)).verdict
    except DstestError:
        return False
    return verdict is not None and bool(verdict.verdict.failed)


def settle(item: Item, one: Try, judged: TryResult | None, last_words: str) -> None:
    """Write into a try how its run was judged; `last_words` say why it left none."""
    one.judged, one.again = judged or never_run(last_words), None
    one.standing, one.why_not = standing_of(item.expected, one.judged)


def judge_again(directory: NightDir, item: Item, one: Try) -> None:
    """Judge the run of a try once more. Where its evidence does not hold any more, what was seen
    when it did is kept, and what failed stays failed in any case: a night does not become better
    by what happens to its files."""
    path = directory.path / one.result if one.result else None
    found = None if path is None else judge_run(path, item.argv, item.seed)
    seen = one.judged or never_run("it left nothing")
    if found is None:
        nothing = seen.state is State.NOT_RUN
        found = seen if nothing else not_held(f"{one.result} is gone, or not a whole run any more")
    standing, why_not = standing_of(item.expected, found)
    better = one.standing == "failed" and standing != "failed"
    if found.holds and not better:
        one.judged, one.again = found, None
    else:
        one.again = None if found == one.judged else found
    if not better and (found.holds or one.standing != "missed"):
        one.standing, one.why_not = standing, why_not


def judge_night(directory: NightDir, tell: Callable[[str], None] = lambda what: None) -> Night:
    """The night, every run of it read again; `tell` is told which. While it is not over, what its
    workers have and has seen a violation counts as a try, which is written nowhere: who goes on
    with it takes it up."""
    night = directory.read()
    night.wrong = [*contradictions(directory, night)]
    for item in night.items:
        for one in item.tries:
            tell(f"{directory.path}: {item.id}, try {one.number}")
            judge_again(directory, item, one)
    if not night.ended:
        for item, path in runs_left(directory, night):
            with suppress(FileNotFoundError):  # it was carried away meanwhile
                judged = judge_run(path, item.argv, item.seed)
                if judged is not None and judged.state.failed:
                    item.tries.append(_left(directory, item, path, judged))
    return night


def _left(directory: NightDir, item: Item, path: Path, judged: TryResult) -> Try:
    one = Try(number=item.next_number, started="", left=True)
    one.result = os.path.relpath(path, directory.path)
    settle(item, one, judged, "")
    return one


def exit_now(night: Night) -> Exit:
    """Of a night as it stands: 3 where it would be 0 and is not over, or is contradicted."""
    code = exit_of(night.items, night.chosen)
    short = not night.ended or night.wrong
    return Exit.NOT_PROVEN if code is Exit.PASS and short else code


def contradictions(directory: NightDir, night: Night) -> Iterator[str]:
    """What the directory of a night says otherwise than its list: a night is what its file asked
    for, and what lies below its cells."""
    yield from _of_file(directory, night)
    ids = [item.id for item in night.items]
    again = [id_ for id_, count in Counter(ids).items() if count > 1]
    yield from (f"{id_} stands in {NIGHT} more than once" for id_ in again)
    if night.asked_sha256 and night.asked_sha256 != digest_of(night.items):
        yield f"{NIGHT} does not list what this night was begun with"
    tries = {f"{item.id}.{one.number}": one for item in night.items for one in item.tries}
    running = {f"{i.id}.{i.running.number}" for i in night.items if i.running is not None}
    for path in sorted(directory.cells.iterdir()) if directory.cells.is_dir() else ():
        if path.name == WORK or _SET_ASIDE.search(path.name) or path.name in running:
            continue
        if path.name not in tries and night.ended:
            yield f"cells/{path.name} is no try that {NIGHT} lists"
        if len(runs := results_in(path / STORE)) > 1:
            yield f"cells/{path.name} has {len(runs)} runs, and a try is one"
    for name, one in tries.items():
        if one.result and not one.left and not one.result.startswith(f"cells/{name}/"):
            yield f"the run of {name} is said to be {one.result}, in the place of another"


def _of_file(directory: NightDir, night: Night) -> Iterator[str]:
    """What its nightly.toml asked for, and the list lacks."""
    try:
        data = directory.config.read_bytes()
    except OSError:
        yield f"{CONFIG} is gone"
        return
    if not night.config_sha256:
        return
    if hashlib.sha256(data).hexdigest() != night.config_sha256:
        yield f"{CONFIG} is not the one that this night was begun with"
        return
    try:
        cells = cells_of(read_config(directory.config), directory.path)
    except ConfigError:  # files that it names lie elsewhere
        return
    listed = Counter(item.cell for item in night.items)
    for cell in cells:
        wanted = len(cell.seed) or cell.seeds
        if listed[cell.id] < wanted and not night.chosen:
            yield f"{CONFIG} asks for {wanted} of {cell.id}, and {NIGHT} lists {listed[cell.id]}"


def exit_of(items: Iterable[Item], chosen: Sequence[str] = ()) -> Exit:
    """0 where every control was red or green as it must and every other cell passed; 1 where a cell
    that has to pass saw a violation; 3 where a control was not what it must be, where something has
    no verdict, where nothing was under test, or where only some cells were `chosen`: the others
    were not asked."""
    asked = list(items)
    nothing = all(item.expected.control for item in asked)
    code = Exit.NOT_PROVEN if chosen or nothing else Exit.PASS
    for item in asked:
        if item.standing == "failed" and not item.expected.red:
            return Exit.FAIL
        if item.standing != "as-it-must":
            code = Exit.NOT_PROVEN
    return code
