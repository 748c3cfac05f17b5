"""What a command writes for others is of today: one that fails, or dies, leaves no answer of
yesterday in its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gate_store import POLICY
from made_nights import PASSES, item_of, night_in
from touched_runs import dstest

from dstest.campaign.nightly.reports import JUNIT, PAGE, write_pages
from dstest.core.errors import Exit

pytestmark = pytest.mark.slow

DECISION = {"decision.md", "decision.html", "decision.json", "junit.xml", "results.sarif"}


@pytest.fixture(scope="module")
def store(honest_store: Path) -> Path:
    return honest_store


@pytest.fixture
def out(store: Path, tmp_path: Path) -> Path:
    """The decision of yesterday, which let a release through, and a file of somebody else."""
    found = tmp_path / "decision"
    assert gate(tmp_path, POLICY, store, "--out", found)[0] == Exit.PASS
    assert {path.name for path in found.iterdir()} == DECISION
    (found / "notes.txt").write_text("mine\n")
    return found


def gate(home: Path, policy: str, *words: str | Path) -> tuple[int, str]:
    path = home / "policy.toml"
    path.write_text(policy)
    return dstest("gate", "--policy", path, *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("workload =", "wrokload =", []),
        ('system = "etcd"', 'system = "ectd"', []),
        ("", "", ["nowhere"]),
        ("", "", ["--baseline", "nowhere"]),
        ("[evidence]", '[evidence]\nsigners = "nobody"', []),
    ],
)
def test_a_gate_that_decides_nothing_leaves_no_decision(
    old: str, new: str, words: list[str], store: Path, out: Path, tmp_path: Path
) -> None:
    code, said = gate(tmp_path, POLICY.replace(old, new, 1), store, *words, "--out", out)
    assert code == Exit.USAGE, said
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_gate_without_a_policy_leaves_no_decision(store: Path, out: Path, tmp_path: Path) -> None:
    code, said = dstest("gate", "--policy", tmp_path / "none.toml", store, "--out", out)
    assert code == Exit.USAGE and "cannot be read" in said
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_gate_that_is_killed_leaves_no_decision(store: Path, out: Path, tmp_path: Path) -> None:
    """It waits for its policy, which comes through a pipe."""
    os.mkfifo(tmp_path / "pipe")
    words = ["gate", "--policy", str(tmp_path / "pipe"), str(store), "--out", str(out)]
    with subprocess.Popen([sys.executable, "-m", "dstest", *words]) as process:
        until = time.monotonic() + 60
        while (out / "junit.xml").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


def test_a_gate_that_cannot_write_all_leaves_no_part(
    store: Path, out: Path, tmp_path: Path
) -> None:
    (out / "results.sarif").unlink()
    (out / "results.sarif").mkdir()
    code, said = gate(tmp_path, POLICY, store, "--out", out)
    assert code == Exit.USAGE and "results.sarif" in said
    assert {path.name for path in out.iterdir()} == {"notes.txt", "results.sarif"}


def test_what_is_evidence_is_not_removed_by_a_gate(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    run = next(copy.glob("*/*-1"))
    before = (run / "junit.xml").read_bytes()
    for given in ([copy], [next(copy.glob("*/*-2"))], [store, "--baseline", copy]):
        code, said = gate(tmp_path, POLICY, *given, "--out", run)
        assert code == Exit.USAGE and "evidence" in said
    assert (run / "junit.xml").read_bytes() == before


def test_a_night_that_cannot_be_judged_leaves_no_page(tmp_path: Path) -> None:
    items = [item_of("a", "", [PASSES])]
    directory = night_in(tmp_path / "store", 1, items)
    write_pages(directory, directory.read())
    night = directory.path / "night.json"
    night.write_text(night.read_text().replace('"items"', '"itmes"'))
    code, said = dstest("nightly", "report", directory.path)
    assert code == Exit.USAGE, said
    assert not (directory.path / JUNIT).exists() and not (directory.path / PAGE).exists()


def test_a_check_that_fails_leaves_no_answer(tmp_path: Path) -> None:
    out, history = tmp_path / "out", tmp_path / "h.edn"
    good = "{:process 0, :type :invoke, :f :write, :value 1, :index 0, :time 1}\n"
    good += "{:process 0, :type :ok, :f :write, :value 1, :index 1, :time 2}\n"
    good += "{:process 0, :type :invoke, :f :read, :value nil, :index 2, :time 3}\n"
    good += "{:process 0, :type :ok, :f :read, :value 1, :index 3, :time 4}\n"
    history.write_text(good)
    words = ("check", history, "--model", "register", "--report", out)
    code, said = dstest(*words)
    assert code == Exit.PASS, said
    assert json.loads((out / "result.json").read_text())["valid"] is True
    (out / "witness-0.svg").write_text("of another history\n")
    (out / "mine.svg").write_text("mine\n")
    history.write_text(good + "{:process\n")
    code, said = dstest(*words)
    assert code not in (Exit.PASS, Exit.FAIL), said
    assert [path.name for path in out.iterdir()] == ["mine.svg"]


def test_metrics_of_a_watch_that_never_began_are_gone(tmp_path: Path) -> None:
    metrics = tmp_path / "raft.prom"
    metrics.write_text("dstest_spec_healthy 1\n")
    code, said = dstest(
        "spec", "live", "no-such-specification", tmp_path / "none", "--metrics", metrics
    )
    assert code == Exit.USAGE, said
    assert not metrics.exists()


PRECIOUS = "not dstest's\n"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    found = tmp_path / "precious.txt"
    found.write_text(PRECIOUS)
    return found


def linked(precious: Path, link: Path) -> Path:
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(precious)
    return link


def test_a_gate_removes_a_link_and_not_what_it_points_to(
    store: Path, precious: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    link = linked(precious, out / "junit.xml")
    hanging = linked(tmp_path / "elsewhere.md", out / "decision.md")
    code, said = dstest("gate", "--policy", tmp_path / "none.toml", store, "--out", out)
    assert code == Exit.USAGE, said
    assert precious.read_text() == PRECIOUS
    assert not link.is_symlink() and not hanging.is_symlink()
    linked(precious, out / "junit.xml")
    assert gate(tmp_path, POLICY, store, "--out", out)[0] == Exit.PASS
    assert precious.read_text() == PRECIOUS
    assert {path.name for path in out.iterdir()} == DECISION
    assert not any(path.is_symlink() for path in out.iterdir())


@pytest.mark.parametrize("flag", ["--junit", "--sarif", "--prometheus", "--otlp", "--out"])
def test_a_report_removes_a_link_and_not_what_it_points_to(
    flag: str, store: Path, precious: Path, tmp_path: Path
) -> None:
    link = linked(precious, tmp_path / "out" / "junit.xml")
    place = link.parent if flag == "--out" else link
    code, said = dstest("report", store, flag, place)
    assert code == Exit.FAIL, said
    assert precious.read_text() == PRECIOUS
    assert link.is_file() and not link.is_symlink()


def test_a_link_out_of_a_run_is_not_removed(store: Path, precious: Path, tmp_path: Path) -> None:
    """The link is evidence, wherever it points to."""
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    run = next(copy.glob("*/*-1"))
    (run / "junit.xml").unlink()
    link = linked(precious, run / "junit.xml")
    for words in (["--out", run], ["--junit", link]):
        code, said = dstest("report", store, *words)
        assert code == Exit.USAGE and "evidence" in said
    assert link.is_symlink() and precious.read_text() == PRECIOUS


def test_a_night_removes_a_link_and_not_what_it_points_to(precious: Path, tmp_path: Path) -> None:
    directory = night_in(tmp_path / "store", 1, [item_of("a", "", [PASSES])])
    linked(precious, directory.path / JUNIT)
    linked(precious, directory.path / PAGE)
    dstest("nightly", "report", directory.path)
    assert precious.read_text() == PRECIOUS
    assert not (directory.path / JUNIT).is_symlink() and not (directory.path / PAGE).is_symlink()


def test_a_check_removes_a_link_and_not_what_it_points_to(precious: Path, tmp_path: Path) -> None:
    link = linked(precious, tmp_path / "out" / "result.json")
    history = tmp_path / "h.edn"
    history.write_text("{:process\n")
    words = ("check", history, "--model", "register", "--report", link.parent)
    code, said = dstest(*words)
    assert code not in (Exit.PASS, Exit.FAIL), said
    assert precious.read_text() == PRECIOUS and not link.is_symlink()


def test_metrics_remove_a_link_and_not_what_it_points_to(precious: Path, tmp_path: Path) -> None:
    link = linked(precious, tmp_path / "out" / "raft.prom")
    words = ("spec", "live", "no-such-specification", tmp_path / "none", "--metrics", link)
    code, said = dstest(*words)
    assert code == Exit.USAGE, said
    assert precious.read_text() == PRECIOUS and not link.is_symlink()


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "own"])
def test_a_link_to_where_output_goes_stays(place: str, store: Path, tmp_path: Path) -> None:
    """Also where that is a file: it is the shell's."""
    own = tmp_path / "own"
    own.symlink_to("/dev/null")
    run = next(store.glob("*/*-1"))
    words = ["report", str(run), "--junit", str(own) if place == "own" else place]
    with (tmp_path / "shown").open("w") as shown:
        subprocess.run([sys.executable, "-m", "dstest", *words], stdout=shown, check=False)
    assert own.is_symlink() and Path("/dev/stdout").is_symlink() and Path("/dev/null").exists()
    assert ("</testsuite" in (tmp_path / "shown").read_text()) == (place != "own")
