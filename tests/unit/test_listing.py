"""`dstest list`: short by default, filters, the page of capabilities, runs that died."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from made_meta import meta
from typer import Typer
from typer.testing import CliRunner

from dstest.cli.listing import list_
from dstest.core import registry
from dstest.history.layout import RunDir
from dstest.runner.session import process_start_time
from workloads.capabilities import CAPABILITIES, markdown

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "capabilities.md"


def listed(*words: str) -> str:
    app = Typer()
    app.command()(list_)
    return CliRunner().invoke(app, list(words), catch_exceptions=False).stdout


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == listed("--capabilities"), (
        "dstest list --capabilities >docs/reference/capabilities.md"
    )


@pytest.mark.parametrize("name", registry.names("workloads"))
def test_what_each_workload_asks_for_is_described(name: str) -> None:
    work = registry.load("workloads", name)
    known = {operation.op_type for operation in CAPABILITIES[work.capability]}
    assert work.op_types <= known
    page = markdown([work])
    assert all(f"| {work.capability} | {name} | `{kind}` |" in page for kind in work.op_types)


def test_nothing_is_described_that_no_workload_asks_for() -> None:
    works = [registry.load("workloads", name) for name in registry.names("workloads")]
    asked = {(work.capability, kind) for work in works for kind in work.op_types}
    assert asked == {(name, op.op_type) for name, ops in CAPABILITIES.items() for op in ops}


def test_the_filters_leave_the_rows_of_what_they_name(tmp_path: Path) -> None:
    words = ("--system", "memcached", "--nemesis", "power", "--store", str(tmp_path))
    rows_text, *options = listed(*words).split("\n\n")
    lines = rows_text.splitlines()
    assert len(lines) == len(registry.names("workloads"))
    assert all("lacks DataDir" in line for line in lines)
    of_system, of_nemesis = options
    assert of_system.startswith("system memcached has no options")
    assert of_nemesis.startswith("options of nemesis power:\n  -o ")
    assert "\n  -o scope=" in of_nemesis
    rows = json.loads(listed(*words, "--json"))["matrix"]
    assert {(row["system"], row["nemesis"]) for row in rows} == {("memcached", "power")}


@pytest.mark.parametrize("system", registry.names("systems"))
@pytest.mark.sampled(3)
def test_what_fits_a_system_takes_a_screen_and_not_nine_hundred_lines(system: str) -> None:
    words = ("--system", system)
    text = listed(*words)
    about, workloads, nemeses, options = text.split("\n\n")
    assert len(text.splitlines()) <= 84
    assert about.startswith(f"system {system}: ")
    assert "system" in options.splitlines()[0]
    rows = json.loads(listed(*words, "--json"))["matrix"]
    for kind, said in (("workload", workloads), ("nemesis", nemeses)):
        fitting = {row[kind] for row in rows if row["fits"]}
        lines = said.splitlines()
        shown = [line.split()[0] for line in lines[1:] if re.match(r"  (?!not )\S", line)]
        assert sorted(shown) == sorted(fitting), "each that fits once"
        rest = " ".join(" ".join(lines).partition("  not ")[2].split())
        others = {row[kind] for row in rows} - fitting
        named = re.sub(r" \([^)]*\)", "", rest).replace(";", ",")
        assert sorted(named.split(", ") if named else []) == sorted(others), "the rest by reason"
        assert f": {len(fitting)} of {len(fitting | others)} fit" in lines[0]


def test_the_whole_of_one_is_to_be_had() -> None:
    text = listed("--system", "memcached", "--matrix").split("\n\n")[0]
    pairs = len(registry.names("workloads")) * len(registry.names("nemeses"))
    assert len(text.splitlines()) == pairs
    assert "(memcached offers no bank client)" in text


def test_what_fits_a_workload_or_a_nemesis() -> None:
    text = listed("--nemesis", "backup")
    assert re.search(r"\n  not .*toykv \(lacks Revisions, Snapshots\)\n", text, re.DOTALL)
    text = listed("--nemesis", "kill")
    assert re.search(r"\n  galera .*; not with scope=primaries: no Leadership\)\n", text)
    text = listed("--workload", "set")
    assert "\n  not memcached, nats, rabbitmq, zookeeper (offers no set client)\n" in text
    assert "scope=primaries" not in text, "that is about pairs of a system and a nemesis"
    assert re.search(r"\n  loss  .* \(not with mariadb, postgresql\)\n", text)


def a_run(store: Path, number: int, status: str, pid: int) -> Path:
    run = RunDir.create(store, "a-run", number)
    made = meta()
    made.pid, made.pid_start_time = pid, process_start_time(pid)
    run.write_meta(made)
    run.write_status(status)
    return run.path


def test_a_run_whose_process_is_gone_has_died(tmp_path: Path) -> None:
    alive = a_run(tmp_path, 1, "running", os.getpid())
    dead = a_run(tmp_path, 2, "running", 2**22 + 1)
    over = a_run(tmp_path, 3, "verdict: PASS-smoke", 2**22 + 1)
    text = listed("--runs", "--store", str(tmp_path))
    rows = {line.split()[-1].rstrip(")"): line.split("  ")[0] for line in text.splitlines()}
    assert rows == {str(alive): "running", str(dead): "died", str(over): "verdict: PASS-smoke"}
    assert f"(dstest recover {dead})" in text
    found = json.loads(listed("--json", "--store", str(tmp_path)))["runs"]
    assert {row["run"]: row["status"] for row in found}[str(dead)] == "died"


def test_the_latest_runs_only(tmp_path: Path) -> None:
    for number in range(8):
        a_run(tmp_path, number, "verdict: PASS-smoke", 1)
    text = listed("--store", str(tmp_path))
    assert text.count("verdict: PASS-smoke") == 5
    assert "3 runs before these: dstest list --runs" in text
    groups = ("systems", "workloads", "nemeses", "checkers", "labs")
    plugins = sum(len(registry.names(group)) for group in groups)
    most = plugins + 10 * len(registry.names("systems"))
    assert len(text.splitlines()) < most, "a line per plug-in, and not one per pair"
