"""A store that was copied with its links followed, as upload-artifact does: `latest` has come as a
whole copy of what it pointed to, and is that. A `latest` that is anything else is what it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gate_store import POLICY, broken, decided, honest, session_at
from made_nights import item_of, night_in

from dstest.history.layout import link_latest
from dstest.store.export.gather import gather
from dstest.store.index import Cache, Index
from dstest.store.inventory import left_out, walk
from dstest.store.verify import check_sums

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, a session and a night, with the links that they bring."""
    store = honest(tmp_path_factory.mktemp("linked") / "store")
    run, first = next(store.glob("*/*-4")), next(store.glob("*/*-1"))
    session = session_at(store, [7, 8])
    link_latest(run.parent, run)
    link_latest(session.parent, session)
    link_latest(store, session)
    night = night_in(store, 1, [item_of("a", "", [None])]).path
    inner = night / "cells" / "a.1.1"
    shutil.copytree(first, inner / "etcd-x" / "20260101T000000Z-1")
    link_latest(inner, inner / "etcd-x" / "20260101T000000Z-1")
    link_latest(store, night)
    return store


@pytest.fixture
def followed(made: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "store"
    shutil.copytree(made, copied, symlinks=False)
    assert not any(path.is_symlink() for path in copied.rglob("*"))
    return copied


def _shown(store: Path) -> list[tuple[str, str]]:
    return [(str(one.path.relative_to(store)), one.kind) for one in walk(store).places]


def test_what_the_links_brought_is_left_out(made: Path, followed: Path) -> None:
    assert (followed / "latest").is_dir()
    assert _shown(followed) == _shown(made)
    odd = walk(followed).odd
    assert {one.why for one in odd} == {"latest"}
    assert {str(one.path.relative_to(followed)) for one in odd} >= {"latest"}
    assert all(one.of is not None and one.of.name != "latest" for one in odd)
    (line,) = left_out(odd)
    assert f"{len(odd)} directories" in line and "latest" in line
    assert not [*left_out(walk(made).odd)]


def test_all_who_read_a_store_say_the_same_of_both(made: Path, followed: Path) -> None:
    told = {
        store: [
            (str(one.path.relative_to(store)), one.word, one.reason.replace(str(store), ""))
            for one in gather([store])
        ]
        for store in (made, followed)
    }
    assert told[made] == told[followed]
    assert not [*check_sums(walk(followed))]
    index = Index(followed, Cache(None))
    index.refresh()
    assert set(index.shown.rows) == {place for place, kind in _shown(made) if kind == "run"}


def test_the_gate_takes_it_and_notes_it(followed: Path) -> None:
    shutil.rmtree(next(followed.glob("n")))
    shutil.rmtree(followed / "latest")
    decision = decided(followed, POLICY)
    assert not broken(decision) & {"G03", "G04", "G05", "G06"}, decision.findings
    assert any("latest" in note and "left out" in note for note in decision.notes)


@pytest.mark.parametrize("how", ["changed", "more", "less", "cut", "alone"])
def test_one_that_differs_is_refused(followed: Path, how: str) -> None:
    (latest,) = [p for p in followed.glob("*/latest") if (p / "segments").is_dir()]
    original = next(p for p in followed.glob("*/*-4") if (p / "segments").is_dir())
    before = len(walk(followed).places)
    if how == "changed":
        file = latest / "history.jsonl"
        text = file.read_bytes()
        file.write_bytes(text[:-2] + bytes([text[-2] ^ 1]) + text[-1:])
    elif how == "more":
        (latest / "new").write_text("")
    elif how == "less":
        (latest / "history.jsonl").unlink()
    elif how == "cut":
        shutil.rmtree(latest / "segments")
    else:
        shutil.rmtree(original)
    walked = walk(followed)
    assert latest not in {one.path for one in walked.odd if one.why == "latest"}
    here = {one.path for one in walked.places} | {one.path for one in walked.odd}
    assert latest in here
    assert how == "cut" or len(walked.places) == before + (how != "alone")
    if how != "alone":
        red = [one for one in gather([followed]) if one.path == latest]
        assert len(red) == 1 and not red[0].green
