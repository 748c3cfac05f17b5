"""Runs of schema 1, which kept evidence, broken copies and spec in files of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from failing_runs import failing
from made_runs import made, registers

from dstest.core.evidence import Canary
from dstest.core.verdict import Verdict
from dstest.history.layout import RunDir, read_records, read_verdict
from dstest.report.model import load_report
from dstest.report.summarize import brief_of, stored_summary
from dstest.runner.integrity import verify_run
from dstest.runner.judgement import judge
from dstest.store.export.gather import result_of_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDir]:
    folder = tmp_path_factory.mktemp("runs")
    passed, _ = made(folder / "passed", registers(count=700), "register")
    return {"passed": passed, "failed": failing(folder / "failed")}


def changed(run: RunDir, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    plain = json.loads((run.path / name).read_bytes())
    change(plain)
    (run.path / name).write_text(json.dumps(plain, indent=2) + "\n")


def of_schema_1(run: RunDir, to: Path) -> RunDir:
    """The same run as 0.16.0 left it."""
    old = RunDir(Path(shutil.copytree(run.path, to / run.path.name)))
    verdict = json.loads((old.path / "verdict.json").read_bytes())
    old.write_json("evidence.json", verdict["evidence"])
    old.write_json("canary.json", verdict["canary"])
    (old.path / "spec.toml").write_text('system = "etcd"\n')

    def without(plain: dict[str, Any]) -> None:
        del plain["summary"], plain["canary"]

    def by_16(plain: dict[str, Any]) -> None:
        plain.pop("schema", None)
        plain["host"] = {**plain["host"], "dstest": "0.16.0"}
        plain["records"] = [msgspec.to_builtins(one) for one in read_records(old.path)]

    changed(old, "verdict.json", without)
    changed(old, "run.json", by_16)
    head, rest = old.history.read_bytes().split(b"\n", 1)
    header = json.loads(head)
    new = ("until", "fault", "kind", "nodes", "landed", "heal_verified")
    header["windows"] = [{k: v for k, v in w.items() if k not in new} for w in header["windows"]]
    old.history.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    old.write_sums()
    return old


@pytest.mark.parametrize("name", ["passed", "failed"])
def test_it_is_read_shown_and_judged_again_alike(
    name: str, runs: dict[str, RunDir], tmp_path: Path
) -> None:
    run = runs[name]
    old = of_schema_1(run, tmp_path)
    now, then = read_verdict(run.path), read_verdict(old.path)
    assert then == msgspec.structs.replace(now, summary=msgspec.UNSET)
    assert isinstance(then.canary, Canary) and then.canary.total > 0
    for again in ("no", "checkers", "all"):
        assert verify_run(old, again).verdict.verdict is now.verdict
    shown = load_report(old.path)
    assert (shown.canary, len(shown.faults)) == (now.canary, 1)
    (_, ours), (_, theirs) = brief_of(run.path), brief_of(old.path)
    same = {"dstest", "command"}
    assert {n for n in ours.__struct_fields__ if getattr(ours, n) != getattr(theirs, n)} <= same
    assert result_of_run(old.path).word == result_of_run(run.path).word


def test_without_its_history_a_list_knows_what_it_needs(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    old = of_schema_1(runs["failed"], tmp_path)
    meta = old.read_meta()
    assert meta is not None
    made_of_files = stored_summary("x", meta, read_verdict(old.path))
    _, kept = brief_of(runs["failed"].path)
    for field in ("test", "kinds", "fingerprints", "bug", "found_s", "operations", "tier_met"):
        assert getattr(made_of_files, field) == getattr(kept, field), field
    assert made_of_files.headline and made_of_files.figures.why


def test_an_operation_that_differs_is_still_found(runs: dict[str, RunDir], tmp_path: Path) -> None:
    old = of_schema_1(runs["passed"], tmp_path)
    lines = old.history.read_bytes().splitlines(keepends=True)
    old.history.write_bytes(b"".join(lines[:-1]))
    old.write_sums()
    with pytest.raises(Exception, match=r"history\.jsonl is not what the segments give"):
        verify_run(old)


def test_a_header_that_says_something_else_is_still_found(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    old = of_schema_1(runs["passed"], tmp_path)
    head, rest = old.history.read_bytes().split(b"\n", 1)
    header = {**json.loads(head), "seed": 99}
    old.history.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    old.write_sums()
    with pytest.raises(Exception, match=r"history\.jsonl is not what the segments give"):
        verify_run(old)


def test_judged_anew_in_its_place_it_is_of_schema_2(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    old = of_schema_1(runs["passed"], tmp_path)
    verdict, failure = judge(old)
    assert failure is None
    assert not (old.path / "evidence.json").exists() and not (old.path / "canary.json").exists()
    kept = read_verdict(old.path)
    assert kept.summary is not msgspec.UNSET and kept.canary is not msgspec.UNSET
    assert (kept.verdict, kept.evidence) == (verdict.verdict, verdict.evidence)


def test_a_verdict_is_read_as_it_was_written(runs: dict[str, RunDir]) -> None:
    verdict = read_verdict(runs["failed"].path)
    again = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)
    assert again == verdict
    assert verdict.summary is not msgspec.UNSET
    assert verdict.summary.violations and verdict.summary.counted[0].count
    assert verdict.summary.faults[0].landed == "yes"


def test_its_history_stays_to_the_letter_when_it_is_judged_anew(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    """By its digest the run is known to blame and to known issues."""
    old = of_schema_1(runs["failed"], tmp_path)
    before = old.history.read_bytes()
    judge(old)
    assert old.history.read_bytes() == before
    assert not list(old.path.glob("*.new"))


def test_all_anomalies_are_counted_by_window_node_key_and_time(runs: dict[str, RunDir]) -> None:
    _, summary = brief_of(runs["failed"].path)
    for one in summary.counted:
        assert one.spread is not None and one.spread.told is not None, one
        assert sum(one.spread.told.epochs.values()) + one.spread.told.outside == one.count
        assert one.spread.keys_total and one.spread.told.nodes
        assert one.spread.told.first_ns <= one.spread.told.last_ns
