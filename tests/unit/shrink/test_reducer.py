"""Runs are made small: what a planted rule needs is left, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shrink.planted import Planted, S, Simulated, faults, has, oracle_of, start_of

from dstest.campaign.shrink.candidate import Attempt, Candidate, Progress, compact
from dstest.campaign.shrink.driver import Reduction, confirm, reduce
from dstest.campaign.shrink.oracle import ALPHA, BETA, STRICT, SequentialTest, TimeUp
from dstest.campaign.shrink.reductions import ddmin
from dstest.core.errors import ConfigError

HUNDRED = faults(100)


def run(start: Candidate, runs: Planted, near: list[str], before_ns: int | None) -> Reduction:
    return reduce(
        start,
        oracle_of(runs),
        near=near,
        before_ns=before_ns,
        op_types=frozenset({"read", "write", "cas"}),
        sure=5,
    )


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_ddmin_leaves_what_is_needed(case: tuple[int, set[int]]) -> None:
    count, needed = case

    def failing(parts: list[list[int]]) -> list[int] | None:
        return next((part for part in parts if needed <= {*part}), None)

    left = ddmin(list(range(count)), failing)
    assert {*left} == (needed or {left[0]})
    assert left == sorted(left)


@pytest.mark.parametrize(("rate", "misses"), [(1.0, 2), (0.8, 3), (0.5, 6), (0.3, 12)])
def test_rare_violations_are_given_up_late(rate: float, misses: int) -> None:
    test = SequentialTest(rate)
    assert test.misses == misses
    assert test.decided(1, 0) == "shows"
    assert test.decided(0, misses - 1) is None


@pytest.mark.parametrize("rate", [0.95, 0.8, 0.5, 0.2])
def test_what_comes_as_often_as_before_is_seldom_given_up(rate: float) -> None:
    """The probability, over all ways that runs can go."""
    test, open_, lost = SequentialTest(rate), {(0, 0): 1.0}, 0.0
    for _ in range(200):
        after: dict[tuple[int, int], float] = {}
        for (came, gone), p in open_.items():
            for state, q in (((came + 1, gone), rate), ((came, gone + 1), 1 - rate)):
                found = test.decided(*state)
                lost += p * q if found == "lost" else 0
                if found is None:
                    after[state] = after.get(state, 0) + p * q
        open_ = after
    assert lost <= BETA
    assert lost + sum(open_.values()) > 0, "it can be given up"


def test_one_fault_of_two_hundred_events_is_found_by_the_violation_itself() -> None:
    runs = Planted(lambda c: has(c, "f57"))
    found = run(start_of(HUNDRED), runs, ["f57"], 600 * S)
    assert [plan.fault_id for plan in found.candidate.plans] == ["f57"]
    assert found.candidate.events == 2
    assert found.candidate.plans[0].duration_ns == S
    assert found.candidate.plans[0].start_ns == 4 * S
    assert found.candidate.time_limit_s < 10
    assert (found.candidate.nodes, found.candidate.concurrency) == (3, 3)
    assert found.candidate.rate == 20
    assert len(found.candidate.without) == 2
    assert len(runs.made) < 40


def test_of_many_faults_by_a_loss_the_first_ones_are_tried_first() -> None:
    runs = Planted(lambda c: has(c, "f60"))
    near = [f"f{n}" for n in range(59, 101)]
    found = run(start_of(HUNDRED), runs, near, 990 * S)
    assert [plan.fault_id for plan in found.candidate.plans] == ["f60"]
    assert max(len(candidate.plans) for candidate in runs.made) == 4


def test_where_the_violation_misleads_the_search_is_complete() -> None:
    runs = Planted(lambda c: has(c, "f10", "f57", "f100"))
    oracle, start = oracle_of(runs), start_of(HUNDRED)
    found = reduce(
        start, oracle, near=["f99"], before_ns=30 * S, op_types=frozenset({"read"}), sure=5
    )
    assert [plan.fault_id for plan in found.candidate.plans] == ["f10", "f57", "f100"]
    rate = oracle.progress.rate_of(start)
    assert (rate.runs, rate.came) == (5, 5)


def test_kinds_that_are_not_needed_go_at_once() -> None:
    runs = Planted(lambda c: sum(p.nemesis == "kill" for p in c.plans) >= 2)
    found = run(start_of(faults(30)), runs, [], None)
    assert found.candidate.kinds == ["kill"]
    assert len(found.candidate.plans) == 2


def test_what_needs_no_fault_keeps_none() -> None:
    runs = Planted(lambda c: 1.0)
    found = run(start_of(faults(4)), runs, ["f2"], 20 * S)
    assert found.candidate.plans == ()
    assert found.candidate.nemesis == "none"


def test_what_does_not_come_again_is_not_made_smaller() -> None:
    runs = Planted(lambda c: 0.0)
    found = run(start_of(faults(4)), runs, ["f2"], 20 * S)
    assert found.lost
    assert found.candidate == start_of(faults(4))


def test_parts_that_are_needed_stay() -> None:
    def rule(candidate: Candidate) -> float:
        plan = next((p for p in candidate.plans if p.fault_id == "f2"), None)
        return float(
            plan is not None
            and plan.duration_ns >= 3 * S
            and candidate.nodes == 5
            and candidate.concurrency >= 10
            and "write" not in candidate.without
            and (candidate.rate or 1e9) >= 100
        )

    found = run(start_of(faults(6)), Planted(rule), ["f2"], 20 * S).candidate
    assert [plan.fault_id for plan in found.plans] == ["f2"]
    assert found.plans[0].duration_ns == 3 * S
    assert (found.nodes, found.concurrency, found.rate) == (5, 10, 100)
    assert found.without == ("cas", "read")


@pytest.mark.parametrize("seed", range(5))
def test_a_violation_that_comes_in_half_of_the_runs(seed: int) -> None:
    runs = Planted(lambda c: 0.5 if has(c, "f7") else 0.0, seed)
    found = run(start_of(faults(20)), runs, ["f19"], 15 * S)
    assert "f7" in [plan.fault_id for plan in found.candidate.plans]


def test_steps_that_cost_the_rate_are_taken_back() -> None:
    def rule(candidate: Candidate) -> float:
        return 0.0 if not candidate.plans else 1.0 if candidate.nodes == 5 else 0.3

    oracle = oracle_of(Planted(rule, 4))
    large = start_of(faults(1))
    small = Candidate(nodes=3, time_limit_s=17, concurrency=5, plans=large.plans)
    assert oracle.shows(large)
    while not oracle.shows(small):  # by luck, as a step is taken
        oracle = oracle_of(Planted(rule, random.randrange(1000)))
        oracle.shows(large)
    best = confirm(small, oracle, 5)
    assert best == large
    rate = oracle.progress.rate_of(best)
    assert (rate.runs, rate.came) == (10, 10)


def test_one_run_without_faults_does_not_say_that_none_is_needed() -> None:
    """A stale read that comes once in a while comes without a fault as well."""
    bare: list[Candidate] = []

    def rule(candidate: Candidate) -> float:
        if candidate.plans:
            return 1.0
        bare.append(candidate)
        return float(len(bare) == 1)

    found = run(start_of(faults(4)), Planted(rule), ["f2"], 20 * S)
    assert bare
    assert len(found.candidate.plans) == 1


def test_where_the_time_is_up_what_was_measured_decides() -> None:
    """The smallest one never came again; the one before it did, in the runs that were left."""
    large = start_of(faults(1))
    small = msgspec.structs.replace(large, nodes=3, concurrency=3)
    oracle = oracle_of(Planted(lambda c: float(c == large)), most=5)
    oracle.shown += [large, small]
    assert confirm(small, oracle, 3) == large
    rate = oracle.progress.rate_of(large)
    assert (rate.runs, rate.came) == (2, 2)


def test_the_rate_is_that_of_runs_that_decided_nothing() -> None:
    oracle = oracle_of(Planted(lambda c: 1.0))
    start = start_of(faults(1))
    oracle.shows(start)
    assert oracle.progress.rate_of(start).runs == 0
    assert oracle.measured(start, 3).runs == 3
    assert oracle.progress.runs == 4


def test_nothing_is_run_twice_by_who_goes_on() -> None:
    runs = Planted(lambda c: has(c, "f3"))
    start = start_of(faults(8))
    oracle = oracle_of(runs, most=5)
    how: dict[str, Any] = {
        "near": [],
        "before_ns": None,
        "op_types": frozenset({"r", "w"}),
        "sure": 2,
    }
    with pytest.raises(TimeUp):
        reduce(start, oracle, **how)
    again = oracle_of(Planted(lambda c: has(c, "f3")))
    again.progress = oracle.progress
    found = reduce(start, again, **how)
    whole = oracle_of(Planted(lambda c: has(c, "f3")))
    assert found == reduce(start, whole, **how)
    assert again.progress == whole.progress


def test_runs_that_cannot_be_made_end_it() -> None:
    class Broken(Planted):
        def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
            return [Attempt(why_not="no bridge") for _ in candidates]

    with pytest.raises(ConfigError, match="no bridge"):
        run(start_of(faults(2)), Broken(lambda c: 0), ["f1"], None)


def test_faults_that_stand_together_go_on_doing_so() -> None:
    one, two, three = faults(3)
    together = [one, msgspec.structs.replace(two, start_ns=one.start_ns), three]
    moved = compact(start_of(together)).plans
    assert moved[0].start_ns == moved[1].start_ns
    assert moved[2].start_ns == moved[0].start_ns + moved[0].duration_ns + 4 * S


@pytest.mark.parametrize("width", [2, 3, 8])
def test_side_by_side_the_same_is_found_in_fewer_rounds(width: int) -> None:
    start = start_of(faults(30))

    def rule(c: Candidate) -> float:
        return float(has(c, "f7", "f22"))

    alone, beside = Planted(rule), Planted(rule, width=width)
    found = run(start, beside, [], None)
    assert found.candidate == run(start, alone, [], None).candidate
    assert beside.rounds < alone.rounds / 1.5
    assert len(beside.made) <= 2 * len(alone.made)


def test_runs_made_beforehand_are_of_candidates_that_come_next() -> None:
    runs = Planted(lambda c: float(has(c, "f3")), width=4)
    oracle = oracle_of(runs)
    start = start_of(faults(6))
    others = [start.with_plans([plan]) for plan in start.plans]
    assert oracle.first(others) == others[2]
    # One run that shows it is enough, and it takes three without it to give a candidate up.
    assert [others.index(candidate) for candidate in runs.made] == [0, 1, 2, 3, 0, 0, 1, 1]
    assert runs.rounds == 2


def test_a_rate_is_measured_side_by_side_by_no_more_runs_than_asked() -> None:
    runs = Planted(lambda c: 1.0, width=4)
    oracle = oracle_of(runs)
    rate = oracle.measured(start_of(faults(1)), 5)
    assert (rate.runs, rate.came, runs.rounds) == (5, 5, 2)


@pytest.mark.parametrize("alpha", [ALPHA, STRICT])
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.95])
def test_by_the_exact_distribution_few_are_given_up_at_their_own_rate(
    rate: float, alpha: float
) -> None:
    test = SequentialTest(rate, alpha)
    assert _taken(test, rate) >= 1 - BETA
    assert _taken(test, rate / 3) <= alpha


def _taken(test: SequentialTest, rate: float) -> float:
    """How likely a candidate that shows it at this rate is taken, by all ways that runs can go."""
    ways, taken = {(0, 0): 1.0}, 0.0
    for _ in range(test.most + 1):
        more: dict[tuple[int, int], float] = {}
        for (came, gone), chance in ways.items():
            found = test.decided(came, gone)
            taken += chance * (found == "shows")
            if found is None:
                for key, share in (((came + 1, gone), rate), ((came, gone + 1), 1 - rate)):
                    more[key] = more.get(key, 0.0) + chance * share
        ways = more
    return taken


def test_faults_that_overlap_go_on_doing_so() -> None:
    first, second, third = faults(3)
    plans = [
        msgspec.structs.replace(first, start_ns=10 * S, duration_ns=20 * S),
        msgspec.structs.replace(second, start_ns=15 * S, duration_ns=5 * S),
        msgspec.structs.replace(third, start_ns=60 * S, duration_ns=5 * S),
    ]
    moved = compact(start_of(plans)).plans
    assert [(plan.start_ns // S, plan.duration_ns // S) for plan in moved] == [
        (4, 20),
        (9, 5),
        (28, 5),
    ]


def test_who_is_chosen_for_its_rate_is_run_again() -> None:
    rare = start_of(faults(1))
    often = msgspec.structs.replace(rare, concurrency=12)
    runs = Planted(lambda c: 1.0 if c == often else 0.2)
    oracle = oracle_of(runs)
    oracle.shown += [often, rare]
    best = confirm(rare, oracle, 5)
    assert best == often
    rate = oracle.progress.rate_of(best)
    assert (rate.runs, rate.came) == (10, 10)


def test_what_shows_it_and_is_not_taken_is_not_what_is_left() -> None:
    runs = Planted(lambda c: 1.0)
    oracle = oracle_of(runs)
    first, second = start_of(faults(2)), start_of(faults(1))
    assert oracle.shows(first)
    assert oracle.shows(second)
    oracle.passed_over(second)
    assert oracle.shown == [first]


def test_what_a_fault_shows_in_a_third_of_the_cases_needs_some_of_its_like() -> None:
    def rule(c: Candidate) -> float:
        kills = sum(plan.nemesis == "kill" for plan in c.plans)
        return 1 - (2 / 3) ** kills

    runs = Planted(rule, 3)
    start = start_of(HUNDRED)
    found = run(start, runs, ["f1"], 5 * S)
    assert "kill" in found.candidate.kinds
    assert 2 <= len(found.candidate.plans) <= 8
    assert start not in runs.made


def test_an_attempt_log_of_an_older_version_is_read() -> None:
    """Which had a word for each candidate that nothing ever stood in."""
    oracle = oracle_of(Planted(lambda c: 1.0))
    start = start_of(faults(1))
    assert oracle.shows(start)
    rows = msgspec.to_builtins(oracle.progress)
    assert all("refused" not in row for row in rows["tried"].values())
    for row in rows["tried"].values():
        row["refused"] = ""
    older = msgspec.json.decode(msgspec.json.encode(rows), type=Progress)
    assert older == oracle.progress


def test_what_is_refused_is_asked_once_and_of_nothing_that_has_run() -> None:
    asked: list[Candidate] = []

    class Refusing(Planted):
        def refused(self, candidate: Candidate) -> str:
            asked.append(candidate)
            return "it leaves nodes without a client" if candidate.concurrency == 1 else ""

    oracle = oracle_of(Refusing(lambda c: 1.0))
    start = start_of(faults(1))
    none = msgspec.structs.replace(start, concurrency=1)
    for _ in range(2):
        assert oracle.shows(start)
        assert not oracle.shows(none)
    assert (asked.count(start), asked.count(none)) == (1, 1)
    with pytest.raises(ConfigError, match="leaves nodes"):
        oracle.measured(none, 3)


@pytest.mark.parametrize("width", [1, 2])
def test_one_simulation_decides_about_a_candidate(width: int) -> None:
    said: list[str] = []
    runs = Simulated(lambda c: float(has(c, "f1")), width=width)
    oracle = oracle_of(runs, simulated=True, say=said.append)
    start = start_of(faults(6))
    found = reduce(
        start, oracle, near=["f1"], before_ns=5 * S, op_types=frozenset({"read", "write"}), sure=5
    )
    assert [plan.fault_id for plan in found.candidate.plans] == ["f1"]
    assert max(map(runs.made.count, runs.made)) == 1, "each is run once"
    assert any(line.startswith("gone, as one simulation shows: ") for line in said)
    assert not any(" of " in line.partition(":")[0] for line in said)
    searched = len(runs.made)
    assert confirm(found.candidate, oracle, 5) == found.candidate
    assert oracle.progress.rate_of(found.candidate).said == (
        "5 of 5 runs, one simulation, byte for byte"
    )
    on_nodes = Planted(lambda c: float(has(c, "f1")), width=width)
    reduce(
        start,
        oracle_of(on_nodes),
        near=["f1"],
        before_ns=5 * S,
        op_types=frozenset({"read", "write"}),
        sure=5,
    )
    assert searched < len(on_nodes.made)


@pytest.mark.parametrize(("digest", "runs"), [("d", 1), (msgspec.UNSET, 3)])
def test_a_simulation_that_came_to_nothing_is_not_made_again(digest: Any, runs: int) -> None:
    class Unlanded(Planted):
        def _made(self, candidate: Candidate) -> Attempt:
            found = super()._made(candidate)
            return found if has(candidate, "f2") else Attempt(why_not="none landed", digest=digest)

    said: list[str] = []
    made = Unlanded(lambda c: 1.0)
    oracle = oracle_of(made, simulated=digest is not msgspec.UNSET, say=said.append)
    whole = start_of(faults(2))
    assert oracle.shows(whole)
    none = start_of(faults(1))
    assert not oracle.shows(none)
    assert made.made.count(none) == runs
    assert said[-1].startswith("no run of it counts (none landed): ")
