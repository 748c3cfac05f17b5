"""The kernel's count of kills for lack of memory, as an agent reads it from control groups."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from clusters.remote.agent_client import answer_of
from clusters.remote.agent_probe import memory_kills
from clusters.remote.connection import end_janitors, local_agent


def test_of_each_group_of_both_versions(tmp_path: Path) -> None:
    groups, machine = tmp_path / "groups", tmp_path / "vmstat"
    for name, file, text in (
        ("unified/a", "memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 1\n"),
        ("unified/a/b", "memory.events", "oom_kill 0\n"),
        ("memory/c", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
        ("memory/old", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
        ("memory/odd", "memory.oom_control", "oom_kill many\n"),
    ):
        (groups / name).mkdir(parents=True, exist_ok=True)
        (groups / name / file).write_text(text)
    machine.write_text("oom_kill 70\n")
    found = memory_kills(str(groups), str(machine))
    assert {path.removeprefix(f"{groups}/"): count for path, count in found.items()} == {
        "unified/a/memory.events": 2,
        "unified/a/b/memory.events": 0,
        "memory/c/memory.oom_control": 4,
    }


def test_of_the_whole_machine_where_no_group_tells(tmp_path: Path) -> None:
    machine = tmp_path / "vmstat"
    machine.write_text("nr_free_pages 12\noom_kill 7\n")
    assert memory_kills(str(tmp_path / "none"), str(machine)) == {str(machine): 7}
    assert memory_kills(str(tmp_path / "none"), str(tmp_path / "no such")) == {}


def test_no_program_is_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One per group, once a few seconds, kept emulated nodes from serving for a second."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert memory_kills()


def test_the_agent_tells_it(tmp_path: Path) -> None:
    run, marker = tmp_path / "run", tmp_path / "marker"
    marker.write_text("lab-7\n")

    async def ask() -> dict[str, int]:
        async with local_agent("lab-7", run=run, marker=marker) as (client, _):
            found: dict[str, int] = await client.call("memory_kills", {}, 5.0)
            return found

    try:
        found = asyncio.run(ask())
    finally:
        end_janitors(run)
    assert found == answer_of("memory_kills", found)
    assert all(path.startswith(("/sys/fs/cgroup/", "/proc/vmstat")) for path in found) and found
