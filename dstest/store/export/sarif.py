"""Results as SARIF 2.1.0: a rule for each kind of anomaly, with what it means as its help.

A result stands at the line of history.jsonl that gave it away. A run that proved nothing, or is not
to be believed, is a result as well, whose rule is the word of its verdict: a log without results
looks like a pass.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dstest import __version__
from dstest.core.summary import Violation
from dstest.core.verdict import State
from dstest.core.words import sentences
from dstest.report.ci_formats import render_log, shown_path, uri_of
from dstest.report.model import MEANING
from dstest.store.export.formats import ENDED_EARLY, NOT_BELIEVED, Result

_HELP: Final = {state.value: text for state, text in MEANING.items()} | {
    NOT_BELIEVED: "There is no verdict to believe: the run is not over, was cut off or edited, or "
    "cannot be judged. It proves nothing.",
    ENDED_EARLY: "The run did not come to its end. That nothing was found in it is no pass.",
}


class _Rules:
    """The rules of a log in the order that they are first met in, each once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}

    def index(self, id_: str, title: str, help_: str) -> int:
        if id_ not in self._index:
            self._index[id_] = len(self.rows)
            self.rows.append(
                {
                    "id": id_,
                    "name": id_,
                    "shortDescription": {"text": title},
                    "fullDescription": {"text": help_},
                    "help": {"text": help_},
                    "defaultConfiguration": {"level": "error"},
                    "properties": {"tags": ["dstest"], "precision": "very-high"},
                }
            )
        return self._index[id_]


def _place(path: Path, line: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": uri_of(path)}}
    if line is not None:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _named(result: Result) -> dict[str, Any]:
    name = {"fullyQualifiedName": shown_path(result.path), "kind": "resource"}
    return {"logicalLocations": [name]}


def _print(text: str, seen: Counter[str]) -> dict[str, str]:
    """The same for the same violation of the same test, whichever run shows it. GitHub tells alerts
    apart by `primaryLocationLineHash`, which it would else take from the line of the history."""
    hashed = hashlib.sha256(text.encode()).hexdigest()
    seen[hashed] += 1
    return {
        "dstestViolation/v1": text,
        "primaryLocationLineHash": f"{hashed[:16]}:{seen[hashed]}",
    }


def _of_violation(
    result: Result, one: Violation, rules: _Rules, seen: Counter[str]
) -> dict[str, Any]:
    run = result.run
    assert run is not None
    history = result.path / "history.jsonl"
    first, *others = one.lines or (None,)
    said = sentences(f"{run.test.system} {one.did}: {one.explanation}", one.where)
    row: dict[str, Any] = {
        "ruleId": one.type,
        "ruleIndex": rules.index(one.type, f"{one.type}: the system {one.did}", one.means),
        "level": "error",
        "message": {"text": f"{said} Report: {shown_path(result.path / 'report.html')}"},
        "locations": [{**_place(history, first), **_named(result)}],
        "partialFingerprints": _print(
            f"{run.test.system}/{run.test.workload}/{one.fingerprint}", seen
        ),
        "properties": {
            "verdict": result.word,
            "checker": one.checker,
            "key": one.key,
            "seed": run.test.seed,
            "nemesis": run.test.nemesis,
            "systemVersion": run.test.version,
            "tier": run.tier_met,
            "faultsLanded": f"{run.faults_landed} of {run.faults_planned}",
            "command": run.command,
        },
    }
    if others:
        row["relatedLocations"] = [_place(history, line) for line in others]
    return row


def _of_verdict(result: Result, rules: _Rules, seen: Counter[str]) -> dict[str, Any]:
    word = result.word
    title = word if word in {*State} else {NOT_BELIEVED: "no verdict to believe"}.get(word, word)
    shown = result.path / ("report.html" if result.state is not None else "")
    of = "" if result.run is None else f"{result.run.test.system}/{result.run.test.workload}/"
    return {
        "ruleId": word,
        "ruleIndex": rules.index(word, title, _help(result)),
        "level": "error",
        "message": {"text": f"{shown_path(result.path)}: {result.reason}"},
        "locations": [{**_place(shown, None), **_named(result)}],
        "partialFingerprints": _print(f"{of}{word}", seen),
    }


def _times(result: Result, fingerprint: str) -> int:
    """How often the checker found it that found most."""
    assert result.run is not None
    counts = {(one.checker, one.kind): one.count for one in result.run.counted}
    return max(
        counts.get((one.checker, one.type), 1)
        for one in result.run.violations
        if one.fingerprint == fingerprint
    )


def _help(result: Result) -> str:
    if result.kind == "session" and result.state is not None and result.state.passed:
        return "The session's arms passed, and did not meet the budget that was asked for."
    return _HELP[result.word]


def render_sarif(results: Sequence[Result], exit_code: int) -> str:
    """The log as JSON. A green result has none; of a run's violations with one fingerprint the
    first stands for all, and an arm's stand once, at the arm."""
    rules, seen = _Rules(), Counter[str]()
    rows: list[dict[str, Any]] = []
    for result in results:
        failed = result.state is not None and result.state.failed and not result.green
        found = result.run.violations if failed and result.run is not None else ()
        for one in {one.fingerprint: one for one in reversed(found)}.values():
            rows.append(_of_violation(result, one, rules, seen))
            rows[-1]["occurrenceCount"] = _times(result, one.fingerprint)
        if not found and not result.green:
            rows.append(_of_verdict(result, rules, seen))
    driver = {
        "name": "dstest",
        "version": __version__,
        "rules": rules.rows,
    }
    troubles = [
        {"level": "error", "message": {"text": f"{shown_path(one.path)}: {one.reason}"}}
        for one in results
        if one.state is None
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not troubles, "exitCode": exit_code}
    if troubles:
        invocation["toolExecutionNotifications"] = troubles
    return render_log(driver, invocation, rows)
