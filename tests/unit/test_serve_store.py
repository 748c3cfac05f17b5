"""What `dstest serve` believes of a store: known-bad runs first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markupsafe import escape
from served_store import (
    FAILING,
    INCONCLUSIVE,
    PASSING,
    copy_of,
    indexed,
    made_store,
    sealed,
    still_running,
)

from dstest.core.errors import ConfigError
from dstest.history.layout import RunDir
from dstest.history.sums import SUMS
from dstest.serve import files
from dstest.serve.files import open_below, report_of
from dstest.serve.pages import cell_address
from dstest.serve.views import Views, triage
from dstest.store.index import Cache, Index, cache_file
from dstest.store.query import Query, words_of
from dstest.store.rows import SMALL_BYTES, RunRow

pytestmark = pytest.mark.slow

X = "other/20260301T000000Z-9"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return (tmp_path / "store").resolve()


def row(store: Path, ref: str) -> RunRow:
    return indexed(store).shown.rows[ref]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def better_verdict(run: Path) -> None:
    edit(run / "verdict.json", "INCONCLUSIVE-fault-not-proven", "PASS-smoke")


def better_evidence(run: Path) -> None:
    """Both files that say it, and the sums: only the decision table tells."""
    verdict = json.loads((run / "verdict.json").read_text())
    verdict["verdict"] = "PASS-smoke"
    verdict["evidence"]["faults"][0]["landed"] = "yes"
    (run / "verdict.json").write_text(json.dumps(verdict))
    RunDir(run).write_status("verdict: PASS-smoke")
    sealed(run)


def no_history(run: Path) -> None:
    (run / "history.jsonl").unlink()


def no_sums(run: Path) -> None:
    (run / SUMS).unlink()


def a_link(run: Path) -> None:
    (run / "nodes" / "n1" / "etcd.log").unlink()
    (run / "nodes" / "n1" / "etcd.log").symlink_to("../n2/etcd.log")


def more_files(run: Path) -> None:
    (run / "nodes" / "n1" / "more.log").write_text("x")


def no_json(run: Path) -> None:
    (run / "verdict.json").write_text('{"verdict": "PASS-smoke", ')
    sealed(run)


HARMS: list[Callable[[Path], None]] = [
    no_history, no_sums, a_link, more_files, no_json,
]  # fmt: skip


@pytest.mark.parametrize(
    ("ref", "harm"),
    [(INCONCLUSIVE, better_verdict), (INCONCLUSIVE, better_evidence)]
    + [(ref, harm) for ref in (INCONCLUSIVE, PASSING) for harm in HARMS],
)
def test_what_was_touched_is_no_pass(store: Path, ref: str, harm: Callable[[Path], None]) -> None:
    harm(store / ref)
    found = row(store, ref)
    assert (found.standing, found.word) == ("damaged", "damaged")
    assert found.tone == "open"
    assert found.exit_code == 3
    assert found.why
    assert found.anomalies == found.fingerprints == ()


def test_what_was_not_touched_is_what_it_says(store: Path) -> None:
    rows = indexed(store).shown.rows
    assert {ref: (one.word, one.tone, one.exit_code) for ref, one in rows.items()} == {
        PASSING: ("PASS-smoke", "pass", 0),
        FAILING: ("FAIL-nondeterministic", "fail", 1),
        INCONCLUSIVE: ("INCONCLUSIVE-fault-not-proven", "open", 3),
    }
    assert list(rows) == [INCONCLUSIVE, FAILING, PASSING]
    failed, passed = rows[FAILING], rows[PASSING]
    assert (failed.told, passed.told) == ("FAIL (not re-run yet)", "PASS-smoke")
    assert failed.fingerprints == ("linearizable/nonlinearizable/#-#/register",)
    assert failed.anomalies == ("nonlinearizable",)
    assert (passed.landed, passed.planned, passed.test.system) == (1, 1, "etcd")
    assert passed.test.id == failed.test.id


def test_a_pass_that_ended_early_is_none(store: Path) -> None:
    sealed(store / PASSING, ended_by="interrupted")
    found = row(store, PASSING)
    assert found.word == "PASS-smoke (ended early)"
    assert (found.tone, found.exit_code) == ("open", 3)


def test_a_run_that_goes_on_or_died_has_no_verdict(store: Path) -> None:
    run = still_running(store, X)
    shutil.copy(store / PASSING / "verdict.json", run.path)
    assert (row(store, X).word, row(store, X).tone) == ("running", "open")
    facts = msgspec.json.decode((run.path / "run.json").read_bytes())
    run.write_json("run.json", {**facts, "pid_start_time": 1})
    found = row(store, X)
    assert (found.word, found.tone) == ("died", "open")
    assert "dstest recover" in found.why


def test_a_damaged_run_says_what_it_claims(store: Path) -> None:
    edit(store / FAILING / "run.json", "true", "false")
    found = row(store, FAILING)
    assert found.said == "FAIL-nondeterministic"
    assert found.failed
    assert found.tone == "open"


def test_runs_come_change_and_go(store: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    index = Index(store, cache)
    index.refresh()
    assert len(index.shown.rows) == 3
    copy_of(store, PASSING, X, started="20260301T000000Z")
    index.refresh()
    assert next(iter(index.shown.rows)) == X
    better_verdict(store / INCONCLUSIVE)
    index.refresh()
    assert index.shown.rows[INCONCLUSIVE].word == "damaged"
    shutil.rmtree(store / PASSING)
    index.refresh()
    assert PASSING not in index.shown.rows
    assert set(cache.rows()) == {X, FAILING, INCONCLUSIVE}


@pytest.mark.parametrize(
    "name", ["schedule.json", "nodes/n1/etcd.log", "findings.md", "plots/rate.svg"]
)
def test_a_file_that_was_edited_in_place_is_seen_by_the_lists(store: Path, name: str) -> None:
    index = indexed(store)
    with (store / PASSING / name).open("r+b") as file:
        file.write(b"X")
    index.refresh()
    assert index.shown.rows[PASSING].word == "damaged"
    assert name in index.shown.rows[PASSING].why


def test_a_run_that_grows_from_nothing_is_seen(store: Path) -> None:
    index = indexed(store)
    (store / X).mkdir(parents=True)
    index.refresh()
    assert X not in index.shown.rows
    (store / X / "segments").mkdir()
    index.refresh()
    assert index.shown.rows[X].word == "died"
    shutil.rmtree(store / X)
    still_running(store, X)
    index.refresh()
    assert index.shown.rows[X].word == "running"


def test_what_was_kept_counts_only_while_the_files_are_the_same(
    store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kept.sqlite"
    first = Index(store, Cache(file))
    first.refresh()
    better_verdict(store / INCONCLUSIVE)
    again = Index(store, Cache(file))
    again.refresh()
    assert again.shown.rows[INCONCLUSIVE].word == "damaged"
    assert again.shown.rows[PASSING] == first.shown.rows[PASSING]


def test_what_was_kept_is_taken_and_what_is_no_cache_is_thrown_away(
    store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kept.sqlite"
    kept = Cache(file)
    index = Index(store, kept)
    index.refresh()
    marked = msgspec.structs.replace(index.shown.rows[FAILING], why="kept")
    kept.put([marked])
    kept.close()
    again = Index(store, Cache(file))
    again.refresh()
    assert again.shown.rows[FAILING].why == "kept"
    file.write_bytes(b"no database, but long enough to be looked at as one" * 40)
    anew = Cache(file)
    assert (anew.rows(), anew.why_not) == ({}, "")


def test_a_cache_that_cannot_be_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "c.sqlite")
    assert "file" in cache.why_not
    assert cache.rows() == {}


def test_the_cache_is_outside_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache_file(tmp_path / "a") != cache_file(tmp_path / "b")
    assert cache_file(tmp_path / "a").is_relative_to(tmp_path / "home" / "dstest")


def test_a_store_that_cannot_be_looked_at_any_more_is_said(store: Path) -> None:
    index = indexed(store)
    store.rename(store.with_name("gone"))
    index.refresh()
    assert "is no directory" in index.shown.problem
    assert len(index.shown.rows) == 3
    store.with_name("gone").rename(store)
    index.refresh()
    assert index.shown.problem == ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "is not there"),
        (lambda path: path.write_text(""), "is no directory"),
        (lambda path: path.mkdir(), "holds no run"),
        (lambda path: (path / "segments").mkdir(parents=True), "is a single run"),
    ],
)
def test_what_is_no_store_is_refused(tmp_path: Path, make: object, said: str) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(ConfigError, match=said):
        Index(tmp_path / "x", Cache(None))


COPY, AGAIN = "kept/the-good-one", "kept/the-good-one-again"


def test_an_exact_copy_under_another_name_is_the_same_run(store: Path) -> None:
    shutil.copytree(store / FAILING, store / COPY)
    shutil.copytree(store / FAILING, store / AGAIN)
    shown = indexed(store).shown
    assert shown.copies == {COPY: FAILING, AGAIN: FAILING}, "who has the name of a run counts"
    assert {COPY, AGAIN} <= shown.rows.keys(), "they are there to be looked at"
    assert [row.ref for row in shown.counted] == [INCONCLUSIVE, FAILING, PASSING]
    views = Views(indexed(store), static=False)
    (cell,) = views.cells()
    assert len(cell.runs) == 3
    assert (cell.found.hits, cell.found.total) == (1, 3), "not 3 of 5"
    (seen,) = triage(shown.counted)
    assert [row.ref for row in seen.runs] == [FAILING]
    assert (seen.rate.hits, seen.rate.total) == (1, 3)
    for page in (views.triage(), views.trends(), views.cell(cell_address(cell.name))):
        assert page is not None
        assert "2 runs are exact copies of others under another name" in page
    told = views.run(COPY)
    assert told is not None
    assert "It is an exact copy of" in told
    assert f"a copy of {FAILING}" in views.runs(Query())


def test_a_copy_whose_report_was_drawn_again_is_the_same_run(store: Path) -> None:
    shutil.copytree(store / FAILING, store / COPY)
    run = RunDir(store / COPY)
    (run.path / "findings.md").write_text("another place\n")
    run.write_sums()
    assert indexed(store).shown.copies == {COPY: FAILING}


def test_an_export_finds_by_the_words_of_the_server(store: Path) -> None:
    index = indexed(store)
    page = Views(index, static=True).runs(Query())
    for row in index.shown.rows.values():
        assert f'data-words="{escape(words_of(row))}"' in page
    assert "data-words" not in Views(index, static=False).runs(Query())


def test_a_run_with_another_history_is_no_copy(store: Path) -> None:
    copy_of(store, PASSING, X, started="20260301T000000Z")
    shown = indexed(store).shown
    assert shown.copies == {}
    assert "exact cop" not in Views(indexed(store), static=False).trends()


def test_a_copy_that_is_damaged_takes_no_run_away(store: Path) -> None:
    shutil.copytree(store / FAILING, store / "a/kept")
    better_verdict_of_failed(store / "a/kept")
    shown = indexed(store).shown
    assert shown.rows["a/kept"].word == "damaged"
    assert shown.copies == {}


def better_verdict_of_failed(run: Path) -> None:
    edit(run / "verdict.json", '"FAIL-', '"PASS-')


def test_what_is_hashed_of_a_report_is_what_is_given(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced between its look and whatever comes after."""
    real, path = open_below, store / INCONCLUSIVE / "report.html"
    whole = path.read_bytes()

    def opened(root: Path, parts: list[str]) -> Any:
        if parts[-1] == SUMS:  # the report has been read
            path.write_bytes(whole.replace(b"INCONCLUSIVE", b"PASS"))
        return real(root, parts)

    monkeypatch.setattr(files, "open_below", opened)
    report = report_of(store, INCONCLUSIVE)
    assert (report.content, report.why) == (whole, "")
    again = report_of(store, INCONCLUSIVE)
    assert (again.content, again.why) == (b"", f"report.html is not as {SUMS} has it")
    path.unlink()
    assert report_of(store, INCONCLUSIVE).why == "there is no report.html"


def test_a_verdict_that_is_edited_is_seen_whatever_its_size(store: Path) -> None:
    verdict = store / FAILING / "verdict.json"
    plain = json.loads(verdict.read_text())
    plain["summary"]["exactly"] = "x" * (2 * SMALL_BYTES)
    verdict.write_text(json.dumps(plain))
    sealed(store / FAILING)
    assert row(store, FAILING).standing == "judged"
    edit(verdict, plain["summary"]["headline"], "all is well")
    assert row(store, FAILING).standing == "damaged"
