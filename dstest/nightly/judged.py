"""A night judged: each try by its run directory, the night by its cells."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dstest.core.errors import ConfigError, Exit
from dstest.core.verdict import State
from dstest.fan.commands import STORE
from dstest.fan.desk_paths import WORK
from dstest.nightly.cells import cells_of
from dstest.nightly.config import read_config
from dstest.nightly.leftovers import seen
from dstest.nightly.outcome import Judged, judge_run, never_run, not_held, standing_of
from dstest.nightly.seeds import digest_of
from dstest.nightly.state import CONFIG, NIGHT, Item, Night, NightDir, Try
from dstest.steps.results import results_in

_SET_ASIDE: Final = re.compile(r"\.died-\d+$")
"""What a process that died has left, of a try that was made again."""


def settle(item: Item, one: Try, judged: Judged | None, last_words: str) -> None:
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


def judge_night(directory: NightDir) -> Night:
    """The night, every run of it read again. While it is not over, what its workers have and has
    seen a violation counts as a try, which is written nowhere: who goes on with it takes it up."""
    night = directory.read()
    night.wrong = [*contradicted(directory, night)]
    for item in night.items:
        for one in item.tries:
            judge_again(directory, item, one)
    if not night.ended:
        for item, path in seen(directory, night):
            with suppress(FileNotFoundError):  # it was carried away meanwhile
                judged = judge_run(path, item.argv, item.seed)
                if judged is not None and judged.state.failed:
                    item.tries.append(_left(directory, item, path, judged))
    return night


def _left(directory: NightDir, item: Item, path: Path, judged: Judged) -> Try:
    one = Try(number=item.next_number, started="", left=True)
    one.result = os.path.relpath(path, directory.path)
    settle(item, one, judged, "")
    return one


def exit_now(night: Night) -> Exit:
    """Of a night as it stands: 3 where it would be 0 and is not over, or is contradicted."""
    code = exit_of(night.items, night.chosen)
    short = not night.ended or night.wrong
    return Exit.NOT_PROVEN if code is Exit.PASS and short else code


def contradicted(directory: NightDir, night: Night) -> Iterator[str]:
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
