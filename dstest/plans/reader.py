"""From a Markdown file to a `Plan`.

    ---
    slug: register-under-partition        and date, mode, sut, system, change, author, status
    ---
    ## 1b. Claims                         a section: its number, a full stop; tables as in `Kind`
    ### S1: linearizable_register_under_partition
    - **Falsifies:** C1                   a scenario of section 7, a line for each field

Refused here is what nobody could read; whoever lacks a field is told by `lint/`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.campaign.launch import Budget, Run
from dstest.core.errors import ConfigError
from dstest.plans.model import (
    BUDGETS,
    NO_MISSING,
    NO_RESIDUAL,
    NOT_GATED,
    Adequacy,
    Block,
    CategoryRow,
    Claim,
    Coverage,
    Fence,
    Front,
    Gated,
    Heading,
    Hypothesis,
    Invariant,
    Inventory,
    Item,
    Line,
    MissingClaim,
    Obligation,
    Part,
    Pitfall,
    Plan,
    Prose,
    Question,
    Requirement,
    Residual,
    Scenario,
    Section,
    Skeleton,
    Surfaces,
    Table,
    TableRow,
    Technique,
    Threat,
    blocks_of,
    entries,
    fields_of,
    front_of,
    ids,
    plain,
    split_names,
    threats_of,
)

_GATED: Final = re.compile(r"§?7\.M\b(?!\.S)")
_SURFACES: Final = re.compile(r"§?7\.M\.S\b")
_BUDGET: Final = re.compile(
    r"nodes (?P<nodes>\d+(?:\s*(?:,|and)\s*\d+)*); duration (?P<duration>\d+(?:\.\d+)?) s;"
    r" faults (?P<faults>\d+); seeds (?P<seeds>\d+)"
)
_UNTESTED: Final = re.compile(r"\b(NOT-RUN|PARTIAL)\b")

SECTIONS: Final = (
    "0",
    "1",
    "1b",
    "1c",
    "2",
    "3",
    "4",
    "5",
    "6",
    "6b",
    "7",
    "7b",
    "7c",
    "7d",
    "8",
    "9",
)

_HEADING: Final = re.compile(r"§?(?P<id>\d[a-d]?)\.?\s+(?P<title>.+)", re.DOTALL)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The table with these `columns` in a section; `field` is where its rows are in a `Plan`. Of
    two tables in one section each is known by its columns."""

    section: str
    field: str
    columns: tuple[str, ...]
    make: Callable[[TableRow], Item]


def _cell_text(row: TableRow, column: str) -> str:
    return " ".join(row.cells[column.casefold()].split())


def _ids(row: TableRow, column: str) -> tuple[str, ...]:
    return ids(_cell_text(row, column))


def _claim(row: TableRow) -> Item:
    return Claim(
        line=row.line,
        id=plain(_cell_text(row, "ID")),
        text=_cell_text(row, "Claim"),
        category=plain(_cell_text(row, "Category")),
        source=_cell_text(row, "Source"),
        inferred=plain(_cell_text(row, "Inferred?")).casefold() in ("yes", "y", "true"),
    )


def _obligation(row: TableRow) -> Item:
    return Obligation(
        line=row.line,
        id=plain(_cell_text(row, "ID")),
        text=_cell_text(row, "Requirement"),
        source=_cell_text(row, "Source"),
        claims=_ids(row, "Claims"),
    )


def _invariant(row: TableRow) -> Item:
    return Invariant(
        line=row.line,
        id=plain(_cell_text(row, "ID")),
        text=_cell_text(row, "Invariant"),
        by=_cell_text(row, "Executed by").replace("`", ""),
        claims=_ids(row, "Claims"),
    )


def _missing(row: TableRow) -> Item:
    return MissingClaim(
        line=row.line,
        id=plain(_cell_text(row, "ID")),
        behaviour=_cell_text(row, "Behaviour"),
        source=_cell_text(row, "Source"),
        action=_cell_text(row, "Suggested action"),
    )


def _inventory(row: TableRow) -> Item:
    return Inventory(
        line=row.line,
        test=_cell_text(row, "Test"),
        subsystem=_cell_text(row, "Subsystem"),
        invariant=_cell_text(row, "Invariant"),
        failure_modes=_cell_text(row, "Failure modes"),
    )


