"""What a reduction came to, made of its run and its attempts alone, read again, and told.

Each attempt has to be a run of its candidate, and to say what its verdict says; those that make the
rate are judged again. `reproducer.json` has to be what all of that comes to, and `repro.sh` what
this version makes of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dstest import __version__
from dstest.campaign.shrink.candidate import (
    ENOUGH,
    HISTORY,
    PROGRESS,
    RUNS,
    SCHEMA,
    Attempt,
    Candidate,
    Progress,
    aside_of,
)
from dstest.campaign.shrink.original import (
    Original,
    argv_of,
    builds_at,
    original_of,
    same_script,
    script_of,
    size_of,
)
from dstest.campaign.shrink.runs import attempt_of, schedule_of, shows_alone
from dstest.campaign.steps.commands import differences
from dstest.core.errors import ConfigError, DstestError, EvidenceError
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer, Size
from dstest.core.run_words import simulates
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.jsonl import read_history
from dstest.history.layout import PLUGINS, Distinct, RunDir, read_verdict
from dstest.judge.blame import digest_of
from dstest.judge.checker_answers import model_of
from dstest.runner.integrity import verify_run

SURE_LEAST: Final = 3
"""Fewer runs say too little about a rate for a reproducer to be called confirmed."""

_SAID_BY_ITSELF = ("run", "dstest", "stopped", "confirmed", "command")
"""Where the run lay, which version made it, why it ended early; `confirmed`, which may be less than
its runs give where more of them were asked for; and `command`, which older versions wrote otherwise
(`_as_before`)."""


def reproducer_of(
    original: Original,
    progress: Progress,
    best: Candidate,
    *,
    history_ops: tuple[int, int | None],
    stopped: str,
    sure: int,
    dstest: str,
) -> Reproducer:
    """`best` is the small one, `sure` how many runs were to measure how often it shows the
    violation; `history_ops` and `stopped` as in `Reproducer`."""
    spec, start = original.spec, original.start
    op_types = frozenset(original.plugins.workload.op_types)
    before, tried = progress.tried.get(start.key), progress.tried.get(best.key)
    came = [] if tried is None else [one for one in tried.attempts if one.came]
    after = progress.rate_of(best)
    return Reproducer(
        run=str(original.run.path),
        history_sha256=progress.history_sha256,
        candidate=best.key,
        dstest=dstest,
        system=spec.system,
        system_version=original.meta.system_version or None,
        workload=spec.workload,
        fingerprint=original.fingerprint,
        explanation=original.explanation,
        seed=spec.seed,
        before=size_of(start, op_types, original.verdict.evidence.checker.ops_eligible),
        after=size_of(best, op_types, max((one.ops for one in came), default=None)),
        runs=progress.runs,
        rate_before=None if before is None or not before.rate.runs else before.rate,
        rate_after=after,
        confirmed=after.runs >= max(sure, SURE_LEAST) and after.share >= ENOUGH,
        landed=min((one.landed for one in came), default=0),
        history_ops=history_ops,
        stopped=stopped,
        schedule=msgspec.to_builtins(schedule_of(best)) if best.plans else None,
        options=best.pairs,
        command=shlex.join(argv_of(spec, best, "schedule.json", PLUGINS)),
        builds=list(spec.builds),
    )


def read_progress(original: Original) -> Progress | None:
    """None where nothing was tried yet. Raises EvidenceError where the file cannot be read, is
    about another run, or says of a run what is not so."""
    path = aside_of(original.run.path) / PROGRESS
    if not path.is_file():
        return None
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Progress)
    except msgspec.MsgspecError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    if kept.schema != SCHEMA or kept.history_sha256 != digest_of(original.run.path):
        raise _wrong(path, f"it is not about {original.run.path}")
    if kept.run != original.run.path.name or kept.fingerprint != original.fingerprint:
        raise _wrong(path, f"it is about {kept.fingerprint} of {kept.run}")
    distinct = Distinct(
        original.run.path, path.parent / RUNS, simulated=simulates(original.spec.lab)
    )
    for key, tried in kept.tried.items():
        if key != tried.candidate.key:
            raise _wrong(path, f"{key} is another candidate than it says")
        for one in tried.attempts:
            if one.judged:
                _hold(path, original, tried.candidate, one, distinct)
    return kept


def _hold(
    path: Path, original: Original, candidate: Candidate, one: Attempt, distinct: Distinct
) -> None:
    """Raises EvidenceError where this is no run of the candidate, or found something else."""
    place = path.parent / one.path
    if why := distinct.why_not(place):
        raise _wrong(path, f"{one.path} {why}")
    try:
        verdict = read_verdict(place)
        again = attempt_of(place, path.parent, original.fingerprint, verdict)
    except (OSError, DstestError, msgspec.MsgspecError) as error:
        raise _wrong(path, f"{one.path} cannot be read: {error}") from None
    tells = one.came or one.confirms or again.came  # the others decided where the search went on
    if tells and msgspec.structs.replace(again, confirms=one.confirms) != one:
        raise _wrong(path, f"{one.path} found something else than it says")
    if wrong := _not_of(place, original, candidate):
        raise _wrong(path, f"{one.path} is a run of something else: {wrong}")


def _not_of(run: Path, original: Original, candidate: Candidate) -> str:
    """What of the run is not as the candidate has it, by what it has recorded of itself."""
    try:
        meta = RunDir.open(run).read_meta()
        schedule = msgspec.json.decode((run / "schedule.json").read_bytes())
    except (OSError, DstestError, msgspec.MsgspecError) as error:
        return str(error)
    if meta is None:
        return "it has no record"
    spec = original.spec
    kept = aside_of(original.run.path) / PLUGINS
    argv = argv_of(spec, candidate, "schedule.json", str(kept), builds_at(spec))
    other = [what for what in differences(meta, argv[1:]) if what != "schedule"]
    if schedule.get("plans") != msgspec.to_builtins(list(candidate.plans)):
        other.append("faults")
    return ", ".join(other)


def read_reproducer(run: Path, verdict: Verdict) -> Reproducer | None:
    """What the reduction of a run with this verdict came to, None where there was none. Raises
    EvidenceError where it is not what the run and its own runs give."""
    path = aside_of(run) / REPRODUCER
    if not path.is_file():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Reproducer)
    except msgspec.MsgspecError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    try:
        original = original_of(run, verdict, found.fingerprint)
    except ConfigError as error:
        raise _wrong(path, error.message) from None
    progress = read_progress(original)
    tried = None if progress is None else progress.tried.get(found.candidate)
    if progress is None or tried is None:
        raise _wrong(path, "nothing shows what it says")
    _judge_again(path, tried.attempts, original.fingerprint)
    again = reproducer_of(
        original,
        progress,
        tried.candidate,
        history_ops=_history_ops(original),
        stopped=found.stopped,
        sure=1,
        dstest=found.dstest,
    )
    if Path(found.run).name != run.name or (found.confirmed and not again.confirmed):
        raise _wrong(path, f"its runs show the violation in {again.rate_after.said}")
    for name in found.__struct_fields__:
        if name not in _SAID_BY_ITSELF and getattr(found, name) != getattr(again, name):
            raise _wrong(path, f"its runs give another {name}")
    if found.command not in (again.command, _as_before(again.command)):
        raise _wrong(path, "its runs give another command")
    if compares_script(found):
        _hold_script(original, found, tried.candidate)
    else:
        _hold_version(path, original, found, progress)
    return msgspec.structs.replace(found, command=again.command)


def compares_script(found: Reproducer) -> bool:
    """Is it known what `repro.sh` has to be? How another version writes one is not."""
    return found.dstest == __version__


def _hold_version(path: Path, original: Original, found: Reproducer, progress: Progress) -> None:
    """Raises EvidenceError where it is said to be by a version that made none of its runs."""
    places = {one.path for tried in progress.tried.values() for one in tried.attempts if one.judged}
    made = {_version_of(path.parent / place) for place in places}
    if found.dstest not in made:
        by = ", ".join(sorted(made - {""})) or "an unknown one"
        raise EvidenceError(
            f"{path}: it says that it is by dstest {found.dstest}, its runs are by {by}",
            remedy=f"`dstest shrink {shell_word(original.run.path)}` writes it anew",
        )


def _version_of(run: Path) -> str:
    """Of the dstest that made it, empty where it has not recorded that."""
    meta = RunDir.open(run).read_meta()
    return "" if meta is None or meta.host is None else meta.host.dstest or ""


def _as_before(command: str) -> str:
    """As versions wrote a command that put no word in quotes, rounded the time, and did not know of
    a run without samples."""
    words = [word for word in shlex.split(command) if word != "--no-monitor"]
    at = words.index("--time-limit") + 1
    words[at] = f"{float(words[at]):g}"
    return " ".join(words)


def _hold_script(original: Original, found: Reproducer, candidate: Candidate) -> None:
    """Raises EvidenceError where a stranger would run something else than the reduction gives. The
    user's own files beside it were held to the runs (`_not_of`)."""
    path = aside_of(original.run.path) / SCRIPT
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not same_script(text, script_of(found, original.spec, candidate, 0.0)):
        raise EvidenceError(
            f"{path}: it is not what the reduction gives",
            remedy=f"do not run it; `dstest shrink {shell_word(original.run.path)}` writes it anew",
        )


