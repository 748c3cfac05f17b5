"""What commands say of nights as text: one of them, what it will ask, and all of a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.shares import Rate
from dstest.nightly.cells import Cell
from dstest.nightly.page import WORDS, counted, headline, lasted, percent
from dstest.nightly.state import Item, Night
from dstest.nightly.tested import facts_of
from dstest.nightly.trends import CellTrend, Trends


def night_told(night: Night, path: Path) -> Iterator[str]:
    """Each cell with its seed, and how the night stands."""
    for item in night.items:
        state = WORDS[item.shown] if item.tries else _not_judged(night, item)
        yield f"{item.id:52} {item.expected.control or '-':6} {state:14} {item.why_not}".rstrip()
    for word_, said in facts_of(night):
        yield f"{word_.lower()}: {said}"
    if not night.ended:
        yield from _under_way(night, path)
    word, sentence = headline(night)
    yield counted(night)
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
        f"began {night.started}; {lasted(night.spent_s)} spent by its last step, "
        f"{lasted(left_s)} left in which cells may begin; {waiting} not begun"
    )
    if not night.runs:
        yield f"its process is gone: `dstest nightly resume {path}` goes on with it"


def cells_told(night: Night, cells: Sequence[Cell]) -> Iterator[str]:
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
    yield (
        f"{lasted(load_s)} of load, {lasted(most_s)} at most, {side}, before images and reruns; "
        f"no cell begins after {lasted(night.budget_s)}"
    )


def trends_told(trends: Trends) -> Iterator[str]:
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
