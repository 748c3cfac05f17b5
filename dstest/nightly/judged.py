"""A night judged: each try by its run directory, the night by its cells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from dstest.core.errors import Exit
from dstest.core.verdict import State
from dstest.nightly.leftovers import seen
from dstest.nightly.outcome import Judged, judge_run, never_run, not_held, standing_of
from dstest.nightly.state import Item, Night, NightDir, Try

__all__ = ["exit_now", "exit_of", "judge_again", "judge_night", "settle"]


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
    """The night, every run of it judged again. While it is not over, what its workers have and has
    seen a violation counts as a try, which is written nowhere: who goes on with it takes it up."""
    night = directory.read()
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
    """Of a night as it stands: 3 where it would be 0 and is not over."""
    code = exit_of(night.items, night.chosen)
    return Exit.NOT_PROVEN if code is Exit.PASS and not night.ended else code


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