def _hypothesis(row: TableRow) -> Item:
    return Hypothesis(
        line=row.line,
        id=plain(_cell_text(row, "ID")),
        category=plain(_cell_text(row, "Category")),
        statement=_cell_text(row, "Hypothesis"),
        claims=_ids(row, "Falsifies"),
        because=_cell_text(row, "Suspected because"),
        subsystem=_cell_text(row, "Subsystem"),
    )


def _category(row: TableRow) -> Item:
    said = _cell_text(row, "Hypotheses, or N/A because")
    reason = said if said.casefold().startswith("n/a") else ""
    return CategoryRow(
        line=row.line,
        name=plain(_cell_text(row, "Kind")),
        hypotheses=() if reason else ids(said),
        reason=reason,
    )


def _pitfall(row: TableRow) -> Item:
    return Pitfall(
        line=row.line,
        number=plain(_cell_text(row, "#")),
        name=_cell_text(row, "Pitfall"),
        applies=plain(_cell_text(row, "Applies")).casefold(),
        notes=_cell_text(row, "Hypotheses, or why not"),
    )


def _coverage(row: TableRow) -> Item:
    return Coverage(
        line=row.line,
        claim=plain(_cell_text(row, "Claim")),
        hypothesis=plain(_cell_text(row, "Hypothesis")),
        tests=_cell_text(row, "Existing tests"),
        verdict=plain(_cell_text(row, "Verdict")).casefold(),
        gap=plain(_cell_text(row, "Gap")).casefold(),
        scenarios=_ids(row, "Scenarios"),
    )


def _technique(row: TableRow) -> Item:
    return Technique(
        line=row.line,
        name=plain(_cell_text(row, "Technique")),
        hypotheses=_ids(row, "Hypotheses"),
        catches=_cell_text(row, "Catches what others miss"),
        reference=_cell_text(row, "Reference"),
        cost=_cell_text(row, "Cost"),
    )


def _requirement(row: TableRow) -> Item:
    return Requirement(
        line=row.line,
        needs=plain(_cell_text(row, "Requirement")),
        floor=_cell_text(row, "Version floor"),
        scenarios=_ids(row, "Used by"),
        install=_cell_text(row, "Install hint"),
    )


def _adequacy(row: TableRow) -> Item:
    rows = threats_of(row.cells["threats"], row.cells["scenarios"])
    return Adequacy(
        line=row.line,
        claim=plain(_cell_text(row, "Claim")),
        threats=tuple(Threat(letter=a, text=b, scenarios=c) for a, b, c in rows),
        why=_cell_text(row, "Why sufficient"),
    )


def _residual(row: TableRow) -> Item:
    return Residual(
        line=row.line,
        uncertainty=_cell_text(row, "Uncertainty"),
        why=_cell_text(row, "Why uncovered"),
        acceptable=_cell_text(row, "Why acceptable"),
        revisit=_cell_text(row, "Revisit when"),
    )


def _question(row: TableRow) -> Item:
    return Question(
        line=row.line,
        question=_cell_text(row, "Question"),
        owner=_cell_text(row, "Owner"),
        by=_cell_text(row, "By when"),
    )


def _kind(section: str, field: str, make: Callable[[TableRow], Item], *columns: str) -> Kind:
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


_NAME: Final = re.compile(r"(?P<id>S\d+)\s*[:.]\s*(?P<name>.+)")


def scenarios_of(blocks: list[Block], name: str) -> Iterable[Scenario]:
    """The scenarios of a section 7. Raises ConfigError for a run block that cannot be read, and for
    a heading of the third level that is no scenario."""
    heads = [(i, b) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 3]
    ends = [*(i for i, _ in heads), len(blocks)][1:]
    for (start, head), end in zip(heads, ends, strict=True):
        found = _NAME.fullmatch(plain(head.text))
        if found is None:
            raise ConfigError(
                f"{name}:{head.line}: {head.text!r} is the heading of no scenario",
                remedy="### S1: claim_under_fault",
            )
        yield _scenario(found["id"], plain(found["name"]), head, blocks[start + 1 : end], name)


