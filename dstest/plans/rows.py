"""The tables of a plan: their columns, and what a row of each becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.plans.document import Block, Row, Table
from dstest.plans.model import (
    Adequacy,
    CategoryRow,
    Claim,
    Coverage,
    Hypothesis,
    Invariant,
    Inventory,
    Item,
    MissingClaim,
    Obligation,
    Pitfall,
    Question,
    Requirement,
    Residual,
    Technique,
    Threat,
)
from dstest.plans.words import ids, plain, threats_of


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The table with these `columns` in a section; `field` is where its rows are in a `Plan`. Of
    two tables in one section each is known by its columns."""

    section: str
    field: str
    columns: tuple[str, ...]
    make: Callable[[Row], Item]


def _text(row: Row, column: str) -> str:
    return " ".join(row.cells[column.casefold()].split())


def _ids(row: Row, column: str) -> tuple[str, ...]:
    return ids(_text(row, column))


def _claim(row: Row) -> Item:
    return Claim(
        line=row.line,
        id=plain(_text(row, "ID")),
        text=_text(row, "Claim"),
        category=plain(_text(row, "Category")),
        source=_text(row, "Source"),
        inferred=plain(_text(row, "Inferred?")).casefold() in ("yes", "y", "true"),
    )


def _obligation(row: Row) -> Item:
    return Obligation(
        line=row.line,
        id=plain(_text(row, "ID")),
        text=_text(row, "Requirement"),
        source=_text(row, "Source"),
        claims=_ids(row, "Claims"),
    )


def _invariant(row: Row) -> Item:
    return Invariant(
        line=row.line,
        id=plain(_text(row, "ID")),
        text=_text(row, "Invariant"),
        by=_text(row, "Executed by").replace("`", ""),
        claims=_ids(row, "Claims"),
    )


def _missing(row: Row) -> Item:
    return MissingClaim(
        line=row.line,
        id=plain(_text(row, "ID")),
        behaviour=_text(row, "Behaviour"),
        source=_text(row, "Source"),
        action=_text(row, "Suggested action"),
    )


def _inventory(row: Row) -> Item:
    return Inventory(
        line=row.line,
        test=_text(row, "Test"),
        subsystem=_text(row, "Subsystem"),
        invariant=_text(row, "Invariant"),
        failure_modes=_text(row, "Failure modes"),
    )


def _hypothesis(row: Row) -> Item:
    return Hypothesis(
        line=row.line,
        id=plain(_text(row, "ID")),
        category=plain(_text(row, "Category")),
        statement=_text(row, "Hypothesis"),
        claims=_ids(row, "Falsifies"),
        because=_text(row, "Suspected because"),
        subsystem=_text(row, "Subsystem"),
    )


def _category(row: Row) -> Item:
    said = _text(row, "Hypotheses, or N/A because")
    reason = said if said.casefold().startswith("n/a") else ""
    return CategoryRow(
        line=row.line,
        name=plain(_text(row, "Kind")),
        hypotheses=() if reason else ids(said),
        reason=reason,
    )


def _pitfall(row: Row) -> Item:
    return Pitfall(
        line=row.line,
        number=plain(_text(row, "#")),
        name=_text(row, "Pitfall"),
        applies=plain(_text(row, "Applies")).casefold(),
        notes=_text(row, "Hypotheses, or why not"),
    )


def _coverage(row: Row) -> Item:
    return Coverage(
        line=row.line,
        claim=plain(_text(row, "Claim")),
        hypothesis=plain(_text(row, "Hypothesis")),
        tests=_text(row, "Existing tests"),
        verdict=plain(_text(row, "Verdict")).casefold(),
        gap=plain(_text(row, "Gap")).casefold(),
        scenarios=_ids(row, "Scenarios"),
    )


def _technique(row: Row) -> Item:
    return Technique(
        line=row.line,
        name=plain(_text(row, "Technique")),
        hypotheses=_ids(row, "Hypotheses"),
        catches=_text(row, "Catches what others miss"),
        reference=_text(row, "Reference"),
        cost=_text(row, "Cost"),
    )


