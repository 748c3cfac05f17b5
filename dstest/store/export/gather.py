"""What lies in directories, each thing checked: runs, sessions with their arms, and what
should be one of them and is not.

A store that a CI job leaves behind may hold anything: a run that was killed, one that somebody has
edited, half of one, a night that was cut off. Each is a result that no format shows as green.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.campaign.nightly.controls import red_controls, standing_now
from dstest.campaign.nightly.state import Item
from dstest.campaign.session_check import reread
from dstest.core.errors import ConfigError, DstestError, Exit
from dstest.core.run_record import RunMeta
from dstest.core.run_words import case_name, with_lab
from dstest.core.verdict import NOT_RERUN, State, Verdict
from dstest.core.words import printable
from dstest.history.layout import RunDir
from dstest.judge.blame import SUT, blame
from dstest.report.model import steps_after
from dstest.report.remedies import of_run
from dstest.report.session import command_of_session, load_of_session, session_name
from dstest.report.summarize import brief_of
from dstest.runner.integrity import Verify, is_finished, verify_run
from dstest.runner.session_file import SessionDir
from dstest.store.export.formats import Result
from dstest.store.inventory import StorePlace, Stray, left_out, state_of, walk
from dstest.store.nights import NIGHT
from dstest.store.verify import (
    Recording,
    copies_among,
    made_again,
    misplaced,
    operation_bytes,
    whole,
)

Note = Callable[[str], object]
_HARMFUL: Final = ("link", "cut", "orphan", "night")
_RANK: Final = (Exit.FAIL, Exit.HARNESS, Exit.NOT_PROVEN)


def worst(results: Sequence[Result]) -> int:
    """The exit code of all of them: a violation before what proves nothing before a pass."""
    codes = {result.exit for result in results}
    return next((int(code) for code in _RANK if code in codes), max(codes, default=Exit.NOT_PROVEN))


def gather(
    paths: Sequence[Path], judged: Verify = verify_run, note: Note = lambda what: None
) -> list[Result]:
    """A result for each run and session below these directories, each once, in order of paths;
    `judged` judges each run again. `note` is told what is left out.

    Raises ConfigError where one of them holds none.
    """
    found: dict[Path, Result] = {}
    for path in paths:
        here = list(_below(path, judged, note))
        if not here:
            raise ConfigError(
                f"{path} holds no run and no session",
                remedy="give a run, a session, or a store of them",
            )
        found |= {result.path: result for result in here if result.path not in found}
    return list(_without_copies([*found.values()]))


def _below(path: Path, judged: Verify, note: Note) -> Iterator[Result]:
    walked = walk(path)
    for line in left_out(walked.odd):
        note(line)
    if not walked.places and all(odd.why == "link" for odd in walked.odd):
        return  # links alone, such as any directory of a machine has: nothing here is of ours
    at = {place.path for place in walked.places}
    for odd in walked.odd:
        if odd.why in _HARMFUL and odd.path not in at:
            yield _not_believed(odd.path, "other", odd.told, failed=odd.failed)
    otherwise = {odd.path: odd for odd in walked.odd if odd.why == "night"}
    sessions = {place.path for place in walked.places if place.kind == "session"}
    nights = (place.path for place in walked.places if place.kind == "night")
    controls = {run: item for night in nights for run, item in red_controls(night)}
    for place in walked.places:
        if place.kind == "session":
            yield _but_for_its_night(_session(place, judged), otherwise.get(place.path))
        elif place.kind == "run":
            arm_of = place.within if place.within in sessions else None
            found = result_of_run(place.path, arm_of, judged)
            item = controls.get(place.path)
            found = found if item is None else _as_control(found, item, judged)
            yield _but_for_its_night(found, otherwise.get(place.path))
        elif place.path / NIGHT in otherwise:
            continue  # it cannot be read, which was told
        elif (life := state_of(place)[1]) != "over":
            yield _not_believed(place.path, "other", f"this {place.kind} is not over ({life})")


def _but_for_its_night(found: Result, odd: Stray | None) -> Result:
    """What a run came to; it is not believed where its night says otherwise; a violation is."""
    if odd is None or found.exit == Exit.FAIL:
        return found
    why = odd.told if found.state is not None else f"{found.reason}; {odd.told}"
    return _not_believed(found.path, found.kind, why, found.arm_of, failed=odd.failed)


def _as_control(found: Result, item: Item, judged: Verify) -> Result:
    """What a run came to that had to find a known bug: as it must where it shows that bug and no
    other, by what its files say now and whatever the night says."""
    if found.state is None:
        return found
    stands = standing_now(found.path, item, judged)
    if stands is None:
        return found
    standing, why_not = stands
    named = f"red control {item.id}"
    if standing == "as-it-must":
        return msgspec.structs.replace(
            found, control="found", exit=int(Exit.PASS), steps=(),
            reason=f"{named}: found: {found.sentence}",
        )  # fmt: skip
    other = standing == "failed"
    return msgspec.structs.replace(
        found,
        control="other-bug" if other else "missed",
        exit=int(Exit.FAIL if other else Exit.NOT_PROVEN),
        reason=f"{named}: {why_not}",
    )


def _not_believed(
    path: Path, kind: str, why: str, arm_of: Path | None = None, *, failed: bool = False
) -> Result:
    """`failed`: it had shown a violation, which does not go away by what becomes of its files."""
    return Result(
        path=path,
        kind="run" if kind == "run" else "session" if kind == "session" else "other",
        state=None,
        reason=printable(" ".join(why.split()).removeprefix(f"{path}: ")),
        exit=int(Exit.FAIL if failed else Exit.NOT_PROVEN),
        arm_of=arm_of,
    )


def result_of_run(path: Path, arm_of: Path | None = None, judged: Verify = verify_run) -> Result:
    """A run directory, believed or judged again by `judged`."""
    try:
        run = RunDir.open(path)
        if not is_finished(run):
            status = run.status() or "no status"
            return _not_believed(
                run.path, "run", f"it was not judged to its end ({status})", arm_of
            )
        checked = judged(run)
        placed = _of_spec(run)
        if placed:
            return _not_believed(run.path, "run", placed, arm_of)
        _, summary = brief_of(run.path)
        meta = run.read_meta()
        steps = () if meta is None else _steps(run, meta, checked.verdict)
        case = "" if meta is None else printable(case_name(meta.spec, meta.options_given or ()))
    except DstestError as error:
        return _not_believed(path.resolve(), "run", error.message, arm_of)
    except Exception as error:  # one run must not keep the others from being told
        why = f"it cannot be read: {type(error).__name__}: {error}"
        return _not_believed(path.resolve(), "run", why, arm_of)
    verdict = checked.verdict
    early = summary.ended_by if verdict.verdict.passed else ""
    return Result(
        path=run.path,
        kind="run",
        state=verdict.verdict,
        shown="" if verdict.shown == verdict.verdict.value else verdict.shown,
        reason=printable(f"the run ended early: {early}" if early else verdict.reason),
        exit=int(checked.exit_code),
        rule=verdict.rule,
        why_not_better=tuple(map(printable, verdict.why_not_better)),
        run=summary,
        command=summary.command,
        case=case,
        steps=steps,
        confirm="" if meta is None else _confirm(run, meta, verdict),
        arm_of=arm_of,
    )


def _steps(run: RunDir, meta: RunMeta, verdict: Verdict) -> tuple[str, ...]:
    if not verdict.verdict.failed:
        return ()
    evidence = verdict.evidence
    steps = steps_after(str(run.path), meta, evidence.rerun, blamed=blame(evidence) == SUT)
    return tuple(printable(step.command) for step in steps)


def _confirm(run: RunDir, meta: RunMeta, verdict: Verdict) -> str:
    """The command that tells whether a violation comes again, where nobody has asked."""
    if verdict.shown != NOT_RERUN or not meta.spec:
        return ""
    return printable(of_run("confirm", with_lab(meta.spec, meta.lab_id), str(run.path)))


def _of_spec(run: RunDir) -> str:
    meta = run.read_meta()
    return "" if meta is None else misplaced(run.path, meta.spec)


def _without_copies(found: Sequence[Result]) -> Iterator[Result]:
    """Each with what it came to; but a run or session that is there under another name came to
    nothing once more, and a simulation that was made again is no second sample."""
    believed = [result for result in found if result.state is not None]
    runs = [result.path for result in believed if result.kind == "run"]
    copies = copies_among(
        Recording(name=str(path), path=path, bytes=operation_bytes(path)) for path in runs
    ) | _same_sessions(result.path for result in believed if result.kind == "session")
    same: dict[str, list[Path]] = {}
    """By the path of a run its simulations that were made again."""
    for result in found:
        first = copies.get(str(result.path))
        if first is None:
            yield result
        elif result.kind == "run" and _again(result.path, [Path(first), *same.get(first, ())]):
            same.setdefault(first, []).append(result.path)
            why = (
                f"{result.reason} It is {first} made again: one seed of a simulation is one sample."
            )
            yield msgspec.structs.replace(result, same_as=Path(first), reason=why)
        else:
            why = f"it is a copy of {first}"
            yield _not_believed(result.path, result.kind, why, result.arm_of)


def _again(path: Path, others: Iterable[Path]) -> bool:
    """Is it a simulation that was made again, and a copy of none of these?"""
    meta = RunDir(path).read_meta()
    return meta is not None and all(
        other is not None
        and made_again(meta, path, other, at)
        and (meta.digest == other.digest or not (whole(meta) and whole(other)))
        for at in others
        for other in [RunDir(at).read_meta()]
    )


def _same_sessions(paths: Iterable[Path]) -> dict[str, str]:
    """By the path of each session that is there already that of the first one."""
    seen: dict[str, str] = {}
    found: dict[str, str] = {}
    for path in paths:
        try:
            digest = hashlib.sha256((path / "session.json").read_bytes()).hexdigest()
        except OSError:
            continue
        if (first := seen.setdefault(digest, str(path))) != str(path):
            found[str(path)] = first
    return found


def _session(place: StorePlace, judged: Verify) -> Result:
    try:
        done = reread(place.path, judged)
        file = SessionDir.open(place.path).read()
    except DstestError as error:
        return _not_believed(place.path, "session", error.message)
    except Exception as error:  # one run must not keep the others from being told
        why = f"it cannot be read: {type(error).__name__}: {error}"
        return _not_believed(place.path, "session", why)
    verdict = done.verdict
    if verdict is None:
        return _not_believed(place.path, "session", "it is not over")
    return Result(
        path=place.path,
        kind="session",
        state=State(verdict.state),
        reason=printable(verdict.reason),
        exit=int(done.exit_code),
        session=verdict,
        command=command_of_session(file.spec, file.options_given, verdict),
        of=f"{file.spec.system}-{file.spec.workload}",
        load_s=load_of_session(place.path, verdict),
        case=printable(session_name(file.spec, file.options_given, verdict)),
    )
