"""The end of a run waits for the cluster, not for the clock."""

from __future__ import annotations

from dstest.runner.recovery import Recovery

S = 1_000_000_000


def looked(*looks: tuple[int, int, int, bool]) -> Recovery:
    recovery = Recovery()
    for second, ok, unknown, whole in looks:
        recovery.look(second * S, ok, unknown, whole=whole)
    return recovery


BEFORE = [(s, 100 * s, 0, True) for s in range(1, 5)]
FAULT = [(s, 400, s, False) for s in range(5, 8)]


def test_three_good_seconds_in_a_row_are_a_recovery() -> None:
    after = [(s, 400 + 90 * (s - 7), 7, True) for s in range(8, 11)]
    assert looked(*BEFORE, *FAULT, *after[:2]).settled_ns is None
    assert looked(*BEFORE, *FAULT, *after).settled_ns == 7 * S


def test_a_trickle_is_none() -> None:
    after = [(s, 400 + 10 * (s - 7), 7, True) for s in range(8, 20)]
    assert looked(*BEFORE, *FAULT, *after).settled_ns is None


def test_unknown_outcomes_break_it() -> None:
    after = [(s, 400 + 100 * (s - 7), s, True) for s in range(8, 20)]
    assert looked(*BEFORE, *FAULT, *after).settled_ns is None


def test_a_later_break_counts() -> None:
    after = [(s, 400 + 100 * (s - 7), 7, True) for s in range(8, 12)]
    stall = (12, 800, 7, True)
    assert looked(*BEFORE, *FAULT, *after).settled_ns == 7 * S
    assert looked(*BEFORE, *FAULT, *after, stall).settled_ns is None


def test_standing_still_is_no_recovery_even_without_a_baseline() -> None:
    assert looked(*[(s, 0, 0, True) for s in range(1, 9)]).settled_ns is None


def test_each_heal_is_followed_until_the_load_is_served_again() -> None:
    """Two faults; after the first one the load comes back slowly, after the second not at all."""
    recovery = Recovery()
    ok = 0
    for second in range(1, 41):
        whole = not (5 <= second < 10 or 20 <= second < 25)
        rate = 100 if second < 5 else 0 if not whole or second >= 25 else 20 if second > 12 else 0
        ok += rate
        recovery.look(second * 1_000_000_000, ok, 0, whole=whole)
    (first, again), (second_heal, never) = recovery.heals
    assert (first, second_heal) == (10_000_000_000, 25_000_000_000)
    assert again == 12_000_000_000
    assert never is None
