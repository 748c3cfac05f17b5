"""What somebody else's system lacks is said by `run` before anything is made, and by `list`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import Ended
from forked import dstest as forked
from third_party import BARE, PROCESSES, ship

from dstest.core import registry

pytestmark = pytest.mark.slow

Dstest = Callable[..., Ended]


@pytest.fixture
def dstest(tmp_path: Path) -> Dstest:
    """Runs the command where the `toy` system is installed."""
    plugins, work = tmp_path / "plugins", tmp_path / "work"
    plugins.mkdir()
    work.mkdir()
    ship(plugins, BARE, systems="toy = toy_plugin:SYSTEM")

    def run(*words: str) -> Ended:
        env = {**os.environ, "PYTHONPATH": str(plugins)}
        env.pop("DSTEST_NO_PLUGINS", None)
        done = forked(*words, cwd=work, env=env)
        assert list(work.iterdir()) == [], "nothing is made"
        return done

    return run


@pytest.mark.parametrize(
    "words",
    [
        ("--nemesis", "kill"),
        ("--nemesis", "kill,pause"),
        ("--nemesis", "kill", "--seed", "1,2"),
        ("--nemesis", "kill", "--tier", "hardening"),
        ("--nemesis", "kill", "--json"),
    ],
    ids=["run", "mix", "session", "tier", "json"],
)
def test_a_run_that_cannot_be_is_refused(dstest: Dstest, words: tuple[str, ...]) -> None:
    done = dstest("run", "--system", "toy", *words)
    assert done.returncode == 2
    assert (done.stdout == "") is ("--json" not in words)
    assert "system toy cannot have --nemesis kill: it lacks Supervised (kill, " in done.stderr
    assert "remedy: another --nemesis; `dstest list` says which fit" in done.stderr


def test_a_schedule_of_another_system_is_refused(dstest: Dstest, tmp_path: Path) -> None:
    ship(tmp_path / "plugins", BARE + PROCESSES, systems="toy = toy_plugin:SYSTEM")
    schedule = tmp_path / "schedule.json"
    fault = {"fault_id": "f1", "nemesis": "kill", "start_ns": 4 * 10**9, "duration_ns": 10**9}
    fault["facts"] = {"scope": "primaries", "targets": [], "seed": 1}
    row = {"nemesis": "kill", "nodes": 5, "time_limit_s": 30.0, "options": {}, "plans": [fault]}
    schedule.write_text(json.dumps({"schema": "dstest.schedule/1", **row}))
    done = dstest("run", "--system", "toy", "--time-limit", "30", "--schedule", str(schedule))
    assert done.returncode == 2
    assert (
        "--nemesis kill with scope=primaries: it lacks Leadership (claims, leaders)" in done.stderr
    )


def test_the_list_says_what_fits(dstest: Dstest, tmp_path: Path) -> None:
    ship(tmp_path / "plugins", BARE + PROCESSES, systems="toy = toy_plugin:SYSTEM")
    matrix = json.loads(dstest("list", "--json").stdout)["matrix"]
    names = [registry.names(group) for group in ("workloads", "nemeses")]
    systems = len(registry.names("systems")) + 1
    assert len(matrix) == systems * len(names[0]) * len(names[1])
    rows = {(r["system"], r["workload"], r["nemesis"]): r for r in matrix}
    unfit = {nemesis for (name, _, nemesis), r in rows.items() if name == "etcd" and r["lacks"]}
    assert unfit == {"schema-change", "store-outage"}
    unoffered = {"g2", "closed-predicate", "atomic-view", "dead-letters"}
    for workload in set(names[0]) - unoffered:
        for nemesis in set(names[1]) - unfit:
            row = rows["etcd", workload, nemesis]
            assert (row["fits"], row["reason"]) == (True, None)
    for workload in unoffered:
        assert rows["etcd", workload, "none"]["reason"].startswith("etcd offers no ")
    row = rows["toy", "register", "none"]
    assert (row["fits"], row["reason"], row["lacks"]) == (True, None, [])
    row = rows["toy", "register", "stop"]
    assert not row["fits"]
    assert row["reason"].startswith("toy lacks Terminate (exits, terminate), ServerLogs")
    assert {"capability": "Terminate", "missing": ["exits", "terminate"], "when": None} in row[
        "lacks"
    ]
    row = rows["toy", "register", "kill"]
    assert (row["fits"], row["reason"]) == (True, None)
    lack = {"capability": "Leadership", "missing": ["claims", "leaders"], "when": "scope=primaries"}
    assert row["lacks"] == [lack]
    row = rows["toy", "bank", "stop"]
    assert row["reason"].startswith("toy offers no ")
    assert "; toy lacks Terminate" in row["reason"]
    text = dstest("list", "--system", "toy", "--workload", "register").stdout
    assert "\ntoy            register       none\n" in text
    assert "(not with scope=primaries: no Leadership)" in text
    assert "(toy lacks Leadership (claims, leaders))" in text
    rows_text = text.partition("\n\n")[0]
    assert {line.split()[0] for line in rows_text.splitlines()} == {"toy"}
    text = dstest("list").stdout
    assert len(text.splitlines()) < 150 + systems, "no line per pair"
    assert all(f"\nnemesis  {name} " in text for name in names[1])


def test_the_list_survives_a_system_that_says_nothing(dstest: Dstest, tmp_path: Path) -> None:
    source = BARE.replace("    deployment = Deployment\n", "")
    ship(tmp_path / "plugins", source, systems="toy = toy_plugin:SYSTEM")
    matrix = json.loads(dstest("list", "--json").stdout)["matrix"]
    toys = [row for row in matrix if row["system"] == "toy"]
    assert toys
    assert not any(row["fits"] for row in toys)
    assert all("does not say of which class" in row["reason"] for row in toys)
