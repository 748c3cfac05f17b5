"""What etcd's members say that they have applied: read from their watches, held against clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from clusters.systems.etcd.effects import EtcdEffects, applied
from clusters.systems.etcd.wire import message
from dstest.core.errors import LabError
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import END
from dstest.judge.server_journal import Answer, effects_of, judge_effects

LOG = EtcdEffects()
NODES = ("n1", "n2", "n3")


def put(revision: int, path: str, value: Any) -> dict[str, Any]:
    return {"rev": revision, "key": f"/dstest/{path}", "value": json.dumps(value)}


def op(number: int, kind: str, key: str, given: Any, output: Any = None, end: str = "ok") -> Op:
    return Op(
        op_id=number, process_id=number, invoke_ts=number * 10,
        complete_ts=None if end == "unknown" else number * 10 + 5,
        op_type=kind, key=key, input=given, output=output, error=None if end == "ok" else end,
        timeout_marker=end == "unknown", node_seen="n1",
    )  # fmt: skip


ROWS = [put(2, "x", 1), put(3, "x", 2), put(4, "y", 5), put(5, "y", 6)]
OPS = [
    op(1, "write", "x", 1),
    op(2, "cas", "x", [1, 2], True),
    op(3, "cas", "x", [7, 8], False),
    op(4, "write", "y", 5, end="unknown"),
    op(5, "read", "x", None, 2),
    op(6, "write", "y", 6),
]


def judged(
    folder: Path,
    rows: list[dict[str, Any]] | dict[str, list[dict[str, Any]]],
    ops: list[Op] = OPS,
    workload: str = "cas-register",
    ended: bool = True,
) -> Answer:
    by_node = rows if isinstance(rows, dict) else dict.fromkeys(NODES, rows)
    for name, lines in by_node.items():
        (folder / name).mkdir(parents=True)
        text = "".join(f"{json.dumps(row)}\n" for row in lines)
        (folder / name / LOG.file).write_text(text + (END.decode() if ended else ""))
    effects = effects_of(folder, NODES, LOG)
    assert effects is not None
    return judge_effects(History(header=Header(workload=workload), ops=ops), effects, LOG)


def kinds(answer: Answer) -> list[str]:
    return [] if answer.violation is None else answer.violation.anomaly_types


def test_what_agrees(tmp_path: Path) -> None:
    answer = judged(tmp_path, ROWS)
    assert (kinds(answer), answer.whole) == ([], True)
    assert (answer.pairing.operations, answer.pairing.happened) == (5, 1)


WRONG = {
    "acknowledged-without-effect": [ROWS[0], put(3, "z", 9), *ROWS[2:]],
    "effect-without-request": [*ROWS, put(6, "x", 99)],
    "applied-twice": [*ROWS, put(6, "x", 2)],
    "failed-but-applied": [*ROWS, put(6, "x", 8)],
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_disagrees(kind: str, tmp_path: Path) -> None:
    """A compare-and-set that was answered with false and applied all the same has failed."""
    assert kind in kinds(judged(tmp_path, WRONG[kind]))


def test_members_that_disagree(tmp_path: Path) -> None:
    """As those of etcd 3.5.0 to 3.5.2 after a crash: different values at one revision."""
    rows = {"n1": ROWS, "n2": [*ROWS[:3], put(5, "y", 4)], "n3": ROWS}
    assert kinds(judged(tmp_path, rows)) == ["applied-differently"]


HOLES = {
    "a place that one lacks": [*ROWS[:1], *ROWS[2:]],
    "another deletion": [*ROWS[:2], {"rev": 4, "changes": [[1, "/dstest/y", ""]]}, ROWS[3]],
}


@pytest.mark.parametrize("name", HOLES)
def test_members_of_which_one_lacks_something(name: str, tmp_path: Path) -> None:
    assert kinds(judged(tmp_path, {"n1": ROWS, "n2": HOLES[name]})) == ["applied-differently"]


def test_members_that_delete_otherwise(tmp_path: Path) -> None:
    rows = [[*ROWS, {"rev": 6, "changes": [[1, f"/dstest/{key}", ""]]}] for key in "xy"]
    assert kinds(judged(tmp_path, dict(zip(NODES, rows, strict=False)))) == ["applied-differently"]


def test_what_is_lost_at_the_very_end_is_told_where_all_have_told_all(tmp_path: Path) -> None:
    """Whether or not there are values that are written once."""
    late = [*OPS, op(7, "write", "x", 1)]
    answer = judged(tmp_path / "all", ROWS, late)
    assert kinds(answer) == ["acknowledged-without-effect"]
    answer = judged(tmp_path / "cut", ROWS, late, ended=False)
    assert kinds(answer) == [] and not answer.whole and len(answer.damaged) == 3


def test_what_was_compacted_proves_nothing(tmp_path: Path) -> None:
    answer = judged(tmp_path, [*ROWS[2:], put(6, "x", 99)])
    assert not answer.whole and kinds(answer) == ["effect-without-request"]


def test_what_nobody_asked_for_and_what_several_keys_do(tmp_path: Path) -> None:
    foreign = {"rev": 9, "key": "other", "value": "no JSON"}
    several = {"rev": 7, "changes": [[0, "a", "1"], [0, "b", "2"]]}
    more = [put(6, "bit-flip", "text"), several, put(8, "lock/a", 1), foreign]
    answer = judged(tmp_path, [*ROWS, *more])
    assert kinds(answer) == [] and answer.whole


@pytest.mark.parametrize(
    ("workload", "path", "one"),
    [
        ("set", "set/s/7", op(1, "add", "s", 7)),
        ("watch", "watch/k/a", op(1, "write", "a", 7, {"revision": 2})),
    ],
)
def test_other_workloads(workload: str, path: str, one: Op, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    assert kinds(judged(tmp_path / "good", [put(2, path, 7)], [one], workload)) == []
    for name, rows in (("twice", 2), ("none", 0)):
        (tmp_path / name).mkdir()
        again = [op(2, one.op_type, str(one.key), 8)]
        lines = [put(2 + n, path, 7) for n in range(rows)]
        lines.append(put(2 + rows, path.replace("7", "8"), 8))
        wrong = {"twice": "applied-twice", "none": "acknowledged-without-effect"}
        assert kinds(judged(tmp_path / name, lines, [one, *again], workload)) == [wrong[name]]


def test_a_workload_that_is_not_told_apart_is_not_judged(tmp_path: Path) -> None:
    answer = judged(tmp_path, ROWS, [op(1, "add", "c", 1)], "counter")
    assert (kinds(answer), answer.pairing.operations) == ([], 0)


def response(*events: tuple[int, str, int], compacted: int = 0) -> Any:
    rows = [
        message("Event")(
            type=kind,
            kv=message("KeyValue")(key=f"/dstest/{key}".encode(), value=b"1", mod_revision=at),
        )
        for at, key, kind in events
    ]
    return message("WatchResponse")(
        events=rows, canceled=bool(compacted), compact_revision=compacted
    )


class Member:
    """A member whose watch tells these responses, as etcd's does."""

    def __init__(self, head: int, *told: Any) -> None:
        self.head, self.told, self.asked = head, [*told], list[int]()
        self.cancelled = False

    async def range(self, request: Any) -> Any:
        header = message("ResponseHeader")(revision=self.head)
        return message("RangeResponse")(header=header)

    def watch(self) -> Any:
        return self

    async def write(self, request: Any) -> None:
        self.asked.append(request.create_request.start_revision)

    async def read(self) -> Any:
        if not self.told:
            await asyncio.sleep(60)
        return self.told.pop(0)

    def cancel(self) -> None:
        self.cancelled = True


