"""What the runs of a night have tested, and what they have not, in sentences for its page."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dstest.core.tiers import TIERS
from dstest.nightly.outcome import IN_PROCESS, Judged
from dstest.nightly.state import Item, Night

_NAMED: Final = 4


def some(count: int, one: str, more: str = "") -> str:
    """`1 night`, `2 nights`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def in_some(names: Iterable[str]) -> str:
    """A few of them, and how many more there are."""
    rows = sorted(names)
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(rows[:_NAMED]) + more


def told(item: Item, judged: Judged) -> str:
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


def _where(judged: Judged) -> str:
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


def _last(item: Item) -> Judged | None:
    """The last run that was judged; of those that stand as the item does, where there are any."""
    tries = [one for one in item.tries if one.judged and one.result]
    alike = [one for one in tries if one.standing == item.standing] or tries
    return alike[-1].judged if alike else None


def _inside(runs: Sequence[Judged]) -> str:
    inside = sum(one.transport == IN_PROCESS for one in runs)
    if not inside:
        return ""
    which = "Each run" if inside == len(runs) else f"{inside} of {len(runs)} runs"
    return f" {which} was a simulation, all in one process, which is smoke at most."


def _how_much(under: Sequence[Item], runs: Sequence[Judged]) -> str:
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
