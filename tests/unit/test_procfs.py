"""Processes that end while they are looked at."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dstest.core import processes


def test_a_process_that_has_ended_meanwhile_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setattr(os, "listdir", lambda _: [str(gone.pid), "self", str(os.getpid())])
    found = dict(processes.each("cmdline"))
    assert found.keys() == {os.getpid()}
    assert processes.children_of(gone.pid) == set()


def test_those_that_a_process_has_started() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.children_of(os.getpid())
        assert child.pid in processes.pids()
    finally:
        child.kill()
        child.communicate()
