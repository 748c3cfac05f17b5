"""Markdown as a plan uses it: front matter, headings, tables, `- **Name:** text` lines, fences.

CommonMark with tables, by markdown-it-py, which says of each block where it stands.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from dstest.core.errors import ConfigError

_REMEDY: Final = (
    "`dstest plan new` writes a plan that can be read; docs/plans.md says what is where"
)
_FIELD: Final = re.compile(r"\*\*(?P<name>[^*]+?):\*\*\s*(?P<text>.*)", re.DOTALL)


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is where it begins, counted from 1."""

    line: int


class Heading(Block, frozen=True, kw_only=True):
    level: int
    text: str


class Row(Block, frozen=True, kw_only=True):
    """Cells by the name of their column in lower case."""

    cells: dict[str, str]


class Table(Block, frozen=True, kw_only=True):
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Line(Block, frozen=True, kw_only=True):
    """An item of a list. `name` is in lower case; empty where it is no `**Name:** text`."""

    name: str
    text: str


class Fence(Block, frozen=True, kw_only=True):
    """`info` are the words behind its opening."""

    info: tuple[str, ...]
    text: str


class Prose(Block, frozen=True, kw_only=True):
    text: str


def front_of(text: str, name: str) -> tuple[dict[str, Any], int, str]:
    """The front matter (YAML between `---`, TOML between `+++`), its first line, and the whole text
    with blank lines in its place. Raises ConfigError where there is none, or it cannot be read."""
    lines = text.split("\n")
    mark = lines[0].strip() if lines else ""
    if mark not in ("---", "+++"):
        raise _unreadable(name, 1, "no front matter", "begin with --- or +++, slug and the rest")
    ends = [i for i, line in enumerate(lines[1:], 1) if line.strip() == mark]
    if not ends:
        raise _unreadable(name, 1, f"the front matter has no second {mark}")
    inside = "\n".join(lines[1 : ends[0]])
    body = "\n" * (ends[0] + 1) + "\n".join(lines[ends[0] + 1 :]) + "\n"
    found = _toml(inside, name) if mark == "+++" else _yaml(inside, name)
    if not isinstance(found, dict):
        raise _unreadable(name, 2, "the front matter is no list of `key: value`")
    return {str(key): value for key, value in found.items()}, 2, body


def _yaml(text: str, name: str) -> Any:
    try:
        # All scalars are texts: a date is one, and so is `no`.
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 2 if mark is None else mark.line + 2
        said = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise _unreadable(name, line, f"the front matter is no YAML: {said}") from None


def _toml(text: str, name: str) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unreadable(name, 2, f"the front matter is no TOML: {error}") from None


def _unreadable(name: str, line: int, what: str, remedy: str = _REMEDY) -> ConfigError:
    return ConfigError(f"{name}:{line}: {what}", remedy=remedy)


def blocks_of(body: str) -> list[Block]:
    """The blocks of a text in their order."""
    root = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(body))
    found: list[Block] = []
    for node in root.children:
        line = 1 if node.map is None else node.map[0] + 1
        if node.type == "heading":
            found.append(Heading(line=line, level=int(node.tag[1:]), text=_inline(node)))
        elif node.type == "table":
            found.append(_table(node, line))
        elif node.type == "fence":
            info = tuple(node.info.split())
            found.append(Fence(line=line, info=info, text=node.content))
        elif node.type in ("bullet_list", "ordered_list"):
            found += [_item(item, line) for item in node.children]
        elif node.type == "paragraph":
            found.append(Prose(line=line, text=_inline(node)))
    return found


def fields_of(blocks: Iterable[Block], name: str) -> dict[str, Line]:
    """The `- **Name:** text` lines by name. Raises ConfigError where one name stands twice."""
    found: dict[str, Line] = {}
    for block in blocks:
        if isinstance(block, Line) and block.name:
            if block.name in found:
                raise _unreadable(
                    *(name, block.line, f"{block.name!r} stands in line {found[block.name].line}"),
                    "each field once; several things with ; between",
                )
            found[block.name] = block
    return found


def _inline(node: SyntaxTreeNode) -> str:
    """All text in a node, a line for each paragraph and each item of it."""
    parts = [
        one.content.strip() if one.type == "fence" else " ".join(one.content.split())
        for one in node.walk()
        if one.type in ("inline", "fence")
    ]
    return "\n".join(part for part in parts if part)


def _item(node: SyntaxTreeNode, line: int) -> Line:
    text = _inline(node)
    place = line if node.map is None else node.map[0] + 1
    field = _FIELD.fullmatch(text)
    if field is None:
        return Line(line=place, name="", text=text)
    return Line(line=place, name=field["name"].strip().casefold(), text=field["text"].strip())


def _table(node: SyntaxTreeNode, line: int) -> Table:
    rows = [one for one in node.walk() if one.type == "tr"]
    head, *others = [[_inline(cell) for cell in row.children] for row in rows]
    columns = tuple(name.casefold() for name in head)
    return Table(
        line=line,
        columns=columns,
        rows=tuple(
            Row(
                line=line + 2 + index if row.map is None else row.map[0] + 1,
                cells=dict(zip(columns, cells, strict=True)),
            )
            for index, (row, cells) in enumerate(zip(rows[1:], others, strict=True))
        ),
    )
