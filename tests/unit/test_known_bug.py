"""What shows a known bug: the table that nights, gates, plans and findings share."""

from __future__ import annotations

import pytest

from dstest.core.fingerprint import Showing, showing


@pytest.mark.parametrize(
    ("found", "beside", "landed", "how"),
    [
        ({"lost"}, (), 1, "shown"),
        ({"lost", "stale"}, ("stale",), 1, "shown"),
        ({"lost", "stale"}, None, 1, "shown"),
        ({"lost", "stale"}, (), 1, "other-bug"),
        ({"lost", "stale", "torn"}, ("stale",), 1, "other-bug"),
        ({"stale"}, ("stale",), 1, "missed"),
        ({"stale"}, None, 1, "missed"),
        (set(), (), 1, "missed"),
        ({"lost"}, (), 0, "no-fault"),
        ({"stale"}, ("stale",), 0, "missed"),
    ],
)
def test_how_a_known_bug_shows(
    found: set[str], beside: tuple[str, ...] | None, landed: int, how: Showing
) -> None:
    assert showing(found, ("lost",), beside, planned=True, landed=landed) == how


def test_a_bug_that_shows_without_a_fault_needs_none() -> None:
    assert showing({"lost"}, ("lost",), (), planned=True, landed=0, by_fault=False) == "shown"
    assert showing({"lost"}, ("lost",), (), planned=False, landed=0) == "shown"
