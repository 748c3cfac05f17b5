"""The sizes that the header of a DBCop history promises, held to what is in the file.

Its writers mean different things by the same four names:

| writer | `n_node` | `n_transaction` | `n_event` | `n_variable` |
|---|---|---|---|---|
| DBCop | sessions | of each session | of each transaction | no variable is that large |
| PolySI | sessions | in all | in all | variables that occur |
| AWDIT | 1 | in all, without a last session of what was aborted | the same | the same |

In new files of DBCop's the first session has one transaction more, which writes each variable.
Sizes that are all 0 promise nothing. Those that are none of these belong to another file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import HistoryError

SIZES: Final = ("n_node", "n_variable", "n_transaction", "n_event")
"""In the order of the binary files."""

_Session = Sequence[tuple[Sequence[Any], bool]]
"""Transactions: events, whose second part is a variable, and whether it was committed."""


class Held:
    """What is in a file, told session by session."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._names: set[Any] = set()
        self._before: set[Any] = set()
        self._last: _Session = ()

    def add(self, session: _Session) -> None:
        """One more session."""
        if len(session) == 1 and not session[0][1]:
            self._before = set(self._names)
        self._last = session
        self._rows.append([len(events) for events, _ in session])
        self._names |= {event[1] for events, _ in session for event in events}

    def require(self, sizes: Mapping[str, Any]) -> None:
        """Raises HistoryError where the file holds something else than its header promises."""
        if any(type(size) is not int or size < 0 for size in sizes.values()):
            raise HistoryError(f"params are no sizes: {dict(sizes)}", remedy="record it again")
        if not any(sizes.values()) or self._of_each(sizes) or self._in_all(sizes):
            return
        told = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        n = self._sums(self._rows, self._names)
        raise HistoryError(
            f"the header promises {told}, and the file holds {n['n_node']:,} sessions, "
            f"{n['n_transaction']:,} transactions, {n['n_event']:,} events, "
            f"{n['n_variable']:,} variables",
            remedy="copy the file again, or record it again; sizes of 0 promise nothing",
        )

    @staticmethod
    def _sums(rows: list[list[int]], names: set[Any]) -> dict[str, int]:
        found = (len(rows), len(names), sum(map(len, rows)), sum(map(sum, rows)))
        return dict(zip(SIZES, found, strict=True))

    def _of_each(self, sizes: Mapping[str, int]) -> bool:
        """Are these the sizes of each session, and of each transaction?"""
        rows, variables = self._rows, sizes.get("n_variable")
        each = sizes.get("n_transaction")
        if rows and each is not None and len(rows[0]) == each + 1:
            if variables not in (None, rows[0][0]):
                return False
            rows = [rows[0][1:], *rows[1:]]
        wanted = sizes.get("n_event")
        return (
            sizes.get("n_node", len(rows)) == len(rows)
            and (each is None or all(len(row) == each for row in rows))
            and (wanted is None or all(size == wanted for row in rows for size in row))
            and (variables is None or all(type(n) is not int or n < variables for n in self._names))
        )

    def _in_all(self, sizes: Mapping[str, int]) -> bool:
        """Are these the sizes of the whole?"""
        whole = self._sums(self._rows, self._names)
        if all(whole[name] == size for name, size in sizes.items()):
            return True
        aborted = len(self._last) == 1 and not self._last[0][1]
        kept = (self._rows[:-1], self._before) if aborted else (self._rows, self._names)
        return {**self._sums(*kept), "n_node": 1} == sizes
