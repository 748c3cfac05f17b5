"""A reduction is believed as far as its runs show it. They are made without a lab."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import another, recorded, registers
from real_run import change_facts
from shrink.test_driver import failed, failed_at
from test_blame_causes import sampled
from typer.testing import CliRunner

from dstest.campaign.shrink import original, reproducer
from dstest.campaign.shrink.candidate import (
    HISTORY,
    PROGRESS,
    RUNS,
    Attempt,
    Candidate,
    alone,
    aside_of,
)
from dstest.campaign.shrink.driver import shrink_run
from dstest.campaign.shrink.original import argv_of, original_of
from dstest.campaign.shrink.reproducer import read_reproducer
from dstest.campaign.shrink.runs import attempt_of
from dstest.cli.app import app
from dstest.core.errors import EvidenceError
from dstest.core.reproducer import REPRODUCER, SCRIPT, Reproducer
from dstest.core.verdict import State, Verdict
from dstest.history.layout import RunDir
from dstest.runner.integrity import verify_run
from dstest.runner.judgement import judge
from dstest.store.inventory import walk
from dstest.store.verify import check_asides, check_sums, uncomparable_scripts

pytestmark = pytest.mark.slow

__all__ = ["failed"]


class Again:
    """Runs of their own that go as one that fails did, each a little later."""

    width = 1

    def __init__(self, run: RunDir) -> None:
        self._run, self._made = run, 0

    def refused(self, candidate: Candidate) -> str:
        return ""

    def make(self, candidates: Sequence[Candidate]) -> list[Attempt]:
        aside = aside_of(self._run.path)
        made = []
        for _ in candidates:
            self._made += 1
            run, verdict = another(self._run, aside / RUNS / f"r{self._made}", self._made)
            fingerprint = verdict.evidence.violation_fingerprint
            assert fingerprint is not None
            made.append(attempt_of(run.path, aside, fingerprint, verdict))
        return made


def verdict_of(run: RunDir) -> Verdict:
    return msgspec.convert(run.read_json("verdict.json"), Verdict)


@pytest.fixture(scope="module")
def made_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a run that was made small."""
    run = failed_at(tmp_path_factory.mktemp("store") / "run")
    with pytest.MonkeyPatch.context() as patch:
        unlooked(patch)
        found = shrink_run(run.path, within_s=600, sure=3, runs=Again(run))
        assert found is not None
        assert found.confirmed
        assert read_reproducer(run.path, verdict_of(run)) == found
    return run.path.parent


