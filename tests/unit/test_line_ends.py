"""Carriage returns in what a run recorded stand in its reports as they were written."""

from __future__ import annotations

from pathlib import Path

import msgspec
from made_runs import made, registers

from dstest.core.errors import Exit
from dstest.runner.integrity import verify_run


def test_a_run_whose_keys_hold_line_ends_is_what_it_was(tmp_path: Path) -> None:
    ops = [msgspec.structs.replace(op, key=f"{op.key}\r\n") for op in registers(count=700)]
    reads = [at for at, op in enumerate(ops) if op.op_type == "read" and op.output is not None]
    at = reads[len(reads) // 2]
    old = next(
        op for op in ops if op.key == ops[at].key and op.output not in (None, ops[at].output)
    )
    ops[at] = msgspec.structs.replace(ops[at], output=old.output)
    run, verdict = made(tmp_path / "run", ops, "register")
    assert verdict.verdict.failed
    assert verify_run(run).exit_code == Exit.FAIL
