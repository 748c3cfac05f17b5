"""A rule of plans: its number, what it asks for, what to do about it, and who looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from dstest.core import rules
from dstest.plans.model import Item, Plan

Severity = Literal["error", "warning"]

Where = tuple[int, str]
"""(line, what is wrong there)."""

_BLOCKING: Final = frozenset({*range(3, 7), 10, 17, *range(19, 26), 37})
"""Numbers of the rules without which a scenario must not run."""


class Rule(rules.Rule[Plan, Iterable[Where]], frozen=True, kw_only=True):
    """It finds each place where a plan breaks it."""

    remedy: str

    @property
    def severity(self) -> Severity:
        """`error` where a plan that breaks it must not run."""
        return "error" if int(self.id[1:]) in _BLOCKING else "warning"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, the line of the plan that breaks it, what is wrong and what to do about it."""

    rule: str
    severity: Severity
    line: int
    what: str
    remedy: str


def at(place: Item | int, what: str) -> Where:
    """What is wrong with an item, or in a line."""
    return (place if isinstance(place, int) else place.line), what
