"""A run of a marked test: what the marker asks for, as the words of `dstest run`, its execution,
and whether it has come to what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest

from dstest.core.check import Anomaly, CheckResult
from dstest.core.errors import DstestError, Exit
from dstest.core.evidence import LandingRecord, Tier
from dstest.core.processes import dstest
from dstest.core.run_words import pair_of, run_words, simulates
from dstest.core.verdict import NOT_RERUN, State, Verdict
from dstest.core.words import shell_word

if TYPE_CHECKING:
    from dstest.core.history import History


_FIELDS: Final[Mapping[str, str]] = {
    "system": "system",
    "workload": "workload",
    "nemesis": "nemesis",
    "time_limit_s": "time_limit_s",
    "nodes": "nodes",
    "rate": "rate",
    "concurrency": "concurrency",
    "seed": "seed",
    "seeds": "seeds",
    "tier": "tier",
    "model": "model",
    "system_version": "builds",
    "options": "options",
    "checkers": "checkers",
    "plugins": "files",
}
"""Arguments, in the order of their words, with the names that the words of a run have for them."""

_EACH: Final = ("builds", "checkers", "files")
"""Of these, each has a flag of its own."""

_OTHERS: Final = ("lab_id", "expect", "anomalies")
_GROUPS: Final[Mapping[str, str]] = {
    "pass": "PASS-",
    "fail": "FAIL-",
    "inconclusive": "INCONCLUSIVE-",
    "partial": "PARTIAL-",
}
"""A word for `expect`, and how the states begin that it means."""

_TIERS: Final = get_args(Tier)
"""Each better than the one before it."""


class MarkerArgs:
    """A marker's arguments. `expect` is a group of states or one state; `anomalies`, where a
    violation is expected, are those that it has to show and no other."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        self.lab_id: str | None = given.get("lab_id")
        self.tier: str | None = given.get("tier")
        self.expect: str = given.get("expect", "pass")
        self.anomalies: set[str] = set(given.get("anomalies", ()))

    def meets(self, state: str) -> bool:
        """Is this verdict one that is expected?"""
        return state.startswith(_GROUPS.get(self.expect, "\0")) or state == self.expect

    @property
    def nodes(self) -> int:
        """The nodes of the largest cluster that is asked for. Raises ValueError where none is."""
        return max(_counts(self.given.get("nodes", 5)))


def _counts(given: Any) -> list[int]:
    """Numbers, each above zero, of one or several, or of text with commas."""
    parts = given.split(",") if isinstance(given, str) else several(given)
    found = [int(part) for part in parts if type(part) in (int, str)]
    if not found or len(found) != len(parts) or min(found) < 1:
        raise ValueError(f"{given!r} is no count of nodes")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _malformed(kwargs: Mapping[str, Any]) -> str:
    """What is of another type than its argument takes; empty where nothing is."""
    for name, value in kwargs.items():
        if value is None and name != "expect":
            continue
        takes, fits = _TAKES[name]
        if not fits(value):
            return f"{name}={value!r}: it takes {takes}"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple | set) and all(map(_is_text, value))


def _are_nodes(value: Any) -> bool:
    try:
        return bool(_counts(value))
    except ValueError:
        return False


def _may_be_number(value: Any) -> bool:
    """The words of `dstest run` may say it as text, such as `90`: those it reads itself."""
    return _is_number(value) or _is_text(value)


def _are_seeds(value: Any) -> bool:
    return bool(several(value)) and all(map(_may_be_number, several(value)))


def _are_options(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _is_path(value: Any) -> bool:
    return _is_text(value) or isinstance(value, PurePath)


def _are_paths(value: Any) -> bool:
    return isinstance(value, list | tuple | set) and all(map(_is_path, value))


_TEXT: Final = ("a text", _is_text)
_TEXTS: Final = ("a list of texts", _are_texts)
_PATHS: Final = ("a list of names or paths", _are_paths)
_NUMBER: Final = ("a number", _may_be_number)
_TAKES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "system": _TEXT,
    "workload": _TEXT,
    "nemesis": _TEXT,
    "time_limit_s": _NUMBER,
    "nodes": ("a number above 0, or a list of such", _are_nodes),
    "rate": _NUMBER,
    "concurrency": _NUMBER,
    "seed": ("a number, or a list of numbers", _are_seeds),
    "seeds": _NUMBER,
    "tier": _TEXT,
    "model": _TEXT,
    "system_version": ("a name or a path, or a list", lambda v: _are_paths(several(v))),
    "options": ("a dict of names and values", _are_options),
    "checkers": _PATHS,
    "plugins": _PATHS,
    "lab_id": _TEXT,
    "expect": _TEXT,
    "anomalies": _TEXTS,
}
"""Of each argument, what it takes in words, and whether a value is that."""


def _wrong(said: str) -> Any:
    pytest.fail(f"@pytest.mark.dstest: {said}", pytrace=False)


