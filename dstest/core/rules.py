"""A rule: an id for grep, a sentence for people, and a function from a view of something to what it
finds there.

Tables of these are the audit, the lints and the decision table of runs, the gate, the checks of
logs, alerts, the signs of patterns, the lints of plans and the review of reports. What one of them
needs beside, as an exit code, it adds to a rule of its own kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")
F = TypeVar("F")


class Rule(msgspec.Struct, Generic[V, F], frozen=True):
    """`title` says what holds where all is well, or what is looked for."""

    id: str
    title: str
    find: Callable[[V], F]
