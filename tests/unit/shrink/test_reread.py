"""A reduction is believed as far as its runs show it. They are copies of runs without a lab."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import recorded, registers
from real_run import change_facts
from shrink.test_driver import failed
from test_blame_causes import sampled

from dstest.core.errors import EvidenceError
from dstest.core.reproducer import REPRODUCER, Reproducer
from dstest.core.verdict import State, Verdict
from dstest.runner.integrity import verified
from dstest.runner.judgement import judge
from dstest.shrink import reread
from dstest.shrink.candidate import Candidate
from dstest.shrink.driver import shrink_run
from dstest.shrink.original import original_of
from dstest.shrink.record import HISTORY, PROGRESS, RUNS, Attempt, aside_of
from dstest.shrink.reread import read_reproducer
from dstest.shrink.runs import attempt_of
from dstest.store.layout import RunDir

__all__ = ["failed"]


class Copies:
    """Runs that are copies of one that fails."""

    width = 1

    def __init__(self, run: RunDir) -> None:
        self._run, self._made = run, 0

    def refused(self, candidate: Candidate) -> str:
        return ""

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        aside = aside_of(self._run.path)
        verdict = verdict_of(self._run)
        made = []
        for _ in candidates:
            self._made += 1
            place = aside / RUNS / f"r{self._made}"
            shutil.copytree(self._run.path, place)
            fingerprint = verdict.evidence.violation_fingerprint
            assert fingerprint is not None
            made.append(attempt_of(place, aside, fingerprint, verdict))
        return made


def verdict_of(run: RunDir) -> Verdict:
    return msgspec.convert(run.read_json("verdict.json"), Verdict)


@pytest.fixture
def small(failed: RunDir, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run that was made small. What its copies were made of is not looked at."""
    monkeypatch.setattr(reread, "_not_of", lambda *about: "")
    found = shrink_run(failed.path, within_s=600, sure=3, runs=Copies(failed))
    assert found is not None
    assert found.confirmed
    assert read_reproducer(failed.path, verdict_of(failed)) == found
    return failed


def said(run: RunDir) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode((aside_of(run.path) / REPRODUCER).read_bytes())
    return data


def other(value: Any) -> Any:
    """A value of the same type that is not this one."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return [*value, "more"] if value and isinstance(value[0], str) else [1, 2]
    return {**value, "runs": 7} if "runs" in value else {**value, "events": 400}


EDITED = sorted(
    {*Reproducer.__struct_fields__} - {"dstest", "stopped", "confirmed", "rate_before", "schedule"}
)


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_field_is_not_believed(small: RunDir, name: str) -> None:
    told = said(small)
    changed = ["x=1"] if name in ("options", "builds") else other(told[name])
    path = aside_of(small.path) / REPRODUCER
    path.write_bytes(msgspec.json.encode({**told, name: changed}))
    with pytest.raises(EvidenceError):
        read_reproducer(small.path, verdict_of(small))


@pytest.mark.parametrize(
    ("name", "value"), [("rate_before", {"runs": 9, "came": 9}), ("schedule", {"plans": []})]
)
def test_what_there_was_none_of_is_not_believed(small: RunDir, name: str, value: Any) -> None:
    path = aside_of(small.path) / REPRODUCER
    path.write_bytes(msgspec.json.encode({**said(small), name: value}))
    with pytest.raises(EvidenceError, match=name):
        read_reproducer(small.path, verdict_of(small))


def changed_attempts(run: RunDir, change: Callable[[list[dict[str, Any]]], None]) -> None:
    path = aside_of(run.path) / PROGRESS
    kept = msgspec.json.decode(path.read_bytes())
    change(kept["tried"][said(run)["candidate"]]["attempts"])
    path.write_bytes(msgspec.json.encode(kept))


def test_one_run_confirms_nothing(small: RunDir) -> None:
    def cut(attempts: list[dict[str, Any]]) -> None:
        del attempts[[one["confirms"] for one in attempts].index(True) + 1 :]

    changed_attempts(small, cut)
    kept = msgspec.json.decode((aside_of(small.path) / PROGRESS).read_bytes())
    runs = sum(len(one["attempts"]) for one in kept["tried"].values())
    path = aside_of(small.path) / REPRODUCER
    told = {**said(small), "runs": runs, "rate_after": {"runs": 1, "came": 1}}
    path.write_bytes(msgspec.json.encode(told))
    with pytest.raises(EvidenceError, match="1 of 1"):
        read_reproducer(small.path, verdict_of(small))


@pytest.mark.parametrize(
    ("name", "value"), [("landed", 7), ("ops", 1), ("targets", 9), ("came", False)]
)
def test_an_attempt_says_what_its_run_says(small: RunDir, name: str, value: Any) -> None:
    changed_attempts(small, lambda attempts: attempts[-1].update({name: value}))
    with pytest.raises(EvidenceError, match="found something else"):
        read_reproducer(small.path, verdict_of(small))


def test_a_run_that_confirms_is_judged_again(small: RunDir, tmp_path: Path) -> None:
    good = recorded(tmp_path / "good", registers(count=900), "register")
    sampled(good)
    judge(good)
    kept = msgspec.json.decode((aside_of(small.path) / PROGRESS).read_bytes())
    last = kept["tried"][said(small)["candidate"]]["attempts"][-1]
    place = aside_of(small.path) / last["path"]
    forged = (place / "verdict.json").read_bytes()
    shutil.rmtree(place)
    shutil.copytree(good.path, place)
    (place / "verdict.json").write_bytes(forged)
    RunDir(place).write_sums()
    with pytest.raises(EvidenceError, match="of its runs"):
        read_reproducer(small.path, verdict_of(small))


def test_a_part_of_another_history_is_not_believed(small: RunDir) -> None:
    path = aside_of(small.path) / HISTORY
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.replace('"w', '"v') for line in lines) + "\n")
    path.write_text(path.read_text().replace('"process":', '"process":1'))
    with pytest.raises(EvidenceError):
        read_reproducer(small.path, verdict_of(small))


@pytest.mark.parametrize("facts", [{"seed": 99}, {"workload": "set"}, {"system": "zookeeper"}])
def test_a_run_of_something_else_is_told(failed: RunDir, tmp_path: Path, facts: Any) -> None:
    original = original_of(failed.path, verdict_of(failed))
    run = RunDir(Path(shutil.copytree(failed.path, tmp_path / "copy")))
    spec = {**run.read_json("run.json")["spec"], **facts}
    change_facts(run, spec=spec)
    [name] = facts
    assert name in reread._not_of(run.path, original, original.start)


def test_a_run_whose_faults_did_not_land_says_nothing(tmp_path: Path) -> None:
    good = recorded(tmp_path / "runs" / "r1", registers(count=900), "register")
    sampled(good)
    verdict, _ = judge(good)
    unlanded = [msgspec.structs.replace(one, landed="no") for one in verdict.evidence.faults]
    assert unlanded
    evidence = msgspec.structs.replace(verdict.evidence, faults=unlanded)
    quiet = msgspec.structs.replace(
        verdict, evidence=evidence, verdict=State("INCONCLUSIVE-fault-not-proven")
    )
    assert attempt_of(good.path, tmp_path, "c/a/#/m", verdict).judged
    attempt = attempt_of(good.path, tmp_path, "c/a/#/m", quiet)
    assert not attempt.judged
    assert "did not land" in attempt.why_not


def test_the_run_itself_is_whole(failed: RunDir) -> None:
    assert verified(failed).verdict == verdict_of(failed)
