"""A run, or what has runs, as a row: what is known of it at a glance, and whether its verdict may
be shown. No large file is hashed and nothing is judged again: `dstest store verify` and `dstest
report` do that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from dstest.core.errors import DstestError, EvidenceError, Exit
from dstest.core.reproducer import REPRODUCER, SCRIPT
from dstest.core.run_record import RunMeta
from dstest.core.summary import Figures, Tested
from dstest.core.verdict import State
from dstest.core.words import shell_word
from dstest.history.layout import VERDICT, RunDir
from dstest.history.sums import SUMS, compare_sums
from dstest.report.summarize import stored_summary, test_of
from dstest.runner.integrity import RunStatement, code_of, is_finished, judging, read_statement
from dstest.store.contents import contents_of
from dstest.store.inventory import StorePlace, links_in, state_of
from dstest.store.verify import misplaced, operation_bytes

Standing = Literal["judged", "running", "died", "damaged"]
_FAILED: Final = frozenset(state.value for state in State if state.failed)

SMALL_BYTES: Final = 256 * 1024
"""Files up to this size are hashed whenever a run has changed."""

_SHOWN: Final = frozenset({VERDICT, "run.json"})
"""What lists are made of is hashed whatever its size."""

HISTORY: Final = "history.jsonl"


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `ref` is its path below the store, `within` that of the session, plan or night that it
    is a part of.

    `said` is the verdict as verdict.json has it, and counts only where `standing` is `judged`: the
    small files of the run are as they were summed up, and its verdict follows from its evidence.
    `shown` is it as people are told it, empty where that is no other.
    `why` is the reason of the verdict, or why there is none to be believed. `exit_code` is what
    `dstest report` exits with if it judges as the files say. `key` tells whether its files changed
    since it was read. `headline` says what the database did wrong. `bug` is
    what kind of bug its first violation shows, and under which faults; empty where that is not
    known. `recorded_bytes` are those of its operations, where it is judged. `figures` are there
    where they were kept with its verdict.
    """

    ref: str
    within: str = ""
    key: str = ""
    standing: Standing
    said: str = ""
    shown: str = ""
    why: str
    headline: str = ""
    exit_code: int = int(Exit.NOT_PROVEN)
    ended_by: str = ""
    rule: str = ""
    started: str = ""
    test: Tested = Tested()
    by: str = ""
    operations: int = 0
    planned: int = 0
    landed: int = 0
    anomalies: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    bug: str = ""
    reproducer: str = ""
    asides: tuple[str, ...] = ()
    recorded_bytes: int = 0
    figures: Figures | None = None

    @property
    def judged(self) -> bool:
        return self.standing == "judged"

    @property
    def word(self) -> str:
        """The verdict, or what stands in its place. A run that ended early is never a pass."""
        if not self.judged:
            return self.standing
        return f"{self.said} (ended early)" if self.short else self.said

    @property
    def told(self) -> str:
        """`word` as people are told it."""
        return self.shown if self.judged and self.shown else self.word

    @property
    def short(self) -> bool:
        """Its verdict would be a pass, but it did not come to its end."""
        return self.said.startswith("PASS") and self.exit_code != Exit.PASS

    @property
    def failed(self) -> bool:
        """It says that it found a violation, whether it may be believed or not."""
        return self.said in _FAILED

    @property
    def tone(self) -> str:
        """The class of style.css: a pass only where it exits with 0."""
        if self.judged and self.failed:
            return "fail"
        return "pass" if self.judged and self.exit_code == Exit.PASS else "open"


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session, executed plan or night. `said` is what it says that it came to; `doubt` why that
    is not to be believed, empty where nothing speaks against it. `sealed`: its own file is as it
    was summed up."""

    ref: str
    kind: str
    key: str = ""
    said: str
    life: str
    started: str
    doubt: str = ""
    sealed: bool = False


class Glance(NamedTuple):
    """How a run stands, why, and what it says where it says anything that can be read."""

    standing: Standing
    why: str
    told: RunStatement | None = None
    started: str = ""


def glance(place: StorePlace, *, own: bool = False) -> Glance:
    """Never raises for what lies in a run directory: what is wrong with it is its `why`. `own`:
    this process made the run, and is through with it."""
    run = RunDir(place.path)
    _, life, started = state_of(place)
    try:
        over = is_finished(run)
        if life == "running" and not own:
            return Glance("running", "its process is at work", started=started)
        if not over:
            return Glance("died", _unjudged(run), started=started)
        found = _verdict_if_whole(run)
    except Exception as error:
        return Glance("damaged", _short(error, run), started=started)
    return Glance("judged", found.verdict.reason, found, started)


def _unjudged(run: RunDir) -> str:
    status = run.status() or "no status"
    return f"never judged to its end ({status}): `dstest recover {shell_word(run.path)}` judges it"


def _verdict_if_whole(run: RunDir) -> RunStatement:
    """Raises where anything is not as it was left."""
    if not (run.path / SUMS).is_file():
        raise EvidenceError(f"{SUMS} is missing, though the run is over ({run.status()})")
    shown = compare_sums(run.path, only=_SHOWN.__contains__).describe()
    if different := shown or compare_sums(run.path, SMALL_BYTES).describe():
        raise EvidenceError(f"files are not as {SUMS} has them: {different}")
    if link := next(links_in(run.path), None):
        raise EvidenceError(f"{link.relative_to(run.path)} is a symbolic link")
    with judging(run):
        found = read_statement(run)
    if why := misplaced(run.path, found.meta.spec):
        raise EvidenceError(why)
    return found


def _short(error: Any, run: RunDir) -> str:
    """What is wrong, without the path, which stands beside it."""
    text = error.message if isinstance(error, DstestError) else str(error) or type(error).__name__
    return str(text).removeprefix(f"{run.path}: ")


_WATCHED: Final[dict[str, tuple[str, ...]]] = {
    "run": (
        *("", "status", "run.json", "verdict.json", SUMS, HISTORY),
        *("faults.jsonl", "report.html", "segments", "nodes"),
    ),
    "session": ("", "session.json", SUMS),
    "plan": ("", "execution.json"),
    "night": ("", "night.json"),
}
"""What tells that a directory is no longer what it was; of a run that has its sums, every file."""


def contents_shown(run: Path) -> dict[str, Any]:
    """What a run tested and came to, by name. Never raises for what lies there."""
    try:
        return contents_of(run).rows
    except Exception as error:
        return {"cannot be read": f"{error or type(error).__name__}".splitlines()[0]}


def ref_of(store: Path, path: Path) -> str:
    """The path below the store; `.` where the store is a single run."""
    return path.relative_to(store).as_posix()


def key_of(place: StorePlace) -> str:
    """Tells whether the directory is as it was when it was read: place, time of change, size."""
    found: list[Any] = []
    beside = [f"{aside}/{REPRODUCER}" for aside in place.asides]
    folder = str(place.path)  # a path of its own for each would take longer than all the rest
    for path in [*(f"{folder}/{name}" for name in _WATCHED[place.kind]), *beside]:
        try:
            found.append(_told_by(os.stat(path, follow_symlinks=False)))
        except OSError:
            found.append(None)
    if place.kind == "run" and os.path.isfile(f"{folder}/{SUMS}"):
        found += sorted(_files(folder))
    return hashlib.sha256(repr((place.path.name, found)).encode()).hexdigest()[:24]


def _told_by(s: os.stat_result) -> tuple[int, ...]:
    return s.st_ino, s.st_mtime_ns, s.st_ctime_ns, s.st_size


def _files(folder: str) -> Iterator[tuple[int, ...]]:
    """All that lies below, as `_told_by` has it; what cannot be read is left out."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield _told_by(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(entry.path)
    except OSError:
        return


