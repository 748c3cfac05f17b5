"""Checkers of final states: which dumps and audits count, and for whom."""

from __future__ import annotations

import pytest
from notation import check

from dstest.core.check import CheckResult, OpCount
from dstest.judge.evidence import _left_to_others

RECONCILED = ("reconciliation", "converged")
LEDGER = ("exactly-once", "ledger")


def test_a_dump_of_everything_counts_after_the_last_change_of_any_key() -> None:
    early = (
        '1 transfer[x] 7 @0-1\n1 dump -> {"x":7} @2-3\n1 dump -> {"x":7} @4-5\n'
        '2 dump -> {"x":0} @2-3\n2 dump -> {"x":0} @4-5\n1 transfer[y] 1 @6-7'
    )
    assert check(*RECONCILED, early).valid == "unknown"
    late = early.replace("@6-7", "@0-1")
    assert check(*RECONCILED, late).anomaly_types == ["divergence"]


def test_dumps_with_keys_are_compared_key_by_key() -> None:
    text = (
        "1 write[x] 7 @0-1\n1 dump[x] -> 7 @2-3\n1 dump[x] -> 7 @4-5\n"
        "2 dump[x] -> {} @2-3\n2 dump[x] -> {} @4-5\n"
        "1 write[y] 8 @6-7\n1 dump[y] -> 8 @8-9\n1 dump[y] -> 8 @10-11\n"
        "2 dump[y] -> 8 @8-9\n2 dump[y] -> 8 @10-11"
    )
    result = check(*RECONCILED, text)
    assert (result.anomaly_types, result.stats["tested"]) == (["divergence"], 2)
    assert result.anomalies["divergence"][0].key == "x"
    assert check(*RECONCILED, text.replace("{}", "7")).valid is True


def test_each_account_is_judged_by_its_own_audits() -> None:
    text = (
        '1 credit[a] {"id":"p"} @0-1\n1 credit[a] {"id":"p"} @2-3\n1 audit[a] -> ["p"] @4-5\n'
        '2 credit[b] {"id":"q"} @6-7\n2 credit[b] {"id":"q"} @8-9\n2 audit[b] -> ["q"] @10-11'
    )
    assert check(*LEDGER, text).valid is True
    twice = check(*LEDGER, text.replace('["q"]', '["q","q"]'))
    assert twice.anomaly_types == ["duplicated"]
    assert twice.anomalies["duplicated"][0].key == "b"
    elsewhere = check(*LEDGER, text.replace('-> ["q"]', '-> ["p"]'))
    assert elsewhere.anomaly_types == ["lost", "phantom"]
    unaudited = check(*LEDGER, text.rsplit("\n", 1)[0])
    assert unaudited.valid == "unknown"


@pytest.mark.parametrize(
    ("invariants", "valid"),
    [
        ("sum=accounts*balance", True),
        ("sum=2*balance,min=0,size=accounts", True),
        ("sum=accounts*accounts", False),
        ("sum=accounts*nothing", "unknown"),
    ],
)
def test_invariants_name_options_of_the_run(invariants: str, valid: object) -> None:
    text = '1 transfer 1 @0-1\n1 dump -> {"a":7,"b":13} @2-3\n1 dump -> {"a":7,"b":13} @4-5'
    result = check("final-state", "invariant", text, invariants=invariants, accounts=2, balance=10)
    assert result.valid == valid


def test_processes_that_share_no_key_have_clocks_of_their_own() -> None:
    one = "1 write[x] 1 @0-1\n2 read[x] -> 1 @2-3\n2 write[x] 2 @4-5\n2 read[x] -> 2 @6-7"
    other = "3 write[y] 1 @0-1\n4 read[y] -> 1 @2-3"
    result = check("causal", "causal", f"{one}\n{other}")
    assert (result.valid, result.stats["tested"]) == (True, 3)
    assert check("causal", "causal", one.replace("-> 2", "-> 1") + "\n" + other).valid is False


def test_only_looks_at_the_final_state_may_be_left_to_another_checker() -> None:
    def judged(**excluded: int) -> CheckResult:
        reasons = {f"{kind}: not an operation of it": n for kind, n in excluded.items()}
        return CheckResult(
            checker="it", valid=True, ops=OpCount(total=9, consumed=5, excluded=reasons)
        )

    assert _left_to_others(judged(dump=4), [judged()]) == 4
    assert _left_to_others(judged(dump=4), [judged(dump=4)]) == 0
    assert _left_to_others(judged(dump=4), []) == 0
    assert _left_to_others(judged(cas=4, dump=1), [judged()]) == 1
    words = {"dump is not an operation of model register": 4}
    linear = CheckResult(
        checker="linearizable", valid=True, ops=OpCount(total=9, consumed=5, excluded=words)
    )
    assert _left_to_others(judged(dump=4), [linear]) == 0
    assert _left_to_others(linear, [judged()]) == 4
