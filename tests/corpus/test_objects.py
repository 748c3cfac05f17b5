"""Key-value logs as in Porcupine's tests; the names are the verdicts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import OWN, ROOTS

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op

KV = [path for root in ROOTS for path in sorted((root / "porcupine" / "kv").glob("*.txt"))]
LINE = re.compile(
    r'\{:process (\d+), :type :(\w+), :f :(\w+), :key "(.*)", :value (?:nil|"(.*)")\}'
)


def kv_history(path: Path) -> History:
    """Porcupine's map starts with empty strings, ours with null."""
    ops: list[Op] = []
    open_: dict[str, int] = {}
    for at, line in enumerate(path.read_text().splitlines()):
        match = LINE.fullmatch(line.strip())
        assert match, line
        process, kind, f, key, value = match.groups()
        if kind == "invoke":
            open_[process] = len(ops)
            asked = None if f == "get" else value
            ops.append(Op(op_id=len(ops), process_id=int(process), invoke_ts=at, op_type=f, key=key,
                          input=asked, timeout_marker=True))  # fmt: skip
        else:
            place = open_.pop(process)
            fields = {name: getattr(ops[place], name) for name in Op.__struct_fields__}
            told = (value or None) if f == "get" else None
            ops[place] = Op(**fields | {"complete_ts": at, "output": told, "timeout_marker": False})
    return History(header=Header(), ops=ops)


@pytest.mark.parametrize("path", KV, ids=[p.name for p in KV])
def test_key_value_log(path: Path) -> None:
    result = CHECKER.check(kv_history(path), "kv-map", Budget(time_s=60))
    assert result.valid is ("ok" in path.stem.split("-"))
    assert result.keys.decided == result.keys.total


def test_the_corpus_is_not_tiny() -> None:
    own = [path.stem.split("-")[1] for path in KV if path.is_relative_to(OWN)]
    assert own.count("ok") >= 4
    assert own.count("bad") >= 4
