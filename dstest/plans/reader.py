"""From a Markdown file to a `Plan`.

    ---
    slug: register-under-partition        and date, mode, sut, system, change, author, status
    ---
    ## 0. Architecture                    a heading for each section: its number, a full stop
    ## 1b. Claims                         a table with the columns of the section
    ## 7. Scenarios
    ### S1: linearizable_register_under_partition
    - **Falsifies:** C1                   a line for each field

Whoever lacks a field is told by `lint/`; what is refused here is what nobody could read: no front
matter, a table without its columns, a run block that is no TOML.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.plans.document import Block, Heading, Line, Prose, blocks_of, fields_of, front_of
from dstest.plans.model import Front, Part, Plan, Section
from dstest.plans.rows import ROWS, rows_in
from dstest.plans.scenarios import scenarios_of
from dstest.plans.words import NO_MISSING, NO_RESIDUAL

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

_BYTES_MAX: Final = 4 * 1024 * 1024
_HEADING: Final = re.compile(r"§?(?P<id>\d[a-d]?)\.?\s+(?P<title>.+)", re.DOTALL)
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