def _scenario(id: str, title: str, head: Heading, blocks: list[Block], name: str) -> Scenario:
    parts = _split(blocks)
    fields = fields_of(parts[""], name)
    texts = {key: line.text for key, line in fields.items()}
    budgets = {tier: texts.get(f"{tier} budget", "") for tier in BUDGETS}
    numbers = {tier: _budget(text) for tier, text in budgets.items()}
    return Scenario(
        line=head.line,
        id=id,
        name=title,
        falsifies=ids(texts.get("falsifies", "")),
        closes=ids(texts.get("closes", "")),
        fields=texts,
        lines={key: line.line for key, line in fields.items()},
        budgets={tier: number for tier, number in numbers.items() if number is not None},
        reasons={t: text for t, text in budgets.items() if text and numbers[t] is None},
        run=_run(blocks, name),
        gated=_gated(parts, name),
        surfaces=_surfaces(parts, name),
        skeleton=_skeleton(blocks),
    )


def _split(blocks: list[Block]) -> dict[str, list[Block]]:
    """The blocks below each heading of the fourth level; below "" those before the first."""
    found: dict[str, list[Block]] = {"": []}
    at = ""
    for block in blocks:
        if isinstance(block, Heading):
            at = f"{block.line} {plain(block.text)}"
            found[at] = [block]
        else:
            found[at].append(block)
    return found


def _budget(text: str) -> Budget | None:
    found = _BUDGET.fullmatch(" ".join(text.split()).rstrip("."))
    if found is None:
        return None
    sizes = tuple(map(int, re.findall(r"\d+", found["nodes"])))
    return Budget(
        nodes=sizes,
        duration_s=float(found["duration"]),
        faults=int(found["faults"]),
        seeds=int(found["seeds"]),
    )


def _run(blocks: list[Block], name: str) -> Run | None:
    fences = [b for b in blocks if isinstance(b, Fence) and b.info[1:2] == ("run",)]
    if not fences:
        return None
    if len(fences) > 1:
        raise ConfigError(
            f"{name}:{fences[1].line}: a second run block in one scenario",
            remedy="one for each scenario; what is different in an arm stands in [[arms]]",
        )
    fence = fences[0]
    try:
        facts: dict[str, Any] = tomllib.loads(fence.text)
        facts.pop("line", None)
        return msgspec.structs.replace(msgspec.convert(facts, Run), line=fence.line)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        known = ", ".join(f.encode_name for f in msgspec.structs.fields(Run) if f.name != "line")
        raise ConfigError(
            f"{name}:{fence.line}: the run block cannot be read: {error}",
            remedy=f"TOML with {known}",
        ) from None


def _gated(parts: dict[str, list[Block]], name: str) -> Gated | None:
    for block in (block for inside in parts.values() for block in inside):
        if isinstance(block, Prose) and plain(block.text).startswith(NOT_GATED[:5]):
            return Gated(line=block.line, not_applicable=" ".join(block.text.split()))
    for head, inside in parts.items():
        if _GATED.match(head.partition(" ")[2]):
            return Gated(line=inside[0].line, fields=_fields_of_scenario(inside, name))
    return None


def _surfaces(parts: dict[str, list[Block]], name: str) -> Surfaces | None:
    for head, inside in parts.items():
        if _SURFACES.match(head.partition(" ")[2]):
            fields = _fields_of_scenario(inside, name)
            arms = fields.get("scenario arms", "")
            return Surfaces(
                line=inside[0].line,
                fields=fields,
                surfaces=split_names(fields.get("surfaces", "")),
                arms=split_names(arms),
                untested=tuple(
                    name
                    for part in entries(arms)
                    if _UNTESTED.search(part)
                    for name in split_names(part)
                ),
            )
    return None


def _fields_of_scenario(blocks: list[Block], name: str) -> dict[str, str]:
    return {key: line.text for key, line in fields_of(blocks, name).items()}


def _skeleton(blocks: list[Block]) -> Skeleton | None:
    for block in blocks:
        if isinstance(block, Fence) and block.info[1:2] == ("skeleton",):
            return Skeleton(line=block.line, language=block.info[0], text=block.text)
    return None


