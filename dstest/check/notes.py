"""What an answer says besides: how the history was read, and from what its objects started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dstest.check.source import is_jepsens
from dstest.core.errors import HistoryError
from dstest.core.history import INITIAL, NOT_READ

if TYPE_CHECKING:
    from dstest.core.check import CheckResult
    from dstest.core.history import Header, History

ASKED: Final = "as --initial says"
HEADER: Final = "as the history's header says"
SUCH: Final = "as in such files; --initial says otherwise"
USUAL: Final = "as usual; --initial says otherwise"
_SHOWN_MAX: Final = 80


def start_told(value: Any, why: str) -> str:
    """The sentence that tells which initial state an answer holds for."""
    told = json.dumps(value, default=repr)
    shown = told if len(told) <= _SHOWN_MAX else f"{told[:_SHOWN_MAX]}.."
    many = isinstance(value, dict)
    return f"{'keys start' if many else 'every key starts'} as {shown}, {why}"


def with_notes(result: CheckResult, *notes: str | None) -> CheckResult:
    """The answer with sentences after its reason."""
    reason = "; ".join(filter(None, [result.reason, *notes])) or None
    return result if reason == result.reason else replace(result, reason=reason)


def of_asked(history: History, asked: Any, *, alone: bool) -> History:
    """The history, without what is only implied of its own model where another one is asked.
    `asked` is the model, `alone`: nothing else is asked that may judge otherwise."""
    header = history.header
    implied = header.source is not None and header.model is not None
    if not implied or asked == header.model or (asked is None and alone):
        return history
    left = {name: value for name, value in header.options.items() if name != INITIAL}
    return replace(history, header=replace(header, model=None, options=left))


def _start(result: CheckResult, header: Header, initial: str | None) -> str | None:
    """Which initial state the answer holds for; None where that is no assumption."""
    if INITIAL in header.options:
        why = SUCH if header.source is not None else HEADER
        return start_told(header.options[INITIAL], ASKED if initial is not None else why)
    if header.source is None:
        return None
    from checkers.lin import catalogue
    from checkers.linearizable import CHECKER

    if result.checker != CHECKER.name or result.model not in catalogue.STARTS:
        return None
    model = catalogue.make(result.model, header.options)
    return f"every key starts as {model.show(model.initial)}, {USUAL}"


def noted(result: CheckResult, header: Header, initial: str | None) -> CheckResult:
    """The answer, with the initial state that it holds for, and the fields that nobody read."""
    stats = dict(result.stats)
    if INITIAL in header.options:
        stats[INITIAL] = header.options[INITIAL]
    told = with_notes(result, _start(result, header, initial))
    told = told if stats == result.stats else replace(told, stats=stats)
    return with_unread(
        told,
        {
            name.removeprefix(NOT_READ): n
            for name, n in header.counters.items()
            if name.startswith(NOT_READ)
        },
    )


def beside_jepsens(result: CheckResult, history: Path) -> CheckResult:
    """A valid answer, with what Jepsen found where it found something wrong: it has checkers that
    nobody has here. Other answers as they are."""
    file = history.parent / "results.edn"
    if result.valid is not True or not is_jepsens(history) or not file.is_file():
        return result
    from dstest.history.edn import read_all

    try:
        found = next(read_all(file.read_text(encoding="utf-8")), None)
    except (HistoryError, OSError, UnicodeDecodeError):
        return with_notes(result, "results.edn beside it cannot be read")
    if not isinstance(found, dict) or found.get("valid?") is not False:
        return result
    told = with_notes(result, "results.edn beside it says :valid? false")
    return replace(told, stats={**result.stats, "results_edn_valid": False})


def with_unread(result: CheckResult, unread: dict[str, int]) -> CheckResult:
    """The answer, with the fields that nobody read; `unread` counts their events."""
    if not unread:
        return result
    rows = ", ".join(f"{name} ({n:,} events)" for name, n in sorted(unread.items()))
    told = with_notes(result, f"fields that nobody read: {rows}")
    return replace(told, stats={**result.stats, "fields_not_read": unread})
