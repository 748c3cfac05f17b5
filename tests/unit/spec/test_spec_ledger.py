"""The same mismatch under three commits is going in circles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.ledger import (
    Mismatch,
    circles,
    forgiven,
    read_mismatches,
    record,
    worsenings,
)


def seen(commit: str, action: str = "append", ignores: int = 0) -> Mismatch:
    guards = (("term_ge", "sub:election"), ("leads", "system"))
    return Mismatch(action=action, guards=guards, fields=("term",), commit=commit, ignores=ignores)


def test_three_commits_that_did_not_help(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    assert read_mismatches(ledger) == []
    for commit in ("a", "a", "b"):
        record(ledger, seen(commit))
    record(ledger, seen("c", action="vote"))
    assert circles(read_mismatches(ledger)) == []
    record(ledger, seen("d"))
    (circle,) = circles(read_mismatches(ledger))
    assert (circle.action, circle.commits) == ("append", ("a", "b", "d"))


def test_a_fingerprint_does_not_know_the_commit_nor_the_order() -> None:
    turned = Mismatch(
        action="append",
        guards=(("leads", "system"), ("term_ge", "sub:election")),
        fields=("term",),
        commit="z",
    )
    assert turned.fingerprint == seen("a").fingerprint
    assert seen("a", action="vote").fingerprint != seen("a").fingerprint


def test_a_harness_that_forgives_more_and_more() -> None:
    rows = forgiven([seen("a"), seen("b", ignores=2), seen("b", ignores=3)])
    assert rows == [("a", 0.0), ("b", 3.0)]


def test_a_damaged_line(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    record(ledger, seen("a"))
    with ledger.open("a") as file:
        file.write('{"action": 3}\n')
    with pytest.raises(ConfigError, match="line 2"):
        read_mismatches(ledger)


def test_a_last_line_without_its_end(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    record(ledger, seen("a"))
    ledger.write_bytes(ledger.read_bytes().rstrip(b"\n"))
    record(ledger, seen("b"))
    assert [one.commit for one in read_mismatches(ledger)] == ["a", "b"]
    assert ledger.read_bytes().count(b"\n") == 2


def test_a_commit_that_is_abbreviated_is_the_same() -> None:
    one = "8c1f0aa2b7"
    rows = [seen(one[:7]), seen(one), seen(one[:4])]
    assert circles(rows) == []
    assert forgiven(rows) == [(one, 0.0)]
    (circle,) = circles([*rows, seen("77aa"), seen("91bb")])
    assert circle.commits == (one, "77aa", "91bb")


def sighting(commit: str, **more: Any) -> Mismatch:
    return Mismatch(
        action="read", guards=(("current", "system"),), fields=(), commit=commit, **more
    )


@pytest.mark.parametrize(
    ("rows", "commits"),
    [
        ({"a": {"ignores": 0}, "b": {"ignores": 1}, "c": {"ignores": 2}}, ["abc"]),
        ({"a": {}, "b": {"hidden": 1}, "c": {"ignores": 1, "hidden": 1}}, ["abc"]),
        ({"a": {"rules": 9}, "b": {"rules": 8}, "c": {"rules": 7}}, ["abc"]),
        ({"a": {"tolerance": 0.1}, "b": {"tolerance": 0.2}, "c": {"tolerance": 0.3}}, ["abc"]),
        ({"a": {"ignores": 2}, "b": {"ignores": 1}, "c": {"ignores": 2}}, []),
        ({"a": {"ignores": 0}, "b": {"ignores": 1}, "c": {"ignores": 1}}, []),
        ({"a": {"rules": 7}, "b": {"rules": 8}, "c": {"rules": 9}}, []),
        ({"a": {"rules": 9}, "b": {"rules": 8}}, []),
        ({"a": {}, "b": {"rules": 8}, "c": {"rules": 8}}, []),
        (
            {
                "a": {"ignores": 3},
                "b": {"ignores": 0},
                "c": {"ignores": 1},
                "d": {"ignores": 4},
                "e": {"ignores": 5},
                "f": {"ignores": 5},
            },
            ["bcde"],
        ),
    ],
)
def test_a_harness_that_is_made_to_fit(rows: dict[str, dict[str, Any]], commits: list[str]) -> None:
    found = worsenings(sighting(commit, **more) for commit, more in rows.items())
    assert ["".join(one.commits) for one in found] == commits


def test_a_fix_is_no_sighting_of_a_harness() -> None:
    rows = [sighting("a", ignores=0), sighting("b", ignores=1), sighting("c", ignores=2, fix="x")]
    assert worsenings(rows) == []


def test_harnesses_of_two_models_are_told_apart() -> None:
    rows = [sighting("a", model="A"), sighting("b", model="B", ignores=1),
            sighting("c", model="A", ignores=2)]  # fmt: skip
    assert worsenings(rows) == []
