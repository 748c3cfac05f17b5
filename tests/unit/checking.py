"""`dstest check` in the process of the test, and histories to give to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.generator.true_histories import history

NEVER_CLEAN = {1, 2, 3}
REFUSED = {2}
UNSURE = {2, 3}


def check(path: Path | str, *options: str) -> tuple[int, str]:
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


def ours(kind: str = "bank", count: int = 200, **header: Any) -> list[dict[str, Any]]:
    """A true history as plain lines, the header first; its workload is what its checker judges."""
    made = history(kind, 7, count)
    outcomes = [str(op.outcome) for op in made.ops]
    counters = {
        "issued": len(outcomes),
        **{k: outcomes.count(k) for k in ("ok", "fail", "unknown")},
    }
    facts = {**msgspec.to_builtins(made.header), "counters": counters, **header}
    return [facts, *(msgspec.to_builtins(op) for op in made.ops)]


def generated(workload: str = "list-append", **spec: Any) -> list[dict[str, Any]]:
    made = Spec(workload=workload, **{"txns": 120, "info_share": 0.05, "seed": 3, **spec})
    return [json.loads(line) for line in lines(events(made), made, "jsonl")]


def written(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


KIND_OF = {"bank": "bank", "list-append": None, "total-queue": "queue", "set-full": "set"}


def text_of(kind: str) -> bytes:
    workload = KIND_OF[kind]
    return written(generated(kind) if workload is None else ours(kind, workload=workload))
