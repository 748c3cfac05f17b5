"""Is what lies in a store as it was summed up, and is what was found out about its runs since what
follows from them? Sums are read again; verdicts are the gate's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from dstest.core.errors import DstestError
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.judge.blame_file import aside_of as blame_of
from dstest.judge.blame_file import read_blame
from dstest.retention.walk import Place, Walked, links_in, walk
from dstest.runner.integrity import finished
from dstest.shrink.record import going_on
from dstest.shrink.reread import compares_script, read_reproducer
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS, compare_sums


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
    what does no harm. An executed plan or a night has no sums of its own, its runs have; so have
    those that were made to find out about a run."""
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
    for place in walked.places:
        for aside in place.asides if not going_on(place.path) else ():
            yield from verified_sums(Walked(places=walk(aside).places, odd=()))


def verified_asides(walked: Walked, wrong: Collection[Path]) -> Iterator[Wrong]:
    """What does not follow from a run and from those that were made to find out about it: reduction
    and blame. Not of runs that are `wrong` themselves, nor where it is being found out now."""
    for place in walked.places:
        if place.path in wrong or going_on(place.path):
            continue
        for aside in place.asides:
            try:
                _read_aside(place.path, aside)
            except DstestError as error:
                yield Wrong(path=aside, what=error.message.removeprefix(f"{aside}/"))


def uncompared(walked: Walked, wrong: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Directories of reductions whose script nobody can hold to them here, and why: it is of
    another version. Not of runs or reductions that are `wrong`, as in `verified_asides`."""
    for place in walked.places:
        for aside in place.asides:
            file = aside / REPRODUCER
            skipped = place.path in wrong or aside in wrong or going_on(place.path)
            if skipped or not file.is_file():
                continue
            try:
                found = msgspec.json.decode(file.read_bytes(), type=Reproducer)
            except (OSError, msgspec.MsgspecError):  # only beside a run without a verdict
                yield aside, f"{REPRODUCER} cannot be read, and was not compared"
                continue
            if not compares_script(found):
                by = f"by dstest {found.dstest}: whether {SCRIPT} is as that wrote it"
                anew = f"`dstest shrink {shell_word(place.path)}` writes it anew"
                yield aside, f"{by} was not compared; {anew}"


def _read_aside(run: Path, aside: Path) -> None:
    """Raises DstestError where it is not to be believed."""
    if aside == blame_of(run):
        read_blame(run)
        return
    verdict = RunDir(run).read_json("verdict.json")
    if verdict is not None:
        read_reproducer(run, msgspec.convert(verdict, Verdict))


def _over(place: Place) -> bool:
    """Is it summed up, or does it say that it is over?"""
    if (place.path / SUMS).exists():
        return True
    if place.kind == "session":
        file = RunDir(place.path).read_json("session.json")
        return isinstance(file, dict) and file.get("verdict") is not None
    return finished(RunDir(place.path))
