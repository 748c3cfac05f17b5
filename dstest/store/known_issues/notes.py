"""Notes by hand in the book of known issues: what somebody saw, took for the cause, tried and
mended, in which module, and how that is since. They are found again by the words that they share
with what is seen now, rare ones counting most.

Source of the weight of words: Spärck Jones, "A statistical interpretation of term specificity"
(1972). The measure is the overlap coefficient (Szymkiewicz 1934, Simpson 1960): what is seen now
may be pages, and a note a line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from dstest.core.clock import utc_stamp
from dstest.core.errors import ConfigError
from dstest.store.known_issues.book import Book

Health = Literal["", "good", "watch", "bad"]
HEALTHS: Final[tuple[str, ...]] = tuple(one for one in get_args(Health) if one)
_ID: Final = re.compile(r"[Nn](\d{1,9})")
_WORD: Final = re.compile(r"[a-z][a-z0-9_-]{3,}")
"""Shorter ones tell nothing apart."""
_LEAST: Final = 0.25
_SCHEMA: Final = """
create table if not exists note (
    number integer primary key autoincrement, at text not null, content text not null)
"""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """`at` is UTC, `20261128T130000Z`. `seen` says what was seen, `tried` what did not help,
    `mended` what did. `pattern` is the id of a pattern of failure. `health` is that of the module
    since then. Empty: nobody said."""

    id: str = ""
    at: str = ""
    seen: str
    hypothesis: str = ""
    tried: tuple[str, ...] = ()
    mended: str = ""
    module: str = ""
    health: Health = ""
    system: str = ""
    pattern: str = ""


class Like(NamedTuple):
    """A note, how alike it is (0 to 1), and the words that it shares, the rarest first."""

    note: Note
    score: float
    words: list[str]


def health_named(text: str) -> Health:
    """Raises ConfigError for what is none."""
    for one in get_args(Health):
        if text == one:
            return one  # type: ignore[no-any-return]
    raise ConfigError(f"--health {text!r} is none", remedy=f"one of {', '.join(HEALTHS)}")


class Notes:
    """Of an open book."""

    def __init__(self, book: Book) -> None:
        self._db = book.db
        self._db.execute(_SCHEMA)

    def add(self, note: Note) -> Note:
        """As it stands in the book. Raises ConfigError where it says nothing."""
        if not note.seen.strip():
            raise ConfigError("the note says nothing", remedy='dstest kb note "what was seen"')
        whole = msgspec.structs.replace(note, id="", at=utc_stamp())
        text = msgspec.json.encode(whole).decode()
        done = self._db.execute("insert into note (at, content) values (?, ?)", (whole.at, text))
        return msgspec.structs.replace(whole, id=f"N{done.lastrowid}")

    def change(self, name: str, changes: dict[str, object]) -> Note:
        """With other words in some fields; what was tried is added. Raises ConfigError."""
        old = self.note(name)
        tried = changes.pop("tried", ())
        assert isinstance(tried, tuple)
        new = msgspec.structs.replace(old, **{**changes, "tried": (*old.tried, *tried)})
        text = msgspec.json.encode(msgspec.structs.replace(new, id="")).decode()
        self._db.execute("update note set content = ? where number = ?", (text, int(new.id[1:])))
        return new

    def note(self, name: str) -> Note:
        """By its id. Raises ConfigError where there is none."""
        for one in self.all():
            if one.id == name.strip().upper():
                return one
        if name.strip().upper() in self.damaged():
            raise ConfigError(f"note {name!r} is damaged in the book", remedy="write it down anew")
        raise ConfigError(f"there is no note {name!r}", remedy="`dstest kb notes` lists them")

    def all(self) -> list[Note]:
        """In the order in which they were written, without those that are `damaged`."""
        return [one for _, one in self._read() if one is not None]

    def damaged(self) -> list[str]:
        """The ids of those that cannot be read."""
        return [f"N{number}" for number, one in self._read() if one is None]

    def _read(self) -> Iterator[tuple[int, Note | None]]:
        rows = self._db.execute(
            "select number, cast(content as blob) from note order by number"
        ).fetchall()
        for number, content in rows:
            try:
                note = msgspec.json.decode(content, type=Note)
            except (msgspec.DecodeError, UnicodeError, TypeError, RecursionError):
                yield number, None
            else:
                yield number, msgspec.structs.replace(note, id=f"N{number}")

    def like(self, text: str, top: int = 3) -> list[Like]:
        """Those that are about the same, the most alike first."""
        return alike(text, self.all(), top)


def is_note(name: str) -> bool:
    """Is it the id of a note?"""
    return _ID.fullmatch(name.strip()) is not None


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _of_note(note: Note) -> set[str]:
    parts = (note.seen, note.hypothesis, note.module, note.system, note.pattern.replace("-", " "))
    return _words(" ".join((*parts, *note.tried, note.mended)))


def alike(text: str, notes: Sequence[Note], top: int) -> list[Like]:
    """What both share of the smaller of the two, each word by how few notes have it. One word that
    two longer texts share says little."""
    asked = _words(text)
    every = [_of_note(note) for note in notes]
    having = Counter(word for words in every for word in words)

    def weight(word: str) -> float:
        return 1 + math.log((1 + len(notes)) / (1 + having[word]))

    def whole(words: set[str]) -> float:
        return math.fsum(map(weight, words))

    found = []
    for note, words in zip(notes, every, strict=True):
        both = asked & words
        if len(both) < min(2, len(asked)) or not both:
            continue
        score = whole(both) / min(whole(asked), whole(words))
        if score >= _LEAST:
            ordered = sorted(both, key=lambda word: (-weight(word), word))
            found.append(Like(note, score, ordered))
    return sorted(found, key=lambda one: (-one.score, one.note.id))[:top]


def render(found: Sequence[Like]) -> Iterator[str]:
    """A line or more for each, as a terminal shows it."""
    for one in found:
        words = ", ".join(one.words[:5])
        yield f"{one.note.id} ({one.score:.0%}: {words}): {one.note.seen}"
        yield from (f"  {line}" for line in lines_of(one.note))


def lines_of(note: Note) -> Iterator[str]:
    """All but what was seen."""
    if note.hypothesis:
        yield f"hypothesis: {note.hypothesis}"
    yield from (f"tried, did not help: {one}" for one in note.tried)
    if note.mended:
        yield f"mended by: {note.mended}"
    if note.module or note.health:
        yield f"module: {note.module or 'not named'}, health since: {note.health or 'not said'}"
    if note.pattern or note.system:
        yield f"pattern: {note.pattern or 'not named'}, system: {note.system or 'not named'}"


def modules(notes: Sequence[Note]) -> dict[str, tuple[int, Health]]:
    """By module how many notes it has, and its health by the last that says it."""
    found: dict[str, tuple[int, Health]] = {}
    for note in notes:
        if note.module:
            count, health = found.get(note.module, (0, ""))
            found[note.module] = count + 1, note.health or health
    return found
