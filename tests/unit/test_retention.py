"""A store is kept small without losing what somebody still needs: violations and what reproduces
them, what is in use, what was never judged, what a gate asks for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate_store import DAY, GIVEN, NAME, POLICY, now, run_at, sealed, session_at
from never_began import never_judged
from real_run import change_facts
from touched_runs import dstest, undecided

from dstest.core.errors import ConfigError, Exit
from dstest.history.layout import RunDir, link_latest
from dstest.runner.session import process_start_time
from dstest.store.entries import entries
from dstest.store.inventory import walk
from dstest.store.prune import delete, plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three passes of 30, 20 and 10 days ago, a failure of 40, a session of 35."""
    store = tmp_path_factory.mktemp("kept") / "store"
    for seed, days in ((1, 30), (2, 20), (3, 10)):
        run_at(store, seed, at=now() - days * DAY, given=[*GIVEN, f"ops_per_key={100 + seed}"])
    failed = run_at(store, 4, at=now() - 40 * DAY, bug=True).path
    for aside in (".blame", ".shrink"):
        folder = failed.with_name(failed.name + aside)
        folder.mkdir()
        (folder / "history.jsonl").write_bytes(b"x" * 9000)
    session_at(store, (7, 8), at=now() - 35 * DAY)
    link_latest(store, run_of(store, 3))
    return store


def run_of(store: Path, seed: int) -> Path:
    return next(p for p in (store / NAME).glob(f"*-{seed}") if p.is_dir())


@pytest.fixture
def store(_made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_made, tmp_path / "store", symlinks=True))


def now_ns() -> int:
    return int(now().timestamp() * 1e9)


def going(store: Path, **how: object) -> set[str]:
    found = plan(store, now_ns=now_ns(), **how)  # type: ignore[arg-type]
    return {entry.path.name.rpartition("-")[2] for entry in found.going}


def test_what_lies_there_is_listed_oldest_first(store: Path) -> None:
    found, walked = entries(store)
    assert [entry.path.name.rpartition("-")[2] for entry in found] == ["4", "7", "1", "2", "3"]
    assert [entry.kind for entry in found] == ["run", "session", "run", "run", "run"]
    assert walked.odd == ()
    failed = found[0]
    assert failed.failed and len(failed.asides) == 2
    assert failed.bytes > sum(p.stat().st_size for p in failed.path.rglob("*") if p.is_file())
    assert found[1].runs == 2


def test_only_what_is_old_and_nobody_needs_goes(store: Path) -> None:
    assert going(store, keep_days=0) == {"1", "2", "7"}, "3 is the newest, 4 a violation"
    assert going(store, keep_days=25) == {"1", "7"}
    assert going(store, keep_days=60) == set()
    with pytest.raises(ConfigError, match="nothing says"):
        going(store)


def test_the_oldest_go_until_the_store_is_small_enough(store: Path) -> None:
    total = sum(entry.bytes for entry in entries(store)[0])
    assert going(store, max_gb=(total + 1) / 1e9) == set()
    assert going(store, max_gb=(total - 1) / 1e9) == {"7"}
    found = plan(store, now_ns=now_ns(), max_gb=0)
    assert len(found.going) == 3 and found.short_bytes == found.bytes_after > 0
    assert going(store, max_gb=0, keep_days=25) == {"1", "7"}


def test_a_dry_run_deletes_nothing_and_yes_deletes_what_it_said(store: Path) -> None:
    before = sorted(store.rglob("*"))
    code, said = dstest("store", "prune", store, "--keep-days", "25")
    assert code == Exit.PASS and sorted(store.rglob("*")) == before
    assert "would go" in said and "nothing was deleted" in said
    code, said = dstest("store", "prune", store, "--keep-days", "25", "--yes", "--json")
    told = json.loads(said)
    assert told["deleted"] and told["bytes_deleted"] > 0
    left = {entry.path.name.rpartition("-")[2] for entry in entries(store)[0]}
    assert left == {"2", "3", "4"}
    assert not list(store.glob("*-session")), "the folder of its name is empty"
    assert len(entries(store)[0][0].asides) == 2, "the failure's reproducers are there"
    assert (store / "latest").resolve() == run_of(store, 3).resolve()


def test_a_store_that_stays_too_large_says_so(store: Path) -> None:
    code, said = dstest("store", "prune", store, "--max-gb", "0")
    assert code == Exit.NOT_PROVEN and "has to stay" in said


def alive(run: RunDir) -> None:
    change_facts(run, pid=os.getpid(), pid_start_time=process_start_time(os.getpid()))


