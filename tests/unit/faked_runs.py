"""A project that uses the plugin of pytest, with recorded runs for those that need a lab."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dstest.testing import lab, run

__all__ = ["INI", "MARKED", "PLUGIN", "Runs", "comes_with", "ended", "shown_of"]

INSTALLED = importlib.metadata.entry_points(group="pytest11", name="dstest")
PLUGIN = () if INSTALLED else ("-p", "dstest.testing.plugin")
Runs = Callable[..., list[list[str]]]


def shown_of(path: Path, code: int) -> dict[str, Any]:
    """What `dstest run --json` prints of it."""
    verdict = msgspec.json.decode((path / "verdict.json").read_bytes())
    return {"run": str(path), "exit": code, "ended_by": None, "verdict": verdict}


INI = "[pytest]\ndstest_lab_id = there\naddopts = -p no:cacheprovider\n"


def comes_with(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """A function: from now on `dstest run` prints this and ends with that. What it is given several
    times comes one after the other, the last one for good. Its list has the words of each call."""
    pytester.makeini(INI)
    asked: list[list[str]] = []
    coming: list[tuple[dict[str, Any], int]] = []

    def fake(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        asked.append(list(words))
        shown, code = coming.pop(0) if len(coming) > 1 else coming[0]
        text = msgspec.json.encode(shown).decode()
        return subprocess.CompletedProcess([], code, text, "dstest: said on stderr")

    def comes(shown: dict[str, Any], code: int, *after: tuple[dict[str, Any], int]) -> Any:
        coming[:] = [(shown, code), *after]
        return asked

    monkeypatch.setattr(run, "dstest", fake)
    monkeypatch.setattr(lab, "labs_up", lambda config: ["there"])
    return comes


def ended(pytester: pytest.Pytester, body: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(body)
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:warnings", *words)


MARKED = """
import pytest

@pytest.mark.dstest(system="toykv", workload="register", nemesis="partition", time_limit_s=30,
                    nodes=5, seed=1, options={"shape": "one", "clients": True}%s)
def test_it(%s):
    %s
"""
