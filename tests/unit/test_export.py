"""What is exported is what is imported: the same outcomes, the same judgement."""

from __future__ import annotations

from pathlib import Path

import pytest

from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.export import edn, export_lines
from dstest.history.importers import load_history


def op(i: int, **fields: object) -> Op:
    base = {"op_id": i, "process_id": i, "invoke_ts": 10 * i, "complete_ts": 10 * i + 5}
    return Op(**{**base, "op_type": "read", "key": "k", **fields})  # type: ignore[arg-type]


HISTORY = History(
    header=Header(workload="cas-register"),
    ops=[
        op(1, op_type="write", input=3),
        op(2, output=3),
        op(3, op_type="cas", input=[3, 4], output=True),
        op(4, op_type="write", input=5, complete_ts=None, timeout_marker=True, error="timeout"),
        op(5, op_type="write", input=6, error="not-connected"),
        op(6, output=None),
    ],
)


@pytest.mark.parametrize("fmt", ["edn", "json"])
def test_round_trip(tmp_path: Path, fmt: str) -> None:
    path = tmp_path / f"history.{fmt}"
    path.write_text("\n".join(export_lines(HISTORY, fmt, keyed=False)) + "\n")
    again = load_history(path)
    assert [o.outcome for o in again.ops] == [o.outcome for o in HISTORY.ops]
    assert [o.op_type for o in again.ops] == [o.op_type for o in HISTORY.ops]
    assert [o.input for o in again.ops] == [o.input for o in HISTORY.ops]
    assert again.ops[1].output == 3


def test_edn_text() -> None:
    assert edn([1, None, True, 'a"b', {"k": 2.5}]) == '[1 nil true "a\\"b" {"k" 2.5}]'
    txn = History(
        header=Header(),
        ops=[op(1, op_type="txn", key=None, input=[["append", 1, 2], ["r", 1, None]],
                output=[["append", 1, 2], ["r", 1, [2]]])],
    )  # fmt: skip
    lines = list(export_lines(txn, "edn", keyed=False))
    told = ":type :ok, :process 1, :f :txn, :value [[:append 1 2] [:r 1 [2]]]"
    assert f"{told}, :dstest " in lines[1]


def test_keys_become_tuples() -> None:
    first = next(iter(export_lines(HISTORY, "edn", keyed=True)))
    assert ':value ["k" 3]' in first
