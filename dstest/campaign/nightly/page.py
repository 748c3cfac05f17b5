"""A night for people: report.html, one file that asks for nothing else, and what commands print of
nights: one of them, what it will ask, and the trends of all.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.campaign.nightly.cells import Cell
from dstest.campaign.nightly.index import CellTrend, Trends
from dstest.campaign.nightly.outcome import IN_PROCESS, Shade, TryResult
from dstest.campaign.nightly.state import Item, Night, Try
from dstest.core.errors import Exit
from dstest.core.evidence import TIERS
from dstest.core.rates import Rate
from dstest.report.html import environment

_NAMED: Final = 4
_TONES: Final[dict[int | None, str]] = {Exit.PASS: "pass", Exit.FAIL: "fail"}

WORDS: Final[dict[Shade, str]] = {
    "as-it-must": "as it must be",
    "failed": "violation",
    "other-bug": "other bug",
    "missed": "missed",
    "no-verdict": "no verdict",
}
MARKS: Final[dict[Shade, str]] = {
    "as-it-must": "ok",
    "failed": "no",
    "other-bug": "no",
    "missed": "short",
    "no-verdict": "short",
}
SIGNS: Final[dict[Shade, str]] = {
    "as-it-must": "+",
    "failed": "X",
    "other-bug": "O",
    "missed": "M",
    "no-verdict": "?",
}

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


def some(count: int, one: str, more: str = "") -> str:
    """`1 night`, `2 nights`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def in_some(names: Iterable[str]) -> str:
    """A few of them, and how many more there are."""
    rows = sorted(names)
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(rows[:_NAMED]) + more


def coverage_line(item: Item, judged: TryResult) -> str:
    """What one run has tested: `toykv 1.0: set under partition (model linearizable, shape=leader),
    5 nodes of lab sim, all in one process; 20 s of load, 3,791 operations judged, 2 of 2 faults
    landed; smoke`. What a run of an older version did not say is left out."""
    options = [value for word, value in itertools.pairwise(item.argv) if word == "-o"]
    how = [*([f"model {judged.model}"] if judged.model else []), *options]
    system = " ".join(filter(None, [item.system, judged.version]))
    what = f"{system}: {item.workload} under {item.nemesis}"
    first = [what + (f" ({', '.join(how)})" if how else "")]
    first += [_where(judged)] if judged.lab else []
    second = [f"{judged.load_s:.0f} s of load"] if judged.load_s is not None else []
    second += [f"{some(judged.operations, 'operation')} judged"] if judged.operations else []
    second += [f"{judged.landed} of {some(judged.planned, 'fault')} landed"]
    rows = [", ".join(first), ", ".join(second), *([judged.tier] if judged.tier else [])]
    return "; ".join(rows)


def _where(judged: TryResult) -> str:
    inside = ", all in one process" if judged.transport == IN_PROCESS else ""
    return f"{some(judged.nodes, 'node')} of lab {judged.lab}{inside}"


def facts_of(night: Night) -> Iterator[tuple[str, str]]:
    """(a word, a sentence) of the whole night: what was under test, how much of it, what was not,
    and whether it was gone on with."""
    under = [item for item in night.items if not item.expected.control]
    runs = [(item, last) for item in under if (last := _last(item)) is not None]
    whats = {f"{item.system} {one.version}".strip() for item, one in runs}
    labs = {one.lab for _, one in runs if one.lab}
    if whats:
        where = f" on lab {', '.join(sorted(labs))}" if labs else ""
        yield "Under test", f"{', '.join(sorted(whats))}{where}.{_inside([r for _, r in runs])}"
        yield "How much", _how_much(under, [one for _, one in runs])
    if lost := {item.cell for item in night.items if not all(one.holds for one in item.tries)}:
        yield "Lost", f"The evidence of {in_some(lost)} does not hold, and is counted nowhere."
    yield "Not tested", "; ".join(_untested(night, under)) + "."
    if night.gone_on:
        times = some(len(night.gone_on), "time")
        yield (
            "Went on",
            (f"It was stopped or killed, and went on {times}: {', '.join(night.gone_on)}."),
        )
    if died := {item.cell for item in night.items if item.died}:
        count = sum(item.died for item in night.items)
        yield "Died", f"{some(count, 'run')} died with it, of {in_some(died)}, and began again."


def _last(item: Item) -> TryResult | None:
    """The last run that was judged and whose evidence holds; of those that stand as the item does,
    where there are any."""
    tries = [one for one in item.tries if one.judged and one.result and one.holds]
    alike = [one for one in tries if one.standing == item.standing] or tries
    return alike[-1].judged if alike else None


