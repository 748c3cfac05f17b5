"""Is a run directory what the run left behind?

A finished run is believed where its files are as they were summed up. Where more is asked for it is
judged again in a directory aside, once per command however many parts of it ask (`JudgedOnce`),
from segments, run.json, schedule and logs, and what is there must be what came out there. Whoever
edits a file and writes its sum anew is found by that or not at all: only a signature tells more
(docs/reference/threat-model.md).
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest import __version__
from dstest.core import clock
from dstest.core.errors import DstestError, EvidenceError, Exit, HarnessError
from dstest.core.evidence import AuditRow, Canary, Evidence
from dstest.core.registry import check_digests
from dstest.core.run_record import RunMeta
from dstest.core.verdict import Verdict, exit_code
from dstest.debug.monitor.client import BASELINE, CLIENT, NODES
from dstest.history.jsonl import says_no_more
from dstest.history.layout import PLUGINS, VERDICT, RunDir, read_verdict, recorded_name
from dstest.history.sums import SUMS, compare_sums
from dstest.judge.blame import blame
from dstest.judge.decide import aggregate_seeds, decide
from dstest.judge.host_events import HOST
from dstest.judge.symptom import classify
from dstest.runner.fault_plans import SCHEDULE
from dstest.runner.judgement import Judgement, assess

_FINISHED: Final = ("verdict:", "ended early:", "recovered:")
_PLACE: Final = "- Directory: "
_REMEDY: Final = "do not believe this copy; take the run directory from where it was made"


Again = Literal["no", "checkers", "all"]
"""What is judged again of a finished run: nothing, since its sums are believed; everything, but
without the broken copies that its checkers had to reject (verdict.json has what came of them);
everything."""


class RunStatement(NamedTuple):
    """What a finished run says of itself."""

    meta: RunMeta
    verdict: Verdict


class Verified(NamedTuple):
    """A run whose files agree: its verdict, and what a command that shows it exits with."""

    verdict: Verdict
    exit_code: int


def is_finished(run: RunDir) -> bool:
    """Was this run judged to its end? Then its sums must be there and right."""
    return (run.path / SUMS).exists() or run.status().startswith(_FINISHED)


def code_of(verdict: Verdict, meta: RunMeta) -> int:
    """A violation is one in any case; a run that ended early is never a pass."""
    code = exit_code(verdict.verdict)
    return Exit.NOT_PROVEN if code == Exit.PASS and meta.ended_by else code


def _contradicts(run: RunDir, what: str) -> EvidenceError:
    return EvidenceError(f"{run.path}: {what}", remedy=_REMEDY)


def _of_another(run: RunDir, meta: RunMeta, where: str) -> EvidenceError:
    """Its files are what it left, but this version asks for more, or for something else."""
    by = None if meta.host is None else meta.host.dstest
    return EvidenceError(
        f"{run.path}: judged by dstest {by}, and dstest {__version__} judges it otherwise: {where}",
        remedy=f"believe its report as one of dstest {by}, or run it again with this version",
    )


def intact(run: RunDir, only: Callable[[str], bool] = lambda name: True) -> None:
    """Raises EvidenceError where a file of a finished run is not as it was summed up; `only` says
    by its name whether one is looked at."""
    if not (run.path / SUMS).is_file():
        raise _contradicts(run, f"{SUMS} is missing, though the run is over ({run.status()})")
    try:
        found = compare_sums(run.path, only=only).describe()
    except OSError as error:
        raise _contradicts(run, f"{SUMS} cannot be checked: {error.strerror}") from None
    if found:
        raise _contradicts(run, f"files are not as {SUMS} has them: {found}")


def _verdict(run: RunDir) -> Verdict:
    try:
        return read_verdict(run.path)
    except OSError:
        raise _contradicts(run, f"{VERDICT} is missing") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _contradicts(run, f"{VERDICT} cannot be read: {error}") from None


@contextmanager
def _aside(run: RunDir) -> Iterator[RunDir]:
    """A directory elsewhere with what the run recorded, and nothing that was derived from it."""
    with tempfile.TemporaryDirectory(prefix="dstest-verify-") as directory:
        name = recorded_name(run.path)
        path = Path(directory) / (Path(name).name or run.path.name)
        path.mkdir()
        for kept in ("segments", "nodes", "run.json", SCHEDULE, HOST):
            if (run.path / kept).exists():
                (path / kept).symlink_to(run.path / kept)
        if (run.path / NODES).exists():
            (path / NODES).parent.mkdir()
            (path / NODES).symlink_to(run.path / NODES)
        yield RunDir(path)


@contextmanager
def judging(run: RunDir) -> Iterator[None]:
    """Whatever a record lacks to be judged is said as such."""
    try:
        yield
    except (
        *(AttributeError, KeyError, TypeError, ValueError, RecursionError),
        msgspec.MsgspecError,
    ) as error:
        said = f"its record cannot be judged: {type(error).__name__}: {error}"
        raise _contradicts(run, said) from error


@contextmanager
def judged_aside(run: RunDir, canary: Canary | None = None) -> Iterator[tuple[Judgement, RunDir]]:
    """The run judged again, and the directory that holds what came out. `canary` is what came of
    its broken copies, where they are not made again."""
    meta = run.read_meta()
    if meta is not None:  # asked here, where its copies can be named: those aside are gone soon
        check_digests(meta.plugin_files or {}, run.path / PLUGINS)
    try:
        with _aside(run) as aside:
            with judging(run):
                judged = assess(aside, canary)
            yield judged, aside
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HarnessError(
            f"{run.path} cannot be judged again in {tempfile.gettempdir()}: {error.strerror}",
            remedy="set TMPDIR to a directory with free space",
        ) from error


def _essence(e: Evidence) -> Any:
    """Evidence without its sentences, which another version may word differently."""

    def status(rows: dict[str, AuditRow]) -> dict[str, str]:
        return {name: row.status for name, row in rows.items()}

    lint = e.history_lint
    return (
        (e.attempted, e.serious, e.fault_planned, e.faults_planned, e.violation),
        sorted(e.missing_capability),
        [(f.id, f.nemesis, f.landed, f.heal_verified) for f in e.faults],
        (e.checker.declared, e.checker.ran, e.checker.result),
        (e.checker.ops_eligible, e.checker.ops_consumed, e.checker.keys_total),
        (sorted(lint.corrupt), sorted(lint.weak), e.violation_fingerprint),
        (e.rerun.same_seed_runs, e.rerun.reproduced, e.budget.met),
        (status(e.redflags), status(e.weak_audit)),
    )


def _same(kept: Evidence, found: Evidence, meta: RunMeta) -> bool:
    return kept == found if meta.made_by(__version__) else _essence(kept) == _essence(found)


def _rules(run: RunDir, verdict: Verdict, meta: RunMeta) -> None:
    """The verdict against the decision table over its evidence."""
    evidence = verdict.evidence
    decided = decide(evidence, verdict.checkers)
    if (decided.verdict, decided.rule) != (verdict.verdict, verdict.rule):
        raise _contradicts(
            run,
            f"verdict.json says {verdict.verdict.value}, its evidence gives "
            f"{decided.verdict.value}",
        )
    said = (verdict.reason, verdict.why_not_better, verdict.blame, verdict.bug)
    words = (decided.reason, decided.why_not_better, blame(evidence), classify(evidence))
    if meta.made_by(__version__) and words != said:
        raise _contradicts(run, "the reasons in verdict.json are not those its evidence gives")


def _derived(run: RunDir, aside: RunDir, meta: RunMeta) -> None:
    """What was sealed from the segments. The header of a history of another version may say less
    than ours."""
    for name in ("history.jsonl", "faults.jsonl"):
        there = (run.path / name).read_bytes() if (run.path / name).is_file() else b""
        made = (aside.path / name).read_bytes()
        if there != made and (
            meta.made_by(__version__) or name != "history.jsonl" or not says_no_more(there, made)
        ):
            raise _contradicts(run, f"{name} is not what the segments give")


def _measured(run: RunDir, aside: RunDir) -> None:
    """What follows from samples and history; nothing does of a run that was not sampled."""
    for name in (CLIENT, BASELINE):
        kept, made = ((one.path / name) for one in (run, aside))
        if kept.is_file() != made.is_file() or (
            made.is_file() and kept.read_bytes() != made.read_bytes()
        ):
            raise _contradicts(run, f"{name} is not what the samples and the history give")


def _answers_agree(run: RunDir, judged: Verdict, kept: Verdict) -> bool:
    """Do all checkers answer as they did? Raises EvidenceError for another answer; to be undecided,
    now or before, is none."""
    if judged.checkers.keys() != kept.checkers.keys():
        raise _contradicts(run, "verdict.json holds the results of other checkers than ran")
    same = True
    for name, found in judged.checkers.items():
        before, now = kept.checkers[name].get("valid"), found["valid"]
        if now != before and "unknown" not in (now, before):
            raise _contradicts(
                run, f"verdict.json has {before} as the answer of {name}, which answers {now}"
            )
        same = same and now == before
    return same


def _placeless(text: str) -> str:
    """findings.md without the place of the run: a copy is as good as the original."""
    line = next((row for row in text.splitlines() if row.startswith(_PLACE)), _PLACE)
    told = line.removeprefix(_PLACE).strip()
    for place in {told, told.replace("\\", "")} - {""}:
        text = text.replace(f"'{place}'", "RUN").replace(place, "RUN")  # quoted for a shell or not
    return text


def _reports(run: RunDir) -> None:
    from dstest.report.model import load_report
    from dstest.report.write import plain_texts

    for name, text in plain_texts(load_report(run.path)).items():
        path = run.path / name
        if not path.is_file():
            raise _contradicts(run, f"{name} is missing")
        if _placeless(path.read_bytes().decode(errors="replace")) != _placeless(text):
            raise _contradicts(run, f"{name} is not what the verdict gives")


def _no_better(one: Verdict, other: Verdict) -> bool:
    return aggregate_seeds([one.verdict, other.verdict]) is one.verdict


def not_better(run: RunDir, kept: Verdict, found: Verdict) -> None:
    """Raises EvidenceError where a run judged again comes out better than it was."""
    if not _no_better(found, kept):
        raise _contradicts(
            run,
            f"verdict.json says {kept.verdict.value}; judged again it is {found.verdict.value}, "
            "and a verdict does not become better by itself",
        )


def read_statement(run: RunDir) -> RunStatement:
    """What a finished run says of itself, where its files that say it agree and its verdict follows
    from its evidence. No sum is compared and nothing is judged again. Raises EvidenceError."""
    meta = run.read_meta()
    if meta is None:
        raise _contradicts(run, "run.json is missing")
    verdict = _verdict(run)
    word = run.status().partition(": ")[2]
    if word and word != verdict.verdict.value:
        raise _contradicts(run, f"status says {word}, verdict.json {verdict.verdict.value}")
    _rules(run, verdict, meta)
    return RunStatement(meta, verdict)


def verify_run(run: RunDir, again: Again = "no") -> Verified:
    """The verdict of a finished run, whose files have to be as they were summed up. Raises
    EvidenceError. What is judged again may come out worse than before, but never better. What
    another version wrote may mean something else to this one: it is judged again in any case."""
    intact(run)
    kept = read_statement(run)
    if again == "no" and not kept.meta.made_by(__version__):
        again = "checkers"
    verdict = kept.verdict if again == "no" else judged_again(run, kept, again)
    return Verified(verdict, code_of(verdict, kept.meta))


def judged_again(run: RunDir, kept: RunStatement, again: Again) -> Verdict:
    """What the record of a run gives. Raises EvidenceError where that is not what the run says;
    of what was not decided in time, then or now, the worse of both counts."""
    meta, verdict = kept
    evidence, tried = verdict.evidence, verdict.canary
    if tried is msgspec.UNSET or (tried.killed, tried.total) != _canaries(verdict):
        raise _contradicts(run, "its broken copies are not those that its evidence counts")
    with judged_aside(run, None if again == "all" else tried) as (judged, aside):
        found = judged.verdict
        _derived(run, aside, meta)
        same = _answers_agree(run, found, verdict) and _canaries(found) == _canaries(verdict)
        if same and not _same(evidence, found.evidence, meta):
            where = _where(evidence, found.evidence)
            if not meta.made_by(__version__):
                raise _of_another(run, meta, where)
            raise _contradicts(run, f"its evidence is not what the record gives: {where}")
        if meta.made_by(__version__):
            _measured(run, aside)
            _reports(run)
    if not same:
        return found if _no_better(found, verdict) else verdict
    not_better(run, verdict, found)
    return found


def _canaries(verdict: Verdict) -> tuple[int, int]:
    """A copy that is not decided in time, on a busy machine, is not rejected."""
    return verdict.evidence.checker.canary_killed, verdict.evidence.checker.canary_total


def _where(kept: Evidence, found: Evidence) -> str:
    """The first fields and rows that differ."""
    a, b = msgspec.to_builtins(kept), msgspec.to_builtins(found)
    names = []
    for field in a:
        if a[field] == b[field]:
            continue
        if field in ("redflags", "weak_audit"):
            rows = sorted({*a[field], *b[field]})
            names += [row for row in rows if a[field].get(row) != b[field].get(row)]
        else:
            names.append(field)
    return ", ".join(names[:5])


Verify = Callable[[RunDir], Verified]
"""As `dstest.runner.integrity.verify_run`."""


class WorseNow(EvidenceError):
    """A run that comes out worse when it is judged again, with the exit code that it has now."""

    def __init__(self, run: RunDir, found: Verified, before: str) -> None:
        now = found.verdict
        super().__init__(
            f"{run.path}: judged again it is {now.verdict.value}, and was {before}: {now.reason}",
            remedy="`dstest recover` keeps the new verdict; a slow host may decide less",
        )
        self.exit_code = Exit(found.exit_code)


class JudgedOnce:
    """A `Verify` that remembers what each run came to, also where it is not to be believed. For one
    command that shows what lies there: it does not see what becomes of a run later, and one that
    comes out worse than its files say is not shown."""

    def __init__(self, again: Again, tell: Callable[[str], None] = lambda what: None) -> None:
        self._again = again
        self._tell = tell
        self.runs = 0
        """How many runs were judged again, and how long that took."""
        self.seconds = 0.0
        self._known: dict[Path, Verified | DstestError] = {}

    def __call__(self, run: RunDir) -> Verified:
        """Raises as `verify_run` does, the same each time."""
        key = run.path.resolve()
        if key not in self._known:
            self._tell(f"run {len(self._known) + 1}, {key}")
            began_ns = clock.monotonic_ns()
            self._known[key] = _judge_again(run, self._again)
            if self._again != "no":
                self.runs += 1
                self.seconds += (clock.monotonic_ns() - began_ns) / 1e9
        found = self._known[key]
        if isinstance(found, DstestError):
            raise found
        return found

    @property
    def how_long(self) -> str:
        """What that took, for people; empty where nothing was judged again."""
        many = "the run was" if self.runs == 1 else f"{self.runs} runs were"
        return f"{many} judged again in {self.seconds:.1f} s" if self.runs else ""


def _judge_again(run: RunDir, again: Again) -> Verified | DstestError:
    try:
        found = verify_run(run, again)
        kept = run.read_json("verdict.json")["verdict"]
    except DstestError as error:
        return error
    return found if found.verdict.verdict.value == kept else WorseNow(run, found, kept)
