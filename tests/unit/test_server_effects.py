"""The servers' word against the clients': what is joined, what is resolved, what disagrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusters.systems.toykv.system import EFFECTS
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.judge.server_journal import Answer, effects_of, judge_effects

NODES = ("n1", "n2", "n3")


def _line(index: int, op: str, key: str, value: Any, result: Any = None, **more: Any) -> str:
    answer: dict[str, Any] = {"no": "not-held"} if more.pop("no", False) else {"ok": result}
    if more.pop("again", False):
        answer["again"] = True
    row = {"index": index, "term": 1, "stamp_ns": index, "replayed": False, "op": op, "key": key}
    return json.dumps({**row, "value": value, "result": answer, "id": None, **more})


def _op(number: int, kind: str, key: str, given: Any, output: Any = None, end: str = "ok") -> Op:
    return Op(
        op_id=number,
        process_id=number,
        invoke_ts=number * 10,
        complete_ts=None if end == "unknown" else number * 10 + 5,
        op_type=kind,
        key=key,
        input=given,
        output=output,
        error=None if end == "ok" else end,
        timeout_marker=end == "unknown",
        node_seen="n1",
    )


LINES = [
    _line(1, "config", "", None),
    _line(2, "write", "x", 1, 2),
    _line(3, "cas", "x", [1, 2], True),
    _line(4, "add", "s", 7),
    _line(5, "enqueue", "q", 5),
    _line(6, "dequeue", "q", None, 5),
]
OPS = [
    _op(1, "write", "x", 1),
    _op(2, "cas", "x", [1, 2], True),
    _op(3, "add", "s", 7),
    _op(4, "enqueue", "q", 5),
    _op(5, "dequeue", "q", None, 5),
    _op(6, "read", "x", None, 2),
]


def _answer(
    folder: Path, lines: list[str] | dict[str, list[str]], ops: list[Op] | None = None
) -> Answer:
    by_node = lines if isinstance(lines, dict) else dict.fromkeys(NODES, lines)
    for name, rows in by_node.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / EFFECTS.file).write_text("".join(f"{row}\n" for row in rows))
    effects = effects_of(folder, NODES, EFFECTS)
    assert effects is not None
    return judge_effects(
        History(header=Header(), ops=OPS if ops is None else ops), effects, EFFECTS
    )


def _kinds(answer: Answer) -> list[str]:
    return [] if answer.violation is None else answer.violation.anomaly_types


def test_what_agrees(tmp_path: Path) -> None:
    answer = _answer(tmp_path, LINES)
    assert answer.violation is None
    assert (answer.whole, answer.pairing.operations, answer.pairing.effects) == (True, 5, 5)
    assert (answer.replay.effects, answer.replay.keys) == (5, 3)


def test_no_file_is_no_word(tmp_path: Path) -> None:
    assert effects_of(tmp_path, NODES, EFFECTS) is None


@pytest.mark.parametrize(
    ("kind", "lines", "ops"),
    [
        ("acknowledged-without-effect", [*LINES[:3], _line(4, "noop", "", None), *LINES[4:]], OPS),
        ("failed-but-applied", LINES, [*OPS[:2], _op(3, "add", "s", 7, end="busy"), *OPS[3:]]),
        ("applied-twice", [*LINES, _line(7, "add", "s", 7)], OPS),
        ("effect-without-request", [*LINES, _line(7, "add", "s", 8)], OPS),
        (
            "not-what-a-replay-gives",
            [*LINES[:2], _line(3, "cas", "x", [1, 2], False), *LINES[3:]],
            OPS,
        ),
        ("not-what-a-replay-gives", [*LINES[:5], _line(6, "dequeue", "q", None, 9)], OPS),
    ],
)
def test_what_does_not_agree(kind: str, lines: list[str], ops: list[Op], tmp_path: Path) -> None:
    answer = _answer(tmp_path, lines, ops)
    assert _kinds(answer) == [kind]
    assert answer.violation is not None
    assert answer.violation.anomalies[kind][0].explanation


def test_members_that_did_different_things(tmp_path: Path) -> None:
    other = [*LINES[:3], _line(4, "add", "s", 8), *LINES[4:]]
    answer = _answer(tmp_path, {"n1": LINES, "n2": LINES, "n3": other})
    assert _kinds(answer) == ["applied-differently"]
    replayed = [_line(2, "write", "x", 1, 2, replayed=True), *LINES[2:]]
    assert _kinds(_answer(tmp_path, {"n1": LINES, "n2": LINES, "n3": replayed})) == []


def test_where_a_place_is_missing_nothing_is_lost_for_certain(tmp_path: Path) -> None:
    lines = [*LINES[:3], *LINES[4:]]
    answer = _answer(tmp_path, lines)
    assert (answer.whole, _kinds(answer)) == (False, [])
    assert "1 places between 1 and 6 are in no file" in answer.torn[0]
    some = {"n1": lines, "n2": LINES[:4], "n3": []}
    assert _answer(tmp_path, some).whole


def test_a_line_that_nobody_can_read_is_said(tmp_path: Path) -> None:
    for line in ("{", '{"index":1,"op":"write","result":null}', '{"index":1e999}', "7"):
        answer = _answer(tmp_path, [*LINES, line])
        assert (answer.whole, _kinds(answer)) == (True, [])
        assert "n1, line 7" in answer.damaged[0]


def test_a_torn_line_of_one_member_hides_nothing(tmp_path: Path) -> None:
    lines = [*LINES[:3], _line(4, "noop", "", None), *LINES[4:]]
    torn = [*lines[:4], lines[4] + lines[5]]
    answer = _answer(tmp_path, {"n1": torn, "n2": lines, "n3": lines})
    assert answer.whole
    assert _kinds(answer) == ["acknowledged-without-effect"]


def test_what_ends_before_the_history_proves_nothing_of_its_end(tmp_path: Path) -> None:
    for cut in range(1, len(LINES)):
        assert _kinds(_answer(tmp_path, LINES[:cut])) == []


def test_unknown_operations_are_resolved(tmp_path: Path) -> None:
    ops = [*OPS[:2], _op(3, "add", "s", 7, end="unknown"), _op(7, "add", "s", 9, end="unknown")]
    answer = _answer(tmp_path, LINES[:4], ops)
    assert _kinds(answer) == []
    assert (answer.pairing.happened, answer.pairing.not_happened) == (1, 1)


def test_a_request_that_was_known_is_no_second_effect(tmp_path: Path) -> None:
    paid = {"id": "x/p1", "key": "x"}
    lines = [
        _line(1, "credit", "x", 3, True, id="x/p1"),
        _line(2, "credit", "x", 3, True, id="x/p1", again=True),
    ]
    ops = [_op(n, "credit", "x", {"id": "p1", "amount": 3}, True) for n in (1, 2)]
    assert _kinds(_answer(tmp_path, lines, ops)) == []
    twice = [lines[0], _line(2, "credit", "x", 3, True, id=paid["id"])]
    assert _kinds(_answer(tmp_path, twice, ops)) == ["applied-twice"]


def test_what_was_refused_on_both_sides(tmp_path: Path) -> None:
    lines = [_line(1, "transfer", "b", {"from": 1}, no=True)]
    ops = [_op(1, "transfer", "b", {"from": 1}, end="malformed")]
    assert _kinds(_answer(tmp_path, lines, ops)) == []
