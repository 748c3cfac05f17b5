"""Files that lose what was not synced when the power goes."""

from __future__ import annotations

import random

import pytest

from dstest.sim.files import SimFiles, damaged, lost_of


def files(seed: int = 1) -> SimFiles:
    return SimFiles(random.Random(seed))


def test_what_is_synced_stays() -> None:
    made = files()
    log = made.open("log")
    log.write(b"one")
    log.sync()
    log.write(b"two")
    assert made.read("log") == b"onetwo"
    made.lose_power()
    assert made.read("log").startswith(b"one")
    made.replace("meta", b"whole")
    made.lose_power()
    assert made.read("meta") == b"whole"


def test_some_of_the_rest_is_torn() -> None:
    kept = set()
    for seed in range(60):
        made = files(seed)
        made.open("log").write(b"abc")
        made.lose_power()
        kept.add(made.read("log"))
    assert kept == {b"", b"a", b"ab", b"abc"}


def test_a_cut_that_was_not_synced_is_lost() -> None:
    made = files()
    log = made.open("log")
    log.write(b"abcdef")
    log.sync()
    log.truncate(2)
    made.lose_power()
    assert made.read("log") == b"abcdef"
    log = made.open("log")
    log.truncate(2)
    log.sync()
    made.lose_power()
    assert made.read("log") == b"ab"


def test_what_was_written_is_held_against_what_stands() -> None:
    for seed in range(40):
        made = files(seed)
        log = made.open("log")
        log.write(b"one")
        log.sync()
        log.write(b"two")
        before = made.written()
        assert lost_of(before, made) == 0
        assert made.unsynced_bytes == 3
        made.lose_power(least=1)
        assert lost_of(before, made) == 6 - len(made.read("log")) > 0
        assert damaged(before, made) == []


def test_what_was_written_over_a_cut_that_was_not_synced_is_lost() -> None:
    made = files()
    log = made.open("log")
    log.write(b"abcdef")
    log.sync()
    log.truncate(2)
    log.write(b"XY")
    assert made.unsynced_bytes == 2
    before = made.written()
    made.lose_power(least=1)
    assert made.read("log") == b"abcdef"
    assert lost_of(before, made) == 2
    assert damaged(before, made) == []


def test_what_was_synced_and_is_gone_is_damage() -> None:
    made = files()
    made.replace("meta", b"whole")
    log = made.open("log")
    log.write(b"abc")
    log.sync()
    log.write(b"def")
    before = made.written()
    for wrong in (b"ab", b"abX", b"abXdef"):
        made.replace("log", wrong)
        assert damaged(before, made) == ["log"]
    made.replace("log", b"abc")
    made.replace("meta", b"whale")
    assert damaged(before, made) == ["meta"]
    assert damaged(before, files()) == ["log", "meta"]
    assert lost_of(before, files()) == 3


def test_a_file_that_is_not_there() -> None:
    assert not files().exists("log")
    with pytest.raises(OSError, match="no file log"):
        files().read("log")
