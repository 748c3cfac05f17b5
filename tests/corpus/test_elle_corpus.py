"""Transactional histories with known answers: made ones, and Elle's own output on its test suite,
on gadgets and on 1,760 random histories.

Verdicts and boundaries must be Elle's. What may differ, and is counted: `garbage-read`, which is
ours alone and stands where Elle throws or says nothing; the names of classes where what they
rule out is the same, because Elle's search gives up a class after the first cycle that turns out to
be of another; and histories in which no transaction read what another one wrote, which Elle calls
valid and we unknown. Two boundaries differ because a garbage read that nobody asked for rules out
more.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from isolation_oracle import MODELS as WEAK
from isolation_oracle import ORDERS, demands_are_acyclic, executable, transactions_of
from places import OUTER, OWN, ROOTS

from checkers.second.elle import check as oracle
from checkers.second.elle_txn import boundary as oracle_boundary
from checkers.second.elle_txn import implied, order_edges, transactions
from checkers.txn import models as lattice
from checkers.txn.api import check
from checkers.txn.columns import VACUOUS
from checkers.txn.ingest import load

pytestmark = pytest.mark.slow

Judge = Callable[[list[dict[str, Any]], str, list[str], dict[str, Any]], dict[str, Any]]

FILES = [
    root / "elle" / name
    for root in ROOTS
    for name in ("cases.json", "random.json", "random2.json.gz")
    if root == OUTER or not name.endswith(".gz")
]
DIFFERENT_BOUNDARIES = {path: 1 for path in FILES if OUTER and path == OUTER / "elle/cases.json"}


def name_of(path: Path) -> str:
    return f"{'made' if path.is_relative_to(OWN) else 'elle'}-{path.name}"


def rows(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    return list(json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw))


def questions(path: Path) -> Iterator[tuple[str, list[dict[str, Any]], str, Any, Any, Any]]:
    """(name, history, workload, models, options, the known answer)"""
    for row in rows(path):
        opts = dict(row["opts"])
        if "expected" in row:
            models = opts.pop("consistency-models", ["strict-serializable"])
            yield row["name"], row["history"], row["workload"], models, opts, row["expected"]
            continue
        for model, answer in row["verdicts"].items():
            yield row["name"], row["history"], row["workload"], [model], opts, answer


def ours(
    history: list[dict[str, Any]], workload: str, models: list[str], opts: dict[str, Any]
) -> dict[str, Any]:
    columns = load(json.dumps(history).encode(), "json")
    result = check(columns, workload, models or [], {**opts, "decide?": False})
    return {
        "valid": result.valid,
        "anomaly_types": result.anomaly_types,
        "not": result.not_,
        "also_not": result.also_not,
        "reason": result.reason,
    }


def is_vacuous(history: list[dict[str, Any]]) -> bool:
    """No committed transaction read a value that another one may have written; two that read
    nothing where others wrote could have been wrong together."""
    writers: dict[Any, set[int]] = {}
    for at, event in enumerate(history):
        for f, key, *_ in event["value"] or () if event["type"] in ("ok", "info") else ():
            if f != "r":
                writers.setdefault(json.dumps(key), set()).add(at)
    told, readers = False, set()
    for at, event in enumerate(history):
        for f, key, *value in event["value"] or () if event["type"] == "ok" else ():
            if f == "r" and writers.get(json.dumps(key), set()) - {at}:
                told |= value not in ([], [None], [[]])
                readers.add(at)
    return not told and len(readers) < 2


def compare(want: dict[str, Any], got: dict[str, Any], history: list[dict[str, Any]]) -> str:
    """same, garbage (ours alone), names (the same is ruled out), vacuous, boundary or verdict;
    carried where versions are ordered past one that was read and replaced, at which Elle's order
    breaks."""
    if want.get("valid") is True and got["valid"] == "unknown":
        return "vacuous" if is_vacuous(history) and VACUOUS in got["reason"] else "verdict"
    if "error" in want or "garbage-read" in got["anomaly_types"]:
        mine = {name for found in got["anomaly_types"] for name in implied(found)}
        lost = "error" not in want and not {*want["anomaly_types"]} <= mine
        return "garbage, and something lost" if lost else "garbage"
    if got["valid"] != want["valid"]:
        return "verdict"
    if sorted(got["not"]) != want["not"] or sorted(got["also_not"]) != want["also_not"]:
        return "boundary"
    return "same" if sorted(got["anomaly_types"]) == sorted(want["anomaly_types"]) else "names"


def is_long(path: Path, judge: Judge) -> bool:
    """The slow oracle takes half a minute for the largest file."""
    return judge is oracle and path.name == "random2.json.gz"


JUDGES: tuple[Judge, ...] = (ours, oracle)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("path", "judge"),
    [
        pytest.param(
            path,
            judge,
            id=f"{name_of(path)}-{'checkers' if judge is ours else 'oracle'}",
            marks=[pytest.mark.long] if is_long(path, judge) else [],
        )
        for path in FILES
        for judge in JUDGES
    ],
)
def test_answers_are_the_known_ones(path: Path, judge: Judge) -> None:
    kinds: Counter[str] = Counter()
    worst: list[str] = []
    for title, history, workload, models, opts, want in questions(path):
        if title == "type-sanity":  # two classes of Java integers; JSON has one
            continue
        got = judge(history, workload, models, opts)
        kind = compare(want, got, history)
        ordered = opts.get("sequential-keys?") or opts.get("linearizable-keys?")
        if ordered and got["valid"] is False and kind not in ("same", "garbage", "names"):
            kind = "carried"
        kinds[kind] += 1
        if kind not in ("same", "garbage", "names", "vacuous", "carried"):
            worst.append(f"{title} {models} {opts}: {kind}")
    total = sum(kinds.values())
    print(path, dict(kinds))  # noqa: T201
    assert kinds["verdict"] == 0, worst[:10]
    assert kinds["garbage, and something lost"] == 0, worst[:10]
    assert kinds["boundary"] == DIFFERENT_BOUNDARIES.get(path, 0), worst[:10]
    assert kinds["names"] <= total // 50, kinds
    assert kinds["carried"] <= total // 50, kinds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_decided_beyond_elle_is_so(path: Path) -> None:
    """Where a decision differs from Elle's, every order of the transactions says so too."""
    wrong, differ = [], 0
    for title, history, workload, models, opts, want in questions(path):
        model = lattice.canonical(models[0]) if models and len(models) == 1 else None
        if workload != "rw-register" or "error" in want or model not in {*WEAK, *ORDERS}:
            continue
        result = check(load(json.dumps(history).encode(), "json"), workload, models, opts)
        if result.valid == want["valid"] or "unknown" in (result.valid, want["valid"]):
            continue
        if "garbage-read" in result.anomaly_types or opts:
            continue
        differ += 1
        holds = (
            executable(history, model)
            if model in ORDERS
            else demands_are_acyclic(transactions_of(history), model)
        )
        if result.valid is not holds:
            wrong.append(f"{title} {model}: {result.valid}")
    assert wrong == []
    assert differ > 0 or path.name == "cases.json" or path.is_relative_to(OWN)