def judged_and_not_done(store: Path) -> None:
    """Its verdict is there, and its process as well."""
    run = RunDir(run_of(store, 1))
    alive(run)
    sealed(run)


def died(store: Path) -> None:
    run = RunDir(run_of(store, 1))
    (run.path / "sha256sums").unlink()
    run.write_status("running")


def edited_to_a_pass(store: Path) -> None:
    """A failure that was made to look like a pass is no pass to be thrown away."""
    run = RunDir(run_of(store, 4))
    text = (run.path / "verdict.json").read_text()
    (run.path / "verdict.json").write_text(text.replace("FAIL-nondeterministic", "PASS-smoke"))


def a_violation_beside_its_verdict(store: Path) -> None:
    """A verdict of another kind, whose evidence has a violation all the same."""
    run = RunDir(run_of(store, 1))
    told = run.read_json("verdict.json")
    run.write_json("verdict.json", {**told, "evidence": {**told["evidence"], "violation": True}})
    run.write_sums()


def of_no_date(store: Path) -> None:
    run = RunDir(run_of(store, 1))
    change_facts(run, started="yesterday")
    run.write_sums()


def unreadable(store: Path) -> None:
    (run_of(store, 1) / "run.json").write_text("{")


def a_failing_arm(store: Path) -> None:
    (session,) = store.glob("*-session/*")
    failed = RunDir(run_of(store, 4))
    (arm,) = session.glob("arms/n3-s8/*")
    for name in ("verdict.json", "status"):
        shutil.copy(failed.path / name, arm / name)


KEEPS: list[tuple[Callable[[Path], None], str]] = [
    (judged_and_not_done, "1"),
    (died, "1"),
    (edited_to_a_pass, "4"),
    (a_violation_beside_its_verdict, "1"),
    (of_no_date, "1"),
    (unreadable, "1"),
    (a_failing_arm, "7"),
]


@pytest.mark.parametrize(("change", "seed"), KEEPS, ids=[c.__name__ for c, _ in KEEPS])
def test_what_is_in_use_unfinished_touched_or_unclear_stays(
    change: Callable[[Path], None], seed: str, store: Path
) -> None:
    change(store)
    found = plan(store, now_ns=now_ns(), max_gb=0)
    assert seed not in {entry.path.name.rpartition("-")[2] for entry in found.going}
    delete(found)
    assert any(kept.entry.path.is_dir() for kept in found.staying)
    assert list(store.glob(f"*/*-{seed}"))


def test_a_run_that_begins_stays(tmp_path: Path) -> None:
    RunDir.create(tmp_path / "store", NAME, 5)
    later = run_at(tmp_path / "store", 6)
    found = plan(tmp_path / "store", now_ns=now_ns(), max_gb=0)
    assert found.going == () and len(found.staying) == 2
    assert later.path in {kept.entry.path for kept in found.staying}


def test_who_begins_to_use_it_meanwhile_keeps_it(store: Path) -> None:
    found = plan(store, now_ns=now_ns(), keep_days=25)
    alive(RunDir(run_of(store, 1)))
    delete(found)
    assert run_of(store, 1).is_dir()
    assert not list(store.glob("*-session/*"))


def test_what_a_policy_asks_for_stays(store: Path, tmp_path: Path) -> None:
    run_at(store, 5, at=now() - 90 * DAY)
    policy = tmp_path / "release.toml"
    policy.write_text(POLICY)
    assert "5" in going(store, keep_days=0)
    code, said = dstest("store", "prune", store, "--keep-days", "0", "--policy", policy, "--yes")
    assert code == Exit.PASS
    assert f"{policy} asks for it" in said
    assert run_of(store, 5).is_dir()
    assert list(store.glob("*-session/*")), "its arms are runs of the claim"
    assert not list(store.glob(f"{NAME}/*-1"))


