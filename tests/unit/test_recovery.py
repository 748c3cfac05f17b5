"""The end of a run waits for the cluster, not for the clock."""

from __future__ import annotations

import pytest

from dstest.runner.recovery import Recovery

S = 1_000_000_000


def looked(*looks: tuple[int, int, int, bool]) -> Recovery:
    recovery = Recovery(failover_s=20.0)
    for second, ok, unknown, whole in looks:
        recovery.look(second * S, [ok], unknown, whole=whole)
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


def members(rates: dict[int, list[int]], end_s: int) -> Recovery:
    """A fault stands from the 5th to the 7th second; `rates` are successes per second at each node,
    from these seconds on."""
    recovery = Recovery(failover_s=20.0)
    served = [0] * len(rates[1])
    for second in range(1, end_s):
        now = rates[max(since for since in rates if since <= second)]
        served = [total + more for total, more in zip(served, now, strict=True)]
        recovery.look(second * S, served, 0, whole=not 5 <= second < 8)
    return recovery


EVEN = [20, 20, 20, 20, 20]


@pytest.mark.parametrize("others", [20, 400])
@pytest.mark.parametrize("each", [1, 20, 400])
def test_a_member_that_serves_nobody_breaks_it(each: int, others: int) -> None:
    """A broker of a minority stops itself when it notices, which may be after the heal; clients of
    the others go on, and may be faster than before."""
    before = [each] * 5
    after = [max(each, others)] * 4 + [0]
    assert members({1: before, 5: after, 8: after}, 30).settled_ns is None
    recovered = members({1: before, 5: after, 14: before}, 30)
    assert recovered.settled_ns is not None
    assert recovered.settled_ns >= 13 * S


def test_as_many_unknown_outcomes_as_before_do_not_break_it() -> None:
    def of(unknown_after: int) -> Recovery:
        recovery = Recovery(failover_s=20.0)
        unknown = 0
        for second in range(1, 16):
            unknown += 10 if second < 8 else unknown_after
            recovery.look(second * S, [100 * second], unknown, whole=not 5 <= second < 8)
        return recovery

    assert of(12).settled_ns == 7 * S
    assert of(40).settled_ns is None


def test_a_member_that_serves_few_is_served() -> None:
    assert members({1: EVEN, 8: [19, 19, 19, 19, 2]}, 12).settled_ns == 7 * S


def test_too_few_to_know_hold_nothing_up() -> None:
    assert members({1: [100, 0], 8: [100, 0]}, 12).settled_ns == 7 * S


def test_a_later_break_counts() -> None:
    after = [(s, 400 + 100 * (s - 7), 7, True) for s in range(8, 12)]
    stall = (12, 800, 7, True)
    assert looked(*BEFORE, *FAULT, *after).settled_ns == 7 * S
    assert looked(*BEFORE, *FAULT, *after, stall).settled_ns is None


def test_standing_still_is_no_recovery_even_without_a_baseline() -> None:
    assert looked(*[(s, 0, 0, True) for s in range(1, 9)]).settled_ns is None


def test_each_heal_is_followed_until_the_load_is_served_again() -> None:
    """Two faults; after the first one the load comes back slowly, after the second not at all."""
    recovery = Recovery(failover_s=20.0)
    ok = 0
    for second in range(1, 41):
        whole = not (5 <= second < 10 or 20 <= second < 25)
        rate = 100 if second < 5 else 0 if not whole or second >= 25 else 20 if second > 12 else 0
        ok += rate
        recovery.look(second * S, [ok], 0, whole=whole)
    (first, again), (second_heal, never) = recovery.heals
    assert (first, second_heal) == (10_000_000_000, 25_000_000_000)
    assert again == 12_000_000_000
    assert never is None


def stalled(begin_s: int, end_s: int, rates: tuple[int, int] = (100, 0)) -> Recovery:
    """Healed at 10 s; `rates` are per second outside and inside a stall after it."""
    recovery = Recovery(failover_s=20.0)
    ok = 0
    for second in range(1, 61):
        outside, inside = rates
        whole = not 5 <= second < 10
        ok += 0 if not whole else inside if begin_s <= second < end_s else outside
        recovery.look(second * S, [ok], 0, whole=whole)
    return recovery


def test_a_stall_soon_after_a_heal_belongs_to_the_recovery() -> None:
    """An old leader comes back with a higher term, and the others elect once more."""
    assert stalled(0, 0).heals == [(10 * S, 9 * S)]
    assert stalled(15, 24).heals == [(10 * S, 23 * S)]


def test_a_stall_long_after_a_heal_does_not() -> None:
    assert stalled(31, 40).heals == [(10 * S, 9 * S)]


def test_slow_is_not_stalled() -> None:
    """A rate that a system reaches between two faults is service, and its unknown outcomes are."""
    assert stalled(15, 24, (100, 15)).heals == [(10 * S, 9 * S)]
    recovery = Recovery(failover_s=20.0)
    for second in range(1, 30):
        unknown = 1 if second >= 15 else 0
        recovery.look(second * S, [100 * second], unknown, whole=not 5 <= second < 10)
    assert recovery.heals == [(10 * S, 9 * S)]


def test_a_stall_that_does_not_end_is_no_recovery() -> None:
    assert stalled(15, 61).heals == [(10 * S, None)]