@pytest.mark.parametrize("judge", [ours, oracle], ids=["checkers", "oracle"])
def test_what_was_planted_is_found(judge: Judge) -> None:
    planted = rows(OWN / "elle" / "cases.json")
    for row in planted:
        found = judge(row["history"], row["workload"], ["strict-serializable"], {})
        assert row["planted"] in found["anomaly_types"], (row["workload"], row["name"])
    assert len(planted) >= 40


@pytest.mark.parametrize("root", ROOTS, ids=["made", "elle"][: len(ROOTS)])
def test_process_and_realtime_edges_are_the_known_ones(root: Path) -> None:
    for row in rows(root / "elle" / "graphs.json"):
        history = [{**e, "value": []} for e in row["history"]]
        txns = transactions(history, "rw-register")
        index = {t.id: t.index for t in txns}
        edges = sorted([index[a], index[b]] for a, b in order_edges(txns, row["graph"]))
        assert edges == sorted(row["edges"]), row["name"]


@pytest.mark.parametrize(
    ("path", "good"),
    [(p, v == "good") for v in ("good", "bad") for p in sorted((OWN / "elle" / v).glob("*.edn"))],
    ids=lambda v: v.name if isinstance(v, Path) else "",
)
def test_edn_is_read_as_json_is(path: Path, good: bool) -> None:
    """The same history lies in one of the JSON files."""
    workload = next(w for w in ("list-append", "rw-register") if path.stem.startswith(w))
    name = path.stem.removeprefix(workload + "-")
    found = [r for f in ("cases", "random") for r in rows(OWN / "elle" / f"{f}.json")]
    row = next(r for r in found if (r["name"], r["workload"]) == (name, workload))
    models = list(row.get("verdicts", ["strict-serializable"]))
    told = check(load(path), workload, models, {})
    json_said = check(load(json.dumps(row["history"]).encode(), "json"), workload, models, {})
    assert told.valid is json_said.valid is good
    assert told.anomaly_types == json_said.anomaly_types


@pytest.mark.outer_corpora
def test_both_lattices_are_elles() -> None:
    assert OUTER is not None
    facts = json.loads((OUTER / "elle" / "models.json").read_text())
    for anomaly, want in facts["boundary"].items():
        expected = (sorted(want["not"]), sorted(want["also_not"]))
        mine = lattice.boundary([anomaly])
        assert (sorted(mine.not_), sorted(mine.also_not)) == expected, anomaly
        assert oracle_boundary([anomaly]) == expected, anomaly
