"""What clients have done, by member: however many endpoints a member has."""

from __future__ import annotations

from typing import Any

from dstest.runner.load import LoadTraffic


class Board:
    def by_node(self) -> list[dict[str, int]]:
        none = {"ok": 0, "fail": 0, "elsewhere": 0}
        return [{"ok": 10, "fail": 1, "elsewhere": 4}, none, {"ok": 7, "fail": 0, "elsewhere": 0}]


def test_endpoints_of_one_node_are_added_and_a_member_without_one_has_zeros() -> None:
    board: Any = Board()
    traffic = LoadTraffic(board, ["n1", "n2", "n1"], ["n1", "n2", "n3"])
    none = {"ok": 0, "fail": 0, "elsewhere": 0}
    counted = {"ok": 17, "fail": 1, "elsewhere": 4}
    assert traffic.by_node() == {"n1": counted, "n2": none, "n3": none}
    assert traffic.total() == {**counted, "ok": 21}