_BYTES_MAX: Final = 4 * 1024 * 1024
_EMPTY: Final = {"1c": NO_MISSING, "7c": NO_RESIDUAL}


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises ConfigError, with the line, where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}", remedy="dstest plan new writes a plan"
        ) from None
    if len(data) > _BYTES_MAX:
        raise ConfigError(f"{path}: {len(data):,} bytes", remedy=f"{_BYTES_MAX:,} at most")
    return read_text(data, str(path))


def read_text(data: bytes, name: str) -> Plan:
    """The plan in these bytes; `name` is what messages call it. Raises ConfigError."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: no UTF-8", remedy="save it as UTF-8") from None
    facts, line, body = front_of(text, name)
    front = _front(facts, line, name)
    sections, blocks = _sections(body, name)
    tables: dict[str, Any] = {
        kind.field: tuple(rows_in(kind, blocks.get(kind.section, []), name)) for kind in ROWS
    }
    return Plan(
        path=name,
        sha256=hashlib.sha256(data).hexdigest(),
        front=front,
        sections=sections,
        scenarios=tuple(scenarios_of(blocks.get("7", []), name)),
        empty=frozenset(id for id, said in _EMPTY.items() if _says(sections.get(id), said)),
        text=text,
        **tables,
    )


def _front(facts: dict[str, Any], line: int, name: str) -> Front:
    if not str(facts.get("slug") or "").strip():
        raise ConfigError(f"{name}:{line}: the front matter has no slug", remedy="slug: a-name")
    known = set(Front.__struct_fields__) - {"line"}
    if strange := sorted(set(facts) - known):
        raise ConfigError(
            f"{name}:{line}: the front matter says {', '.join(strange)}, which nobody knows",
            remedy=f"it has {', '.join(sorted(known))}",
        )
    bad = [key for key, value in facts.items() if isinstance(value, dict | list)]
    if bad:
        raise ConfigError(f"{name}:{line}: {bad[0]} is no text", remedy=f"{bad[0]}: one line")
    return Front(line=line, **{key: str(value).strip() for key, value in facts.items()})


def _says(section: Section | None, sentence: str) -> bool:
    return section is not None and sentence.casefold() in " ".join(section.text.split()).casefold()


def _sections(body: str, name: str) -> tuple[dict[str, Section], dict[str, list[Block]]]:
    """The sections by id, and the blocks of each."""
    lines, blocks = body.split("\n"), blocks_of(body)
    heads = [(i, b) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 2]
    sections: dict[str, Section] = {}
    inside: dict[str, list[Block]] = {}
    for number, (index, head) in enumerate(heads):
        last = number + 1 == len(heads)
        after = len(blocks) if last else heads[number + 1][0]
        end = len(lines) if last else heads[number + 1][1].line - 1
        found = _HEADING.fullmatch(head.text)
        if found is None or found["id"] not in SECTIONS:
            continue
        id = found["id"]
        if id in sections:
            raise ConfigError(
                f"{name}:{head.line}: section {id} for the second time",
                remedy=f"the first is in line {sections[id].line}",
            )
        inside[id] = blocks[index + 1 : after]
        sections[id] = Section(
            line=head.line,
            id=id,
            title=found["title"].strip(),
            text=_text(inside[id]),
            source="\n".join(lines[head.line : end]),
            parts=tuple(_parts(inside[id])),
            fields=_fields(id, inside[id], name),
        )
    return sections, inside


def _fields(id: str, blocks: list[Block], name: str) -> dict[str, str]:
    if id == "7":  # each scenario has its own
        return {}
    return {key: line.text for key, line in fields_of(blocks, name).items()}


def _parts(blocks: list[Block]) -> Iterable[Part]:
    heads = [(i, b) for i, b in enumerate(blocks) if isinstance(b, Heading) and b.level == 3]
    ends = [*(i for i, _ in heads), len(blocks)][1:]
    for (start, head), end in zip(heads, ends, strict=True):
        yield Part(line=head.line, title=head.text, text=_text(blocks[start + 1 : end]))


def _text(blocks: Iterable[Block]) -> str:
    """What is said in sentences and lists."""
    said = []
    for block in blocks:
        if isinstance(block, Prose):
            said.append(block.text)
        elif isinstance(block, Line):
            said.append(f"{block.name}: {block.text}" if block.name else block.text)
    return "\n".join(said)
