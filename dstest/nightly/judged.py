"""A night judged: each try by its run directory, the night by its cells."""

from __future__ import annotations

from collections.abc import Iterable

from dstest.core.errors import Exit
from dstest.nightly.outcome import Judged, judge_run, never_run, standing_of
from dstest.nightly.state import Item, Night, NightDir, Try

__all__ = ["exit_of", "judge_again", "judge_night", "judge_try", "settle"]


def judge_try(directory: NightDir, item: Item, one: Try, last_words: str) -> None:
    """Write into a try what its run came to; `last_words` say why, where it came to nothing."""
    path = directory.path / one.result if one.result else None
    judged = None if path is None else judge_run(path, item.argv, item.seed)
    settle(item, one, judged, last_words)


def settle(item: Item, one: Try, judged: Judged | None, last_words: str) -> None:
    """Write into a try how its run was judged."""
    one.judged = judged or never_run(last_words)
    one.standing, one.why_not = standing_of(item.expected, one.judged)


def judge_again(directory: NightDir, item: Item, one: Try) -> None:
    """The same of a try that was judged before; what it said then is believed of nothing but why
    there is no run."""
    judge_try(directory, item, one, one.judged.reason if one.judged else "it left nothing")


def judge_night(directory: NightDir) -> Night:
    """The night, every run of it judged again."""
    night = directory.read()
    for item in night.items:
        for one in item.tries:
            judge_again(directory, item, one)
    return night


def exit_of(items: Iterable[Item]) -> Exit:
    """0 where every control was red or green as it must and every other cell passed; 1 where a cell
    that has to pass saw a violation; 3 where a control was not what it must be, or something has no
    verdict."""
    code = Exit.PASS
    for item in items:
        if item.standing == "failed" and not item.expected.red:
            return Exit.FAIL
        if item.standing != "as-it-must":
            code = Exit.NOT_PROVEN
    return code
