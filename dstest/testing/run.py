"""A run of a marked test: executed, and what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest

from dstest.core.check import Anomaly, CheckResult
from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.own_commands import dstest
from dstest.core.tiers import Tier
from dstest.core.verdict import Verdict
from dstest.testing.asked import Asked, words_of

if TYPE_CHECKING:
    from dstest.core.history import History

_TIERS: Final = get_args(Tier)
"""Each better than the one before it."""


class Run:
    """What `dstest run --json` said, and the files that it left.

    `path` is the directory of the run or session, `exit` the exit code, `state` one of the ten
    states, `violated` whether a violation was found. `verdict` is the run's, None for a session,
    whose runs are in `runs`. `problem` says why the run is not what the marker expects, empty where
    it is.
    """

    def __init__(self, shown: dict[str, Any], asked: Asked) -> None:
        self.shown = shown
        self.session = "session" in shown
        self.path = Path(shown["session" if self.session else "run"])
        self.exit: int = shown["exit"]
        told: dict[str, Any] = shown["verdict"]
        self.state: str = told["state"] if self.session else told["verdict"]
        self.reason: str = told["reason"]
        self.verdict = None if self.session else msgspec.convert(told, Verdict)
        self.tier: str = told["tier_met"] if self.session else told["evidence"]["budget"]["met"]
        self.violated = self.exit == Exit.FAIL or self.state.startswith("FAIL-")
        self.problem = _problem(self, asked)

    @property
    def report(self) -> Path:
        """The page that shows everything."""
        return self.path / "report.html"

    @property
    def runs(self) -> list[Path]:
        """Of a session its runs, else this one alone."""
        found = sorted(path.parent for path in self.path.glob("arms/*/*/segments"))
        return found if self.session else [self.path]

    @property
    def violations(self) -> list[Anomaly]:
        """All anomalies that checkers have found, of all runs."""
        return [
            anomaly
            for verdict in self._verdicts()
            for plain in verdict.checkers.values()
            if (result := msgspec.convert(plain, CheckResult)).valid is False
            for group in result.anomalies.values()
            for anomaly in group
        ]

    @property
    def anomaly_types(self) -> set[str]:
        """Names of what was found; of a violation that has none the word `violation`."""
        return {
            kind
            for verdict in self._verdicts()
            for plain in verdict.checkers.values()
            for kind in msgspec.convert(plain, CheckResult).kinds
        }

    @property
    def faults(self) -> list[LandingRecord]:
        """The landing records, of all runs."""
        return [
            msgspec.json.decode(line, type=LandingRecord)
            for run in self.runs
            for line in (run / "faults.jsonl").read_bytes().splitlines()
        ]

    @property
    def history(self) -> History:
        """The sealed history; of a session read those of its `runs`."""
        from dstest.store.jsonl import read_history

        if self.session:
            raise AttributeError("a session has a history for each of its runs")
        return read_history(self.path / "history.jsonl")

    @property
    def headline(self) -> str:
        """What happened, in a sentence: of a violation what the system did wrong."""
        from dstest.results.gather import result_of_run

        return self.reason if self.session else result_of_run(self.path).sentence

    def _verdicts(self) -> list[Verdict]:
        if self.verdict is not None:
            return [self.verdict]
        files = [run / "verdict.json" for run in self.runs]
        return [msgspec.json.decode(f.read_bytes(), type=Verdict) for f in files if f.is_file()]


def _problem(run: Run, asked: Asked) -> str:
    """Why the run is not what is expected; empty where it is."""
    why = _difference(run, asked)
    if not why:
        return ""
    lines = [f"dstest: {run.state}: {why}", run.headline]
    if asked.expect != "pass":
        lines[0] += f" (expected: {asked.expect})"
    return "\n".join([*lines, f"report: {run.report}", *_next(run)])


def _next(run: Run) -> list[str]:
    """The command of the run again, and what finds out more of a failure."""
    from dstest.core.errors import DstestError
    from dstest.results.gather import result_of_run

    try:
        one = next((r for r in run.runs if not run.session or _failed(r)), None)
        facts = None if one is None else result_of_run(one)
    except (DstestError, OSError):
        return []
    if facts is None or facts.run is None:
        return []
    again = [f"again: {facts.command}"] if facts.command else []
    return [*again, *(f"next: {command}" for command in facts.run.steps)]


def _failed(run: Path) -> bool:
    file = run / "verdict.json"
    if not file.is_file():
        return False
    return msgspec.json.decode(file.read_bytes(), type=Verdict).verdict.failed


def _difference(run: Run, asked: Asked) -> str:
    if not asked.meets(run.state):
        return "the run is not what this test expects"
    if asked.expect == "pass" or run.state.startswith("PASS-"):
        wanted = asked.tier or "smoke"
        if _TIERS.index(run.tier) < _TIERS.index(wanted):
            return f"it met the tier {run.tier}, and {wanted} was asked for"
        if run.exit != Exit.PASS:
            early = run.shown.get("ended_by") or "it is less than was asked for"
            return f"it is no pass (exit {run.exit}): {early}"
    if asked.anomalies and run.anomaly_types != asked.anomalies:
        found, wanted = (", ".join(sorted(s)) for s in (run.anomaly_types, asked.anomalies))
        return f"it shows {found or 'no anomaly'}, and {wanted} was expected"
    return ""


def execute(asked: Asked, lab_id: str, config: pytest.Config) -> Run:
    """Errors where there is no verdict: then nothing of the test was done."""
    store = config.rootpath / str(config.getini("dstest_store"))
    words = ["run", "--json", "--store", str(store), "--lab-id", lab_id, *words_of(asked)]
    done = dstest(words, config.rootpath)
    try:
        shown = msgspec.json.decode(done.stdout)
        usable = isinstance(shown, dict) and shown["verdict"] is not None
    except (msgspec.DecodeError, KeyError):
        usable = False
    if not usable or done.returncode not in (Exit.PASS, Exit.FAIL, Exit.NOT_PROVEN):
        said = "\n".join(done.stderr.strip().splitlines()[-20:]) or "it said nothing"
        pytest.fail(f"dstest run ended with {done.returncode}:\n{said}", pytrace=False)
    if shown["exit"] != done.returncode:
        pytest.fail(f"dstest run said {shown['exit']} and ended with {done.returncode}")
    return Run(shown, asked)
