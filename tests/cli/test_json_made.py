"""What commands make is told to a program as one object: where it lies, how much, the exit code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import textbook
from executed_plan import PLAN
from forked import dstests
from made_runs import made, registers
from typer.testing import CliRunner, Result

from dstest.campaign.nightly.driver import Driver as NightDriver
from dstest.campaign.workers import bundle
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import Exit
from dstest.core.protocols import Lab
from dstest.history.jsonl import read_history
from dstest.plans.execution import driver
from dstest.plans.execution.driver import Driver
from dstest.plans.execution.state import Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NIGHT = """\
name = "short"

[[cells]]
control = "red"
anomalies = ["nonlinearizable"]
system = "etcd"
workload = "register"
nemesis = "partition"
seed = [7]
nodes = 3

[[cells]]
system = "etcd"
workload = "register"
nemesis = "partition"
nodes = 3
"""


def answers(folder: Path, *lines: tuple[str, ...]) -> list[dict[str, Any]]:
    """The object of each, which is all there is on standard output."""
    found = []
    for done in dstests([(*words, "--json") for words in lines], folder).values():
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
        assert isinstance(found[-1], dict)
    return found


def asked(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("fmt", ["jsonl", "edn"])
def test_a_history_that_was_generated(tmp_path: Path, fmt: str) -> None:
    words = ("generate", "--txns", "40", "--inject", "G1a:1", "--format", fmt, "-o", "h")
    (said,) = answers(tmp_path, words)
    written = (tmp_path / "h").read_text().splitlines()
    count = len(written) - 1 if fmt == "jsonl" else sum(":type :invoke" in one for one in written)
    assert said == {
        "path": "h", "format": fmt, "seed": 0, "operations": count, "injected": {"G1a": 1},
    }  # fmt: skip
    assert count > 40


@pytest.mark.parametrize("fmt", ["edn", "json", "parquet"])
def test_a_history_that_was_exported(tmp_path: Path, passed: Path, fmt: str) -> None:
    if fmt == "parquet":
        pytest.importorskip("pyarrow")
    (said,) = answers(tmp_path, ("export", str(passed), "--format", fmt, "-o", f"h.{fmt}"))
    history = passed / "history.jsonl"
    assert said == {
        "path": f"h.{fmt}",
        "format": fmt,
        "history": str(history),
        "operations": len(read_history(history).ops),
    }
    assert (tmp_path / f"h.{fmt}").stat().st_size > 1000


def test_nothing_is_made_that_would_stand_beside_the_object(tmp_path: Path, passed: Path) -> None:
    lines = [("generate", "--json"), ("export", str(passed), "--json")]
    for done in dstests(lines, tmp_path).values():
        assert done.returncode == Exit.USAGE
        said = json.loads(done.stdout)
        assert "-o FILE" in said["remedy"] and said["exit_code"] == 2


def test_files_of_ones_own(tmp_path: Path) -> None:
    (said,) = answers(tmp_path, ("new", "checker", "mine"))
    assert (said["kind"], said["name"]) == ("checker", "mine")
    assert said["written"] == ["mine.py", "test_mine.py"]
    assert all((tmp_path / name).is_file() for name in said["written"])
    assert "test_mine.py" in said["next"][0] and "--checker ./mine.py" in said["next"][-1]


def test_a_specification_in_another_language(tmp_path: Path) -> None:
    words = ("spec", "export", f"{textbook.__file__}:Hanoi", "--to", "quint")
    shown, written = answers(tmp_path, words, (*words, "-o", "s.qnt"))
    assert shown["path"] is None and written["path"] == "s.qnt"
    assert shown["text"] == written["text"] == (tmp_path / "s.qnt").read_text()
    assert (shown["spec"], shown["language"]) == ("Hanoi", "quint")
    assert "module Hanoi" in shown["text"]


def test_a_plan(tmp_path: Path) -> None:
    (said,) = answers(tmp_path, ("plan", "new", "--system", "etcd", "--output", "plan.md"))
    assert set(said) == {"path", "claims", "hypotheses", "scenarios", "left_out", "why_not"}
    assert said["path"] == "plan.md" and said["why_not"] is None
    (shown,) = answers(tmp_path, ("plan", "show", "plan.md"))
    for kind in ("claims", "hypotheses", "scenarios"):
        assert said[kind] == len(shown[kind]) > 0, kind


def test_no_plan_for_a_change_without_behaviour(tmp_path: Path) -> None:
    (tmp_path / "p.diff").write_text(
        "diff --git a/README.md b/README.md\n--- a/README.md\n+++ b/README.md\n"
        "@@ -1 +1 @@\n-one\n+two\n"
    )
    (said,) = answers(tmp_path, ("plan", "new", "--system", "etcd", "--diff", "p.diff"))
    assert said["path"] is None
    assert "no plan is needed" in said["why_not"]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, list[int]]:
    """A plan that can be run, and the codes that the commands of its steps end with."""
    codes: list[int] = []

    def command(self: Driver, step: Step, argv: Sequence[str]) -> int:
        self._dir.log_of(step).write_text("dstest: said\n")
        code = codes.pop(0)
        if code == Exit.PASS:
            folder = self._dir.artifacts_of(step) / "etcd-register-partition" / "run1"
            made(folder, registers(), "register")
        return code

    monkeypatch.setattr(Driver, "_command", command)
    monkeypatch.setattr(driver, "require_sound", lambda plan: None)
    monkeypatch.setattr(driver, "lint", lambda plan: [])
    monkeypatch.setattr(driver, "host_rows", list)
    path = tmp_path / "plan.md"
    path.write_text(PLAN)
    return path, codes


def test_a_plan_that_was_run(planned: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, codes = planned
    codes += [Exit.PASS]
    words = ("plan", "run", path, "--scenario", "S1", "--store", tmp_path / "s", "--json")
    done = asked(*words)
    assert done.exit_code == Exit.NOT_PROVEN, done.output
    said = json.loads(done.stdout)
    assert (said["exit"], said["outcome"]) == (Exit.NOT_PROVEN, "DONE_WITH_CONCERNS")
    assert Path(said["report"]).read_text()
    first, *others = said["steps"]
    assert (first["id"], first["status"], first["verdict"]) == ("S1", "done", "PASS-smoke")
    assert (Path(first["result"]) / "verdict.json").is_file()
    assert {one["verdict"] for one in others} == {"NOT-RUN"}
    assert {one["result"] for one in others} == {None}
    assert Path(said["directory"]) == (tmp_path / "s" / "latest").resolve()
    assert "PASS-smoke" in done.stderr


def test_a_plan_that_was_stopped_and_goes_on(
    planned: tuple[Path, list[int]], tmp_path: Path
) -> None:
    path, codes = planned
    codes += [Exit.INTERRUPTED, Exit.HARNESS]
    done = asked("plan", "run", path, "--scenario", "S1", "--store", tmp_path / "s", "--json")
    assert done.exit_code == Exit.INTERRUPTED
    said = json.loads(done.stdout)
    assert (said["exit"], said["outcome"], said["report"]) == (Exit.INTERRUPTED, None, None)
    assert said["steps"][0]["status"] == "running"
    done = asked("plan", "resume", said["directory"], "--json")
    after = json.loads(done.stdout)
    assert after["exit"] == done.exit_code == Exit.HARNESS
    assert after["directory"] == said["directory"]
    assert after["steps"][0]["verdict"] == "INCONCLUSIVE-env"
    assert done.stdout.count("\n") == 1


def test_skeletons_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: tuple[Path, list[int]]
) -> None:
    monkeypatch.setenv("DSTEST_AUTHOR_MODE", "1")
    path, _ = planned
    done = asked("plan", "author", path, "--repo", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"plan": str(path), "files": []}


def test_a_night_that_was_run_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(self: NightDriver) -> int:
        self._night.spent_s = 7.0
        self._dir.save(self._night)
        self._say("stopped")
        return int(Exit.INTERRUPTED)

    monkeypatch.setattr(NightDriver, "run", ran)
    path = tmp_path / "nightly.toml"
    path.write_text(NIGHT)
    done = asked("nightly", path, "--store", tmp_path / "s", "--json")
    assert done.exit_code == Exit.INTERRUPTED, done.output
    said = json.loads(done.stdout)
    assert said["exit"] == Exit.INTERRUPTED
    assert (said["night"]["name"], said["night"]["spent_s"]) == ("short", 7.0)
    assert (Path(said["directory"]) / "night.json").is_file()
    assert "stopped" in done.stderr
    for words in (("nightly", path, "--store", tmp_path / "s"), ("nightly", "resume")):
        monkeypatch.setattr(NightDriver, "run", lambda self: int(Exit.NOT_PROVEN))
        place = [] if "resume" not in words else [said["directory"]]
        done = asked(*words, *place, "--json")
        after = json.loads(done.stdout)
        assert done.exit_code == after["exit"] == Exit.NOT_PROVEN
        assert after["directory"] == said["directory"], "it goes on with the same one"


class Labs(Lab):
    """A kind of labs whose nodes begin from an image."""

    name = "imaged"
    doc = "for tests"

    def __init__(self) -> None:
        self.made: list[tuple[str, ...]] = []

    def prepare(self, packages: Sequence[str], *, progress: Any = None) -> None:
        progress("making it")
        self.made.append(tuple(packages))


@pytest.mark.parametrize("imaged", [True, False])
def test_an_image(imaged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, load = Labs() if imaged else object(), registry.load
    monkeypatch.setattr(
        registry, "load", lambda group, name: lab if group == "labs" else load(group, name)
    )
    done = asked("lab", "image", "--lab", "imaged", "--packages", "one,two", "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    packages = ["one", "two"] if imaged else []
    assert said == {"lab": "imaged", "image": imaged, "packages": packages}
    if isinstance(lab, Labs):
        assert lab.made == [("one", "two")]
        assert "making it" in done.stderr


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    def pack(target: Path) -> bundle.Bundle:
        target.write_bytes(b"packed")
        digest = hashlib.sha256(b"packed").hexdigest()
        return bundle.Bundle(
            path=str(target), sha256=digest, bytes=6, distributions=[], python="3", machine="m"
        )

    monkeypatch.setattr(bundle, "pack_bundle", pack)


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_workers_need(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = asked("workers", "pack", tmp_path / "w.tar.gz", *more)
    said = json.loads(done.stdout)
    assert (said["path"], said["bytes"]) == (str(tmp_path / "w.tar.gz"), 6)
    assert "packing" in done.stderr


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("reached", [True, False])
def test_where_it_was_put(reached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreachable(hosts: Sequence[str]) -> dict[str, str]:
        return {host: "" if reached and host == "a" else "no route" for host in hosts}

    async def lay(hosts: Sequence[str], given: bundle.Bundle) -> dict[str, str]:
        return dict.fromkeys(hosts, "")

    monkeypatch.setattr(bundle, "unreachable", unreachable)
    monkeypatch.setattr(bundle, "put", lay)
    done = asked("workers", "put", "a", "b", "--json")
    assert done.exit_code == Exit.HARNESS
    assert json.loads(done.stdout) == {
        "exit": int(Exit.HARNESS),
        "machines": [
            {"host": "a", "ready": reached, "why_not": "" if reached else "no route"},
            {"host": "b", "ready": False, "why_not": "no route"},
        ],
    }
