"""What a landing record says that cannot be so together. It is asked once where a nemesis has made
the record, and once where it is evidence: a record that contradicts itself proves no landing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from dstest.core.details import PathDetails
from dstest.core.evidence import LandingRecord


def contradiction(record: LandingRecord) -> str | None:
    """Why a record that says `yes` cannot be right, None where it can."""
    return next(_of_landing(record), None)


def heal_contradiction(record: LandingRecord) -> str | None:
    """Why a heal that is said to be verified cannot be: what showed that the fault was there shows
    it still."""
    if not record.heal_verified or record.victim is None or not record.victim.after:
        return None
    before, after = record.victim.before, record.victim.after
    if not all(map(_counted, (*before.values(), *after.values()))):
        return None  # what the figures mean only the fault knows: seconds, shares
    if any(map(_alive, before.values())) and not any(map(_alive, after.values())):
        return f"its heal is verified, and {record.victim.signal!r} shows nothing alive after it"
    return None


def _of_landing(record: LandingRecord) -> Iterator[str]:
    steps = [
        ("injected", record.injected_at),
        ("landed", record.landed_at),
        ("its heal begun", record.heal_start),
        ("healed", record.healed_at),
    ]
    if record.injected_at is None or record.landed_at is None:
        yield "it has landed, and no time says when it was injected and when it landed"
    known = [(name, at_ns) for name, at_ns in steps if at_ns is not None]
    for (first, early_ns), (then, late_ns) in pairwise(known):
        if late_ns < early_ns:
            yield f"{then} at {late_ns / 1e9:.2f} s, before it was {first} ({early_ns / 1e9:.2f} s)"
    control = record.control
    if control is not None and control.moved:
        yield f"others were hit as well: {control.detail or control.signal}"
    figures = () if control is None else (*control.before.values(), *control.during.values())
    if control is not None and figures and all(map(_counted, figures)):
        dead = [name for name, was in control.before.items() if _died(was, control.during, name)]
        if dead and len(dead) == len(control.before) and not control.moved:
            yield f"the control is said to be untouched, and nothing of it lives: {dead[0]}"
    yield from _of_paths(record)


def _of_paths(record: LandingRecord) -> Iterator[str]:
    """Of a fault of paths: its figures are those of its cuts, each of which shows it. A target may
    have none: the bridge between two halves."""
    paths = PathDetails.of(record)
    injector, victim = record.injector, record.victim
    if paths.cuts is None or injector is None or victim is None:
        return
    used = [path for path in paths.cuts if path not in paths.idle_paths]
    for signal in (injector, victim):
        if signal.during and not {*signal.during} & {*paths.cuts}:
            yield f"{signal.signal!r} is about other paths than its cuts"
    counts = {path: injector.during[path] for path in used if path in injector.during}
    if idle := [path for path, n in counts.items() if isinstance(n, int) and n <= 0]:
        yield f"{injector.signal!r} is {counts[idle[0]]} for {idle[0]}, a path in use"
    reached = {path: victim.during[path] for path in paths.cuts if path in victim.during}
    was = victim.before
    open_ = [path for path, now in reached.items() if _alive(now) and now == was.get(path)]
    if open_ and any(not _alive(now) for now in reached.values()):
        yield f"{victim.signal!r} is as before on {open_[0]}, which was to be cut"


def _numbers(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _counted(value: Any) -> bool:
    """Is it a count, or are they: datagrams that arrived, answers?"""
    return all(type(n) is int and n >= 0 for n in _numbers(value))


def _alive(value: Any) -> bool:
    return any(isinstance(n, int | float) and n > 0 for n in _numbers(value))


def _died(was: Any, during: Mapping[str, Any], name: str) -> bool:
    return _alive(was) and name in during and not _alive(during[name])
