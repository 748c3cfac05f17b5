"""The sentence of a page, for programs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from failing_runs import FAMILIES, failing, passing, stale_etcd
from typer.testing import CliRunner

from dstest.campaign.session_check import SessionFinished
from dstest.cli.app import app
from dstest.cli.run import headline, printed, show_session
from dstest.core.errors import Exit
from dstest.core.history import Header
from dstest.core.op import Op
from dstest.judge.session import SessionVerdict
from dstest.notebook import History
from dstest.notebook import history as notebook_history
from dstest.report.model import load_report
from dstest.report.summarize import headline_of, headline_of_result
from dstest.runner.session import Finished

pytestmark = pytest.mark.slow

CLI = CliRunner()


def asked(*words: str) -> dict[str, Any]:
    done = CLI.invoke(app, [*words, "--json"])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def on_the_page(run: Path) -> str:
    found = re.search(r'<h1 id="headline">(.*?)</h1>', (run / "report.html").read_text())
    assert found is not None
    return unescape(found[1])


@pytest.mark.parametrize("kind", sorted(FAMILIES))
@pytest.mark.sampled(6)
def test_all_of_them_say_what_the_page_says(kind: str, tmp_path: Path) -> None:
    run = failing(tmp_path / "run", kind).path
    said = on_the_page(run)
    assert said.startswith("etcd 3.4.23 ") and said.endswith(".")
    assert headline_of(load_report(run)) == said
    assert asked("report", str(run))["headline"] == said
    (row,) = asked("report", str(tmp_path))["runs"]
    assert row["headline"] == said
    result = next(r for r in load_report(run).results.values() if r.valid is False)

    def ops() -> Sequence[Op]:
        return load_report(run).history.ops

    assert headline_of_result(result, "etcd 3.4.23", ops) == said


def test_a_check_says_how_a_read_was_wrong(tmp_path: Path) -> None:
    run = stale_etcd(tmp_path / "run").path
    said = "etcd 3.4.23 returned an old value after a newer one had been confirmed (stale read)"
    for history in (run, run / "history.jsonl"):
        answer = asked("check", str(history))
        assert answer["headline"].startswith(said), history
    CLI.invoke(app, ["check", str(run), "--report", str(tmp_path / "out")])
    assert json.loads((tmp_path / "out/result.json").read_text())["headline"].startswith(said)


def test_a_foreign_history_names_no_system(tmp_path: Path) -> None:
    run = stale_etcd(tmp_path / "run").path
    edn = tmp_path / "history.edn"
    CLI.invoke(app, ["export", str(run), "--format", "edn", "--output", str(edn)])
    text = edn.read_text()
    assert text
    answer = asked("check", str(edn))
    assert "(stale read)" in answer["headline"]


def test_a_pass_has_the_reason_of_its_verdict_and_a_check_none(tmp_path: Path) -> None:
    run = passing(tmp_path / "run").path
    assert asked("report", str(run))["headline"] == on_the_page(run)
    assert asked("check", str(run))["headline"] is None


def test_a_run_prints_it_and_the_reason_where_there_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = failing(tmp_path / "run").path
    verdict = load_report(run).verdict
    printed(Finished(path=run, exit_code=1, verdict=verdict), True)
    assert json.loads(capsys.readouterr().out)["headline"] == on_the_page(run)
    assert headline(tmp_path, verdict) == verdict.reason


def test_a_line_of_a_batch_has_what_its_history_has_alone(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = []
    batch = b""
    file = tmp_path / "h.jsonl"
    for inject in (["--inject", "G1c:1"], []):
        asked("generate", "--txns", "60", "-o", str(file), *inject)
        answers.append(asked("check", str(file)))
        history = [json.loads(one) for one in file.read_text().splitlines()[1:]]
        batch += json.dumps({"workload": "list-append", "history": history}).encode() + b"\n"
    (tmp_path / "batch.jsonl").write_bytes(batch)
    done = CLI.invoke(app, ["check", "--batch", str(tmp_path / "batch.jsonl"), "--json"])
    rows = [json.loads(line)["results"] for line in done.stdout.splitlines()]
    assert [row["strict-serializable"]["headline"] for row in rows] == [
        one["headline"] for one in answers
    ]
    assert answers[0]["headline"] and answers[1]["headline"] is None


def _session(folder: Path, verdict: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> Any:
    usual = {"outcome": "FAIL", "tier_wanted": "smoke", "tier_met": "smoke", "sizes": [3, 5]}
    given = {**usual, "seeds_agreeing": 1, "exit_code": 1, **verdict}
    told = msgspec.convert(given, SessionVerdict)
    done = SessionFinished(path=folder, exit_code=Exit(told.exit_code), verdict=told)
    with pytest.raises(typer.Exit):
        show_session(done, True)
    return json.loads(capsys.readouterr().out)["headline"]


def test_a_session_says_what_the_page_of_its_failed_arm_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arms = tmp_path / "arms"
    passing(arms / "n3-s1" / "20261101T000000Z-1")
    run = failing(arms / "n5-s2" / "20261101T000100Z-2").path
    passing(arms / "n5-s2" / "20261101T000200Z-2")
    rows = [
        {"id": arm, "seed": 1, "nodes": 3, "state": state, "rule": "", "reason": "as it was"}
        for arm, state in (("n3-s1", "PASS-smoke"), ("n5-s2", "FAIL-nondeterministic"))
    ]
    state = {"state": "FAIL-nondeterministic", "reason": "arm n5-s2 failed", "arms": rows}
    assert _session(tmp_path, state, capsys) == on_the_page(run)
    rows[1] |= {"state": "PASS-smoke", "earlier": ["FAIL-nondeterministic"]}
    assert _session(tmp_path, state, capsys) == on_the_page(run)
    for path in run.glob("*.json"):
        path.unlink()
    assert _session(tmp_path, state, capsys) == "arm n5-s2 failed"


def test_a_session_without_a_failure_has_the_reason_of_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passing(tmp_path / "arms" / "n3-s1" / "20261101T000000Z-1")
    arm = {"id": "n3-s1", "seed": 1, "nodes": 3, "state": "PASS-smoke", "rule": "", "reason": "r"}
    state = {"state": "PASS-smoke", "outcome": "DONE", "reason": "all of it", "exit_code": 0}
    assert _session(tmp_path, {**state, "arms": [arm]}, capsys) == "all of it"
    done = SessionFinished(path=tmp_path, exit_code=Exit.INTERRUPTED, verdict=None)
    with pytest.raises(typer.Exit):
        show_session(done, True)
    assert json.loads(capsys.readouterr().out)["headline"] is None


def test_a_notebook_shows_what_a_history_is(tmp_path: Path) -> None:
    run = failing(tmp_path / "run").path
    shown = repr(History.from_run(run))
    assert shown == "<History: etcd 3.4.23, register, 700 operations, FAIL-nondeterministic>"
    assert repr(History.of(Header(), [])) == "<History: 0 operations, no run, not judged>"


def passes_over(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Path]:
    """The files that this function goes through, each time once more."""
    found: list[Path] = []
    real = getattr(module, name)

    def each(path: Path) -> Iterator[Op]:
        found.append(path)
        yield from real(path)

    monkeypatch.setattr(module, name, each)
    return found


def test_a_notebook_counts_operations_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = passing(tmp_path / "run").path
    passes = passes_over(monkeypatch, notebook_history, "each_op")
    file = tmp_path / "h.jsonl"
    shutil.copy(run / "history.jsonl", file)
    for history in (History.from_run(run), History.from_file(file)):
        passes.clear()
        shown = {repr(history) for _ in range(3)}
        assert len(shown) == 1 and "700 operations" in shown.pop()
        assert len(passes) == 1
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines, *lines[-1:]]))
    assert "701 operations" in repr(history), "it is another file since"
    assert len(passes) == 2


def test_operations_in_memory_are_not_gone_through() -> None:
    class Ops(list[Op]):
        def __iter__(self) -> Iterator[Op]:
            raise AssertionError("gone through")

    ops = Ops([Op(op_id=1, process_id=1, op_type="read", invoke_ts=1)])
    history = History.of(Header(), ops)
    assert "1 operations" in repr(history)
    ops.append(ops[0])
    assert "2 operations" in repr(history)


def test_a_table_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from dstest.notebook import frames

    History.from_run(passing(tmp_path / "run").path).to_parquet(tmp_path / "h.parquet")
    passes = passes_over(monkeypatch, frames, "each_of_parquet")
    history = History.from_parquet(tmp_path / "h.parquet")
    passes.clear()
    assert {repr(history) for _ in range(3)} == {
        "<History: etcd 3.4.23, register, 700 operations, no run, not judged>"
    }
    assert len(passes) == 1
