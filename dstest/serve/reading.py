"""A run or what has runs, read from its directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.check import CheckResult
from dstest.core.reproducer import REPRODUCER, SCRIPT
from dstest.core.run_meta import RunMeta
from dstest.judge.fingerprint import all_fingerprints
from dstest.judge.taxdc import UNCLASSIFIED
from dstest.report.headline import headline_of_result
from dstest.retention.contents import contents_of
from dstest.retention.copies import recorded
from dstest.retention.look import said
from dstest.retention.walk import Place
from dstest.runner.integrity import Told, code_of
from dstest.serve.row import Group, Row, Tested
from dstest.serve.standing import SMALL_BYTES, look_at
from dstest.store.layout import RunDir
from dstest.store.sums import SUMS, compare_sums

HISTORY: Final = "history.jsonl"
_WATCHED: Final[dict[str, tuple[str, ...]]] = {
    "run": (
        *("", "status", "run.json", "verdict.json", "evidence.json", SUMS, HISTORY),
        *("faults.jsonl", "canary.json", "report.html", "segments", "nodes"),
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


def key_of(place: Place) -> str:
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


def row_of(store: Path, place: Place, key: str, *, own: bool = False) -> Row:
    """Never raises for what lies in the directory. `own`: this process made the run, and is
    through with it."""
    within = "" if place.within is None else ref_of(store, place.within)
    try:
        return _row_of(store, place, key, within, own)
    except Exception as error:
        why = f"it cannot be read: {type(error).__name__}: {error}"
        ref = ref_of(store, place.path)
        return Row(ref=ref, within=within, key=key, standing="damaged", why=why)


def _row_of(store: Path, place: Place, key: str, within: str, own: bool) -> Row:
    look = look_at(place, own=own)
    meta = _meta(place.path) if look.told is None else look.told.meta
    row = Row(
        ref=ref_of(store, place.path),
        within=within,
        key=key,
        standing=look.standing,
        said=_said(place.path),
        why=look.why,
        started=look.started,
        test=Tested() if meta is None else test_of(meta),
        by="" if meta is None or meta.host is None else meta.host.dstest or "",
        asides=tuple(aside.name for aside in place.asides),
        reproducer=_reproducer(store, place),
    )
    if look.told is None:
        return row
    row = msgspec.structs.replace(row, recorded_bytes=recorded(place.path))
    try:
        return _with_verdict(row, look.told)
    except Exception as error:
        why = f"verdict.json holds no checker's result: {error}"
        return msgspec.structs.replace(row, standing="damaged", why=why)


def test_of(meta: RunMeta) -> Tested:
    """What a run tested. The builds under test and the seed make no other test of it."""
    spec = meta.spec
    same = {k: v for k, v in spec.items() if k not in ("seed", "builds", "files", "lab")}
    plain = msgspec.json.encode([same, sorted((meta.plugin_files or {}).values())], order="sorted")
    return Tested(
        id=hashlib.sha256(plain).hexdigest()[:12],
        system=str(spec.get("system") or ""),
        version=meta.system_version or "",
        workload=str(spec.get("workload") or ""),
        nemesis=str(spec.get("nemesis") or ""),
        model=meta.model,
        nodes=len(meta.nodes),
        seed=str(spec.get("seed", "")),
    )


def _with_verdict(row: Row, told: Told) -> Row:
    verdict, evidence = told.verdict, told.evidence
    ended = told.meta.ended_by
    return msgspec.structs.replace(
        row,
        exit_code=int(code_of(verdict, told.meta)),
        ended_by=ended if isinstance(ended, str) else "",
        rule=verdict.rule,
        operations=evidence.checker.ops_judged,
        planned=evidence.faults_planned,
        landed=sum(fault.landed == "yes" for fault in evidence.faults),
        anomalies=_anomalies(verdict.checkers),
        headline=_headline(row, verdict.checkers) if verdict.verdict.failed else "",
        fingerprints=_fingerprints(told),
        bug=_bug(told),
    )


def _bug(told: Told) -> str:
    """`partition under partition`, `ordering under none`, `unclassified under kill, pause`."""
    found, symptom = told.verdict.bug, told.evidence.symptom
    if found is None or symptom is None:
        return ""
    faults = sorted({fault.nemesis for fault in symptom.faults}) or ["none"]
    type_ = "unclassified" if found.type.startswith(UNCLASSIFIED) else found.type
    return f"{type_} under {', '.join(faults)}"


def _anomalies(checkers: dict[str, Any]) -> tuple[str, ...]:
    results = msgspec.convert(checkers, dict[str, CheckResult])
    return tuple(sorted({kind for result in results.values() for kind in result.kinds}))


def _headline(row: Row, checkers: dict[str, Any]) -> str:
    """By the first violation that has a witness; empty where none has."""
    results = msgspec.convert(checkers, dict[str, CheckResult])
    system = f"{row.test.system} {row.test.version}".strip()
    said = (headline_of_result(result, system, tuple) for result in results.values())
    return next(filter(None, said), "")


def _fingerprints(told: Told) -> tuple[str, ...]:
    first = told.evidence.violation_fingerprint
    return tuple(sorted({*all_fingerprints(told.verdict), *([first] if first else [])}))


def _meta(path: Path) -> RunMeta | None:
    try:
        return RunDir(path).read_meta()
    except Exception:
        return None


def _said(path: Path) -> str:
    """What verdict.json says, whoever wrote it."""
    try:
        plain = RunDir(path).read_json("verdict.json")
        return str(plain["verdict"]) if plain else ""
    except Exception:
        return ""


def _reproducer(store: Path, place: Place) -> str:
    """The script of the smallest run that was found, as a path below the store."""
    for aside in place.asides:
        script = aside / SCRIPT
        if (aside / REPRODUCER).is_file() and script.is_file() and not script.is_symlink():
            return ref_of(store, script)
    return ""


def group_of(store: Path, place: Place, key: str, rows: Sequence[Row]) -> Group:
    """A session, plan or night, with the runs that lie in it. Never raises for what lies there."""
    try:
        return _group_of(store, place, key, rows)
    except Exception as error:
        doubt = f"it cannot be read: {type(error).__name__}: {error}"
        ref, kind = ref_of(store, place.path), place.kind
        return Group(
            ref=ref, kind=kind, key=key, said="unreadable", life="died", started="", doubt=doubt
        )


def _group_of(store: Path, place: Place, key: str, rows: Sequence[Row]) -> Group:
    state, life, started = said(place)
    ref = ref_of(store, place.path)
    inner = [row for row in rows if row.ref.startswith("" if ref == "." else f"{ref}/")]
    bad = [row.ref for row in inner if row.standing == "damaged"]
    doubt = f"damaged runs in it: {', '.join(bad[:4])}" if bad else ""
    sealed = False
    if place.kind == "session" and life == "over":
        wrong = _session_sums(place.path)
        sealed = not wrong
        doubt = doubt or wrong
    return Group(
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
