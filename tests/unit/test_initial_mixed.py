"""Initial states where operations of several kinds, or of several tools, meet."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from checkers.lin import maps, objects
from checkers.lin.model import KvMap
from checkers.linearizable import CHECKER
from checkers.txn.api import check
from checkers.txn.sessions.formats import load_sessions
from dstest.core.check import Budget
from dstest.core.errors import HistoryError
from dstest.core.history import Header, History
from dstest.core.op import Op


def done(number: int, op_type: str, key: Any, asked: Any, told: Any, process: int = 0) -> Op:
    return Op(
        op_id=number, process_id=process, invoke_ts=10 * number, complete_ts=10 * number + 5,
        op_type=op_type, key=key, input=asked, output=told,
    )  # fmt: skip


def test_a_set_read_as_a_whole_beside_one_of_elements() -> None:
    ops = [done(0, "read", "a", None, [9]), done(1, "contains", "b", 1, True)]
    header = Header(options={"initial": {"a": [9], "b": [1, 2]}})
    assert CHECKER.check(History(header=header, ops=ops), "set", Budget()).valid is True
    ops[1] = done(1, "contains", "b", 3, True)
    assert CHECKER.check(History(header=header, ops=ops), "set", Budget()).valid is False


def _random_map(dice: random.Random) -> list[Op]:
    held, ops = {"a": "", "b": ""}, []
    for number in range(dice.randint(3, 12)):
        key, what = dice.choice("ab"), dice.choice(["get", "get", "put", "append"])
        asked = dice.choice("xyz") if what != "get" else None
        if asked is not None:
            held[key] = asked if what == "put" else held[key] + asked
        told: str | None = held[key] if what == "get" else None
        if what == "get" and dice.random() < 0.1:
            told = dice.choice(["", "x", "xy"])
        begun = 10 * number - dice.randint(0, 25)
        ops.append(
            Op(
                op_id=number,
                process_id=number,
                invoke_ts=begun,
                complete_ts=10 * number + 5,
                op_type=what,
                key=key,
                input=asked,
                output=told,
            )
        )  # fmt: skip
    return sorted(ops, key=lambda op: op.invoke_ts)


@pytest.mark.parametrize("block", range(3))
def test_maps_that_start_with_nothing_written(block: int) -> None:
    """Judged as registers, they are as the search for an order of all steps finds them."""
    seen = {True: 0, False: 0}
    for seed in range(block * 100, block * 100 + 100):
        history = History(header=Header(), ops=_random_map(random.Random(seed)))
        plain = objects.judge(KvMap().begun(""), history, Budget())
        judged = maps.judge_empty(history, Budget())
        assert (judged.illegal > 0) == (plain.illegal > 0), seed
        assert not judged.undecided
        seen[judged.illegal > 0] += 1
        recorded = {op.op_id: op for op in history.ops}
        for row in (row for anomaly in judged.anomalies for row in anomaly.witness):
            assert row["output"] == recorded[row["op_id"]].output
    assert min(seen.values()) > 5


def _valid(path: Path, fmt: str) -> Any:
    columns = load_sessions(path, fmt)
    return check(columns, "rw-register", ["strong-session-serializable"]).valid


def test_a_write_of_the_first_value_is_no_initial_transaction(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("w(1,5,0,0)\nw(1,0,1,1)\nr(1,5,2,2)\nr(1,0,2,3)\n")
    with pytest.raises(HistoryError, match="starts with it"):
        _valid(path, "plume")
    path.write_text("w(1,0,0,0)\nw(1,5,1,1)\nr(1,0,2,2)\nr(1,5,2,3)\n")
    assert _valid(path, "plume") is True