def row_of(store: Path, place: StorePlace, key: str, *, own: bool = False) -> RunRow:
    """Never raises for what lies in the directory. `own`: this process made the run, and is
    through with it."""
    within = "" if place.within is None else ref_of(store, place.within)
    try:
        return _row_of(store, place, key, within, own)
    except Exception as error:
        why = f"it cannot be read: {type(error).__name__}: {error}"
        ref = ref_of(store, place.path)
        return RunRow(ref=ref, within=within, key=key, standing="damaged", why=why)


def _row_of(store: Path, place: StorePlace, key: str, within: str, own: bool) -> RunRow:
    look = glance(place, own=own)
    meta = _meta(place.path) if look.told is None else look.told.meta
    row = RunRow(
        ref=ref_of(store, place.path),
        within=within,
        key=key,
        standing=look.standing,
        said=_stated_verdict(place.path),
        why=look.why,
        started=look.started,
        test=Tested() if meta is None else test_of(meta),
        by="" if meta is None or meta.host is None else meta.host.dstest or "",
        asides=tuple(aside.name for aside in place.asides),
        reproducer=_reproducer(store, place),
    )
    if look.told is None:
        return row
    row = msgspec.structs.replace(row, recorded_bytes=operation_bytes(place.path))
    try:
        return _with_verdict(row, look.told)
    except Exception as error:
        why = f"verdict.json holds no checker's result: {error}"
        return msgspec.structs.replace(row, standing="damaged", why=why)


