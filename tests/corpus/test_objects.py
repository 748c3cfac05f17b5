"""Key-value logs of Porcupine's tests and Knossos' mutex history; the names are the verdicts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.store.importers import load_history

CORPORA = Path(
    os.environ.get("DSTEST_CORPORA") or Path(__file__).parents[2].parent / "shared" / "corpora"
)
KV = sorted((CORPORA / "porcupine" / "kv").glob("*.txt"))
MUTEX = CORPORA / "elle-cli" / "knossos" / "mutex" / "bad" / "etcd.edn"
LINE = re.compile(
    r'\{:process (\d+), :type :(\w+), :f :(\w+), :key "(.*)", :value (?:nil|"(.*)")\}'
)

if not KV:
    pytest.skip(f"no corpus at {CORPORA}; set DSTEST_CORPORA", allow_module_level=True)


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


@pytest.mark.parametrize("path", KV, ids=lambda p: p.name)
def test_key_value_log(path: Path) -> None:
    result = CHECKER.check(kv_history(path), "kv-map", Budget(time_s=60))
    assert result.valid is ("-ok" in path.name)
    assert result.keys.decided == result.keys.total


def test_mutex() -> None:
    result = CHECKER.check(load_history(MUTEX), "mutex", Budget())
    assert result.valid is False
    (anomaly,) = result.anomalies["nonlinearizable"]
    assert anomaly.minimal
    assert len(anomaly.ops) == 2
