"""What is made of a night for others: its index, its page, and `junit.xml` for CI servers, each
cell with its seed as one test case. It is called as its cell is, since seeds are drawn anew each
night: the second seed of a cell is `CELL (2)`.

What is as it must be is a passed case, a red control that was found out as well. A violation where
there must be none, and a red control that did not show its bug or showed another one, is a failure.
What came to no verdict or was never run is an error: a skip looks green on most servers.
"""

from __future__ import annotations

import shlex
from typing import Final

from dstest.campaign.nightly.index import open_index, rebuild, trends_of
from dstest.campaign.nightly.outcome import Shade
from dstest.campaign.nightly.page import headline, render
from dstest.campaign.nightly.state import Item, Night, NightDir
from dstest.core.errors import Exit
from dstest.report.ci_formats import Case, Kind, numbered, render_suite

PAGE: Final = "report.html"
JUNIT: Final = "junit.xml"


def _kind(shown: Shade) -> Kind:
    if shown == "as-it-must":
        return None
    return "error" if shown == "no-verdict" else "failure"


def _properties(item: Item) -> dict[str, str]:
    last = item.tries[-1].judged if item.tries else None
    return {
        "control": item.expected.control or "none",
        "stands": item.shown,
        "verdicts": ", ".join(one.judged.state.value for one in item.tries if one.judged),
        "seed": str(item.seed),
        "faults": "" if last is None else f"{last.landed} of {last.planned} landed",
        "command": shlex.join(["dstest", *item.argv]),
    }


def _case(name: str, item: Item) -> Case:
    return Case(
        classname=name,
        name=item.cell,
        kind=_kind(item.shown),
        message=item.why_not,
        type=item.shown,
        text=item.why_not,
        time_s=sum(one.took_s for one in item.tries),
        properties=_properties(item),
    )


def render_junit(night: Night, word: str, sentence: str) -> str:
    """The XML document as text; `word` and `sentence` are those of the night."""
    name = f"dstest.nightly.{night.name}"
    cells = [*dict.fromkeys(item.cell for item in night.items)]
    items = sorted(night.items, key=lambda item: (cells.index(item.cell), item.seed))
    cases = numbered(_case(name, item) for item in items)
    green = all(case.kind is None for case in cases)
    if night.chosen or night.exit is None or (green and night.exit != Exit.PASS):
        # such a night is no green one, whatever its cells have shown
        cases.append(Case(classname=name, name="night", kind="error", message=sentence, type=word))
    return render_suite(name, cases, time_s=night.spent_s, said=f"{word}: {sentence}")


def write_pages(directory: NightDir, night: Night) -> None:
    """Make the index anew, and the page and junit.xml of this night."""
    folder = directory.path.parent
    rebuild(folder)
    with open_index(folder) as db:
        trends = trends_of(db)
    directory.write(PAGE, render(night, trends, directory.path).encode())
    directory.write(JUNIT, render_junit(night, *headline(night)).encode())
