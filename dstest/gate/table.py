"""All rules of the gate, by their numbers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Final

from dstest.gate import claims, controls, gather, provenance, relevance
from dstest.gate.asides import DONE
from dstest.gate.controls import FAIR, NOT_WORSE
from dstest.gate.gather import UNPROVEN
from dstest.gate.policy import Risk, Rule
from dstest.gate.provenance import ONCE


def _expired(seen: tuple[Risk, datetime.date]) -> Iterator[str]:
    risk, today = seen
    if risk.expires < today:
        yield f"{risk.owner} accepted it until {risk.expires}"


UNEXPIRED: Final = Rule("G36", "No accepted risk has expired", _expired)

_ALL: Final = (
    *(*gather.RULES, ONCE, *provenance.RULES, *relevance.RULES),
    *(*claims.SHORT, claims.VIOLATED, claims.KNOWN, claims.PASSED),
    *(controls.SHOWN, controls.PASSED, controls.MANY, DONE, FAIR, NOT_WORSE, UNEXPIRED, UNPROVEN),
)

RULES: Final[Mapping[str, Rule]] = {by.id: by for by in sorted(_ALL, key=lambda by: by.id)}


def table() -> str:
    """The rules as a Markdown table, as `docs/reference/rules.md` has it."""
    rows = ["| rule | holds when | exit | may be accepted |", "|---|---|---|---|"]
    rows += [
        f"| {rule.id} | {rule.title} | {int(rule.exit)} | {'yes' if rule.acceptable else 'no'} |"
        for rule in RULES.values()
    ]
    return "\n".join(rows)
