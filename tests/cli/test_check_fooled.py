"""`dstest check` of files that leave something out, or say it in other words: nothing is dropped
without a word, and nothing that is absent is taken for null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.core.op import Op

Row = dict[str, Any]


def check(path: Path, *options: str) -> tuple[int, str]:
    """Exit code, and what was printed or said."""
    done = CliRunner().invoke(app, ["check", str(path), *options])
    if isinstance(done.exception, DstestError):
        return int(done.exception.exit_code), str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def put(folder: Path, content: bytes | str, name: str = "h.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def written(rows: list[Row]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def record(number: int, op_type: str, **fields: Any) -> Row:
    """A record of ours; sequential, each by process 0 unless told otherwise."""
    times = {"invoke_ts": 10 * number, "complete_ts": 10 * number + 5}
    op = {"op_id": number, "process_id": 0, **times, "op_type": op_type, **fields}
    return dict(msgspec.to_builtins(Op(**op)))


def ours(folder: Path, *rows: Row, **header: Any) -> Path:
    return put(folder, written([{"schema": "dstest.history/1", **header}, *rows]))


def renamed(row: Row, field: str, other: str, value: Any) -> Row:
    return {**{k: v for k, v in row.items() if k != field}, other: value}


def jepsen(folder: Path, *events: Row, name: str = "h.json") -> Path:
    return put(folder, "".join(json.dumps(event) + "\n" for event in events), name)


def event(process: Any, kind: str, f: str, value: Any = None, **more: Any) -> Row:
    return {"process": process, "type": kind, "f": f, "value": value, **more}


def txn(number: int, *mops: list[Any], **more: Any) -> Row:
    asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
    return record(number, "txn", input=asked, output=[list(mop) for mop in mops], **more)


REGISTER = (record(0, "write", key="x", input=1), record(1, "read", key="x", output=1))
TXNS = (txn(0, ["append", 1, 1]), txn(1, ["r", 1, [1]]))


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("output", "value"), ("output", "val"), ("output", "out"), ("output", "result"),
        ("key", "obj"), ("error", "err"), ("node_seen", "node"), ("input", "Input"),
        ("timeout_marker", "timed_out"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("workload", ["cas-register", "list-append"])
def test_a_field_of_another_name_is_refused(
    tmp_path: Path, workload: str, field: str, other: str
) -> None:
    rows = list(REGISTER if workload == "cas-register" else TXNS)
    assert check(ours(tmp_path, *rows, workload=workload))[0] == 0
    for beside in (False, True):
        odd = {**rows[1], other: 77} if beside else renamed(rows[1], field, other, 77)
        code, said = check(ours(tmp_path, rows[0], odd, workload=workload))
        assert code == 2
        assert other in said
        assert "line 3" in said


@pytest.mark.parametrize("workload", ["cas-register", "list-append"])
def test_documented_extensions_are_read(tmp_path: Path, workload: str) -> None:
    rows = REGISTER if workload == "cas-register" else TXNS
    more = {"retry_of": 0, "fault_epochs": ["f1"], "error_ts": 7, "idx": 3}
    code, said = check(ours(tmp_path, *({**row, **more} for row in rows), workload=workload))
    assert code == 0, said


@pytest.mark.parametrize("field", ["complete_ts", "input", "output", "error", "timeout_marker"])
@pytest.mark.parametrize("workload", ["cas-register", "list-append", "unique-ids", "queue"])
def test_a_record_that_lacks_a_field_is_never_clean(
    tmp_path: Path, workload: str, field: str
) -> None:
    rows: dict[str, list[Row]] = {
        "cas-register": list(REGISTER),
        "list-append": list(TXNS),
        "unique-ids": [record(0, "generate", output=1), record(1, "generate", output=2)],
        "queue": [record(0, "enqueue", input=1), record(1, "dequeue", output=1),
                  record(2, "dequeue")],
    }  # fmt: skip
    made = rows[workload]
    made[-1] = {k: v for k, v in made[-1].items() if k != field}
    code, said = check(ours(tmp_path, *made, workload=workload))
    assert code in {2, 3}, said


def test_a_violation_without_a_field_is_one(tmp_path: Path) -> None:
    bad = record(1, "read", key="x", output=9)
    del bad["error"]
    assert check(ours(tmp_path, REGISTER[0], bad, workload="cas-register"))[0] == 1