def marker_args(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> MarkerArgs:
    """Fails the test where the marker cannot be meant: nothing of it is passed over."""

    known = [*_FIELDS, *_OTHERS]
    if args:
        _wrong("give its arguments by name, such as system='etcd'")
    if strange := [name for name in kwargs if name not in known]:
        _wrong(f"{strange[0]} is no argument of it; those are {', '.join(known)}")
    if malformed := _malformed(kwargs):
        _wrong(malformed)
    asked = MarkerArgs({name: value for name, value in kwargs.items() if value is not None})
    if asked.expect not in {*_GROUPS, *State}:
        _wrong(f"expect={asked.expect!r}: {', '.join([*_GROUPS, *State])}")
    if asked.anomalies and asked.expect not in ("fail", *(s for s in State if s.failed)):
        _wrong("anomalies are for expect='fail'")
    return asked


def several(value: Any) -> list[Any]:
    """A list of what may be one or many."""
    return list(value) if isinstance(value, list | tuple) else [value]


def words_of(asked: MarkerArgs) -> list[str]:
    """The arguments of `dstest run`."""
    said: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = asked.given.get(name)
        if value is not None and name != "options":
            each = [str(one) for one in (value if isinstance(value, set) else several(value))]
            said[field] = each if field in _EACH else ",".join(each)
    options = asked.given.get("options") or {}
    pairs = [pair_of(name, value) for name, value in options.items()]
    return run_words(said, pairs, list(_FIELDS.values()))[1:]


class Run:
    """What `dstest run --json` said, and the files that it left.

    `path` is the directory of the run or session, `exit` the exit code, `state` one of the ten
    states, `violated` whether a violation was found. `verdict` is the run's, None for a session,
    whose runs are in `runs`. `problem` says why the run is not what the marker expects, empty where
    it is.
    """

    def __init__(self, shown: dict[str, Any], asked: MarkerArgs) -> None:
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
        from dstest.history.jsonl import read_history

        if self.session:
            raise AttributeError("a session has a history for each of its runs")
        return read_history(self.path / "history.jsonl")

    @property
    def headline(self) -> str:
        """What happened, in a sentence: of a violation what the system did wrong."""
        from dstest.store.export.gather import result_of_run

        return self.reason if self.session else result_of_run(self.path).sentence

    def _verdicts(self) -> list[Verdict]:
        if self.verdict is not None:
            return [self.verdict]
        files = [run / "verdict.json" for run in self.runs]
        return [msgspec.json.decode(f.read_bytes(), type=Verdict) for f in files if f.is_file()]


def _problem(run: Run, asked: MarkerArgs) -> str:
    """Why the run is not what is expected; empty where it is."""
    why = _difference(run, asked)
    if not why:
        return ""
    lines = [f"dstest: {_told(run)}: {why}", run.headline]
    if asked.expect != "pass":
        lines[0] += f" (expected: {asked.expect})"
    return "\n".join([*lines, f"report: {run.report}", *_next(run)])


def _told(run: Run) -> str:
    """The state as people are told it: a failure that nobody has run again is called that."""
    if run.verdict is not None:
        return run.verdict.shown
    files = [path / "verdict.json" for path in run.runs if _failed(path)]
    told = {msgspec.json.decode(file.read_bytes(), type=Verdict).shown for file in files}
    return NOT_RERUN if run.state.startswith("FAIL-") and told == {NOT_RERUN} else run.state


_LABELS: Final[Mapping[str, str]] = {
    "replay": "does it come again",
    "blame": "whose fault is it",
    "shrink": "what does it take",
}
"""By verb of a command that finds out more of a failure."""


def _labelled(command: str, lab: str) -> str:
    """A command that finds out more of a run in this lab, with what it answers."""
    verb = command.partition("dstest ")[2].partition(" ")[0]
    elsewhere = simulates(lab) and f" --lab {lab}" not in command
    other = "does it come on nodes" if elsewhere else "does another seed show it"
    return f"{_LABELS.get(verb, other)}: {command}"


def _next(run: Run) -> list[str]:
    """The command of the run again, what explains a failure and makes it certain, as a terminal
    names them, and what finds out more of it."""
    from dstest.store.export.gather import result_of_run

    try:
        one = next((r for r in run.runs if not run.session or _failed(r)), None)
        facts = None if one is None else result_of_run(one)
    except (DstestError, OSError):
        return []
    if facts is None or facts.run is None:
        return []
    again = [f"again: {facts.command}"] if facts.command else []
    if not facts.steps:
        return again
    certain = [f"why: dstest explain {shell_word(facts.path)}"]
    certain += [f"next: {command}" for command in [facts.confirm] if command]
    return [*again, *certain, *(_labelled(command, facts.run.lab) for command in facts.steps)]


def _failed(run: Path) -> bool:
    file = run / "verdict.json"
    if not file.is_file():
        return False
    return msgspec.json.decode(file.read_bytes(), type=Verdict).verdict.failed


def _difference(run: Run, asked: MarkerArgs) -> str:
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


def simulated_kind(asked: MarkerArgs, config: pytest.Config) -> str | None:
    """The kind of lab where its nodes are simulated, and come and go with each run; else None."""

    kind = str(config.getini("dstest_lab"))
    named = asked.lab_id or config.getini("dstest_lab_id")
    return kind if kind and not named and simulates(kind) else None


def execute(asked: MarkerArgs, where: list[str], config: pytest.Config) -> Run:
    """`where` are the words for its lab. Errors where there is no verdict: then nothing of the test
    was done."""
    store = config.rootpath / str(config.getini("dstest_store"))
    words = ["run", "--json", "--store", str(store), *where, *words_of(asked)]
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
