"""What clients were told where operations went wrong as no fault explains: the most frequent texts.

Out of the ordinary is a type of operation none of which succeeded, and one of which more than a
twentieth ended unknown while no fault stood; in a run without any fault, one of which any did; and
one of which any failed for certain by a code that the system does not list.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import msgspec

from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import NOT_LISTED, code_of

UNKNOWN_SHARE_MAX: Final = 0.05
"""Of the operations of a type, while no fault stands."""

UNSUPPORTED: Final = "unsupported operation"
"""How a client begins its answer to a type of operation for which it has no method."""

REASONS_MAX: Final = 20
"""Reasons that have a row of their own."""

_SHOWN_MAX: Final = 3
_WIDTH_MAX: Final = 160
_DIGITS: Final = re.compile(r"\d+")


class ErrorText(msgspec.Struct, frozen=True, kw_only=True):
    """An error and how often it came; texts that differ in digits alone are one."""

    text: str
    outcome: str
    count: int


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One type of operation that went wrong, and what it was told, the most frequent first."""

    op_type: str
    message: str
    texts: list[ErrorText]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why operations of one type did not succeed, `during` of them while a fault stood. Without
    an `op_type`: all others, of which there are `text`."""

    outcome: str
    op_type: str
    text: str
    count: int
    during: int


def reasons(history: History) -> list[Reason]:
    """All reasons of the run, the most frequent first; those beyond the first are one row."""
    counts: Counter[tuple[str, str, str]] = Counter()
    during: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for op in history.ops:
        if op.outcome is Outcome.OK:
            continue
        text = op.error or "no answer was recorded"
        kind = (op.outcome.value, op.op_type, _DIGITS.sub("#", text))
        counts[kind] += 1
        during[kind] += op.fault_epoch is not None
        first.setdefault(kind, text[:_WIDTH_MAX])
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    rows = [
        Reason(outcome=k[0], op_type=k[1], text=first[k], count=counts[k], during=during[k])
        for k in ranked[:REASONS_MAX]
    ]
    if rest := ranked[REASONS_MAX:]:
        rows.append(
            Reason(
                outcome="", op_type="", text=f"{len(rest):,} other reasons",
                count=sum(counts[k] for k in rest), during=sum(during[k] for k in rest),
            )
        )  # fmt: skip
    return rows


def unusual(history: History) -> list[ErrorRow]:
    """The types of operation that are out of the ordinary, by name."""
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault(op.op_type, []).append(op)
    calm = not history.header.windows and all(op.fault_epoch is None for op in history.ops)
    rows = [
        (name, "; ".join(filter(None, [_message(ops, calm), _unlisted(ops)])), ops)
        for name, ops in sorted(groups.items())
    ]
    return [
        ErrorRow(op_type=name, message=message, texts=_texts(ops))
        for name, message, ops in rows
        if message
    ]


def _message(ops: list[Op], calm: bool) -> str:
    """What is out of the ordinary with these; empty where nothing is. `calm`: no fault stood in the
    whole run."""
    if not any(op.outcome is Outcome.OK for op in ops):
        return f"none of {len(ops):,} operations succeeded"
    quiet = [op for op in ops if op.fault_epoch is None]
    unknown = sum(1 for op in quiet if op.outcome is Outcome.UNKNOWN)
    if unknown <= (0 if calm else UNKNOWN_SHARE_MAX * len(quiet)):
        return ""
    return f"{unknown:,} of {len(quiet):,} operations ended unknown while no fault stood"


def _unlisted(ops: list[Op]) -> str:
    """Codes that clients call definite and the system does not; empty where there are none."""
    errors = (op.error or "" for op in ops)
    codes = Counter(
        code_of(e.removeprefix(NOT_LISTED)) or "no code" for e in errors if e.startswith(NOT_LISTED)
    )
    told = ", ".join(f"{count:,} x {code}" for code, count in codes.most_common(_SHOWN_MAX))
    return told and f"{told} not listed in definite_errors: counted as unknown"


def _texts(ops: list[Op]) -> list[ErrorText]:
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for op in ops:
        if op.outcome is Outcome.OK:
            continue
        text = op.error or "no answer was recorded"
        kind = (op.outcome.value, _DIGITS.sub("#", text))
        counts[kind] += 1
        first.setdefault(kind, text[:_WIDTH_MAX])
    return [
        ErrorText(text=first[kind], outcome=kind[0], count=count)
        for kind, count in counts.most_common(_SHOWN_MAX)
    ]
