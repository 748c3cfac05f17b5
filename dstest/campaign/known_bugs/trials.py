"""The catalogue of published bugs and their controls, and `docs/findings.md`, the page of it.

A finding is a run that must fail in its own way. Its control is the same run but for one thing, and
must pass: with the setting that the documentation promises to be safe; where none is promised,
without the fault, or on the system that it was built from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dstest.campaign.known_bugs.entries.entry import Finding
from dstest.campaign.known_bugs.entries.queues import QUEUES
from dstest.campaign.known_bugs.entries.sql import SQL
from dstest.campaign.known_bugs.entries.stores import STORES
from dstest.campaign.known_bugs.measure import (
    Measurements,
    Summary,
    Trial,
    as_expected,
    measurements_of,
    summary,
)
from dstest.core.errors import Exit

CATALOGUE: Final[tuple[Finding, ...]] = (*SQL, *STORES, *QUEUES)

_HEAD: Final = """\
# Known bugs, found again

Published bugs, and documented weak settings, of the systems that dstest brings. Each is one
command, run with several seeds (`dstest findings ID` runs it), and has a control: the same run but
for one setting, which must pass. Commands:
[reference/findings.md](reference/findings.md).

A bug counts as found where the run fails with the published anomaly, and with none that does not
follow from it, and a fault has landed if the claim speaks of one. A control counts where the run
passes with all its faults landed; where its claim says that it is no cluster, it may be too small
for a pass. Shares have 95 % Wilson intervals: 10 of 10 is 72% to 100%, 20 of 20 is 84% to 100%.
`after` is the median of the seconds of load until the violation was known; what is lost is known
only after the load.

Published and not here: [findings/not-in-the-catalogue.md](findings/not-in-the-catalogue.md). Seen
here and published nowhere: [PostgreSQL](findings/postgresql-serializable.md),
[Tarantool](findings/tarantool-synchronous.md),
[ZooKeeper](findings/zookeeper-sync-at-the-leader.md).

{measured}
Made by `dstest findings --markdown --results docs/findings.json`; new measurements come
from `dstest findings ID --seeds N --results docs/findings.json`.

| | bug | found | anomalies | after | control | passed | source |
|---|---|---|---|---|---|---|---|
"""

_ALONE: Final = """
## Controls by themselves

| | claim | passed | source |
|---|---|---|---|
"""

_VERSIONS: Final = """
## Versions

| system | version |
|---|---|
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


def _share(told: Summary) -> str:
    if not told.trials:
        return "not measured"
    share = f"{told.as_expected} of {told.trials}"
    if told.as_expected == told.trials:
        return share  # the head has the intervals of 10 of 10 and 20 of 20
    return f"{share} ({told.rate_low:.0%} to {told.rate_high:.0%})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _row(finding: Finding, told: Summary, control: Finding | None, beside: Summary | None) -> str:
    found = [
        finding.id,
        f"{finding.system}: {finding.claim}",
        _share(told),
        ", ".join(told.anomalies) or "-",
        "-" if told.after_s is None else f"{told.after_s:.0f} s",
    ]
    if control is None or beside is None:
        return _line([*found, "-", "-", finding.source])
    name = "" if control.id == f"{finding.id}-control" else f"{control.id}: "
    return _line([*found, f"{name}{control.claim}", _share(beside), finding.source])


def _tables(rows: Sequence[tuple[Finding, list[Trial]]]) -> str:
    """Each bug with its control, then controls that stand beside none, then what was measured."""
    told = {finding.id: summary(finding, trials) for finding, trials in rows}
    by_name = {finding.id: finding for finding, _ in rows}
    bugs = [finding for finding, _ in rows if _kind(finding) == "finding"]
    paired = {finding.control for finding in bugs}
    alone = [f for f, _ in rows if _kind(f) == "control" and f.id not in paired]
    versions: dict[str, set[str]] = {}
    for finding, _ in rows:
        versions.setdefault(finding.system, set()).update(told[finding.id].versions)
    return "".join(
        [
            *(_row(f, told[f.id], by_name.get(f.control), told.get(f.control)) for f in bugs),
            _ALONE if alone else "",
            *(_line([f.id, f"{f.system}: {f.claim}", _share(told[f.id]), f.source]) for f in alone),
            _VERSIONS,
            *(
                _line([name, ", ".join(sorted(found)) or "-"])
                for name, found in sorted(versions.items())
            ),
        ]
    )


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
    return head + _tables(rows) + _misses(rows)