async def lines_of(member: Any) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in applied(member, 0.05)]


def test_a_member_tells_all_up_to_its_newest_revision() -> None:
    more = response((3, "a", 0), (3, "b", 0), (4, "a", 1), (5, "c", 0))
    member = Member(5, response(), response((2, "a", 0)), more)
    found = asyncio.run(lines_of(member))
    assert [row["rev"] for row in found] == [2, 3, 4, 5] and member.cancelled
    assert [len(row.get("changes", [])) for row in found] == [0, 2, 1, 0]
    assert asyncio.run(lines_of(Member(1))) == [], "nothing was ever written"


def test_of_a_store_that_was_compacted_it_tells_the_rest() -> None:
    member = Member(8, response(compacted=7), response((7, "a", 0), (8, "a", 0)))
    assert [row["rev"] for row in asyncio.run(lines_of(member))] == [7, 8]
    assert member.asked == [2, 7]
    gone = Member(8, response(compacted=8))
    assert asyncio.run(lines_of(gone)) == [], "its newest change is a deletion that is gone"


@pytest.mark.parametrize("told", [[], [grpc.aio.EOF], [response((2, "a", 0))]])
def test_one_that_does_not_come_to_its_end_is_told(told: list[Any]) -> None:
    with pytest.raises(LabError, match="revision"):
        asyncio.run(lines_of(Member(3, *told)))
