"""A finished run directory: a command on it, its files, and a change of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.check import CheckResult
from dstest.runner import judgement

Change = Callable[[Path], None]


def files(run: Path) -> dict[str, bytes]:
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def dstest(*words: Any, env: dict[str, str] | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(w) for w in words], env=env)
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        return int(getattr(error, "exit_code", -1)), f"{result.output}{error}"
    return result.exit_code, result.output


def undecided(monkeypatch: pytest.MonkeyPatch, valid: bool | str = "unknown") -> None:
    """No checker comes to an answer any more, as on a host that is too slow; or all to this one."""
    real = judgement.check_all

    def check_all(*args: Any) -> dict[str, CheckResult]:
        return {
            name: msgspec.structs.replace(result, valid=valid, anomalies={})
            for name, result in real(*args).items()
        }

    monkeypatch.setattr(judgement, "check_all", check_all)


def text(name: str, old: str, new: str) -> Change:
    def change(run: Path) -> None:
        path = run / name
        found = path.read_text()
        assert old in found, name
        path.write_text(found.replace(old, new, 1))

    return change
