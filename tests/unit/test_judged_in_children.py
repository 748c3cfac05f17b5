"""Checkers run in processes of their own, waited for by threads that read nothing."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dstest.core.check import CheckResult
from dstest.judge import checker_answers
from dstest.judge.checker_answers import Job

JOBS = cast(
    "list[Job]",
    [
        SimpleNamespace(checker=name, model="m", budget=SimpleNamespace(time_s=1.0))
        for name in ("a", "b", "c", "d")
    ],
)


def ended(status: int, stdout: bytes = b"", stderr: bytes = b"") -> Any:
    return subprocess.CompletedProcess([], status, stdout, stderr)


def test_answers_are_read_by_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the threads: a type that two of them met for the first time was a crash of ours."""
    read: list[int] = []
    waited: list[int] = []

    def decode(text: bytes, type: Any) -> Any:
        read.append(threading.get_ident())
        return msgspec.json.decode(text, type=type)

    def in_child(job: Job) -> Any:
        waited.append(threading.get_ident())
        return ended(0, msgspec.json.encode(CheckResult(checker=job.checker, valid=True)))

    json = SimpleNamespace(decode=decode, encode=msgspec.json.encode)
    fake = SimpleNamespace(json=json, DecodeError=msgspec.DecodeError)
    monkeypatch.setattr(checker_answers, "msgspec", fake)
    monkeypatch.setattr(checker_answers, "_in_child", in_child)
    found = checker_answers.run_jobs(JOBS)
    assert [result.checker for result in found] == ["a", "b", "c", "d"]
    assert {*read} == {threading.get_ident()}
    assert threading.get_ident() not in waited


@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (ended(0, b"{"), "its answer cannot be read"),
        (ended(-11), "killed by signal 11: no message"),
        (ended(3, stderr=b"one\nthe last word\n"), "ended with status 3: the last word"),
        ("no answer after 5 s", "no answer after 5 s"),
    ],
)
def test_no_answer_is_unknown(monkeypatch: pytest.MonkeyPatch, done: Any, reason: str) -> None:
    monkeypatch.setattr(checker_answers, "_in_child", lambda job: done)
    (found,) = checker_answers.run_jobs(JOBS[:1])
    assert found.valid == "unknown"
    assert reason in str(found.reason)


SHARED = ("ThreadPoolExecutor", "threading.Thread(", "to_thread(")
TYPED = ("decode(", "convert(")


def test_no_module_with_threads_learns_a_type_in_them() -> None:
    """Such a module decodes in its caller's thread, or by a decoder made when it is imported."""
    root = Path(checker_answers.__file__).parents[2]
    tops = ("dstest", "clusters", "checkers", "nemeses", "workloads")
    files = [p for top in tops for p in (root / top).rglob("*.py")]
    found = {
        str(path.relative_to(root))
        for path in files
        if any(word in (text := path.read_text()) for word in SHARED)
        and any(f"msgspec.json.{word}" in text and "type=" in text for word in TYPED)
    }
    # It decodes after its threads have ended, as the first test sees.
    assert found <= {"dstest/judge/checker_answers.py"}
