"""Against Elle's recorded answers (corpora/elle).

What may differ, and why ours is right:

- `garbage-read`: Elle's list-append throws on a read of a value that nobody wrote and its
  rw-register passes it in silence; we report it, next to everything else.
- A class more than Elle: its search takes the first cycle of a class and throws it away where the
  explanation gives it another name, "without going on"; ours goes on. The models ruled out are the
  same, and where Elle has only a `*-cycle-exists` ours names the cycle.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.txn import ingest
from checkers.txn.api import DEFAULT_MODELS, check
from checkers.txn.opmaps import from_op_maps
from checkers.txn.tested import VACUOUS
from dstest.core.check import CheckResult

ELLE = (
    Path(
        os.environ.get("DSTEST_CORPORA") or Path(__file__).parents[2].parent / "shared" / "corpora"
    )
    / "elle"
)
pytestmark = pytest.mark.skipif(not ELLE.exists(), reason=f"no corpus at {ELLE}")

Case = tuple[str, str, list[dict[str, Any]], tuple[str, ...], dict[str, Any], dict[str, Any]]


def cases() -> Iterator[Case]:
    for case in json.loads((ELLE / "cases.json").read_text()):
        opts = dict(case["opts"])
        models = opts.pop("consistency-models", DEFAULT_MODELS) or ()
        yield (
            case["name"], case["workload"], case["history"], tuple(models), opts, case["expected"],
        )  # fmt: skip


def randoms(name: str) -> Iterator[Case]:
    path = ELLE / name
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
@pytest.mark.parametrize("name", ["cases", "random.json", "random2.json.gz"])
def test_answers_as_elle(name: str) -> None:
    wrong, same, total = [], 0, 0
    for case in cases() if name == "cases" else randoms(name):
        _, workload, history, models, opts, elle = case
        ours = check(from_op_maps(history), workload, models, opts)
        if message := differs(case, ours):
            wrong.append(message)
        if "error" not in elle and "garbage-read" not in ours.anomaly_types:
            total += 1
            same += equal(ours, elle)
    assert wrong == []
    assert same >= 0.975 * total


def test_huge_component_is_decided() -> None:
    columns = ingest.load(ELLE / "huge-scc.edn.gz")
    result = check(columns, "list-append", ["strong-snapshot-isolation"])
    assert result.valid is False
    assert result.anomaly_types == ["G-single-item-realtime"]
    assert len(result.anomalies["G-single-item-realtime"][0].ops) == 2
    assert result.seconds.check < 1


def test_operations_without_a_process_are_judged() -> None:
    result = check(ingest.load(ELLE / "paper-example.edn"), "list-append")
    assert result.anomaly_types == ["G-single-item"]
    assert result.not_ == ["consistent-view", "repeatable-read"]
