"""Files that lose what was not synced when the power goes."""

from __future__ import annotations

import random

import pytest

from dstest.sim.files import SimFiles


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


def test_a_file_that_is_not_there() -> None:
    assert not files().exists("log")
    with pytest.raises(OSError, match="no file log"):
        files().read("log")
