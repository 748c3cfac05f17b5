"""Run an entry of the catalogue with several seeds, each as the command that is printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from dstest.core.check import kinds_in
from dstest.core.errors import ConfigError, Exit
from dstest.core.known_bug import showing
from dstest.core.lab_words import lab_id_words
from dstest.core.verdict import State
from dstest.findings.child import Ended, by_command
from dstest.findings.entries.finding import Finding

_NO_VERDICT: Final = "none"


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


class Measured(msgspec.Struct, frozen=True, kw_only=True):
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


def seeded(finding: Finding, seed: int) -> list[str]:
    """The words of the command for one seed."""
    return [*finding.command, "--seed", str(seed)]


Runs = Callable[[Sequence[str]], Ended]


def measured_of(finding: Finding, known: Sequence[Measured]) -> Measured:
    """What was measured of an entry as it is today."""
    same = (row for row in known if row.id == finding.id and row.command == finding.command)
    return next(same, Measured(id=finding.id, command=finding.command, trials=[]))


def measure(
    finding: Finding, seeds: Iterable[int], store: Path, lab_id: str | None, runs: Runs = by_command
) -> Iterator[Trial]:
    """One run per seed."""
    more = ["--store", str(store), *lab_id_words(finding.command, lab_id)]
    return (_trial(seed, runs([*seeded(finding, seed), *more])) for seed in seeds)


def with_trial(known: Sequence[Measured], finding: Finding, trial: Trial) -> list[Measured]:
    """The measurements and one more. A seed that was run again counts once, and trials of another
    version of the system say nothing of this one."""
    others = [
        old
        for old in measured_of(finding, known).trials
        if old.seed != trial.seed and _same_version(old, trial)
    ]
    trials = sorted([*others, trial], key=lambda each: each.seed)
    row = Measured(id=finding.id, command=finding.command, trials=trials)
    return [*(other for other in known if other.id != finding.id), row]


def _same_version(one: Trial, other: Trial) -> bool:
    """A run that ended early has none."""
    return one.version == other.version or not (one.version and other.version)


def _trial(seed: int, ended: Ended) -> Trial:
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


def refused(trial: Trial) -> bool:
    """Was there no run at all, because its lab is in use, or the command or the machine is wrong?
    That says nothing of the entry. A run that began and broke off is a miss."""
    return trial.verdict == _NO_VERDICT and trial.exit in (Exit.USAGE, Exit.HARNESS)


def read(path: Path) -> list[Measured]:
    """What a file has. Raises ConfigError where it cannot be read as measurements, or counts an
    entry or a seed twice."""
    try:
        rows = msgspec.json.decode(path.read_bytes(), type=list[Measured])
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
