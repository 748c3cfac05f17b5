"""Which runs are asked for, by words and filters, and what each cell (system, workload, nemesis,
options) came to over time: how often a violation was found in it, how it served.
"""

from __future__ import annotations

import re
import statistics
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.rates import Rate, interval
from dstest.core.summary import Figures
from dstest.store.rows import RunRow

PAGE: Final = 100
"""Rows of a page."""

FIELDS: Final[dict[str, Callable[[RunRow], Iterable[str]]]] = {
    "system": lambda row: (row.test.system,),
    "workload": lambda row: (row.test.workload,),
    "nemesis": lambda row: row.test.nemesis.split(","),
    "verdict": lambda row: (row.word,),
    "anomaly": lambda row: row.anomalies,
}
"""What can be filtered by, and what a run has of it."""

_TIME: Final = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:T(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?)?)?", re.ASCII
)

SORTS: Final[dict[str, Callable[[RunRow], Any]]] = {
    "started": lambda row: row.started,
    "verdict": lambda row: row.word,
    "system": lambda row: row.test.system,
    "workload": lambda row: row.test.workload,
    "nemesis": lambda row: row.test.nemesis,
    "seed": lambda row: -1 if row.test.seed is None else row.test.seed,
    "operations": lambda row: row.operations,
}

STRIP: Final = 30
"""Runs of a cell whose verdicts stand in a row."""

SIGNS: Final = {
    "pass": ("+", "pass"),
    "fail": ("X", "violation"),
    "open": ("?", "judged, not proven"),
    "damaged": ("!", "damaged"),
    "died": ("~", "died, not judged"),
    "running": (">", "running"),
}
"""How a run is drawn in a strip, and what that says."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """`words` must all be in what a run says of itself; `since` and `until` are the beginnings of
    times such as `20261127` or `20261127T18`, both of them included."""

    words: str = ""
    system: str = ""
    workload: str = ""
    nemesis: str = ""
    verdict: str = ""
    anomaly: str = ""
    since: str = ""
    until: str = ""
    fingerprint: str = ""
    sort: str = "started"
    down: bool = True
    page: int = 1

    @property
    def plain(self) -> dict[str, str]:
        """As words of an address, without what is as usual."""
        usual = Query()
        given = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(usual, name)
        }
        return {k: ("1" if v else "0") if isinstance(v, bool) else str(v) for k, v in given.items()}


def query_of(given: Mapping[str, str]) -> Query:
    """From the words of an address; what cannot be is left out."""
    plain: dict[str, Any] = {
        name: given[name].strip()[:300]
        for name in Query.__struct_fields__
        if name in given and name not in ("sort", "down", "page")
    }
    for name in ("since", "until"):
        plain[name] = _stamp(plain.get(name, ""))
    if given.get("sort") in SORTS:
        plain["sort"] = given["sort"]
    page = given.get("page", "")
    return Query(
        **plain,
        down=given.get("down", "1") != "0",
        page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
    )


def unparsed(given: Mapping[str, str]) -> dict[str, str]:
    """What was given as a time and is none, by name: no run is left out for it."""
    found = {name: given.get(name, "").strip()[:300] for name in ("since", "until")}
    return {name: text for name, text in found.items() if text and not _stamp(text)}


def _stamp(given: str) -> str:
    """`2026-11-27 18:05` as the beginning of a stamp, `20261127T1805`; empty for what is none."""
    text = re.sub(r"[ T]+", "T", given.upper().removesuffix("Z"))
    match = _TIME.fullmatch(text)
    if match is None:
        return ""
    year, month, day, hour, minute, second = match.groups()
    if not (1 <= int(month or 1) <= 12 and int(year) > 0):
        return ""
    if int(day or 1) not in range(1, monthrange(int(year), int(month or 1))[1] + 1):
        return ""
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return ""
    date, time = (month or "") + (day or ""), (hour or "") + (minute or "") + (second or "")
    return f"{year}{date}{'T' if time else ''}{time}"


def select(rows: Iterable[RunRow], asked: Query) -> list[RunRow]:
    """Those that are asked for, sorted."""
    words = asked.words.casefold().split()
    fields = [(get, getattr(asked, name)) for name, get in FIELDS.items() if getattr(asked, name)]
    kept = [
        row
        for row in rows
        if all(value in get(row) for get, value in fields)
        and (not asked.since or row.started >= asked.since)
        and (not asked.until or row.started[: len(asked.until)] <= asked.until)
        and (not asked.fingerprint or asked.fingerprint in row.fingerprints)
        and (not words or _has(row, words))
    ]
    return sort_rows(kept, asked.sort, asked.down)


def sort_rows(rows: Iterable[RunRow], name: str, down: bool) -> list[RunRow]:
    return sorted(rows, key=SORTS[name], reverse=down)


def _has(row: RunRow, words: Sequence[str]) -> bool:
    text = f"{words_of(row)} {row.headline.casefold()}"
    return all(word in text for word in words)


def words_of(row: RunRow) -> str:
    """All words that a run can be found by."""
    test = row.test
    return " ".join(
        (
            *(
                row.ref,
                row.told,
                row.word,
                row.said,
                row.why,
                test.system,
                test.version,
                test.workload,
            ),
            *(test.nemesis, test.model, f"seed={test.seed}", row.rule, row.by, *row.anomalies),
            *test.settings,
            *row.fingerprints,
        )
    ).casefold()


def choices(rows: Iterable[RunRow]) -> dict[str, list[tuple[str, int]]]:
    """For each thing to filter by its values, and how many runs have each."""
    counts: dict[str, dict[str, int]] = {name: {} for name in FIELDS}
    fields = [(counts[name], get) for name, get in FIELDS.items()]
    for row in rows:
        for count, get in fields:
            for value in get(row):
                if value:
                    count[value] = count.get(value, 0) + 1
    return {name: sorted(count.items()) for name, count in counts.items()}


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """`runs` are the oldest first. `found` is the share of judged runs that found a violation,
    `passed` of those that passed. `ok_per_s` and `p99_ms` are medians over the last ten that were
    measured, None where none was."""

    name: tuple[str, ...]
    """System, workload, nemesis, and each setting."""

    runs: list[RunRow]
    found: Rate
    passed: Rate
    ok_per_s: float | None
    p99_ms: float | None
    measured: int

    @property
    def strip(self) -> list[RunRow]:
        return self.runs[-STRIP:]


def sign_of(row: RunRow) -> str:
    """The key of `SIGNS`."""
    return row.tone if row.judged else row.standing


def cells(rows: Iterable[RunRow], figures: Callable[[RunRow], Figures | None]) -> list[Cell]:
    """By name. Runs that do not say what they tested are in none."""
    found: dict[tuple[str, ...], list[RunRow]] = {}
    for row in rows:
        if row.test.id:
            found.setdefault(row.test.cell, []).append(row)
    return [_cell(name, runs, figures) for name, runs in sorted(found.items())]


def _cell(
    name: tuple[str, ...], rows: Sequence[RunRow], figures: Callable[[RunRow], Figures | None]
) -> Cell:
    runs = sorted(rows, key=lambda row: (row.started, row.ref))
    judged = [row for row in runs if row.judged]
    known = [found for row in judged if (found := figures(row)) is not None]
    return Cell(
        name=name,
        runs=runs,
        found=interval(sum(row.tone == "fail" for row in judged), len(judged)),
        passed=interval(sum(row.tone == "pass" for row in judged), len(judged)),
        ok_per_s=_median(one.ok_per_s for one in known[-10:]),
        p99_ms=_median(one.of("p99_ms") for one in known[-10:]),
        measured=len(known),
    )


def _median(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
