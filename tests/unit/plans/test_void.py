"""Oracles, bounds and evidence that no run can break, and such as one can."""

from __future__ import annotations

import pytest

from dstest.plans.lint.scenarios import void_in

VOID = [
    "`linearizable`: whatever it says, it passes",
    "anomalies >= 0",
    "lost ≥ 0.0",
    "count >= 0.00",
    "lost ≥ 0,0",
    "0 <= lost",
    "at least zero anomalies",
    "lost > -1",
    "any outcome is accepted",
    "its answer is ignored",
    "no more than 100% of reads are stale",
]
SOUND = [
    "anomalies = 0",
    "datagrams that arrived == 0",
    "lag >= 0.5 s",
    "lag ≥ 0,5 s",
    "drop counters > 0",
    "10 <= answers",
    "p99_ms < 100",
    "at least 100 operations",
    "99% of operations succeed",
]
ITS_OWN_WORD = [
    "the injector reported success",
    "command exited with 0",
    "`tc` returns 0",
    "iptables exits with code 0",
    "exit code 0",
]


@pytest.mark.parametrize("text", VOID)
def test_what_always_holds(text: str) -> None:
    assert void_in(text)


@pytest.mark.parametrize("text", SOUND)
def test_what_can_be_broken(text: str) -> None:
    assert void_in(text, evidence=True) is None


@pytest.mark.parametrize("text", ITS_OWN_WORD)
def test_what_an_injector_says_of_itself(text: str) -> None:
    assert void_in(text, evidence=True)
