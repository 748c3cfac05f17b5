"""report.html of a night: one file that asks for nothing else, for who decides about a release."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import Exit
from dstest.core.shares import Rate
from dstest.core.tiers import TIERS
from dstest.nightly.outcome import Shown
from dstest.nightly.state import Item, Night, Try
from dstest.nightly.tested import facts_of, in_some, some, told
from dstest.nightly.trends import Trends
from dstest.report.html import environment

_TONES: Final[dict[int | None, str]] = {Exit.PASS: "pass", Exit.FAIL: "fail"}

WORDS: Final[dict[Shown, str]] = {
    "as-it-must": "as it must be",
    "failed": "violation",
    "other-bug": "other bug",
    "missed": "missed",
    "no-verdict": "no verdict",
}
MARKS: Final[dict[Shown, str]] = {
    "as-it-must": "ok",
    "failed": "no",
    "other-bug": "no",
    "missed": "short",
    "no-verdict": "short",
}
SIGNS: Final[dict[Shown, str]] = {
    "as-it-must": "+",
    "failed": "X",
    "other-bug": "O",
    "missed": "M",
    "no-verdict": "?",
}


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the page that belong together, those that are not as they must be first."""

    title: str
    explained: str
    items: list[Item]

    @property
    def good(self) -> int:
        return sum(item.standing == "as-it-must" for item in self.items)


_KINDS: Final = (
    ("", "Under test", "What a release is decided on: each of these has to pass."),
    (
        "red",
        "Red controls",
        "Known bugs. Each has to fail as is known: one that passes shows what may be missed.",
    ),
    (
        "green",
        "Green controls",
        "The same without the bug. Each has to pass: one that fails may be accused wrongly.",
    ),
)


def headline(night: Night) -> tuple[str, str]:
    """(the word for the night, the sentence below it)"""
    under, red, green = (len(_of(night, control)) for control, _, _ in _KINDS)
    wrong = [item for item in night.items if item.standing != "as-it-must"]
    if night.exit is None:
        ran = sum(bool(i.tries) for i in night.items)
        seen = f" {_violation(wrong)}" if any(i.shown == "failed" for i in wrong) else ""
        return "NOT OVER", f"{ran} of {some(len(night.items), 'cell')} with its seed ran.{seen}"
    if night.exit == Exit.FAIL:
        return "FAIL", f"{_violation(wrong)}{_besides(wrong)}"
    if night.exit == Exit.PASS:
        return "PASS", (
            f"What is under test passed ({under} of {under}{_least(night)}), what has to be found "
            f"was found ({some(red, 'red control')}), and nothing was accused wrongly "
            f"({some(green, 'green control')})."
        )
    said = [*night.wrong, *_short(wrong)] + ([] if under else ["nothing was under test"])
    said += (
        [f"only {some(len(night.chosen), 'cell')} of the file asked for"] if night.chosen else []
    )
    return "NOT PROVEN", (
        f"No violation in what is under test or in a green control, but: {'; '.join(said)}."
    )


def _least(night: Night) -> str:
    """The least that a pass of what is under test says."""
    tiers = {
        one.judged.tier
        for item in _of(night, "")
        for one in item.tries
        if one.judged and one.standing == "as-it-must"
    }
    return next((f", {tier}" for tier in TIERS if tier in tiers), "")


def _violation(wrong: Iterable[Item]) -> str:
    names = {item.cell for item in wrong if item.shown == "failed"}
    return f"A violation was seen where there must be none: {in_some(names)}."


def _besides(wrong: Sequence[Item]) -> str:
    """What a violation must not hide: controls that say that more may have been missed."""
    said = [*_short([item for item in wrong if item.shown != "failed"])]
    return f" Besides: {'; '.join(said)}." if said else ""


def _short(wrong: Sequence[Item]) -> Iterator[str]:
    """`missed in x; no verdict in y, z`."""
    for shown, word in WORDS.items():
        if names := {item.cell for item in wrong if item.shown == shown}:
            yield f"{word} in {in_some(names)}"


def counted(night: Night) -> str:
    """`12 cells with their seeds, 14 tries of which 13 left a run, in 41 minutes`."""
    tries = [one for item in night.items for one in item.tries]
    runs = sum(bool(one.result) for one in tries)
    return (
        f"{some(len(night.items), 'cell')} with {'its seed' if len(night.items) == 1 else 'seeds'}"
        f", {some(len(tries), 'try', 'tries')}, of which {runs} left a run, "
        f"in {lasted(night.spent_s)}"
    )


def lasted(seconds: float) -> str:
    """Short times in seconds: "0 minutes" would say nothing."""
    if seconds < 120:
        return some(round(seconds), "second")
    return some(round(seconds / 60), "minute")


def _of(night: Night, control: str) -> list[Item]:
    found = [item for item in night.items if item.expected.control == control]
    return sorted(found, key=lambda item: (item.standing == "as-it-must", item.cell, item.seed))


def percent(rate: Rate) -> str:
    """`8 of 10 (49% to 94%)`."""
    if not rate.total:
        return "none yet"
    return f"{rate.hits} of {rate.total} ({rate.low:.0%} to {rate.high:.0%})"


@cache
def _templates() -> Any:
    made = environment()
    made.filters |= {"percent": percent, "lasted": lasted}
    return made


def render(night: Night, trends: Trends, folder: Path) -> str:
    """The page of the night in this directory."""
    word, sentence = headline(night)
    template = _templates().get_template("night.html.j2")
    page: str = template.render(
        n=night,
        word=word,
        counted=counted(night),
        sentence=sentence,
        facts=[*facts_of(night)],
        told=told,
        tone=_TONES.get(night.exit, "open"),
        kinds=[
            Kind(title=title, explained=explained, items=items)
            for control, title, explained in _KINDS
            if (items := _of(night, control))
        ],
        trends=trends,
        words=WORDS,
        marks=MARKS,
        signs=SIGNS,
        link=_link,
        log=partial(_log, folder),
        command=lambda item: shlex.join(["dstest", *item.argv]),
    )
    return page


def _log(folder: Path, item: Item, one: Try) -> str:
    """Where what a try said is, which left no run; nothing where that is not there either."""
    path = Path("cells", f"{item.id}.{one.number}", "log.txt")
    return path.as_posix() if (folder / path).is_file() else ""


def _link(result: str) -> str:
    return (Path(result) / "report.html").as_posix()
