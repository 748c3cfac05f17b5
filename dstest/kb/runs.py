"""Failing runs of stores, as the book takes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from dstest.kb.book import Seen
from dstest.kb.records import Sighting
from dstest.retention.walk import Place, walk
from dstest.serve.reading import HISTORY, key_of, row_of
from dstest.serve.row import Row
from dstest.store.recorded import operations_digest, recorded_name


def failing_runs(store: Path, *, own: bool = False) -> Iterator[Seen | str]:
    """Each run below a directory that failed; in words, each that says so and is not to be
    believed: its files are not as they were summed up, or its verdict does not follow from them.
    `own`: this process made the run, and is through with it."""
    root = store.resolve()
    for place in runs_below(store):
        row = row_of(root, place, key_of(place), own=own)
        if not row.failed:
            continue
        if row.judged and row.fingerprints:
            yield seen_of(row, place)
        else:
            yield f"{place.path}: {row.why or 'it names no violation'}"


def runs_below(store: Path) -> Iterator[Place]:
    """All runs of a directory."""
    return (place for place in walk(store).places if place.kind == "run")


def seen_of(row: Row, place: Place) -> Seen:
    """A run that failed, and is as it was summed up."""
    test = row.test
    return Seen(
        test.system,
        row.fingerprints,
        Sighting(
            run=_digest(place.path),
            name=place.path.name,
            path=str(place.path.resolve()),
            started=row.started,
            version=test.version,
            workload=test.workload,
            nemesis=test.nemesis,
            seed=test.seed,
            headline=row.headline,
            bug=row.bug,
        ),
    )


def _digest(run: Path) -> str:
    """A copy of a run is the same run; a simulated one that was made again has the same operations
    and another name."""
    name = recorded_name(run)
    return hashlib.sha256(f"{name} {operations_digest(run / HISTORY)}".encode()).hexdigest()[:32]
