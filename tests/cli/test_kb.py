"""`dstest kb` with simulated runs of toykv: a bug that is found, mended and comes back."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from forked import Ended, bin_folder, dstest

from dstest.store.known_issues.book import Book, FailedRun, Sighting, recall, render

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # some make four runs

BUG = ("-o", "bug=stale-follower-read")


class Desk:
    """A directory with a store and a book of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.book = path / "kb.sqlite"
        self.failed = path

    def dstest(self, *words: str) -> Ended:
        env = {**os.environ, "DSTEST_KB": str(self.book)}
        return dstest(*words, cwd=self.path, env=env, timeout=300)

    def run(self, seed: int, *more: str) -> Ended:
        test = ("--system", "toykv", "--workload", "register", "--nemesis", "partition")
        time = ("--time-limit", "20", "--seed", str(seed))
        return self.dstest("run", "--lab", "sim", *test, *time, *more)

    def latest(self) -> Path:
        return (self.path / "store" / "latest").resolve()


def plain(done: Ended) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    made = Desk(tmp_path_factory.mktemp("kb"))
    found = made.run(3, *BUG)
    made.failed = made.latest()
    assert found.returncode == 1, found.stderr
    assert "\nknown " not in found.stdout, "there is no book yet, and none is begun unasked"
    assert not made.book.exists()
    assert plain(made.dstest("kb", "learn", "store", "--json"))["findings"] >= 1
    return made


def next_second() -> None:
    """A run that begins in the second of a fix may have begun before it."""
    time.sleep(1.0 - time.time() % 1.0)


def test_a_bug_that_was_mended_and_comes_back_is_known_with_its_fix(desk: Desk) -> None:
    (finding, *_) = plain(desk.dstest("kb", "show", "--json"))["findings"]
    name = finding["id"]
    fixed = desk.dstest("kb", "fix", name, "--commit", "4f2a1c", "--note", "ask the leader")
    assert fixed.returncode == 0, fixed.stderr
    assert "tried" in fixed.stdout
    next_second()
    assert desk.run(3).returncode == 0, "mended"
    kept = plain(desk.dstest("kb", "show", name, "--json"))["findings"][0]
    assert kept["fixes"][0]["outcome"] == "tried"
    again = desk.run(3, *BUG)
    assert again.returncode == 1
    said = again.stdout.partition("\nknown ")[2]
    assert f"{name} " in said
    assert "It has come back." in said
    assert "4f2a1c" in said
    assert "ask the leader: came back" in said
    kept = plain(desk.dstest("kb", "show", name, "--json"))["findings"][0]
    assert len(kept["sightings"]) == 2
    assert kept["fixes"][0]["outcome"] == "came back"
    told = json.loads(desk.dstest("report", str(desk.latest()), "--json").stdout)
    assert told["known"][0]["id"] == name


def test_three_fixes_that_did_not_hold_go_in_circles(desk: Desk, tmp_path: Path) -> None:
    mine = Desk(tmp_path)
    shutil.copy(desk.book, mine.book)
    name = plain(mine.dstest("kb", "show", "--json"))["findings"][0]["id"]
    for commit in ("a1", "b2", "c3"):
        mine.dstest("kb", "fix", name, "--commit", commit)
    assert plain(mine.dstest("kb", "stats", "--json"))["in_circles"] == []
    next_second()
    done = mine.run(3, *BUG)
    assert "going in circles" in done.stdout
    assert plain(mine.dstest("kb", "stats", "--json"))["in_circles"] == [name]


def test_a_run_is_one_sighting_wherever_it_lies(desk: Desk, tmp_path: Path) -> None:
    before = plain(desk.dstest("kb", "stats", "--json"))["sightings"]
    shutil.copytree(desk.path / "store", tmp_path / "copy", symlinks=True)
    learnt = plain(desk.dstest("kb", "learn", str(tmp_path / "copy"), "store", "--json"))
    assert learnt["findings"] == learnt["sightings"] == 0
    assert plain(desk.dstest("kb", "stats", "--json"))["sightings"] == before


def test_a_run_that_was_changed_is_not_learnt(desk: Desk, tmp_path: Path) -> None:
    mine = Desk(tmp_path)
    shutil.copytree(desk.path / "store", tmp_path / "store", symlinks=True)
    for verdict in (tmp_path / "store").rglob("verdict.json"):
        verdict.write_text(verdict.read_text().replace("nonlinearizable", "something-else"))
    done = mine.dstest("kb", "learn", "store", "--json")
    told = plain(done)
    assert told["failed"] == 0
    assert told["left_out"]
    assert "left out" in done.stderr