def _judge_again(path: Path, attempts: list[Attempt], fingerprint: str) -> None:
    """Raises EvidenceError where a run that made the rate is not what its own evidence gives."""
    for one in attempts:
        if not (one.judged and one.confirms):
            continue
        run = path.parent / one.path
        try:
            verdict = verify_run(RunDir.open(run)).verdict
        except DstestError as error:
            raise _wrong(path, f"of its runs, {error.message}") from None
        again = attempt_of(run, path.parent, fingerprint, verdict)
        if msgspec.structs.replace(again, confirms=True) != one:
            raise _wrong(path, f"{one.path} found something else than it says")


def _history_ops(original: Original) -> tuple[int, int | None]:
    """Operations of the run, and of the part that shows the violation alone."""
    every = read_history(original.run.path / HISTORY)
    path = aside_of(original.run.path) / HISTORY
    if not path.is_file():
        return len(every.ops), None
    part = read_history(path)
    own = {op.op_id: op for op in every.ops}
    if any(own.get(op.op_id) != op for op in part.ops):
        raise _wrong(path, "it is no part of the run's history")
    result = original.result
    asked = {checker.name: checker for checker in original.plugins.checkers}
    checker = None if result is None else asked.get(result.checker)
    if checker is None or not shows_alone(
        part, checker, model_of(checker, original.plugins.model), original.fingerprint
    ):
        raise _wrong(path, "it does not show the violation alone")
    return len(every.ops), len(part.ops)


