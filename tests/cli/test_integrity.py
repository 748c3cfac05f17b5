"""A finished run directory is believed by no command once a file of it was touched."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import made, recorded, registers, transactions
from real_run import change_facts, change_record
from touched_runs import Change, dstest, files, text, undecided

from dstest.core.errors import Exit, HarnessError
from dstest.history.layout import RunDir
from dstest.history.segment import Succeeded, encode_line, event_of, text_of
from dstest.history.sums import compare_sums
from dstest.runner import judgement, replay, session
from dstest.runner.judgement import judge
from dstest.runner.replay import together
from dstest.runner.session import Finished

pytestmark = pytest.mark.slow

COMMANDS = ("report", "recover", "replay", "export", "check")


DEEP = ("report --deep", "check --deep", "recover")
"""Those that judge a run again; the others believe one whose sums match."""


def asked(command: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The command on a run; a replay finds no lab."""

    def never(*args: Any, **how: Any) -> Any:
        raise AssertionError("a run was started")

    monkeypatch.setattr(replay, "run_session", never)
    name, *options = command.split()
    return dstest(name, run, *options)


@pytest.mark.parametrize("command", ["report", "recover", "export", "check"])
def test_an_unharmed_pass_is_shown_and_left_alone(
    command: str, passed: Path, copy: Callable[[Path], Path]
) -> None:
    run = copy(passed)
    before = files(run)
    code, said = dstest(command, run)
    assert code == Exit.PASS, said
    after = files(run)
    moved = {"report.html", "findings.md", "sha256sums"}  # they name the directory
    assert {k: v for k, v in after.items() if k not in moved} == {
        k: v for k, v in before.items() if k not in moved
    }
    assert compare_sums(run).describe() == ""


@pytest.mark.parametrize("command", ["report", "recover", "check"])
def test_an_unharmed_failure_stays_one(
    command: str, failed: Path, copy: Callable[[Path], Path]
) -> None:
    code, said = dstest(command, copy(failed))
    assert code == Exit.FAIL, said


def test_transactions_are_judged_again_alike(tmp_path: Path) -> None:
    run, _ = made(tmp_path / "run", transactions("list-append", count=700), "list-append")
    assert dstest("recover", run.path)[0] == Exit.PASS


def test_a_crash_in_a_log_is_found_again(tmp_path: Path) -> None:
    """What is built in has a result that no declared checker gave."""
    run = recorded(tmp_path / "run", registers(count=700), "register")
    log = run.nodes / "n1" / "etcd.log"
    log.write_text(log.read_text() + "panic: runtime error: index out of range\n")
    facts = run.read_json("run.json")
    size = log.stat().st_size
    facts["logs"]["files"]["n1/etcd.log"] = {"bytes": size, "kept": size}
    run.write_json("run.json", facts)
    verdict, _ = judge(run)
    assert verdict.verdict.failed
    run.write_sums()
    run.write_status(f"verdict: {verdict.verdict.value}")
    assert dstest("recover", run.path)[0] == Exit.FAIL
    assert dstest("report", run.path)[0] == Exit.FAIL
    code, said = dstest("check", run.path)
    assert (code, "no-crash" in said or "panic" in said) == (Exit.FAIL, True), said
    assert dstest("check", run.path, "--json")[0] == Exit.FAIL


def event(run: Path) -> None:
    """Another answer in a segment, with a right checksum."""
    path = run / "segments" / "worker-0.seg"
    lines = path.read_bytes().splitlines(keepends=True)
    for i, line in enumerate(lines):
        text = text_of(line.rstrip(b"\n"))
        found = None if text is None else event_of(text)
        if isinstance(found, Succeeded) and isinstance(found.output, int):
            lines[i] = encode_line(msgspec.structs.replace(found, output=found.output + 1))
            break
    path.write_bytes(b"".join(lines))


def cut(name: str) -> Change:
    def change(run: Path) -> None:
        data = (run / name).read_bytes()
        (run / name).write_bytes(data[: data.rindex(b"\n", 0, len(data) - 1) + 1])

    return change


