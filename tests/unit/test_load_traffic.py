"""What clients have done, by member: however many endpoints a member has."""

from __future__ import annotations

from typing import Any

from dstest.runner.load import KINDS, LoadTraffic


def row(ok: int = 0, fail: int = 0, ok_elsewhere: int = 0, fail_elsewhere: int = 0) -> Any:
    own = {"invoked": ok + fail + ok_elsewhere + fail_elsewhere, "ok": ok, "fail": fail}
    there = {"ok_elsewhere": ok_elsewhere, "fail_elsewhere": fail_elsewhere}
    return {**own, "unknown": 0, **there, "unknown_elsewhere": 0}


class Board:
    def by_node(self) -> list[dict[str, int]]:
        return [row(10, 1, 4, 2), row(), row(7)]


def test_endpoints_of_one_node_are_added_and_a_member_without_one_has_zeros() -> None:
    board: Any = Board()
    traffic = LoadTraffic(board, ["n1", "n2", "n1"], ["n1", "n2", "n3"])
    assert traffic.by_node() == {"n1": row(17, 1, 4, 2), "n2": row(), "n3": row()}
    none = dict.fromkeys(KINDS, 0)
    every = {"invoked": 24, "ok": 21, "fail": 3, "unknown": 0}
    assert traffic.counted() == {"n1": every, "n2": none, "n3": none}
    assert traffic.total() == every