def _wrong(path: Path, why: str) -> EvidenceError:
    return EvidenceError(f"{path}: {why}", remedy="remove its directory and run `dstest shrink`")


def lines_of(found: Reproducer, aside: Path) -> Iterator[str]:
    """A row of the run as it was and the small one for each thing that could be made smaller."""
    rows = zip(_sizes(found.before), _sizes(found.after), strict=True)
    for (name, before), (_, after) in rows:
        yield f"{name:12} {before:>24}  ->  {after}"
    before_ops, after_ops = found.history_ops
    shown = "no part shows it alone" if after_ops is None else f"{after_ops:,}"
    yield f"{'history':12} {before_ops:>20,} ops  ->  {shown}"
    yield f"{'violation':12} {found.fingerprint}"
    gone = [kind for kind in found.before.kinds if kind not in found.after.kinds]
    if gone and not found.after.kinds:
        yield (
            f"{'':12} without {', '.join(gone)}: that the name is the same does not say that it is"
            " the same bug"
        )
    before_said = "not measured" if found.rate_before is None else found.rate_before.said
    yield f"{'comes in':12} {before_said:>24}  ->  {found.rate_after.said}"
    yield f"{'runs made':12} {found.runs}" + (f"; {found.stopped}" if found.stopped else "")
    if found.rate_after.came:
        yield f"{'reproducer':12} {aside}/{REPRODUCER}, {aside}/{SCRIPT}"


def _sizes(size: Size) -> list[tuple[str, str]]:
    operations = "not counted" if size.operations is None else f"{size.operations:,}"
    rate = "closed loop" if size.rate is None else f"{size.rate:g}/s"
    return [
        ("fault events", f"{size.events}"),
        ("fault kinds", ", ".join(size.kinds) or "none"),
        ("load", f"{size.time_limit_s:g} s"),
        ("nodes", f"{size.nodes}"),
        ("clients", f"{size.clients}, {rate}"),
        ("op types", ", ".join(size.op_types)),
        ("operations", operations),
    ]
