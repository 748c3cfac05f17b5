"""A part that was not built, or a library that is not installed, is no bug and no verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dstest.core.errors import Exit

HISTORY = (
    '{"op_id":1,"process_id":1,"invoke_ts":0,"complete_ts":5,"op_type":"write","key":"a","input":1,'
    '"output":null,"error":null,"timeout_marker":false,"node_seen":null,"fault_epoch":null}\n'
)


@pytest.mark.parametrize("missing", ["checkers._core", "typer"])
def test_what_is_missing_is_named_with_what_helps(tmp_path: Path, missing: str) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(HISTORY)
    words = ["dstest", "check", str(history), "--workload", "register"]
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = {words!r};"
        " from dstest.__main__ import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == Exit.HARNESS
    assert ended.stdout == ""
    (said,) = ended.stderr.splitlines()
    assert missing in said
    assert "`make setup`" in said


def test_any_other_failure_of_an_import_is_a_bug(tmp_path: Path) -> None:
    code = (
        "import sys, dstest.check.objects as m; del m.judge_file;"
        " sys.argv = ['dstest', 'check', 'h.jsonl', '--workload', 'register'];"
        " from dstest.__main__ import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert ended.returncode not in (0, 1, Exit.USAGE)
    assert "Traceback" in ended.stderr
    assert "make setup" not in ended.stderr