@pytest.fixture
def small(made_small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run that was made small. What its runs were made of is not looked at."""
    unlooked(monkeypatch)
    return RunDir(Path(shutil.copytree(made_small, tmp_path / "store")) / "run")


def unlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reproducer, "_not_of", lambda *about: "")
    # The schedule of a made run says less than one that was planned.
    patch.setattr(original, "read_schedule", lambda path: None)


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


@pytest.mark.parametrize(
    "text",
    [
        '#!/bin/sh\necho "reproduced in 5 of 5 runs"\nexit 0\n',
        None,
        ("exit 1\n", "exit 0\n"),
        ("about ", "about 1 min. of rm -rf / and "),
    ],
)
def test_another_script_is_told(small: RunDir, text: Any) -> None:
    path = aside_of(small.path) / SCRIPT
    was = path.read_text()
    path.unlink()
    if text is not None:
        path.write_text(text if isinstance(text, str) else was.replace(*text))
    with pytest.raises(EvidenceError, match=r"repro\.sh: it is not what the reduct") as told:
        read_reproducer(small.path, verdict_of(small))
    assert f"dstest shrink {small.path}" in str(told.value.remedy)
    assert shrink_run(small.path, within_s=600, sure=3, runs=Again(small)) is not None
    assert read_reproducer(small.path, verdict_of(small)) is not None


def test_whoever_verifies_a_store_looks_at_its_reductions(small: RunDir) -> None:
    store, aside = small.path.parent, aside_of(small.path)
    assert [*check_sums(walk(store)), *check_asides(walk(store), ())] == []
    (aside / SCRIPT).write_text("exit 0\n")
    [wrong] = check_asides(walk(store), ())
    assert (wrong.path, wrong.what) == (aside, "repro.sh: it is not what the reduction gives")
    assert list(check_asides(walk(store), {small.path})) == []
    with alone(small.path):
        assert list(check_asides(walk(store), ())) == [], "it is being written"
    run = next((aside / RUNS).iterdir())
    (run / "run.log").write_text("something else\n")
    assert [one.path for one in check_sums(walk(store))] == [run]


def test_how_long_a_script_takes_is_nobodys_to_say_again(small: RunDir) -> None:
    path = aside_of(small.path) / SCRIPT
    changed = re.sub(r"about \d+ min", "about 999 min", path.read_text())
    assert "about 999 min" in changed
    path.write_text(changed)
    assert read_reproducer(small.path, verdict_of(small)) is not None


def by_version(run: RunDir, version: str, **more: Any) -> None:
    path = aside_of(run.path) / REPRODUCER
    path.write_bytes(msgspec.json.encode({**said(run), "dstest": version, **more}))


def made_by_version(run: RunDir, version: str) -> None:
    """Its runs too."""
    by_version(run, version)
    for place in (aside_of(run.path) / RUNS).iterdir():
        one = RunDir(place)
        change_facts(one, host={**one.read_json("run.json")["host"], "dstest": version})
        judge(one)
        one.write_sums()


def test_a_version_that_made_none_of_its_runs_is_not_believed(small: RunDir) -> None:
    """Else a script that was changed is compared with nothing."""
    (aside_of(small.path) / SCRIPT).write_text("echo other words\n")
    by_version(small, "0.0.1")
    with pytest.raises(EvidenceError, match=r"by dstest 0\.0\.1, its runs are by ") as told:
        read_reproducer(small.path, verdict_of(small))
    assert f"dstest shrink {small.path}" in str(told.value.remedy)
    [wrong] = check_asides(walk(small.path.parent), ())
    assert wrong.path == aside_of(small.path)
    assert shrink_run(small.path, within_s=600, sure=3, runs=Again(small)) is not None
    assert read_reproducer(small.path, verdict_of(small)) is not None


def test_whoever_verifies_a_store_is_told_what_was_not_compared(small: RunDir) -> None:
    aside, store = aside_of(small.path), small.path.parent
    assert list(uncomparable_scripts(walk(store), ())) == []
    made_by_version(small, "0.0.1")
    done = CliRunner().invoke(app, ["store", "verify", "--verdicts", str(store)])
    said = f"{aside}: by dstest 0.0.1: whether repro.sh is as that wrote it was not compared"
    assert said in done.output, done.output
    done = CliRunner().invoke(app, ["store", "verify", "--verdicts", "--json", str(store)])
    [one] = msgspec.json.decode(done.stdout)["not_compared"]
    assert one["path"] == str(aside)
    assert list(uncomparable_scripts(walk(store), {aside})) == []


def test_a_script_of_another_version_is_told_as_such(small: RunDir) -> None:
    (aside_of(small.path) / SCRIPT).write_text("echo other words\n")
    made_by_version(small, "0.0.1")
    assert read_reproducer(small.path, verdict_of(small)) is not None
    done = CliRunner().invoke(app, ["report", str(small.path)])
    assert "by dstest 0.0.1: whether repro.sh is as that wrote it is not known" in done.output
    assert f"`dstest shrink {small.path}` writes it anew" in done.output


def test_a_command_is_one_for_a_shell(small: RunDir) -> None:
    """One without quotes and with six digits is read all the same, and told as it should be."""
    of_run = original_of(small.path, verdict_of(small))
    limit_s, pairs = 12.40625, ("key=two words",)
    candidate = msgspec.structs.replace(of_run.start, time_limit_s=limit_s, options=pairs)
    argv = argv_of(of_run.spec, candidate, "schedule.json", "plugins")
    assert shlex.split(shlex.join(argv)) == argv
    before = reproducer._as_before(shlex.join(argv))
    assert "--time-limit 12.4062 " in before and before.endswith("-o key=two words")


def changed_attempts(run: RunDir, change: Callable[[list[dict[str, Any]]], None]) -> None:
    path = aside_of(run.path) / PROGRESS
    kept = msgspec.json.decode(path.read_bytes())
    change(kept["tried"][said(run)["candidate"]]["attempts"])
    path.write_bytes(msgspec.json.encode(kept))


def counted_once_more(run: RunDir, change: Callable[[Path], None] = lambda place: None) -> str:
    """Copy a run that confirms under another name, and count the copy wherever runs are counted."""
    told = said(run)
    kept = msgspec.json.decode((aside_of(run.path) / PROGRESS).read_bytes())
    one = next(a for a in kept["tried"][told["candidate"]]["attempts"] if a["confirms"])
    copy = {**one, "path": f"{one['path']}-7"}
    place = aside_of(run.path) / copy["path"]
    shutil.copytree(aside_of(run.path) / one["path"], place)
    change(place)
    changed_attempts(run, lambda attempts: attempts.append(copy))
    rate = {**told["rate_after"], "runs": 4, "came": 4}
    more = {**told, "runs": told["runs"] + 1, "rate_after": rate}
    (aside_of(run.path) / REPRODUCER).write_bytes(msgspec.json.encode(more))
    return str(copy["path"])


def renamed(place: Path) -> None:
    """Judged anew under the name that it has now: its operations stay what they were."""
    judge(RunDir(place))
    RunDir(place).write_sums()


@pytest.mark.parametrize("change", [lambda place: None, renamed])
def test_a_copy_of_a_run_is_no_second_one(small: RunDir, change: Callable[[Path], None]) -> None:
    counted_once_more(small, change)
    with pytest.raises(EvidenceError, match="-7 is no run of its own"):
        read_reproducer(small.path, verdict_of(small))


def test_a_copy_of_the_run_itself_is_no_second_one(small: RunDir) -> None:
    def own(place: Path) -> None:
        shutil.rmtree(place)
        shutil.copytree(small.path, place)
        renamed(place)

    counted_once_more(small, own)
    with pytest.raises(EvidenceError, match="-7 is no run of its own"):
        read_reproducer(small.path, verdict_of(small))


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
    another(good, place, 1)
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
    about = original_of(failed.path, verdict_of(failed))
    run = RunDir(Path(shutil.copytree(failed.path, tmp_path / "copy")))
    spec = {**run.read_json("run.json")["spec"], **facts}
    change_facts(run, spec=spec)
    [name] = facts
    assert name in reproducer._not_of(run.path, about, about.start)


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
    assert verify_run(failed).verdict == verdict_of(failed)