def gone(name: str) -> Change:
    return lambda run: (run / name).unlink()


def a_third(run: Path) -> None:
    shutil.copy(run / "segments" / "worker-0.seg", run / "segments" / "worker-2.seg")


def better(run: Path) -> None:
    """Every word of the verdict and its evidence, but not what they were made of."""
    path = run / "verdict.json"
    path.write_text(path.read_text().replace('"PASS-smoke"', '"PASS-hardening"'))
    status = run / "status"
    status.write_text("verdict: PASS-hardening\n")


CHANGES: dict[str, Change] = {
    "verdict.json": text("verdict.json", "PASS-smoke", "PASS-hardening"),
    "verdict.json and status": better,
    "reason in verdict.json": text("verdict.json", '"reason": "', '"reason": "Surely: '),
    "evidence": text("verdict.json", '"status": "short"', '"status": "ok"'),
    "heal in its evidence": text("verdict.json", '"seeds": 1.0', '"seeds": 3.0'),
    "broken copies": text("verdict.json", '"killed": 8', '"killed": 9'),
    "faults.jsonl": text("faults.jsonl", '"during":{"n2->n1":40', '"during":{"n2->n1":41'),
    "history.jsonl": cut("history.jsonl"),
    "a segment": event,
    "a line of a segment": cut("segments/worker-1.seg"),
    "run.json: plan": text("run.json", '"faults_planned": 1', '"faults_planned": 0'),
    "run.json: seed": text("run.json", '"seed": 7', '"seed": 8'),
    "run.json: health": text("run.json", '"n1": true', '"n1": false'),
    "run.json cut off": cut("run.json"),
    "junit.xml": text("junit.xml", "PASS-smoke", "PASS-hardening"),
    "findings.md": text("findings.md", "PASS-smoke", "PASS-hardening"),
    "a log": gone("nodes/n2/etcd.log"),
    "no segment": gone("segments/worker-1.seg"),
    "no faults.jsonl": gone("faults.jsonl"),
    "no verdict.json": gone("verdict.json"),
    "no junit.xml": gone("junit.xml"),
    "a segment more": a_third,
}
OF_SUMS = {
    # Nothing is judged by it: the plan is in the segments as well.
    "no schedule.json": gone("schedule.json"),
}
UNSEEN = {
    # The plan and the log are evidence; a status has no sum, so that nothing else may change.
    "status": text("status", "PASS-smoke", "PASS-hardening"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", [*CHANGES, *OF_SUMS])
@pytest.mark.sampled(40)
def test_a_touched_file_is_named_and_refused(
    name: str,
    command: str,
    passed: Path,
    copy: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = copy(passed)
    {**CHANGES, **OF_SUMS}[name](run)
    touched = files(run)
    code, said = asked(command, run, monkeypatch)
    if command == "replay" and name == "no verdict.json":
        assert code in (Exit.NOT_PROVEN, Exit.USAGE)
    else:
        assert code == Exit.NOT_PROVEN, said
    assert any(str(Path(f).name) in said for f in set(touched) ^ set(files(passed))) or any(
        Path(f).name in said for f in touched if touched[f] != files(passed).get(f)
    ), said
    assert files(run) == touched, "a refused run is left as it is"


@pytest.mark.parametrize("command", DEEP)
@pytest.mark.parametrize("name", [*CHANGES, *UNSEEN])
@pytest.mark.sampled(40)
def test_with_sums_to_match_the_contradiction_is_found(
    name: str,
    command: str,
    passed: Path,
    copy: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = copy(passed)
    {**CHANGES, **UNSEEN}[name](run)
    RunDir(run).write_sums()
    touched = files(run)
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.NOT_PROVEN, said
    assert files(run) == touched


def all_good(run: Path) -> None:
    """A failure told as a pass in each file that says so, with sums to match."""
    verdict = json.loads((run.parent.parent / "good" / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps(verdict, indent=2, ensure_ascii=False) + "\n")
    (run / "status").write_text(f"verdict: {verdict['verdict']}\n")


@pytest.mark.parametrize("command", DEEP)
def test_a_failure_does_not_become_a_pass(
    command: str,
    passed: Path,
    failed: Path,
    copy: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = copy(failed)
    shutil.copytree(passed, run.parent.parent / "good")
    all_good(run)
    for name in ("junit.xml", "findings.md"):
        shutil.copy(passed / name, run / name)
    RunDir(run).write_sums()
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.NOT_PROVEN, said


@pytest.mark.parametrize("command", ["report --deep", "check --deep"])
def test_a_pass_that_is_undecided_now_is_not_shown_as_one(
    command: str, passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(passed)
    undecided(monkeypatch)
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.NOT_PROVEN
    assert "judged again it is INCONCLUSIVE" in said and "and was PASS-smoke" in said


@pytest.mark.parametrize("command", DEEP)
def test_a_failure_that_is_undecided_now_stays_one(
    command: str, failed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(failed)
    undecided(monkeypatch)
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.FAIL, said


def test_what_was_undecided_then_may_be_a_failure_now(
    failed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(failed)
    with monkeypatch.context() as slow:
        undecided(slow)
        RunDir(run).write_status("running")
        (run / "sha256sums").unlink()
        (run / "verdict.json").unlink()
        code, said = asked("recover", run, slow)
        assert code == Exit.NOT_PROVEN, said
    code, said = asked("report --deep", run, monkeypatch)
    assert code == Exit.FAIL and "and was INCONCLUSIVE" in said, said
    assert asked("check --deep", run, monkeypatch)[0] == Exit.FAIL
    assert asked("recover", run, monkeypatch)[0] == Exit.FAIL
    assert asked("report", run, monkeypatch)[0] == Exit.FAIL


@pytest.mark.parametrize("command", ["report", "check", "export", "replay"])
def test_a_run_of_another_version_is_judged_again_in_any_case(
    command: str, failed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sums are right, and its checker saw nothing: this one does."""
    run = copy(failed)
    with monkeypatch.context() as blind:
        undecided(blind, True)
        change_facts(RunDir(run), host={"dstest": "0.16.0"})
        verdict, _ = judge(RunDir(run))
        RunDir(run).write_sums()
        RunDir(run).write_status(f"verdict: {verdict.verdict.value}")
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.NOT_PROVEN, said
    assert "verdict.json has True as the answer of linearizable, which answers False" in said


def test_a_copy_that_lacks_its_end_is_not_judged_to_its_end(
    passed: Path, copy: Callable[[Path], Path]
) -> None:
    """Sums and status are written last, and may be missing in a copy made meanwhile."""
    run = copy(passed)
    for name in ("sha256sums", "status"):
        (run / name).unlink()
    for words in ((), ("--deep",)):
        code, said = dstest("check", run, *words)
        assert code == Exit.NOT_PROVEN and f"dstest recover {run}" in said, said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_status_of_other_bytes_is_no_crash(
    command: str, passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(passed)
    (run / "status").write_bytes(b"verdict: PASS\xff\n")
    code, said = asked(command, run, monkeypatch)
    assert code == Exit.NOT_PROVEN and "status says" in said, said


def test_without_room_to_judge_again_that_is_said(
    passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(judgement, "write_history", full)
    code, said = dstest("check", copy(passed), "--deep")
    assert code == Exit.HARNESS and "No space left" in said and "TMPDIR" in said, said


def test_a_copy_that_may_only_be_read_is_shown(
    passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report names another directory, and cannot be drawn anew."""
    run = copy(passed)
    before = files(run)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    code, said = dstest("report", run)
    assert code == Exit.PASS and "report.html: left as they are" in said, said
    assert files(run) == before


def test_without_sums_a_finished_run_is_refused(passed: Path, copy: Callable[[Path], Path]) -> None:
    run = copy(passed)
    (run / "sha256sums").unlink()
    code, said = dstest("recover", run)
    assert code == Exit.NOT_PROVEN
    assert "sha256sums is missing" in said


def test_recover_makes_nothing_better(failed: Path, copy: Callable[[Path], Path]) -> None:
    """Without sums and status it is a run that died, and still no better than it was."""
    run = copy(failed)
    (run / "sha256sums").unlink()
    (run / "status").write_text("running\n")
    code, _ = dstest("recover", run)
    assert code == Exit.FAIL


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"spec": 3}', "\x00" * 80])
@pytest.mark.parametrize("status", ["running", "verdict: PASS-smoke"])
def test_a_run_json_that_is_none(
    content: str, status: str, passed: Path, copy: Callable[[Path], Path]
) -> None:
    run = copy(passed)
    (run / "run.json").write_text(content)
    (run / "status").write_text(status + "\n")
    if status == "running":
        (run / "sha256sums").unlink()
    code, said = dstest("recover", run)
    assert code == Exit.NOT_PROVEN, said
    assert "bug of dstest" not in said
    assert "run.json" in said or "cannot be judged" in said


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **how: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refused)
    monkeypatch.setattr(Path, "unlink", refused)


def test_a_read_only_store_is_called_that(
    passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(passed)
    (run / "sha256sums").unlink()
    (run / "status").write_text("running\n")
    read_only(monkeypatch)
    with pytest.raises(HarnessError) as caught:
        session.recover(run)
    assert "Read-only file system" in str(caught.value)
    assert f"make {run} writable" in str(caught.value)


def test_a_report_on_a_read_only_store_names_the_run(
    passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dstest.report.model import load_report
    from dstest.report.write import render

    run = copy(passed)
    shown = load_report(run)
    (run / "plots" / "rate.svg").unlink()
    read_only(monkeypatch)
    with pytest.raises(HarnessError) as caught:
        render(run, shown)
    assert f"make {run} writable" in str(caught.value)
    assert f"`dstest report {run}`" in str(caught.value)
    assert "free space" not in str(caught.value)


@pytest.mark.parametrize(
    ("original", "again", "expected"),
    [
        (0, [0, 0], 0), (0, [0, 3], 3), (0, [4], 4), (0, [3, 1], 1), (1, [0], 1), (3, [0], 3),
        (0, [130], 130), (1, [130], 1), (0, [2], 2),
    ],
)  # fmt: skip
def test_runs_that_prove_nothing_make_no_pass(
    original: int, again: list[int], expected: int
) -> None:
    assert together(original, again) == expected


def test_a_replay_of_a_pass_whose_re_run_is_inconclusive(
    passed: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy(passed)
    monkeypatch.setattr(replay, "resolve", lambda *a, **k: None)
    monkeypatch.setattr(replay, "run_session", lambda *a, **k: Finished(path=run, exit_code=3))
    before = files(run)
    assert dstest("replay", run)[0] == Exit.NOT_PROVEN
    assert files(run) == before, "nothing was to be reproduced"


def test_a_dead_run_names_its_next_step_and_its_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusters.labs.lxc import LxcLab

    monkeypatch.setattr(LxcLab, "list", lambda _: ["run-999999"])
    run = recorded(tmp_path / "dead", registers(count=700), "register")
    change_facts(run, pid=999999, ended_by=...)
    change_record(run, healed_at=None, heal_verified=False)
    run.write_status("running")
    code, said = dstest("report", run.path)
    assert code == Exit.USAGE
    assert f"dstest recover {run.path}" in said
    assert "dstest lab status --lab-id run-999999" in said
    code, said = dstest("recover", run.path)
    assert code == Exit.NOT_PROVEN
    assert "dstest: the process died" not in said
    assert "recovered: the run ended early (the process died)" in said
    assert "dstest lab down --lab-id run-999999" in said
    assert "no heal was recorded" in said
    assert "- s" not in said