def _requirement(row: Row) -> Item:
    return Requirement(
        line=row.line,
        needs=plain(_text(row, "Requirement")),
        floor=_text(row, "Version floor"),
        scenarios=_ids(row, "Used by"),
        install=_text(row, "Install hint"),
    )


def _adequacy(row: Row) -> Item:
    rows = threats_of(row.cells["threats"], row.cells["scenarios"])
    return Adequacy(
        line=row.line,
        claim=plain(_text(row, "Claim")),
        threats=tuple(Threat(letter=a, text=b, scenarios=c) for a, b, c in rows),
        why=_text(row, "Why sufficient"),
    )


def _residual(row: Row) -> Item:
    return Residual(
        line=row.line,
        uncertainty=_text(row, "Uncertainty"),
        why=_text(row, "Why uncovered"),
        acceptable=_text(row, "Why acceptable"),
        revisit=_text(row, "Revisit when"),
    )


def _question(row: Row) -> Item:
    return Question(
        line=row.line,
        question=_text(row, "Question"),
        owner=_text(row, "Owner"),
        by=_text(row, "By when"),
    )


def _kind(section: str, field: str, make: Callable[[Row], Item], *columns: str) -> Kind:
    return Kind(section=section, field=field, columns=columns, make=make)


ROWS: Final = (
    _kind("1b", "claims", _claim, "ID", "Claim", "Category", "Source", "Inferred?"),
    _kind("1b", "obligations", _obligation, "ID", "Requirement", "Source", "Claims"),
    _kind("1b", "invariants", _invariant, "ID", "Invariant", "Executed by", "Claims"),
    _kind("1c", "missing", _missing, "ID", "Behaviour", "Source", "Suggested action"),
    _kind("3", "inventory", _inventory, "Test", "Subsystem", "Invariant", "Failure modes"),
    _kind(
        *("4", "hypotheses", _hypothesis),
        *("ID", "Category", "Hypothesis", "Falsifies", "Suspected because", "Subsystem"),
    ),
    _kind("4", "categories", _category, "Kind", "Hypotheses, or N/A because"),
    _kind("4", "pitfalls", _pitfall, "#", "Pitfall", "Applies", "Hypotheses, or why not"),
    _kind(
        *("5", "coverage", _coverage),
        *("Claim", "Hypothesis", "Existing tests", "Verdict", "Gap", "Scenarios"),
    ),
    _kind(
        *("6", "techniques", _technique),
        *("Technique", "Hypotheses", "Catches what others miss", "Reference", "Cost"),
    ),
    _kind(
        *("6b", "requirements", _requirement),
        *("Requirement", "Version floor", "Used by", "Install hint"),
    ),
    _kind("7b", "adequacy", _adequacy, "Claim", "Threats", "Scenarios", "Why sufficient"),
    _kind(
        *("7c", "residuals", _residual),
        *("Uncertainty", "Why uncovered", "Why acceptable", "Revisit when"),
    ),
    _kind("9", "questions", _question, "Question", "Owner", "By when"),
)
"""All tables, in the order of the sections."""


def columns_of(field: str) -> tuple[str, ...]:
    """The columns of a table. Raises StopIteration for a field that is none."""
    return next(kind.columns for kind in ROWS if kind.field == field)


def rows_in(kind: Kind, blocks: Iterable[Block], name: str) -> list[Any]:
    """The rows of all tables of this kind. Raises ConfigError where the section has one that is of
    no kind at all."""
    found: list[Any] = []
    for table in blocks:
        if not isinstance(table, Table):
            continue
        if set(table.columns) == _names(kind):
            found += [kind.make(row) for row in table.rows]
        elif not any(set(table.columns) == _names(one) for one in _of(kind.section)):
            wanted = "; or ".join(" | ".join(one.columns) for one in _of(kind.section))
            raise ConfigError(
                f"{name}:{table.line}: a table of section {kind.section} with the columns"
                f" {' | '.join(table.columns)}",
                remedy=f"its columns are {wanted}",
            )
    return found


def _names(kind: Kind) -> set[str]:
    return {column.casefold() for column in kind.columns}


def _of(section: str) -> list[Kind]:
    return [kind for kind in ROWS if kind.section == section]