def test_no_link_leads_out_of_the_store(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(run_of(store, 1), outside / NAME / run_of(store, 1).name)
    (store / "more").symlink_to(outside)
    inner = run_of(store, 2) / "kept"
    inner.symlink_to(outside)
    assert [odd.why for odd in walk(store).odd] == ["link"]
    delete(plan(store, now_ns=now_ns(), max_gb=0))
    assert list(outside.glob("*/*/history.jsonl"))
    assert dstest("store", "verify", store)[0] == Exit.NOT_PROVEN


def test_sums_are_read_again_and_verdicts_where_asked(store: Path) -> None:
    assert dstest("store", "verify", store)[0] == Exit.PASS
    code, said = dstest("store", "verify", store, "--verdicts", "--json")
    assert code == Exit.PASS and json.loads(said)["wrong"] == []
    edited_to_a_pass(store)
    code, said = dstest("store", "verify", store)
    assert code == Exit.NOT_PROVEN and "verdict.json" in said
    RunDir(run_of(store, 4)).write_sums()
    assert dstest("store", "verify", store)[0] == Exit.PASS, "sums alone do not tell"
    code, said = dstest("store", "verify", store, "--verdicts")
    assert code == Exit.NOT_PROVEN and "G02" in said
    empty = store.parent / "empty"
    empty.mkdir()
    assert dstest("store", "verify", empty)[0] == Exit.NOT_PROVEN, "nothing was verified"


def test_what_comes_out_worse_is_wrong(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host on which no checker decides in time; of another version's it is only told."""
    change_facts(other := RunDir(run_of(store, 2)), host={"dstest": "0.16.0"})
    sealed(other)
    undecided(monkeypatch)
    code, said = dstest("store", "verify", store, "--verdicts", "--json")
    found = json.loads(said.splitlines()[-1])
    assert code == Exit.NOT_PROVEN
    wrong = {row["path"]: row["what"] for row in found["wrong"]}
    assert "judged again it is INCONCLUSIVE" in wrong[str(run_of(store, 1))]
    assert str(other.path) not in wrong
    assert str(other.path) in [row["path"] for row in found["not_compared"]]


def test_two_runs_are_shown_and_compared(store: Path) -> None:
    one, other, failed = (run_of(store, seed) for seed in (1, 2, 4))
    code, said = dstest("store", "show", one)
    assert code == Exit.PASS
    assert "PASS-smoke" in said and "dstest run" in said and "partition 1" in said
    code, said = dstest("store", "diff", one, other, "--json")
    names = {row["name"] for row in json.loads(said)["differences"]}
    assert {"seed", "command", "option ops_per_key"} <= names
    assert not names & {"system", "kernel", "dstest", "option shape"}
    said = dstest("store", "diff", one, failed)[1]
    assert "FAIL-nondeterministic" in said and "nonlinearizable" in said
    assert "no difference" in dstest("store", "diff", one, one)[1]
    (session,) = store.glob("*-session/*")
    assert "arm n3-s7" in dstest("store", "show", session)[1]
    assert dstest("store", "diff", one, session)[0] == Exit.USAGE
    assert dstest("store", "show", store)[0] == Exit.USAGE


def test_list_says_what_is_odd(store: Path) -> None:
    shutil.rmtree(run_of(store, 1) / "segments")
    told = json.loads(dstest("store", "list", store, "--json")[1])
    assert [row["why"] for row in told["odd"]] == ["cut"]
    assert told["bytes"] == sum(row["bytes"] for row in told["entries"])
    assert "odd" in dstest("store", "list", store)[1]


def test_what_never_asked_for_anything_goes_as_the_rest(store: Path) -> None:
    never_judged(store, 8, GIVEN, "error: no lab")
    assert "8" in going(store, keep_days=0)
    assert "8" not in going(store, keep_days=5)
    found = plan(store, now_ns=now_ns(), keep_days=0)
    delete(found)
    assert not list((store / NAME).glob("*-8"))


def test_an_edited_verdict_is_called_so(store: Path) -> None:
    (run_of(store, 1) / "verdict.json").write_text("{}")
    found = plan(store, now_ns=now_ns(), keep_days=0)
    (why,) = [kept.why for kept in found.staying if kept.entry.path == run_of(store, 1)]
    assert "not as they were summed up" in why and "verdict.json" in why


def test_what_is_no_part_of_a_store_is_named(store: Path) -> None:
    (store / "foo.txt").write_text("x")
    (store / NAME / "junk").mkdir()
    (store / NAME / "junk" / "x").write_text("x")
    (store / ".hidden").write_text("x")
    odd = {(one.path.name, one.why) for one in entries(store)[1].odd}
    assert odd == {("foo.txt", "foreign"), ("junk", "foreign")}
    for command in ("list", "verify"):
        code, said = dstest("store", command, store)
        assert code == Exit.PASS and "foo.txt" in said and "junk" in said


def test_a_look_asks_of_no_run_whether_it_lies_in_each_session(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions times runs would be minutes where there are thousands of both."""
    asked: list[Path] = []
    real = Path.is_relative_to

    def counting(path: Path, *other: Any) -> bool:
        asked.append(path)
        return bool(real(path, *other))

    monkeypatch.setattr(Path, "is_relative_to", counting)
    found, walked = entries(store)
    runs = [place.path for place in walked.places if place.kind == "run"]
    assert sum(entry.runs for entry in found) == len(runs) == 6
    assert max(asked.count(path) for path in runs) <= 1
