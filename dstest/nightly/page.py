"""report.html of a night: one file that asks for nothing else, for who decides about a release."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import Exit
from dstest.core.shares import Rate
from dstest.nightly.outcome import Standing
from dstest.nightly.state import Item, Night
from dstest.nightly.trends import Trends
from dstest.report.html import environment

__all__ = ["headline", "render"]

_TONES: Final[dict[int | None, str]] = {Exit.PASS: "pass", Exit.FAIL: "fail"}

WORDS: Final[dict[Standing, str]] = {
    "as-it-must": "as it must be",
    "failed": "violation",
    "missed": "missed",
    "no-verdict": "no verdict",
}
MARKS: Final[dict[Standing, str]] = {
    "as-it-must": "ok",
    "failed": "no",
    "missed": "short",
    "no-verdict": "short",
}
SIGNS: Final[dict[Standing, str]] = {
    "as-it-must": "+",
    "failed": "X",
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
    groups = {control: _of(night, control) for control, _, _ in _KINDS}
    wrong = [item for item in night.items if item.standing != "as-it-must"]
    if night.exit is None:
        return "NOT OVER", f"{sum(bool(i.tries) for i in night.items)} of {len(night.items)} ran."
    if night.exit == Exit.FAIL:
        names = sorted({i.cell for i in wrong if i.standing == "failed" and not i.expected.red})
        return "FAIL", f"A violation was seen where there must be none: {', '.join(names)}."
    if night.exit == Exit.PASS:
        return "PASS", (
            f"All {len(groups[''])} runs under test passed, all {len(groups['red'])} red controls "
            f"were found out, and none of the {len(groups['green'])} green ones was accused."
        )
    counts = Counter(item.standing for item in wrong)
    said = [f"{n} {WORDS[standing]}" for standing, n in counts.most_common()]
    return "NOT PROVEN", (
        "No violation was seen in what is under test, but not everything is as it must be: "
        f"{', '.join(said)}."
    )


def _of(night: Night, control: str) -> list[Item]:
    found = [item for item in night.items if item.expected.control == control]
    return sorted(found, key=lambda item: (item.standing == "as-it-must", item.cell, item.seed))


def _percent(rate: Rate) -> str:
    """`8 of 10 (49% to 94%)`."""
    if not rate.total:
        return "none yet"
    return f"{rate.hits} of {rate.total} ({rate.low:.0%} to {rate.high:.0%})"


def render(night: Night, trends: Trends) -> str:
    """The page."""
    word, sentence = headline(night)
    templates = environment()
    templates.filters["percent"] = _percent
    template = templates.get_template("night.html.j2")
    page: str = template.render(
        n=night,
        word=word,
        sentence=sentence,
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
        command=lambda item: shlex.join(["dstest", *item.argv]),
    )
    return page


def _link(result: str) -> str:
    return (Path(result) / "report.html").as_posix()
