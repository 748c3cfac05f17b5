"""Against recorded answers: of the slow oracle to made histories, and Elle's own (corpora/elle).

What may differ, and why ours is right:

- `garbage-read`: Elle's list-append throws on a read of a value that nobody wrote and its
  rw-register passes it in silence; we report it, next to everything else.
- `cyclic-versions`: orders of versions go on past a transaction that read one and replaced it,
  where Elle's break.
- A class more than Elle: its search takes the first cycle of a class and throws it away where the
  explanation gives it another name, "without going on"; ours goes on. The models ruled out are the
  same, and where Elle has only a `*-cycle-exists` ours names the cycle.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import OUTER, OWN, ROOTS

from checkers.txn import ingest
from checkers.txn.api import DEFAULT_MODELS, check
from checkers.txn.columns import VACUOUS
from checkers.txn.plugin import from_op_maps
from dstest.core.check import CheckResult

FILES = ("cases.json", "random.json", "random2.json.gz")

Case = tuple[str, str, list[dict[str, Any]], tuple[str, ...], dict[str, Any], dict[str, Any]]


def cases(path: Path) -> Iterator[Case]:
    for case in json.loads(path.read_text()):
        opts = dict(case["opts"])
        models = opts.pop("consistency-models", DEFAULT_MODELS) or ()
        yield (
            case["name"], case["workload"], case["history"], tuple(models), opts, case["expected"],
        )  # fmt: skip


def randoms(path: Path) -> Iterator[Case]:
    raw = path.read_bytes()
    for case in json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw):
        for model, verdict in case["verdicts"].items():
            yield (
                case["name"], case["workload"], case["history"], (model,), case["opts"], verdict,
            )  # fmt: skip


def garbage(case: Case) -> bool:
    """Whether the history holds a read of a value that nobody wrote, demanded or not."""
    found = check(from_op_maps(case[2]), case[1], DEFAULT_MODELS, case[4])
    return "garbage-read" in found.anomaly_types


def differs(case: Case, ours: CheckResult) -> str:
    """How an answer differs from Elle's, beyond what may."""
    name, _, _, models, _, elle = case
    types, theirs = set(ours.anomaly_types), set(elle.get("anomaly_types", ()))
    carried = case[4].get("sequential-keys?") or case[4].get("linearizable-keys?")
    missed = elle.get("valid") is not True or "cyclic-versions" in types
    if carried and ours.valid is False and missed:
        return ""
    if "error" in elle:
        return "" if "garbage-read" in types else f"{name}: Elle {elle['error']}"
    named = {t for t in theirs if not t.endswith("-cycle-exists")}
    sure = {t for t in named if not t.startswith(("G-single", "G-nonadjacent", "G1c", "G2"))}
    if "garbage-read" in types:
        return "" if types >= sure and ours.valid is False else f"{name}: {types} {theirs}"
    if elle["valid"] is True and ours.valid == "unknown" and ours.reason == VACUOUS:
        return ""  # tests/corpus holds that no transaction read what another one wrote
    if ours.valid != elle["valid"]:
        return f"{name} {models}: {ours.valid}, Elle {elle['valid']}"
    if (ours.not_, ours.also_not) != (sorted(elle["not"]), sorted(elle["also_not"])):
        return "" if garbage(case) else f"{name} {models}: not {ours.not_}, Elle {elle['not']}"
    return "" if types >= sure else f"{name} {models}: {types}, Elle {theirs}"


def equal(ours: CheckResult, elle: dict[str, Any]) -> bool:
    return (
        (ours.valid == elle["valid"] or ours.reason == VACUOUS)
        and set(ours.anomaly_types) == set(elle["anomaly_types"])
        and ours.not_ == sorted(elle["not"])
        and ours.also_not == sorted(elle["also_not"])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [p for root in ROOTS for name in FILES if (p := root / "elle" / name).exists()],
    ids=lambda p: f"{'made' if p.is_relative_to(OWN) else 'elle'}-{p.name}",
)
def test_answers_as_elle(path: Path) -> None:
    wrong, same, total = [], 0, 0
    for case in cases(path) if path.name == "cases.json" else randoms(path):
        _, workload, history, models, opts, elle = case
        ours = check(from_op_maps(history), workload, models, {**opts, "decide?": False})
        if message := differs(case, ours):
            wrong.append(message)
        if "error" not in elle and "garbage-read" not in ours.anomaly_types:
            total += 1
            same += equal(ours, elle)
    assert wrong == []
    assert same >= 0.975 * total


def one_long_component(txns: int) -> list[dict[str, Any]]:
    """Appends to one key, one after the other, then a read that saw none of them: a cycle of two
    through every append, all of which are one component."""
    rows: list[tuple[int, list[Any]]] = [(n % 7, [["append", "x", n]]) for n in range(1, txns + 1)]
    rows += [(8, [["r", "x", []]]), (9, [["r", "x", [*range(1, txns + 1)]]])]
    return [
        {"index": 2 * at + done, "type": kind, "process": process, "f": "txn", "value": mops}
        for at, (process, mops) in enumerate(rows)
        for done, kind in enumerate(("invoke", "ok"))
    ]


def test_one_long_component_is_decided() -> None:
    columns = from_op_maps(one_long_component(10_000))
    result = check(columns, "list-append", ["strong-snapshot-isolation"])
    assert result.valid is False
    assert result.anomaly_types == ["G-single-item-realtime"]
    assert len(result.anomalies["G-single-item-realtime"][0].ops) == 2
    assert result.seconds.check < 1


@pytest.mark.outer_corpora
def test_huge_component_is_decided() -> None:
    assert OUTER is not None
    columns = ingest.load(OUTER / "elle" / "huge-scc.edn.gz")
    result = check(columns, "list-append", ["strong-snapshot-isolation"])
    assert result.valid is False
    assert result.anomaly_types == ["G-single-item-realtime"]
    assert len(result.anomalies["G-single-item-realtime"][0].ops) == 2
    assert result.seconds.check < 1


@pytest.mark.outer_corpora
def test_the_papers_example() -> None:
    assert OUTER is not None
    result = check(ingest.load(OUTER / "elle" / "paper-example.edn"), "list-append")
    assert result.anomaly_types == ["G-single-item"]
    assert result.not_ == ["consistent-view", "repeatable-read"]


def test_operations_without_a_process_are_judged() -> None:
    done = [
        [["append", "x", 1], ["r", "y", []]],
        [["r", "x", [1]], ["append", "y", 1]],
        [["r", "x", []], ["r", "y", [1]]],
    ]
    text = "\n".join(json.dumps({"type": "ok", "f": "txn", "value": mops}) for mops in done)
    result = check(ingest.load(text.encode(), "json"), "list-append")
    assert result.anomaly_types == ["G-single-item"]
    assert result.not_ == ["consistent-view", "repeatable-read"]
