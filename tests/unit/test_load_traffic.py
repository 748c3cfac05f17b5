"""What clients have done, by member: however many endpoints a member has."""

from __future__ import annotations

from typing import Any

from dstest.runner.load import LoadTraffic


class Board:
    def by_node(self) -> list[dict[str, int]]:
        return [{"ok": 10, "fail": 1}, {"ok": 0, "fail": 0}, {"ok": 7, "fail": 0}]


def test_endpoints_of_one_node_are_added_and_a_member_without_one_has_zeros() -> None:
    board: Any = Board()
    traffic = LoadTraffic(board, ["n1", "n2", "n1"], ["n1", "n2", "n3"])
    assert traffic.by_node() == {
        "n1": {"ok": 17, "fail": 1},
        "n2": {"ok": 0, "fail": 0},
        "n3": {"ok": 0, "fail": 0},
    }
    assert traffic.total() == {"ok": 17, "fail": 1}
