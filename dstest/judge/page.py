"""`docs/verdicts.md`: the verdicts, the rules that choose between them, and what they look at.

    python -m dstest.judge.page >docs/verdicts.md

Order, states, exit codes, row titles and budgets are those of the code; the sentences are here.
"""

from __future__ import annotations

import sys
from typing import Final

from dstest.core.verdict import State, exit_code
from dstest.judge.audit import TITLES
from dstest.judge.budgets import SHAPES, TIERS, UNITS
from dstest.judge.rules import RULES

STATES: Final[dict[State, str]] = {
    State.PASS_SMOKE: "no violation was found, faults landed; one seed or one size says no more",
    State.PASS_HARDENING: "no violation was found by arms that meet the hardening budget",
    State.FAIL_REPRODUCIBLE: "a violation was found, and again with the same seed",
    State.FAIL_NONDETERMINISTIC: "a violation was found, and not (yet) again",
    State.INCONCLUSIVE_ENV: "the environment lacks what the run needs",
    State.INCONCLUSIVE_ORACLE: "the judges could not have told a pass from a violation",
    State.INCONCLUSIVE_FAULT: "a planned fault is not proven to have landed",
    State.PARTIAL_SURFACE: "only the surface was looked at",
    State.PARTIAL_MODEL: "only a part of what was asked was judged",
    State.NOT_RUN: "it was declared and never attempted",
}

WHEN: Final[dict[tuple[str, State], str]] = {
    ("V01", State.NOT_RUN): "the run was never attempted",
    ("V02", State.INCONCLUSIVE_ENV): "the environment lacks a capability that the run needs",
    ("V03", State.FAIL_REPRODUCIBLE): "a violation in a sound history, seen again by a re-run",
    ("V04", State.FAIL_NONDETERMINISTIC): "a violation in a sound history",
    ("V05", State.INCONCLUSIVE_ORACLE): "the history contradicts itself (a corrupt lint)",
    ("V06", State.INCONCLUSIVE_FAULT): "a planned fault did not land for certain, or RF3 or RF4 "
    "is short",
    ("V07", State.PARTIAL_SURFACE): "a declared checker did not run, or read no operation",
    ("V08", State.INCONCLUSIVE_ORACLE): "a checker could not decide, or a lint says weak",
    ("V09", State.PARTIAL_MODEL): "not every operation and key was judged",
    ("V10", State.INCONCLUSIVE_ORACLE): "RF1, RF5 or RF9 is short",
    ("V10", State.PARTIAL_SURFACE): "RF2 is short: no broken copy was rejected, or nothing judged",
    ("V10", State.PARTIAL_MODEL): "another red flag is short, or the audit lacks a row",
    ("V11", State.PASS_SMOKE): "clean, and no fault was planned",
    ("V12", State.PARTIAL_SURFACE): "a WO row about the oracle is short, and only the surface was "
    "judged",
    ("V12", State.PARTIAL_MODEL): "a WO row about the oracle is short",
    ("V12b", State.PASS_SMOKE): "clean, and RF10, WO6, WO7, WO10 or WO11 is short: too narrow; or "
    "servers and clients ran in one process",
    ("V13", State.PARTIAL_MODEL): "not even the smoke budget was met",
    ("V14", State.PASS_SMOKE): "clean, and only the smoke budget was met, or RF6 is short",
    ("V15", State.PASS_HARDENING): "none of the above",
}

LINTS: Final = {
    "H01": "every record has all twelve fields",
    "H02": "no op_id stands twice",
    "H03": "the clock of the time stamps is named, and one",
    "H04": "what never completed is marked unknown",
    "H05": "an unknown operation has no answer",
    "H06": "nothing completes before it was invoked, or was due after that",
    "H07": "no operation has an output and an error",
    "H08": "the fault epoch of each operation is that of its time",
    "H09": "one operation at a time per process, and a new process after an unknown one",
    "H10": "each answer says which node gave it",
    "H11": "every type of operation is one that the model knows",
    "H12": "the fields are there without which the checkers of a family would be unsound",
    "H13": "business keys are not op_ids, and some are used twice",
    "H14": "what was counted while recording is what the file holds",
    "H15": "where the client may retry unseen, not everything succeeded while faults stood",
    "H16": "not more requests went over the wire than calls were made: nothing was sent again",
    "H17": "the checkers judged every operation",
    "H18": "every window of a landed fault, and every node, saw enough operations",
}


def _table(head: str, rows: list[str]) -> list[str]:
    columns = head.count("|") - 1
    return [head, "|" + "---|" * columns, *rows, ""]


def _tiers() -> list[str]:
    rows = []
    for tier, need in TIERS.items():
        asked = ", ".join(f"{n:,.0f} {UNITS[key]}" for key, n in need.items())
        shape = SHAPES[tier]
        sizes = ", ".join(map(str, shape.sizes))
        rows.append(f"| `{tier}` | {asked} | {shape.seeds} | {sizes} | {shape.time_limit_s:g} s |")
    return _table("| `--tier` | asks for at least | seeds | sizes | load of each arm |", rows)


def markdown() -> str:
    """The page."""
    lines = ["# Verdicts", ""]
    lines += ["Written by `python -m dstest.judge.page`; do not edit.", ""]
    lines += _table(
        "| verdict | exit | means |",
        [f"| `{s.value}` | {int(exit_code(s))} | {STATES[s]} |" for s in State],
    )
    lines += [
        "A run that ended early is never a pass: 1 where a violation was found, else 3, 4 or 130.",
        "",
    ]
    lines += ["## Rules", "", "The first that holds decides.", ""]
    lines += _table(
        "| rule | verdict | when |",
        [f"| {r.id} | `{r.state.value}` | {WHEN[r.id, r.state]} |" for r in RULES],
    )
    lines += [
        "## Budgets",
        "",
        "Seeds run at the first size, the first seed at the others too.",
        "",
    ]
    lines += _tiers()
    lines += ["## Audit", "", "Each row is ok, short or n/a; one that is missing is short.", ""]
    lines += _table("| row | holds when |", [f"| {n} | {said} |" for n, said in TITLES.items()])
    lines += [
        "## History lints",
        "",
        "What fails is corrupt, weak or a warning, by its gravity.",
        "",
    ]
    lines += _table("| lint | holds when |", [f"| {n} | {said} |" for n, said in LINTS.items()])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
