"""Notes by hand in the book of known issues, and how they are found again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.store.known_issues.book import Book
from dstest.store.known_issues.notes import Note, Notes, alike, health_named, modules, render


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    with Book.opened(tmp_path / "kb.sqlite", make=True) as book:
        yield Notes(book)


DISK = Note(
    seen="leaders change each night at two, slow fdatasync in the log of etcd",
    hypothesis="the backup shares the disk of the write-ahead log",
    tried=("longer election timeout",),
    mended="a disk of its own for the log",
    module="storage",
    health="watch",
    system="etcd",
    pattern="slow-storage",
)
CUT = Note(seen="a partition after the switch was changed", module="network", health="good")
LOCK = Note(seen="two workers deadlock over accounts and audit", module="accounts", health="bad")


def test_a_note_is_kept_as_it_was_written(notes: Notes, tmp_path: Path) -> None:
    kept = notes.add(DISK)
    assert kept.id == "N1" and len(kept.at) == len("20261128T130000Z")
    with Book.opened(tmp_path / "kb.sqlite") as book:
        assert Notes(book).all() == [kept]


def test_a_note_is_added_to(notes: Notes) -> None:
    notes.add(DISK)
    changed = notes.change("n1", {"health": "good", "tried": ("more memory",)})
    assert changed.tried == ("longer election timeout", "more memory")
    assert notes.note("N1") == changed and changed.mended == DISK.mended


def test_what_is_alike_is_found_by_its_rare_words(notes: Notes) -> None:
    for one in (DISK, CUT, LOCK):
        notes.add(one)
    found = notes.like("Slow disk (fsync) slow storage: slow fdatasync took 2.4 s etcd")
    assert [one.note.id for one in found] == ["N1"]
    assert "fdatasync" in found[0].words
    assert [one.note.id for one in notes.like("Network partition: the switch changed")] == ["N2"]
    text = "\n".join(render(found))
    assert "mended by: a disk of its own" in text and "tried, did not help: longer" in text


@pytest.mark.parametrize("text", ["", "the and for", "of the log", "kafka broker rebalances"])
def test_another_failure_finds_nothing(text: str, notes: Notes) -> None:
    for one in (DISK, CUT, LOCK):
        notes.add(one)
    assert notes.like(text) == []


def test_no_notes_are_like_nothing() -> None:
    assert alike("anything at all", [], 3) == []


def test_health_of_modules_is_by_the_last_note_that_says_it() -> None:
    later = Note(seen="again", module="storage")
    assert modules([DISK, LOCK, later]) == {"storage": (2, "watch"), "accounts": (1, "bad")}


def test_what_is_no_note_is_refused(notes: Notes) -> None:
    with pytest.raises(ConfigError):
        notes.add(Note(seen="  "))
    with pytest.raises(ConfigError):
        notes.note("N7")
    with pytest.raises(ConfigError):
        health_named("fine")
