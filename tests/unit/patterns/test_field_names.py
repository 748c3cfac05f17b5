"""Hypotheses have the names of the field, by what was found."""

from __future__ import annotations

import pytest

from dstest.debug.patterns.analysis import PATTERNS
from dstest.debug.patterns.field_names import field_name
from dstest.debug.patterns.model import Detection

G2 = "Anti-dependency cycle (G2: write skew, or phantoms)"
BY = {pattern.id: pattern for pattern in PATTERNS}


def detection(pattern: str, sign: str, *kinds: str) -> Detection:
    return Detection(
        pattern=pattern,
        sign=sign,
        said="x",
        strength="proven",
        severity="high",
        rows=[],
        count=1,
        nodes=[],
        window="",
        expected=False,
        why="",
        kinds=list(kinds),
    )


@pytest.mark.parametrize(
    ("pattern", "sign", "kinds", "name"),
    [
        ("causal-violation", "read-behind", (), "Stale read"),
        ("causal-violation", "judged", ("own-write-missed",), "Session guarantee broken"),
        ("causal-violation", "answers", (), "Causal ordering violation"),
        ("lost-update", "judged", ("lost",), "Lost acknowledged write"),
        ("lost-update", "judged", ("lost-update",), "Lost update"),
        (
            "concurrent-update",
            "judged",
            ("G2",),
            "Anti-dependency cycle (G2: write skew, or phantoms)",
        ),
        (
            "concurrent-update",
            "judged",
            ("G2-item",),
            "Anti-dependency cycle (G2: write skew, or phantoms)",
        ),
        ("split-brain", "two-primaries", (), "Split brain"),
        ("split-brain", "commits-alone", (), "Committed without a majority"),
        ("concurrent-update", "judged", ("G-single-item-realtime",), "Stale read"),
        ("lost-update", "commit-undone", ("lost-update",), "Lost acknowledged write"),
        ("split-brain", "conflicting-commits", (), "Committed entries differ"),
        ("split-brain", "judged", ("overlapping-holds",), "Lock held twice"),
    ],
)
def test_a_name(pattern: str, sign: str, kinds: tuple[str, ...], name: str) -> None:
    found = field_name(BY[pattern], [detection(pattern, sign, *kinds)])
    assert found.name == name and found.helps


def test_what_helps_a_lost_update_is_no_majority() -> None:
    """Of one database that keeps what it acknowledges."""
    found = field_name(BY["lost-update"], [detection("lost-update", "judged", "lost-update")])
    assert "majority" not in " ".join(found.helps)


def test_what_operations_and_servers_show_names_it_before_what_checkers_call_it() -> None:
    rows = [
        detection("causal-violation", "judged", "long-fork"),
        detection("causal-violation", "read-behind"),
    ]
    assert field_name(BY["causal-violation"], rows[:1]).name == "Long fork"
    assert field_name(BY["causal-violation"], rows).name == "Stale read"