def _inside(runs: Sequence[TryResult]) -> str:
    inside = sum(one.transport == IN_PROCESS for one in runs)
    if not inside:
        return ""
    which = "Each run" if inside == len(runs) else f"{inside} of {len(runs)} runs"
    return f" {which} was a simulation, all in one process, which is smoke at most."


def _how_much(under: Sequence[Item], runs: Sequence[TryResult]) -> str:
    by_cell: dict[str, int] = {}
    for item in under:
        by_cell[item.key] = by_cell.get(item.key, 0) + 1
    seeds = sorted({*by_cell.values()})
    each = some(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    met = [tier for tier in TIERS if any(one.tier == tier for one in runs)]
    tiers = f"tier {' to '.join(dict.fromkeys([met[0], met[-1]]))}" if met else ""
    operations = sum(one.operations for one in runs)
    landed, planned = sum(one.landed for one in runs), sum(one.planned for one in runs)
    rows = [
        f"{each} of each of {some(len(by_cell), 'cell')}",
        tiers,
        f"{some(operations, 'operation')} judged" if operations else "",
        f"{landed} of {some(planned, 'fault')} landed",
    ]
    return ", ".join(filter(None, rows)) + "."


def _untested(night: Night, under: Sequence[Item]) -> Iterator[str]:
    if short := {item.cell for item in under if item.standing == "no-verdict"}:
        yield f"no verdict in {in_some(short)}"
    asked = {(item.system, item.workload, item.nemesis) for item in under}
    axes = [sorted({one[at] for one in asked}) for at in range(3)]
    left = [one for one in itertools.product(*axes) if one not in asked]
    if left:
        names = in_some(" ".join(one) for one in left)
        all_ = len(left) + len(asked)
        yield f"{len(left)} of {all_} combinations of its systems, workloads and nemeses ({names})"
    if night.chosen:
        yield "cells that were not asked for"
    yield "other seeds, sizes, options and longer loads than those of its cells"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the page that belong together, those that are not as they must be first."""

    title: str
    explained: str
    items: list[Item]

    @property
    def good(self) -> int:
        return sum(item.standing == "as-it-must" for item in self.items)


def headline(night: Night) -> tuple[str, str]:
    """(the word for the night, the sentence below it)"""
    under, red, green = (len(_of(night, control)) for control, _, _ in _KINDS)
    wrong = [item for item in night.items if item.standing != "as-it-must"]
    if night.exit is None:
        ran = sum(bool(i.tries) for i in night.items)
        seen = f" {_violation(wrong)}" if any(i.shown == "failed" for i in wrong) else ""
        return "NOT OVER", f"{ran} of {some(len(night.items), 'cell')} with its seed ran.{seen}"
    if night.exit == Exit.FAIL:
        return "FAIL", f"{_violation(wrong)}{_besides(night.wrong, wrong)}"
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


def _besides(contradicted: Iterable[str], wrong: Sequence[Item]) -> str:
    """What a violation must not hide: what the files say otherwise, and controls that say that more
    may have been missed."""
    said = [*contradicted, *_short([item for item in wrong if item.shown != "failed"])]
    return f" Besides: {'; '.join(said)}." if said else ""


def _short(wrong: Sequence[Item]) -> Iterator[str]:
    """`missed in x; no verdict in y, z`."""
    for shown, word in WORDS.items():
        if names := {item.cell for item in wrong if item.shown == shown}:
            yield f"{word} in {in_some(names)}"


def counts_line(night: Night) -> str:
    """`12 cells with their seeds, 14 tries of which 13 left a run, in 41 minutes`."""
    tries = [one for item in night.items for one in item.tries]
    runs = sum(bool(one.result) for one in tries)
    return (
        f"{some(len(night.items), 'cell')} with {'its seed' if len(night.items) == 1 else 'seeds'}"
        f", {some(len(tries), 'try', 'tries')}, of which {runs} left a run, "
        f"in {duration(night.spent_s)}"
    )


def duration(seconds: float) -> str:
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
    made.filters |= {"percent": percent, "lasted": duration}
    return made


def render(night: Night, trends: Trends, folder: Path) -> str:
    """The page of the night in this directory."""
    word, sentence = headline(night)
    template = _templates().get_template("night.html.j2")
    page: str = template.render(
        n=night,
        word=word,
        counted=counts_line(night),
        sentence=sentence,
        facts=[*facts_of(night)],
        told=coverage_line,
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
        reruns=_reruns(night),
        command=lambda item: shlex.join(["dstest", *item.argv]),
    )
    return page


def _reruns(night: Night) -> str:
    """What was run again, in a sentence."""
    again = {item.cell for item in night.items if item.made > 1}
    least = f"{some(night.reruns, 'time')} at most"
    if again:
        return f"What was not as it must be was run again ({least}): {in_some(again)}."
    return f"Nothing was run again ({least}, where something is not as it must be)."


def _log(folder: Path, item: Item, one: Try) -> str:
    """Where what a try said is, which left no run; nothing where that is not there either."""
    path = Path("cells", f"{item.id}.{one.number}", "log.txt")
    return path.as_posix() if (folder / path).is_file() else ""


def _link(result: str) -> str:
    return (Path(result) / "report.html").as_posix()


def night_text(night: Night, path: Path) -> Iterator[str]:
    """Each cell with its seed, and how the night stands."""
    for item in night.items:
        state = WORDS[item.shown] if item.tries else _not_judged(night, item)
        yield f"{item.id:52} {item.expected.control or '-':6} {state:14} {item.why_not}".rstrip()
    for word_, said in facts_of(night):
        yield f"{word_.lower()}: {said}"
    if not night.ended:
        yield from _under_way(night, path)
    word, sentence = headline(night)
    yield counts_line(night)
    yield f"{word}: {sentence}"


def _not_judged(night: Night, item: Item) -> str:
    if item.running is None:
        return "not run"
    return "running" if night.runs else "cut off"


def _under_way(night: Night, path: Path) -> Iterator[str]:
    for item in night.items:
        if item.running is not None:
            one = item.running
            word = "running" if night.runs else "ran when its process ended"
            yield f"{word}: {item.id}, try {one.number}, since {one.started}"
    left_s = max(0.0, night.budget_s - night.spent_s)
    waiting = sum(not item.made and item.running is None for item in night.items)
    yield (
        f"began {night.started}; {duration(night.spent_s)} spent by its last step, "
        f"{duration(left_s)} left in which cells may begin; {waiting} not begun"
    )
    if not night.runs:
        yield f"its process is gone: `dstest nightly resume {path}` goes on with it"


def cells_text(night: Night, cells: Sequence[Cell]) -> Iterator[str]:
    """What a night will ask, in its order, and how long that may take."""
    by_id = {cell.id: cell for cell in cells}
    yield f"{night.name}, its night {night.number}: {len(cells)} cells"
    for item in night.items:
        control = f"{item.expected.control} control" if item.expected.control else "under test"
        named = by_id[item.cell].named
        control = f"id {named}, {control}" if named not in ("", item.cell) else control
        yield f"{item.cell} ({control}, {item.why} seed {item.seed}): dstest {' '.join(item.argv)}"
    load_s = sum(by_id[item.cell].budget.duration_s for item in night.items) / night.workers
    most_s = sum(item.limit_s for item in night.items) / night.workers
    side = "one after the other" if night.workers == 1 else f"{night.workers} side by side"
    if any(item.why == "new" for item in night.items):
        yield f"new seeds are drawn by --night-seed {night.night_seed}; without it by another"
    yield (
        f"{duration(load_s)} of load, {duration(most_s)} at most, {side}, before images and "
        f"reruns; no cell begins after {duration(night.budget_s)}"
    )


def trends_text(trends: Trends) -> Iterator[str]:
    """Rates with their intervals, flaky cells, times to detection."""
    yield f"known bugs found    {percent(trends.found)}{_after(trends.found_s)}"
    yield f"false alarms        {percent(trends.alarms)}"
    yield f"flaky               {percent(trends.flaky)}"
    yield f"no verdict          {percent(trends.no_verdict)}"
    yield "by first tries of seeds that a night has drawn, with 95 % intervals (Wilson)"
    for cell in trends.cells:
        stood = " ".join(
            "flaky" if standing == "as-it-must" and night in cell.flaky_nights else standing
            for night, standing in cell.nights
        )
        said = "; ".join(_of_cell(cell))
        yield f"{cell.cell:40} {cell.control or '-':6} {stood}{f'  [{said}]' if said else ''}"


def _of_cell(cell: CellTrend) -> Iterator[str]:
    if cell.control == "red" and cell.found.total:
        yield f"found in {percent(cell.found)}{_after(cell.found_s)}"
    if cell.flaky.hits:
        yield f"flaky in {percent(cell.flaky)}"
    if cell.no_verdict.hits:
        yield f"no verdict in {percent(cell.no_verdict)}"


def plain(trends: Trends) -> dict[str, Any]:
    """As JSON: beside each rate as a list, `rates` has it with names."""
    told: dict[str, Any] = msgspec.to_builtins(trends)
    rows: list[tuple[dict[str, Any], Trends | CellTrend]] = [(told, trends)]
    rows += zip(told["cells"], trends.cells, strict=True)
    for row, trend in rows:
        row["rates"] = {
            name: {"count": rate.hits, "of": rate.total, "low": rate.low, "high": rate.high}
            for name in trend.__struct_fields__
            if isinstance(rate := getattr(trend, name), Rate)
        }
    return told


def _after(found_s: float | None) -> str:
    return "" if found_s is None else f", after {found_s:.1f} s of load (median)"