def _with_verdict(row: RunRow, told: RunStatement) -> RunRow:
    verdict, meta = told.verdict, told.meta
    found = stored_summary(row.ref, meta, verdict)
    return msgspec.structs.replace(
        row,
        exit_code=int(code_of(verdict, meta)),
        ended_by=found.ended_by,
        rule=verdict.rule,
        shown="" if verdict.shown == verdict.verdict.value else verdict.shown,
        operations=found.operations,
        planned=found.faults_planned,
        landed=found.faults_landed,
        anomalies=found.kinds,
        headline=found.headline,
        fingerprints=found.fingerprints,
        bug=found.bug,
        figures=None if verdict.summary is UNSET else found.figures,
    )


def _meta(path: Path) -> RunMeta | None:
    try:
        return RunDir(path).read_meta()
    except Exception:
        return None


def _stated_verdict(path: Path) -> str:
    """What verdict.json says, whoever wrote it."""
    try:
        plain = RunDir(path).read_json("verdict.json")
        return str(plain["verdict"]) if plain else ""
    except Exception:
        return ""


def _reproducer(store: Path, place: StorePlace) -> str:
    """The script of the smallest run that was found, as a path below the store."""
    for aside in place.asides:
        script = aside / SCRIPT
        if (aside / REPRODUCER).is_file() and script.is_file() and not script.is_symlink():
            return ref_of(store, script)
    return ""


def group_of(store: Path, place: StorePlace, key: str, rows: Sequence[RunRow]) -> GroupRow:
    """A session, plan or night, with the runs that lie in it. Never raises for what lies there."""
    try:
        return _group_of(store, place, key, rows)
    except Exception as error:
        doubt = f"it cannot be read: {type(error).__name__}: {error}"
        ref, kind = ref_of(store, place.path), place.kind
        return GroupRow(
            ref=ref, kind=kind, key=key, said="unreadable", life="died", started="", doubt=doubt
        )


def _group_of(store: Path, place: StorePlace, key: str, rows: Sequence[RunRow]) -> GroupRow:
    state, life, started = state_of(place)
    ref = ref_of(store, place.path)
    inner = [row for row in rows if row.ref.startswith("" if ref == "." else f"{ref}/")]
    bad = [row.ref for row in inner if row.standing == "damaged"]
    doubt = f"damaged runs in it: {', '.join(bad[:4])}" if bad else ""
    sealed = False
    if place.kind == "session" and life == "over":
        wrong = _session_sums(place.path)
        sealed = not wrong
        doubt = doubt or wrong
    return GroupRow(
        ref=ref,
        kind=place.kind,
        key=key,
        said=state,
        life=life,
        started=started,
        doubt=doubt,
        sealed=sealed and not doubt,
    )


def _session_sums(path: Path) -> str:
    try:
        return compare_sums(path, SMALL_BYTES).describe()
    except OSError as error:
        return f"{SUMS} cannot be read: {error.strerror}"
