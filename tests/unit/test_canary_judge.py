"""RF2 asks that the checkers reject every broken copy of the run."""

from __future__ import annotations

import msgspec
import pytest
from made_audit import but, good
from made_runs import recorded, registers

from dstest.core.evidence import Canary
from dstest.judge.audit_rows import oracle
from dstest.runner import judgement


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Canary:
    run = recorded(tmp_path_factory.mktemp("run") / "run", registers(count=700), "register")
    canary = judgement.assess(run).verdict.canary
    assert isinstance(canary, Canary)
    return canary


def test_a_row_says_what_caught_it(kept: Canary) -> None:
    for r in kept.details:
        assert {"checker", "model", "kind", "mutant", "valid", "caught", "sure"} <= r.keys()
        assert r["caught"] or r["valid"] is not False, r


DETAILS = [{"checker": "linearizable", "kind": "stale-read", "valid": False, "sure": True}]


@pytest.mark.parametrize(
    ("canary", "said"),
    [
        (Canary(killed=1, total=1, details=DETAILS), None),
        (
            Canary(
                killed=1,
                total=1,
                details=DETAILS,
                undistinguished=[
                    {
                        "checker": "linearizable",
                        "model": "register",
                        "weaker": "a judge without real time",
                        "kinds": ["stale-read"],
                    }
                ],
            ),
            "cannot be told from a judge without real time",
        ),
        (
            Canary(killed=1, total=2, details=[*DETAILS, {**DETAILS[0], "valid": "unknown"}]),
            "left undecided",
        ),
        (
            Canary(killed=1, total=2, details=[*DETAILS, {**DETAILS[0], "valid": True}]),
            "accepted",
        ),
        (
            Canary(
                killed=1,
                total=2,
                details=[*DETAILS, {**DETAILS[0], "valid": True, "sure": False}],
            ),
            None,
        ),
        (
            Canary(killed=1, total=1, details=[{**DETAILS[0], "checker": "another"}]),
            "linearizable rejected no broken copy",
        ),
    ],
)
def test_what_rf2_asks_of_canaries(canary: Canary, said: str | None) -> None:
    found = oracle(but(canary=canary))
    assert oracle(good()).status == "ok"
    assert found.status == ("ok" if said is None else "short"), found.evidence
    assert said is None or said in found.evidence


def test_old_rows_count_as_certain() -> None:
    """Rows without `sure` are of copies that were violations for certain."""
    old = msgspec.convert(
        {"killed": 1, "total": 2, "details": [{"checker": "x", "valid": True}]}, Canary
    )
    assert oracle(but(canary=old)).status == "short"


def test_a_register_whose_values_repeat_is_told_from_a_judge_without_time() -> None:
    """Nothing in the run is written once, so a stale read is planted behind it."""
    from functools import partial

    from dstest.core import registry
    from dstest.core.check import Budget
    from dstest.core.history import Header, History
    from dstest.core.op import Op
    from dstest.judge.mutants.families import canaries

    ops = [
        Op(
            op_id=i,
            process_id=0,
            invoke_ts=10 * i,
            complete_ts=10 * i + 5,
            op_type="write" if i % 2 == 0 else "read",
            key="k",
            input=7 if i % 2 == 0 else None,
            output=None if i % 2 == 0 else 7,
        )
        for i in range(40)
    ]
    history = History(header=Header(model="cas-register"), ops=ops)
    checker = registry.load("checkers", "linearizable")
    check = partial(checker.check, model="cas-register", budget=Budget())
    found = canaries(checker, "cas-register", history, 1, check)
    assert found.undistinguished == []
    planted = [row for row in found.details if row["kind"] == "planted-stale-read"]
    assert [row["valid"] for row in planted] == [False]
    blind = canaries(checker, "cas-register", history, 1, lambda _: check(history))
    assert [row["valid"] for row in blind.details if row["kind"] == "planted-stale-read"] == [True]
