"""Runs of one seed in a simulation are the same one: they are told as such, and never as a rate."""

from __future__ import annotations

import msgspec
import pytest

from dstest.campaign.shrink.candidate import Attempt, CandidateRuns
from dstest.core.evidence import Rerun
from dstest.core.reproducer import Rate


def test_reruns_on_nodes_are_a_number_of_runs() -> None:
    assert Rerun(same_seed_runs=3, reproduced=2).said.startswith("2 of 3 re-runs of the same seed")
    assert "identical" not in msgspec.to_builtins(Rerun())


@pytest.mark.parametrize("runs", [1, 3])
def test_reruns_of_a_simulation_are_one_sample(runs: int) -> None:
    said = Rerun(same_seed_runs=runs, reproduced=runs, identical=runs).said
    assert "the same simulation, byte for byte" in said and f"{runs} of {runs}" not in said


def test_one_that_is_another_simulation_is_told() -> None:
    said = Rerun(same_seed_runs=3, reproduced=3, identical=1).said
    assert "2 had another digest" in said and "byte for byte" not in said


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        ([msgspec.UNSET] * 5, "5 of 5 runs (57% to 100%)"),
        (["a"] * 5, "5 of 5 runs, one simulation, byte for byte"),
        (["a", "a", "b"], "3 of 3 runs, 2 simulations of one seed"),
    ],
)
def test_a_rate_is_of_runs_that_can_differ(digests: list[str], said: str) -> None:
    made = [Attempt(judged=True, came=True, confirms=True, digest=one) for one in digests]
    tried = CandidateRuns(candidate=None, attempts=made)  # type: ignore[arg-type]
    assert tried.rate.said == said
    assert msgspec.json.decode(msgspec.json.encode(tried.rate), type=Rate) == tried.rate
