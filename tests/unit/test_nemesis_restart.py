"""Node restarts: what proves one, the guard that starts nodes when we are gone; rival leaders."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.labs.bridged import Guard
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.registry import load
from nemeses.mix import Mix
from nemeses.network.split_brain import NEMESIS as SPLIT_BRAIN
from nemeses.network.split_brain import Claim, Rivals, rivals
from nemeses.process.restart import NEMESIS, Restart, lives_over

BEFORE = {"n1": "5@10", "n2": "6@10", "n3": None}


@pytest.mark.parametrize(
    ("targets", "now", "why"),
    [
        (["n1"], {"n1": None}, None),
        (["n1", "n2"], {"n1": None, "n2": None}, None),
        (["n1"], {"n1": "5@10"}, "never went down"),
        (["n1"], {"n1": "9@50"}, "was started again"),
        (["n1", "n2"], {"n1": None, "n2": "6@10"}, "n2 never went down"),
        (["n3"], {"n3": None}, "did not run before"),
    ],
)
def test_a_life_that_is_over(
    targets: list[str], now: dict[str, str | None], why: str | None
) -> None:
    said = lives_over(targets, BEFORE, now)
    assert (said == []) if why is None else why in said[0]


def test_plans_say_how_often() -> None:
    options = {key: option.default for key, option in NEMESIS.options.items()}
    nodes = ["n1", "n2", "n3"]
    plans = NEMESIS.plan(random.Random(1), nodes, 60.0, {**options, "flaps": 3})
    assert {plan.facts["flaps"] for plan in plans} == {3}
    for flaps in (0, 9):
        with pytest.raises(ConfigError):
            NEMESIS.plan(random.Random(1), nodes, 60.0, {**options, "flaps": flaps})


def test_it_is_no_part_of_a_mix() -> None:
    with pytest.raises(ConfigError, match="takes with the nodes"):
        Mix([load("nemeses", "partition"), NEMESIS])


def test_the_guard_of_a_lab_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    guard = Guard("nowhere", {"n1": ["true"]})
    assert guard.release() is True
    assert guard.release() is False
    orphan = Guard("nowhere", {"n1": ["true"]})
    assert orphan._process.stdin is not None
    orphan._process.stdin.close()
    assert orphan._process.wait(timeout=60) == 1


@pytest.mark.parametrize(
    ("claims", "proof"),
    [
        ([], None),
        ([Claim("n1", 0, 5), Claim("n1", 10, 15)], None),
        # n1 led at 5 and at 20, n2 said so in between.
        (
            [Claim("n1", 0, 5), Claim("n2", 8, 12), Claim("n1", 20, 25)],
            Rivals("n1", "n2", 12, 20),
        ),
        (
            [Claim("n1", 0, 5), Claim("n2", 4, 8), Claim("n3", 9, 10), Claim("n1", 20, 25)],
            Rivals("n1", "n3", 10, 20),
        ),
        # The new leader's answer may be from before the old one's first claim, or after its last.
        ([Claim("n1", 0, 5), Claim("n2", 8, 22), Claim("n1", 20, 25)], None),
        ([Claim("n1", 0, 5), Claim("n2", 4, 8), Claim("n1", 20, 25)], None),
        # One after the other.
        ([Claim("n1", 0, 5), Claim("n1", 6, 8), Claim("n2", 9, 12)], None),
        # All were asked at once: each answer may be of another instant.
        ([Claim("n1", 0, 50), Claim("n2", 0, 50)], None),
        # Not the one that was cut off: it may have been elected again in between.
        ([Claim("n3", 0, 5), Claim("n2", 8, 12), Claim("n3", 20, 25)], None),
    ],
)
def test_rivals_are_proven_or_not_claimed(claims: list[Claim], proof: Rivals | None) -> None:
    assert rivals(claims, "n1") == proof
    assert rivals(claims[::-1], "n1") == proof


def test_a_split_brain_is_planned_as_a_partition_of_the_leader() -> None:
    options = {key: option.default for key, option in SPLIT_BRAIN.options.items()}
    plans = SPLIT_BRAIN.plan(random.Random(1), ["n1", "n2", "n3"], 60.0, options)
    assert {(p.facts["shape"], p.facts["action"], p.facts["direction"]) for p in plans} == {
        ("leader", "drop", "both")
    }
    assert all(plan.facts["rounds"] == 4 for plan in plans)


def test_what_became_of_what_was_not_synced_is_read_after_the_heal() -> None:
    class Node:
        async def run(self, argv: Any, **_: Any) -> Any:
            return SimpleNamespace(stdout="synced=token\n", status=0)

    fault = Restart()
    fault._laid = {"n1": "token"}
    context: Any = SimpleNamespace(node=lambda name: Node())
    record = LandingRecord(
        fault_id="f1", nemesis="restart", targets=["n1"], scheduled_at=0, epoch="fault:restart:f1"
    )
    facts = asyncio.run(fault.after_heal(context, record))
    assert facts == {"unsynced": {"n1": {"synced": True, "unsynced": False}}, "page_cache": "lost"}
