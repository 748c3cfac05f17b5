"""Our own histories with known verdicts: they are what their makers make, and small."""

from __future__ import annotations

from make_corpora import FOLDERS, made
from places import OWN


def test_they_are_made_again_byte_for_byte() -> None:
    stored = {
        path.relative_to(OWN).as_posix(): path.read_bytes()
        for folder in FOLDERS
        for path in (OWN / folder).rglob("*")
        if path.is_file()
    }
    again = made()
    assert sorted(stored) == sorted(again)
    differ = [path for path, raw in again.items() if stored[path] != raw]
    assert differ == []


def test_they_are_small() -> None:
    assert sum(len(raw) for raw in made().values()) < 1_000_000
