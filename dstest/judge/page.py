"""`docs/reference/verdicts.md`: the verdicts, the rules that choose between them, and what they
look at.

    python -m dstest.judge.page >docs/reference/verdicts.md

All of it is that of the code; what a state means is said here.
"""

from __future__ import annotations

import sys
from typing import Final

from dstest.core.verdict import State, exit_code
from dstest.judge.audit import TITLES
from dstest.judge.causes import CAUSES
from dstest.judge.decide import RULES
from dstest.judge.facts import SHAPES, TIER_NEEDS, UNITS
from dstest.judge.lints import LINTS

STATES: Final[dict[State, str]] = {
    State.PASS_SMOKE: "no violation was found, faults landed; one seed or one size says no more",
    State.PASS_HARDENING: "no violation was found by runs that meet the hardening budget",
    State.FAIL_REPRODUCIBLE: "a violation was found, and again with the same seed",
    State.FAIL_NONDETERMINISTIC: "a violation was found, and not (yet) again",
    State.INCONCLUSIVE_ENV: "the environment lacks what the run needs",
    State.INCONCLUSIVE_ORACLE: "the judges could not have told a pass from a violation",
    State.INCONCLUSIVE_FAULT: "a planned fault is not proven to have landed",
    State.PARTIAL_SURFACE: "only the surface was looked at",
    State.PARTIAL_MODEL: "only a part of what was asked was judged",
    State.NOT_RUN: "it was declared and never attempted",
}


def _table(head: str, rows: list[str]) -> list[str]:
    columns = head.count("|") - 1
    return [head, "|" + "---|" * columns, *rows, ""]


def _tiers() -> list[str]:
    rows = []
    for tier, need in TIER_NEEDS.items():
        asked = ", ".join(f"{n:,.0f} {UNITS[key]}" for key, n in need.items())
        shape = SHAPES[tier]
        sizes = ", ".join(map(str, shape.sizes))
        rows.append(f"| `{tier}` | {asked} | {shape.seeds} | {sizes} | {shape.time_limit_s:g} s |")
    return _table("| `--tier` | asks for at least | seeds | sizes | load of each run |", rows)


def _remedies() -> list[str]:
    """What keeps a run from a pass, and what is to be done: a row for each of these."""
    rows = []
    for todo in dict.fromkeys(cause.todo for cause in CAUSES):
        causes = [cause for cause in CAUSES if cause.todo == todo]
        ids = dict.fromkeys(name for cause in causes for name in cause.ids.split())
        words = [words.strip(" :") for cause in causes for words in cause.words.split("|")]
        rows.append(f"| {' / '.join(words)} | {', '.join(ids)} | {todo} |")
    return _table("| line (`..`: what differs) | of | what to do |", rows)


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
        [f"| {r.id} | `{r.state.value}` | {r.title} |" for r in RULES],
    )
    lines += [
        "## Budgets",
        "",
        "Seeds run at the first size, the first seed at the others too.",
        "",
    ]
    lines += _tiers()
    lines += ["## Audit", "", "Each row is ok, short (not met) or n/a; a missing row is short.", ""]
    lines += _table("| row | holds when |", [f"| {n} | {said} |" for n, said in TITLES.items()])
    lines += [
        "## History lints",
        "",
        "A failed lint is corrupt, weak or a warning.",
        "",
    ]
    lines += _table("| lint | holds when |", [f"| {lint.id} | {lint.title} |" for lint in LINTS])
    lines += [
        "## Remedies",
        "",
        "By the words of the line that keeps a run from a pass; `try:` is the command for that.",
        "",
    ]
    lines += _remedies()
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
