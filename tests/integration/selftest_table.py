"""The table of `make nemesis-selftest`: what the tests have shown of each fault N01 to N33.

A test leaves run directories behind; what they recorded is read, not what the test was called, but
for one thing: a test with `kill_9` in its name kills dstest in mid-fault and passes only when the
nodes healed without us.

| column | from |
|---|---|
| landed | a run whose record says yes, with its numbers, and whose heal was proven |
| sabotaged | tests in which the fault was sabotaged: not landed, INCONCLUSIVE-fault-not-proven |
| without us | tests that kill dstest in mid-fault |
| clean | the leak audit of the run that landed |
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.verdict import State
from dstest.runner.nemesis_loop import describe
from nemeses.catalogue import FaultRow

__all__ = ["Seen", "look_at", "short", "table"]

_SHAPES = {
    "one": "N10",
    "minority": "N10",
    "majority": "N11",
    "leader": "N12",
}
_WIDE = 90


@dataclass(frozen=True, slots=True)
class Seen:
    """One run of one test."""

    test: str
    verdict: str | None
    leaks: list[str]
    system: str = ""
    records: list[LandingRecord] = field(default_factory=list)


def look_at(test: str, folder: Path) -> list[Seen]:
    """What the runs below a test's folder recorded."""
    found = []
    for path in sorted(folder.glob("**/run.json")):
        run = path.parent
        facts = json.loads(path.read_text())
        lines = run / "faults.jsonl"
        verdict = run / "verdict.json"
        if lines.exists() and verdict.exists():
            records = [
                msgspec.json.decode(line, type=LandingRecord)
                for line in lines.read_bytes().splitlines()
            ]
            residue: dict[str, list[str]] = facts.get("residue", {"cluster": ["not audited"]})
            leaks = [f"{node}: {row}" for node, rows in residue.items() for row in rows]
            said = json.loads(verdict.read_text())["verdict"]
            found.append(Seen(test, said, leaks, facts["spec"]["system"], records))
    return found


def _numbers(record: LandingRecord, known: Iterable[FaultRow]) -> set[str]:
    """The faults that a record is one of."""
    offered = {row.number for row in known if record.nemesis in row.nemeses}
    if record.nemesis == "partition":
        one_way = record.facts.get("direction") in ("in", "out")
        return {"N06"} if one_way else {_SHAPES.get(str(record.facts.get("shape")), "N05")}
    if record.nemesis == "clock":
        return {"N24"} if record.facts.get("rate", 1.0) != 1.0 else {"N23"}
    return offered


def short(text: str) -> str:
    text = text.replace("|", "/").replace("\n", " ")
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"


def _landing(number: str, rows: list[FaultRow], seen: list[Seen]) -> tuple[str, str, str]:
    """(landed, healed, clean) of the best run that there is."""
    best = ("-", "-", "-")
    for run in seen:
        for record in run.records:
            if record.landed == "yes" and number in _numbers(record, rows):
                clean = "yes" if not run.leaks else short("; ".join(run.leaks))
                told = (short(describe(record)), "yes" if record.heal_verified else "NO", clean)
                if told[1:] == ("yes", "yes"):
                    return told
                best = told
    return best


def table(rows: list[FaultRow], seen: list[Seen]) -> str:
    """Markdown; `seen` are the runs of tests that passed."""
    lines = [
        "| | fault | landed | healed | sabotaged | without us | clean |",
        "|---|---|---|---|---|---|---|",
    ]
    complete = 0
    for row in rows:
        if not row.delivered:
            lines.append(f"| {row.number} | {row.name} | refused: {row.reason} | | | | |")
            continue
        landed, healed, clean = _landing(row.number, rows, seen)
        mine = [s for s in seen if any(r.nemesis in row.nemeses for r in s.records)]
        sabotaged = {
            s.test
            for s in mine
            if s.verdict == State.INCONCLUSIVE_FAULT
            and any(r.landed != "yes" for r in s.records)
            and "kill_9" not in s.test
        }
        alone = {s.test for s in mine if "kill_9" in s.test}
        complete += landed != "-" and healed == clean == "yes" and bool(sabotaged) and bool(alone)
        lines.append(
            f"| {row.number} | {row.name} | {landed} | {healed} | {len(sabotaged) or '-'} | "
            f"{len(alone) or '-'} | {clean} |"
        )
    total = sum(row.delivered for row in rows)
    lines += ["", f"{total} of {len(rows)} delivered, {complete} of them shown in every column"]
    return "\n".join(lines) + "\n"