def test_another_system_s_finding_is_alike_and_not_the_same(desk: Desk, tmp_path: Path) -> None:
    mine = Desk(tmp_path)
    shutil.copytree(desk.path / "store", tmp_path / "store", symlinks=True)
    mine.dstest("kb", "learn", "store")
    with sqlite3.connect(mine.book) as db:
        db.execute("update finding set system = 'otherdb'")
    found = plain(mine.dstest("kb", "similar", str(mine.latest()), "--json"))
    assert found["known"] == []
    assert found["alike"][0]["finding"]["system"] == "otherdb"
    assert "system" not in found["alike"][0]["common"]
    assert "anomaly" in found["alike"][0]["common"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "K999"), "there is no finding"),
        (("show", "stale"), "there is no finding"),
        (("fix", "K999", "--commit", "a"), "there is no finding"),
        (("fix", "K1", "--commit", " "), "--commit is empty"),
        (("fix", "K1", "--commit", "no-such", "--held"), "has no fix"),
        (("learn", "no-such-store"), "is no directory"),
        (("similar", "store/../kb.sqlite"), "is no directory"),
        (("show", "--kb", "no-such.sqlite"), "there is no book"),
    ],
)
def test_what_is_not_there_is_told(desk: Desk, words: tuple[str, ...], says: str) -> None:
    done = desk.dstest("kb", *words)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_file_that_is_no_book_breaks_no_run(desk: Desk, tmp_path: Path, content: bytes) -> None:
    mine = Desk(tmp_path)
    mine.book.write_bytes(content)
    done = mine.dstest("report", str(desk.failed))
    assert done.returncode == 1
    assert "bug of dstest" not in done.stderr
    if content:
        assert "cannot be used" in done.stdout
        assert mine.book.read_bytes() == content


def test_a_database_of_somebody_else_is_left_alone(desk: Desk, tmp_path: Path) -> None:
    import sqlite3

    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("create table mine (a)")
    done = desk.dstest("kb", "learn", "store", "--kb", str(other))
    assert done.returncode == 2
    assert "no book of findings" in done.stderr


def test_two_at_once_lose_nothing(desk: Desk, tmp_path: Path) -> None:
    words = [str(bin_folder() / "dstest"), "kb", "learn", "store", "--kb", str(tmp_path / "kb")]
    both = [subprocess.Popen(words, cwd=desk.path, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [one.wait(60) for one in both] == [0, 0, 0, 0]
    told = plain(desk.dstest("kb", "stats", "--kb", str(tmp_path / "kb"), "--json"))
    assert told["findings"] == plain(desk.dstest("kb", "stats", "--json"))["findings"]


def test_another_bug_with_the_same_fingerprint_has_not_come_back(tmp_path: Path) -> None:
    def seen(run: str, started: str, bug: str) -> FailedRun:
        plain = dict.fromkeys(("name", "path", "version", "workload", "nemesis", "seed"), "x")
        sighting = Sighting(run=run, started=started, headline="", bug=bug, **plain)
        return FailedRun("toykv", ("linearizable/nonlinearizable/#/register",), sighting)

    def outcome(book: Book) -> str:
        return book.finding("K1").fixes[0].outcome

    with Book.opened(tmp_path / "kb.sqlite", make=True) as book:
        book.learn([seen("a", "20200101T000000Z", "ordering under none")])
        book.fix("K1", "abc123", "reads via leader")
        other = seen("b", "20990101T000000Z", "partition under partition")
        said = "\n".join(render(recall(book, other)))
        assert "reads via leader: tried" in said and "come back" not in said
        assert "this bug is partition under partition, that was ordering under none" in said
        book.learn([other])
        assert outcome(book) == "tried"
        same = seen("c", "20990102T000000Z", "unclassified under none")
        assert "It has come back." in "\n".join(render(recall(book, same)))
        book.learn([same])
        assert outcome(book) == "came back"


def test_a_book_of_before_is_read(tmp_path: Path) -> None:
    old = tmp_path / "kb.sqlite"
    with Book.opened(old, make=True):
        pass
    db = sqlite3.connect(old)
    db.execute("alter table sighting drop column bug")
    db.execute("insert into finding values (1, 'toykv', 'c/k/*/m')")
    values = [1, *"abcdefghi"]
    db.execute(f"insert into sighting values ({', '.join('?' * 10)})", values)
    db.commit()
    db.close()
    with Book.opened(old) as book:
        assert book.finding("K1").sightings[0].bug == ""
