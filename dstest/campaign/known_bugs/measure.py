"""Entries of the catalogue measured: each run with several seeds by the command that is printed, in
a process that is waited for until it has healed its nodes; and what the trials say together.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from dstest.campaign.known_bugs.entries.entry import Finding
from dstest.core.check import kinds_in
from dstest.core.errors import ConfigError, Exit
from dstest.core.fingerprint import showing
from dstest.core.limits import HEAL_S
from dstest.core.rates import interval
from dstest.core.run_words import lab_id_words
from dstest.core.verdict import State

RUN_S_MAX: Final = 3600.0
"""Of one run, the making of its node image included."""

SAID_MAX: Final = 2000

_JUDGED: Final = (Exit.PASS, Exit.FAIL, Exit.NOT_PROVEN)
"""A run that ends otherwise has a verdict as well, which does not say what went wrong."""

_NO_VERDICT: Final = "none"


class CommandResult(NamedTuple):
    """Exit code of a command, the object that it printed, and run.json of its run; `why` is the end
    of what it said where nothing was judged."""

    exit: int
    said: dict[str, Any]
    meta: dict[str, Any]
    why: str = ""


def by_command(words: Sequence[str], argv: Sequence[str] = ()) -> CommandResult:
    """Run `dstest` with these words, or another program."""
    # -P: a file of the current directory must not be taken for a module of ours.
    argv = argv or [sys.executable, "-P", "-m", "dstest"]
    with tempfile.TemporaryFile() as errors, _terminated_as_interrupted():
        child = subprocess.Popen([*argv, *words, "--json"], stdout=subprocess.PIPE, stderr=errors)
        try:
            printed, _ = child.communicate(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            _end(child)
            return CommandResult(Exit.INTERRUPTED, {}, {}, f"still running after {RUN_S_MAX:.0f} s")
        except BaseException:
            _end(child)
            raise
        try:
            said = msgspec.json.decode(printed, type=dict[str, Any])
            meta = msgspec.json.decode(
                Path(said["run"], "run.json").read_bytes(), type=dict[str, Any]
            )
        except (msgspec.MsgspecError, KeyError, TypeError, OSError):
            said, meta = {}, {}
        errors.seek(0)
        told = errors.read().decode(errors="replace")[-SAID_MAX:].strip()
        judged = said.get("verdict") and child.returncode in _JUDGED
        return CommandResult(child.returncode, said, meta, "" if judged else told)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Once more is no harm to a run that has heard of it already."""
    child.terminate()
    try:
        child.communicate(timeout=HEAL_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One seed: how the run ended, what it found, and after how many seconds of load; `why` is the
    reason of a verdict that is neither pass nor fail, or what a run said that gave none; `landed`
    is how many of its faults are proven."""

    seed: Annotated[int, msgspec.Meta(ge=1)]
    exit: int
    verdict: str
    anomalies: list[str]
    landed: Annotated[int, msgspec.Meta(ge=0)] = 0
    found_s: Annotated[float, msgspec.Meta(ge=0)] | None = None
    version: str = ""
    why: str = ""


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """All trials of one entry, and what was run: trials of another command say nothing of it."""

    id: str
    command: tuple[str, ...]
    trials: list[Trial]


def as_expected(finding: Finding, trial: Trial) -> bool:
    """Did the run end as it must, and for the right reason? One without a verdict never did."""
    if trial.exit != finding.expect:
        return False
    if finding.short_of:
        short = trial.verdict.startswith("PARTIAL") and trial.why == finding.short_of
        return short and not trial.anomalies
    if finding.expect == Exit.PASS:
        return trial.verdict.startswith("PASS") and not trial.anomalies
    how = showing(
        trial.anomalies,
        finding.anomalies,
        finding.beside,
        planned=finding.has_faults,
        landed=trial.landed,
        by_fault=finding.by_fault,
    )
    return trial.verdict.startswith("FAIL") and how == "shown"


def command_with(finding: Finding, seed: int) -> list[str]:
    """The words of the command for one seed."""
    return [*finding.command, "--seed", str(seed)]


Runs = Callable[[Sequence[str]], CommandResult]


def measurements_of(finding: Finding, known: Sequence[Measurements]) -> Measurements:
    """What was measured of an entry as it is today."""
    same = (row for row in known if row.id == finding.id and row.command == finding.command)
    return next(same, Measurements(id=finding.id, command=finding.command, trials=[]))


def measure(
    finding: Finding, seeds: Iterable[int], store: Path, lab_id: str | None, runs: Runs = by_command
) -> Iterator[Trial]:
    """One run per seed."""
    more = ["--store", str(store), *lab_id_words(finding.command, lab_id)]
    return (_trial(seed, runs([*command_with(finding, seed), *more])) for seed in seeds)


def with_trial(known: Sequence[Measurements], finding: Finding, trial: Trial) -> list[Measurements]:
    """The measurements and one more. A seed that was run again counts once, and trials of another
    version of the system say nothing of this one."""
    others = [
        old
        for old in measurements_of(finding, known).trials
        if old.seed != trial.seed and _same_version(old, trial)
    ]
    trials = sorted([*others, trial], key=lambda each: each.seed)
    row = Measurements(id=finding.id, command=finding.command, trials=trials)
    return [*(other for other in known if other.id != finding.id), row]


def _same_version(one: Trial, other: Trial) -> bool:
    """A run that ended early has none."""
    return one.version == other.version or not (one.version and other.version)


def _trial(seed: int, ended: CommandResult) -> Trial:
    verdict = ended.said.get("verdict") or {}
    checkers: dict[str, Any] = verdict.get("checkers") or {}
    anomalies = sorted(kinds_in(checkers))
    faults: list[dict[str, Any]] = (verdict.get("evidence") or {}).get("faults") or []
    passed_or_failed = ended.exit in (Exit.PASS, Exit.FAIL)
    return Trial(
        seed=seed,
        exit=ended.exit,
        verdict=str(verdict.get("verdict", _NO_VERDICT)),
        anomalies=anomalies,
        landed=sum(fault["landed"] == "yes" for fault in faults),
        found_s=ended.meta.get("load_s") if anomalies else None,
        version=str(ended.meta.get("system_version") or ""),
        why=ended.why or ("" if passed_or_failed else str(verdict.get("reason") or "")),
    )


def never_ran(trial: Trial) -> bool:
    """Was there no run at all, because its lab is in use, or the command or the machine is wrong?
    That says nothing of the entry. A run that began and broke off is a miss."""
    return trial.verdict == _NO_VERDICT and trial.exit in (Exit.USAGE, Exit.HARNESS)


def read(path: Path) -> list[Measurements]:
    """What a file has. Raises ConfigError where it cannot be read as measurements, or counts an
    entry or a seed twice."""
    try:
        rows = msgspec.json.decode(path.read_bytes(), type=list[Measurements])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} has no measurements: {error}", remedy="a file that `--results` has written"
        ) from None
    twice = [id_ for id_, count in Counter(row.id for row in rows).items() if count > 1]
    for row in rows:
        seeds = Counter(trial.seed for trial in row.trials)
        twice += [f"{row.id} seed {seed}" for seed, count in seeds.items() if count > 1]
    if twice:
        raise ConfigError(f"{path} counts {', '.join(twice)} twice", remedy="leave one of them")
    for row in rows:
        if strange := sorted({t.verdict for t in row.trials} - {_NO_VERDICT, *State}):
            raise ConfigError(
                f"{path}: {row.id} ended with {', '.join(strange)}, which is no verdict",
                remedy="leave those trials out",
            )
        if len(versions := sorted({t.version for t in row.trials} - {""})) > 1:
            raise ConfigError(
                f"{path} mixes versions {', '.join(versions)} in {row.id}",
                remedy="leave the trials of one of them",
            )
    return rows


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`as_expected` of `trials` ended as they must; the true rate lies between `rate_low` and
    `rate_high` (95 %, Wilson 1927). `after_s` is the median of the seconds of load until a
    violation was known, None where none was; `anomalies` are of those as expected, `missed` the
    seeds of the others."""

    trials: int
    as_expected: int
    rate_low: float
    rate_high: float
    after_s: float | None
    versions: list[str]
    anomalies: list[str]
    missed: list[int]


def summary(finding: Finding, trials: Sequence[Trial]) -> Summary:
    """Of trials of one entry."""
    good = [trial for trial in trials if as_expected(finding, trial)]
    rate = interval(len(good), len(trials))
    times = [trial.found_s for trial in good if trial.found_s is not None]
    return Summary(
        trials=rate.total,
        as_expected=rate.hits,
        rate_low=rate.low,
        rate_high=rate.high,
        after_s=statistics.median(times) if times else None,
        versions=sorted({trial.version for trial in trials if trial.version}),
        anomalies=sorted({kind for trial in good for kind in trial.anomalies}),
        missed=[trial.seed for trial in trials if trial not in good],
    )
