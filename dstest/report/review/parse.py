"""A findings report read back: sections, their tables, their `- Name: text` lines."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

import msgspec

_ESCAPED: Final = re.compile(r"\\([\\`*_\[\]|#])")
_CELL: Final = re.compile(r"(?<!\\)\|")
_LINE: Final = re.compile(r"- (?P<name>[^:]+): ?(?P<text>.*)")
_FENCE: Final = re.compile(r"`{3,}")


def _plain(text: str) -> str:
    return html.unescape(_ESCAPED.sub(r"\1", text)).strip()


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What stands below a heading. `fields` are its `- Name: text` lines, `rows` those of its
    table, by column; `text` is all other lines."""

    title: str
    fields: tuple[tuple[str, str], ...]
    rows: tuple[dict[str, str], ...]
    text: str

    def field(self, name: str) -> str | None:
        """The text of the first line of this name."""
        return next((text for found, text in self.fields if found == name), None)

    def all(self, name: str) -> list[str]:
        return [text for found, text in self.fields if found == name]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`head` stands before the first section; `parts` are the sections of the third level, by the
    second-level section that they are in."""

    head: Section
    sections: dict[str, Section]
    parts: dict[str, tuple[Section, ...]]
    end: str


def parse(text: str) -> Page:
    """The page as sections. Whatever is missing is simply not there."""
    chunks = list(_chunks(text))
    sections: dict[str, Section] = {}
    parts: dict[str, tuple[Section, ...]] = {}
    head = _section("", [])
    at = ""
    for level, title, lines in chunks:
        made = _section(title, lines)
        if level < 2:
            head = made
        elif level == 2:
            at = title
            sections[title] = made
        else:
            parts[at] = (*parts.get(at, ()), made)
    last = [line for line in text.splitlines() if line.strip()]
    return Page(head=head, sections=sections, parts=parts, end=last[-1] if last else "")


def _chunks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """(level, title, lines) of each heading's own part; what is in a fence is no heading."""
    level, title, lines, fence = 0, "", list[str](), ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[0] == fence else fence
        elif mark:
            fence = mark[0]
        elif line.startswith("#"):
            yield level, title, lines
            hashes, _, name = line.partition(" ")
            level, title, lines = len(hashes), _plain(name), []
            continue
        lines.append(line)
    yield level, title, lines


def _section(title: str, lines: list[str]) -> Section:
    tables = [line for line in lines if line.startswith("|")]
    found = [_LINE.fullmatch(line) for line in lines]
    return Section(
        title=title,
        fields=tuple((_plain(m["name"]), _plain(m["text"])) for m in found if m),
        rows=tuple(_rows(tables)),
        text="\n".join(
            _plain(line) for line, m in zip(lines, found, strict=True) if not m and line[:1] != "|"
        ).strip(),
    )


def _rows(lines: list[str]) -> Iterator[dict[str, str]]:
    if len(lines) < 3:
        return
    names = _cells(lines[0])
    for line in lines[2:]:
        yield dict(zip(names, _cells(line), strict=False))


def _cells(line: str) -> list[str]:
    return [_plain(cell) for cell in _CELL.split(line.strip())[1:-1]]
