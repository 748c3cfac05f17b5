"""Which questions about transactions are answered, and which are refused or unknown.

A model that rules out nothing that can be detected would be true of every history.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from checkers.txn import _native, models
from checkers.txn.api import check
from checkers.txn.batch import run_batch
from checkers.txn.plugin import LIST_APPEND, RW_REGISTER, from_op_maps
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve

Event = dict[str, Any]
CLEAN: list[list[Any]] = [
    [["append", "x", 1]],
    [["r", "x", [1]], ["append", "x", 2]],
    [["r", "x", [1, 2]]],
]


def serial(*txns: list[list[Any]], kind: str = "ok") -> list[Event]:
    """One transaction after the other, each by a process of its own."""
    found: list[Event] = []
    for process, mops in enumerate(txns):
        asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
        found.append({"type": "invoke", "process": process, "f": "txn", "value": asked})
        found.append({"type": kind, "process": process, "f": "txn", "value": mops})
    return found


def at_once(*txns: list[list[Any]]) -> list[Event]:
    events = serial(*txns)
    return events[::2] + events[1::2]


def of_one_process(events: list[Event]) -> list[Event]:
    return [{**event, "process": 0} for event in events]


STALE = serial([["append", "x", 1]], [["r", "x", []]], [["r", "x", [1]]])
"""Each of these is one anomaly; together they reach every model that is judged."""
BROKEN = {
    "G0-process": of_one_process(
        serial([["append", "x", 1]], [["append", "x", 2]], [["r", "x", [2, 1]]])
    ),
    "G1a": [*serial([["append", "x", 1]], kind="fail"), *serial([["r", "x", [1]]])],
    "lost-update": at_once(
        [["append", "x", 0]],
        [["r", "x", [0]], ["append", "x", 1]],
        [["r", "x", [0]], ["append", "x", 2]],
        [["r", "x", [0, 1, 2]]],
    ),
    "garbage-read": at_once([["append", "x", 1]], [["r", "x", [9]]]),
}


def judged(events: list[Event], model: str) -> CheckResult:
    return check(from_op_maps(events), "list-append", [model])


@pytest.mark.parametrize("model", models.known_models())
def test_every_model_can_fail_or_is_refused(model: str) -> None:
    try:
        found = [judged(events, model).valid for events in (*BROKEN.values(), STALE)]
    except ValueError as refusal:
        assert f"dstest cannot judge {model} for transactions; it can judge" in str(refusal)
        assert "strict-serializable" in str(refusal)
        assert model not in LIST_APPEND.models
        return
    assert False in found
    assert model in LIST_APPEND.models


@pytest.mark.parametrize("model", LIST_APPEND.models)
def test_a_clean_history_is_valid_only_where_the_model_is_tested(model: str) -> None:
    """A model that finds no more than a weaker one does says no more than that one: unknown."""
    name = models.canonical(model)
    able = models.proscribed(name) & _native.DETECTABLE
    weaker = models.implied_models(name) - {name}
    result = judged(serial(*CLEAN), model)
    if any(models.proscribed(m) & _native.DETECTABLE == able for m in weaker):
        assert name in models.UNTESTED
    if name in models.implied_models(models.canonical(models.STRONGEST)):
        assert (result.valid, result.stats["method"]) == (True, "decided")
    inferring = {"decide?": False}
    result = check(from_op_maps(serial(*CLEAN)), "list-append", [model], inferring)
    if name in models.UNTESTED:
        assert result.valid == "unknown"
        assert models.UNTESTED[name] in (result.reason or "")
    else:
        assert (result.valid, result.reason) == (True, None)


def test_nothing_that_is_judged_stands_on_what_is_not_unless_it_rules_out_more() -> None:
    for model in ("read-atomic", "causal-cerone", "prefix", "update-atomic"):
        assert model in models.UNTESTED
    for model in ("snapshot-isolation", "serializable", "strict-serializable", "read-committed"):
        assert models.canonical(model) not in models.UNTESTED


@pytest.mark.parametrize("model", sorted(models.UNTESTED))
def test_what_is_found_under_an_untested_model_stays_a_violation(model: str) -> None:
    assert judged(BROKEN["G1a"], model).valid is False


def test_the_first_model_is_the_strongest() -> None:
    assert LIST_APPEND.models[0] == RW_REGISTER.models[0] == "strict-serializable"


@pytest.mark.parametrize("model", ["linearizable", "sequential", "causal", "PRAM", "1SR"])
def test_the_plug_in_and_batches_refuse_alike(model: str) -> None:
    made = History(header=Header(), ops=[])
    with pytest.raises(ValueError, match="cannot judge"):
        LIST_APPEND.check(made, model, Budget())
    line = {"workload": "list-append", "models": [model], "history": serial(*CLEAN)}
    (answer,) = [json.loads(text) for text in run_batch([json.dumps(line)])]
    assert "cannot judge" in answer["results"][model]["error"]


def test_a_question_that_asks_for_nothing_is_refused() -> None:
    columns = from_op_maps(serial(*CLEAN))
    with pytest.raises(ValueError, match="no model is asked"):
        check(columns, "list-append", [])
    with pytest.raises(ValueError, match="can be found"):
        check(columns, "list-append", [], {"anomalies": ["G-MSR"]})
    with pytest.raises(ValueError, match="unknown anomaly"):
        check(columns, "list-append", ["serializable"], {"anomalies": ["G99"]})
    assert check(columns, "list-append", [], {"anomalies": ["G1a"]}).valid is True


APPENDS = [[["append", k % 7, k]] for k in range(200)]
VACUOUS = {
    "no read": serial(*APPENDS),
    "failed reads": [*serial(*APPENDS), *serial(*[[["r", k, [1]]] for k in range(9)], kind="fail")],
    "unknown reads": [*serial(*APPENDS), *serial([["r", 1, [1]]], kind="info")],
    "results that nobody told": [
        {**e, "value": [["r", 1, None], ["append", 1, i]]} if e["type"] == "invoke"
        else {**e, "value": None}
        for i, e in enumerate(serial(*APPENDS))
    ],
    "one read of nothing": [*at_once([["r", 0, None]], *APPENDS)],
    "reads of keys that nobody writes": serial(*APPENDS, [["r", "k1", None]], [["r", "k2", None]]),
    "reads of own writes": serial(*[[["append", k, k], ["r", k, [k]]] for k in range(50)]),
    "nothing at all": serial(*[[] for _ in range(50)]),
}  # fmt: skip


@pytest.mark.parametrize("name", VACUOUS)
@pytest.mark.parametrize("model", ["strict-serializable", "serializable", "read-committed"])
def test_what_tests_nothing_is_unknown(name: str, model: str) -> None:
    result = judged(VACUOUS[name], model)
    assert result.valid == "unknown"
    assert "nothing was tested" in (result.reason or "")


def test_registers_that_are_never_read_are_unknown() -> None:
    events = [{**e, "value": [["w", k, v] for _, k, v in e["value"]]} for e in VACUOUS["no read"]]
    result = check(from_op_maps(events), "rw-register", ["strict-serializable"])
    assert (result.valid, "nothing was tested" in (result.reason or "")) == ("unknown", True)


def test_a_read_late_in_a_long_history_counts() -> None:
    txns = [[["append", k % 7, k]] for k in range(9000)]
    assert judged(serial(*txns, [["r", 0, [*range(0, 9000, 7)]]]), "serializable").valid is True


def test_our_records_are_not_judged_with_other_operations_among_them() -> None:
    ops = [
        Op(op_id=0, process_id=0, invoke_ts=0, complete_ts=1, op_type="txn",
           input=[["append", 1, 1]], output=[["append", 1, 1]]),
        Op(op_id=1, process_id=1, invoke_ts=2, complete_ts=3, op_type="txn",
           input=[["r", 1, None]], output=[["r", 1, [1]]]),
        Op(op_id=2, process_id=2, invoke_ts=4, complete_ts=5, op_type="truncate", input=1),
    ]  # fmt: skip
    result = LIST_APPEND.check(History(header=Header(), ops=ops), "serializable", Budget())
    assert result.valid == "unknown"
    assert "truncate" in (result.reason or "")
    result = LIST_APPEND.check(History(header=Header(), ops=ops[:2]), "serializable", Budget())
    assert result.valid is True


@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
@pytest.mark.parametrize(
    "model", ["linearizable", "sequential", "causal", "1SR", "monotonic-reads"]
)
def test_a_run_is_not_planned_for_it(workload: str, model: str) -> None:
    spec = RunSpec(
        system="etcd", workload=workload, nemesis="none", nodes=3, concurrency=6, rate=None,
        time_limit_s=10.0, seed=1, lab="lxc", model=model, options={},
    )  # fmt: skip
    with pytest.raises(ConfigError, match=model):
        resolve(spec, [])
    assert resolve(msgspec.structs.replace(spec, model=None), []).model == "strict-serializable"


def test_a_misspelt_model_is_guessed() -> None:
    with pytest.raises(ValueError, match="did you mean serializable"):
        judged(serial(*CLEAN), "serialisable")
