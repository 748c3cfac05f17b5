"""The catalogue of published bugs and their controls, and `docs/findings.md`, the page of it.

A finding is a run that must fail in its own way. Its control is the same run but for one thing, and
must pass: with the setting that the documentation promises to be safe; where none is promised,
without the fault, or on the system that it was built from.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from dstest.campaign.known_bugs.entries.entry import Finding
from dstest.campaign.known_bugs.entries.queues import QUEUES
from dstest.campaign.known_bugs.entries.sql import SQL
from dstest.campaign.known_bugs.entries.stores import STORES
from dstest.campaign.known_bugs.measure import (
    Measurements,
    Trial,
    as_expected,
    measurements_of,
    summary,
)
from dstest.core.errors import Exit

CATALOGUE: Final[tuple[Finding, ...]] = (*SQL, *STORES, *QUEUES)

_HEAD: Final = """\
# Known bugs, found again

Made by `dstest findings --markdown --results docs/findings.json` from what
`dstest findings ID --seeds N --results docs/findings.json` measured. Each row is one command, run
with several seeds. A finding counts where the run fails, names the anomaly that was published and
none that does not follow from it, and a fault has landed if the claim speaks of one. A control
counts where the run passes with all its faults landed, or has nothing against it and is too small
for a pass, where the claim says so. The interval is Wilson's, 95 %. `after` is the median of the
seconds of load until the violation was known: what only a last look can show (a lost element, a
lost message) is known at the end of the load. What was published and is not here:
[findings/not-in-the-catalogue.md](findings/not-in-the-catalogue.md). What was seen that nobody
had published: [PostgreSQL](findings/postgresql-serializable.md),
[Tarantool](findings/tarantool-synchronous.md),
[ZooKeeper](findings/zookeeper-sync-at-the-leader.md).

{measured}

| | claim | as expected | after | version | anomalies | command | source |
|---|---|---|---|---|---|---|---|
"""

_WHY_MAX: Final = 200


def by_id(id_: str) -> Finding | None:
    """The entry of that name."""
    return next((finding for finding in CATALOGUE if finding.id == id_), None)


_MISSES: Final = """
## Not as expected

| | seed | verdict | why |
|---|---|---|---|
"""


def _row(finding: Finding, trials: Sequence[Trial]) -> str:
    told = summary(finding, trials)
    shares = f"{told.as_expected} of {told.trials} ({told.rate_low:.0%} to {told.rate_high:.0%})"
    cells = [
        f"{finding.id} ({_kind(finding)})",
        finding.claim + (f"; control: {finding.control}" if finding.control else ""),
        shares if trials else "not measured",
        "-" if told.after_s is None else f"{told.after_s:.0f} s",
        ", ".join(told.versions) or "-",
        ", ".join(told.anomalies) or "-",
        f"`dstest {shlex.join(finding.command)}`",
        finding.source,
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _measured(rows: Sequence[tuple[Finding, list[Trial]]], kind: str) -> str:
    of_kind = [(finding, trials) for finding, trials in rows if _kind(finding) == kind]
    run = [(finding, trials) for finding, trials in of_kind if trials]
    always = sum(all(as_expected(finding, trial) for trial in trials) for finding, trials in run)
    return f"{len(run)} of {len(of_kind)} {kind}s, {always} of them as expected with each seed"


def _kind(finding: Finding) -> str:
    return "finding" if finding.expect == Exit.FAIL else "control"


def _misses(rows: Sequence[tuple[Finding, list[Trial]]]) -> str:
    """The trials that are not as expected, and what is known of each."""
    lines = [
        f"| {f.id} | {t.seed} | {t.verdict} | {_trial_text(t)} |\n"
        for f, trials in rows
        for t in trials
        if not as_expected(f, t)
    ]
    return _MISSES + "".join(lines) if lines else ""


def _trial_text(trial: Trial) -> str:
    """In one line: why it is neither pass nor fail, or what it found."""
    found = ", ".join(trial.anomalies) or "no anomaly"
    lines = trial.why.splitlines() or [f"{found}; faults that landed: {trial.landed}"]
    return lines[-1].strip().replace("|", "/")[:_WHY_MAX]


def markdown(results: Sequence[Measurements]) -> str:
    """The page."""
    rows = [(finding, measurements_of(finding, results).trials) for finding in CATALOGUE]
    counts = [_measured(rows, kind) for kind in ("finding", "control")]
    head = _HEAD.format(measured=f"Measured: {'; '.join(counts)}.")
    return head + "".join(_row(*row) for row in rows) + _misses(rows)
