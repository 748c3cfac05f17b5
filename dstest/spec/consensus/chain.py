"""`Chain`: a log as a value. It can be hashed, shares what it has in common with others, and finds
the entry at an index in time that grows with the logarithm of its length.

Source of the jumps: Myers, "An Applicative Random-Access Stack" (1983).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """An entry: its term, what stands for its content, and the ids of those that vote from there
    on, None where it does not change them."""

    term: int
    mark: str
    voters: tuple[int, ...] | None = None


class Chain:
    """Entries are counted from 1; `index`, `term` and `row` are of the last, `voters` of the last
    that says so."""

    __slots__ = ("_hash", "_jump", "before", "index", "row", "voters")

    def __init__(self, before: Chain | None, row: Row) -> None:
        self.before, self.row = before, row
        self.index: int = before.index + 1 if before else 0
        inherited: tuple[int, ...] = before.voters if before else ()
        self.voters: tuple[int, ...] = inherited if row.voters is None else row.voters
        self._hash: int = hash((before._hash, row)) if before else 0
        self._jump: Chain = self
        if before is not None:
            far = before._jump
            even = before.index - far.index == far.index - far._jump.index
            self._jump = far._jump if even else before

    @property
    def term(self) -> int:
        """Of the last entry; 0 where there is none."""
        return self.row.term

    def then(self, *rows: Row) -> Chain:
        """With these entries behind."""
        made = self
        for row in rows:
            made = Chain(made, row)
        return made

    def upto(self, index: int) -> Chain:
        """The first so many entries; all of them where there are no more."""
        at = self
        while at.index > index:
            assert at.before is not None
            at = at._jump if at._jump.index >= index else at.before
        return at

    def begins(self, other: Chain) -> bool:
        """Does the other one have all of these entries, in their places?"""
        return self.index <= other.index and other.upto(self.index) == self

    def rows(self, first: int) -> tuple[Row, ...]:
        """The entries from this index on."""
        found = list[Row]()
        at: Chain | None = self
        while at is not None and at.index >= max(first, 1):
            found.append(at.row)
            at = at.before
        return tuple(reversed(found))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        one, two = self, other
        if (one._hash, one.index) != (two._hash, two.index):
            return False
        while one is not two:
            if one.row != two.row or one.before is None or two.before is None:
                return False
            one, two = one.before, two.before
        return True

    def __repr__(self) -> str:
        more = "... " if self.index > SHOWN_MAX else ""
        last = " ".join(f"{r.term}:{r.mark}" for r in self.rows(self.index + 1 - SHOWN_MAX))
        return f"<{self.index}: {more}{last}>" if self.index else "<>"


SHOWN_MAX: Final = 3
"""Entries that are told of a log."""

EMPTY: Final = Chain(None, Row(0, ""))
