"""Is what lies in a store as it was summed up, where it was made, and no copy of something else;
and does what was found out about its runs follow from them? Sums are read again; verdicts are the
gate's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from dstest.campaign.shrink.candidate import going_on
from dstest.campaign.shrink.reproducer import compares_script, read_reproducer
from dstest.core import registry
from dstest.core.errors import DstestError
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer
from dstest.core.run_record import RunMeta
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.layout import RunDir, operations_bytes, operations_digest, recorded_name
from dstest.history.sums import SUMS, compare_sums
from dstest.judge.blame import aside_of as blame_of
from dstest.judge.blame import read_blame
from dstest.runner.integrity import is_finished
from dstest.store.inventory import Inventory, StorePlace, links_in, walk

RUN_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(\d+)(-\d+)?")
"""Of a directory as dstest makes it: when, seed, and a number where that was there already."""


K = TypeVar("K", bound=Hashable)
Digest = Callable[["Recording"], str]


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, and what is wrong with it."""

    path: Path
    what: str


def wrong_sums(folder: Path) -> str:
    """What differs from a directory's own sums; empty where nothing does."""
    try:
        return compare_sums(folder).describe()
    except OSError as error:
        return f"{SUMS} cannot be read: {error.strerror}"


def check_sums(
    walked: Inventory, tell: Callable[[str], None] = lambda what: None
) -> Iterator[Mismatch]:
    """What is wrong with the runs and sessions that are over, and what should not be there, but for
    what does no harm. An executed plan or a night has no sums of its own, its runs have; so have
    those that were made to find out about a run."""
    for odd in walked.odd:
        if not odd.harmless:
            yield Mismatch(path=odd.path, what=odd.told)
    sessions = {place.path for place in walked.places if place.kind == "session"}
    for number, place in enumerate(walked.places, 1):
        tell(f"files of {number} of {len(walked.places)}, {place.path.name}")
        if place.kind in ("plan", "night") or not _over(place):
            continue
        if found := wrong_sums(place.path):
            yield Mismatch(path=place.path, what=found)
        links = list(links_in(place.path)) if place.within not in sessions else []
        for link in links:
            yield Mismatch(
                path=place.path, what=f"{link.relative_to(place.path)} is a symbolic link"
            )
    for place in walked.places:
        for aside in place.asides if not going_on(place.path) else ():
            yield from check_sums(Inventory(places=walk(aside).places, odd=()))


def check_asides(walked: Inventory, wrong: Collection[Path]) -> Iterator[Mismatch]:
    """What does not follow from a run and from those that were made to find out about it: reduction
    and blame. Not of runs that are `wrong` themselves, nor where it is being found out now."""
    for place in walked.places:
        if place.path in wrong or going_on(place.path):
            continue
        for aside in place.asides:
            try:
                _read_aside(place.path, aside)
            except DstestError as error:
                yield Mismatch(path=aside, what=error.message.removeprefix(f"{aside}/"))


def uncomparable_scripts(walked: Inventory, wrong: Collection[Path]) -> Iterator[tuple[Path, str]]:
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


def _over(place: StorePlace) -> bool:
    """Is it summed up, or does it say that it is over?"""
    if (place.path / SUMS).exists():
        return True
    if place.kind == "session":
        file = RunDir(place.path).read_json("session.json")
        return isinstance(file, dict) and file.get("verdict") is not None
    return is_finished(RunDir(place.path))


def misplaced(run: Path, spec: dict[str, Any]) -> str:
    """Why a run does not lie where it was made, where the names of its directories have the form
    of dstest's own; empty where nothing speaks against it. Other names are a user's."""
    if RUN_NAME.fullmatch(run.name) is None:
        return ""
    made_as = recorded_name(run)
    if run.name != made_as:
        return f"it lies in the place of another run: it was made as {made_as or 'no run'}"
    folder = run.parent.name
    usual = f"{spec.get('system')}-{spec.get('workload')}-{_faults(spec.get('nemesis'))}"
    if folder != usual and _is_of_a_test(folder):
        return f"it lies among runs of another test: it is one of {usual}"
    return ""


def _faults(nemesis: Any) -> str:
    return str(nemesis).replace(",", "+")


def _is_of_a_test(name: str) -> bool:
    """Is this `<system>-<workload>-<nemesis>`, of those that are installed?"""
    faults = frozenset(registry.names("nemeses"))
    for system in registry.names("systems"):
        for workload in registry.names("workloads"):
            before = f"{system}-{workload}-"
            if name.startswith(before) and faults.issuperset(name.removeprefix(before).split("+")):
                return True
    return False


def made_again(one: RunMeta, one_path: Path, other: RunMeta, other_path: Path) -> bool:
    """Do both say that they are runs of one command and seed in a simulation, each made by itself?
    Whether they recorded the same is another question. One that says of itself what the other says,
    its beginning and its name, is a copy.

    All that is random in a simulation comes from its seed, so that the same command with the same
    seed gives the same operations in the same nanoseconds. Made again, it is the same sample once
    more: no second one, and no copy that somebody has passed off as one.
    """
    simulated = "network" not in (one.transport, other.transport)
    apart = one.started != other.started and recorded_name(one_path) != recorded_name(other_path)
    return simulated and apart and _words(one) == _words(other) and _same_system(one, other)


def _words(meta: RunMeta) -> tuple[object, ...]:
    """What a simulation follows from: in whatever order its options were given, and wherever its
    plug-ins lay."""
    spec = {name: value for name, value in meta.spec.items() if name != "files"}
    return (
        spec,
        sorted(meta.options_given or ()),
        sorted((meta.plugin_files or {}).values()),
        meta.lab,
        meta.transport,
    )


def _same_system(one: RunMeta, other: RunMeta) -> bool:
    """Of one version? A run that died before its system served has noted none: it is of any."""
    return any(meta.system_version is None and not whole(meta) for meta in (one, other)) or (
        one.system_version,
        one.builds_in_use,
    ) == (other.system_version, other.builds_in_use)


def whole(meta: RunMeta) -> bool:
    """Did it come to its end, so that its digest is that of its seed?"""
    return meta.ended_by is None and meta.digest is not None


_HISTORY: Final = "history.jsonl"


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A run by a `name` that no other one has, with the bytes of its operations; 0 where it has
    none, or they cannot be read."""

    name: str
    path: Path
    bytes: int


def operation_bytes(run: Path) -> int:
    """The bytes of the operations of a run. Never raises for what lies there."""
    try:
        return operations_bytes(run / _HISTORY)
    except OSError:
        return 0


def digest_of(run: Recording) -> str:
    """Of the operations; empty where they cannot be read any more."""
    try:
        return operations_digest(run.path / _HISTORY)
    except OSError:
        return ""


def copies_among(runs: Iterable[Recording], digest: Digest = digest_of) -> dict[str, str]:
    """By the name of each copy that of the run which counts: the first whose directory is called as
    dstest calls one (who has the name of another run is damaged), else the first.

    Only such as may be believed are to be given: who edits a copy must not take a run away by it.
    Operations are read only of runs that have as many bytes of them as others.
    """
    found: dict[str, str] = {}
    for size, alike in _grouped(runs, lambda run: run.bytes):
        for told, same in _grouped(alike, digest) if size and len(alike) > 1 else ():
            first = min(same, key=lambda run: RUN_NAME.fullmatch(run.path.name) is None)
            if told:
                found.update((run.name, first.name) for run in same if run is not first)
    return found


def _grouped(
    runs: Iterable[Recording], key: Callable[[Recording], K]
) -> Iterator[tuple[K, list[Recording]]]:
    found: dict[K, list[Recording]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    yield from found.items()
