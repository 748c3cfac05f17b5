"""Is what lies in a store as it was summed up? Sums are read again; verdicts are the gate's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from dstest.retention.walk import Place, Walked, links_in
from dstest.runner.integrity import finished
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS, compare_sums

__all__ = ["Wrong", "verified_sums", "wrong_sums"]


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, and what is wrong with it."""

    path: Path
    what: str


def wrong_sums(folder: Path) -> str:
    """What differs from a directory's own sums; empty where nothing does."""
    try:
        return compare_sums(folder).describe()
    except OSError as error:
        return f"{SUMS} cannot be read: {error.strerror}"


def verified_sums(walked: Walked) -> Iterator[Wrong]:
    """What is wrong with the runs and sessions that are over, and what should not be there, but for
    what does no harm. An executed plan or a night has no sums of its own, its runs have."""
    for odd in walked.odd:
        if odd.why != "foreign":
            yield Wrong(path=odd.path, what=odd.told)
    sessions = {place.path for place in walked.places if place.kind == "session"}
    for place in walked.places:
        if place.kind in ("plan", "night") or not _over(place):
            continue
        if found := wrong_sums(place.path):
            yield Wrong(path=place.path, what=found)
        links = list(links_in(place.path)) if place.within not in sessions else []
        for link in links:
            yield Wrong(path=place.path, what=f"{link.relative_to(place.path)} is a symbolic link")


def _over(place: Place) -> bool:
    """Is it summed up, or does it say that it is over?"""
    if (place.path / SUMS).exists():
        return True
    if place.kind == "session":
        file = RunDir(place.path).read_json("session.json")
        return isinstance(file, dict) and file.get("verdict") is not None
    return finished(RunDir(place.path))
