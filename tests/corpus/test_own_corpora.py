"""Our own histories with known verdicts: they are what their makers make, and small."""

from __future__ import annotations

from make_corpora import FOLDERS, made
from places import OWN


def stored() -> dict[str, bytes]:
    return {
        path.relative_to(OWN).as_posix(): path.read_bytes()
        for folder in FOLDERS
        for path in (OWN / folder).rglob("*")
        if path.is_file()
    }


def test_they_are_made_again_byte_for_byte() -> None:
    here, again = stored(), made()
    assert sorted(here) == sorted(again)
    differ = [path for path, raw in again.items() if here[path] != raw]
    assert differ == []


def test_they_are_small() -> None:
    assert sum(map(len, stored().values())) < 1_000_000
