"""The same mismatch under three commits is going in circles."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.errors import ConfigError
from dstest.spec.ledger import Mismatch, circles, forgiven, read_mismatches, record


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
