"""What `dstest check --report` draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from made_moments import op
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.registry import load
from dstest.history.jsonl import write_history
from dstest.report.timeline import CYCLES_DRAWN_MAX, MEMBERS_MAX, TIMELINES_MAX, witness_files


def result(*anomalies: Anomaly) -> CheckResult:
    empty = History(header=Header(), ops=[op(1, 1.0)])
    made: CheckResult = load("checkers", "set").check(empty, "eventual", Budget())
    groups: dict[str, list[Anomaly]] = {}
    for one in anomalies:
        groups.setdefault(one.type, []).append(one)
    return msgspec.structs.replace(made, anomalies=groups)


def witness(*ops: Op) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(one) for one in ops]


def cycle(members: int, **more: Any) -> Anomaly:
    rows = [
        {**row, **more, "edge": {"to": (n + 1) % members, "reason": "ww"}}
        for n, row in enumerate(witness(*(op(n, n, "txn", input=[]) for n in range(members))))
    ]
    return Anomaly(type="G0", ops=[*range(members)], witness=rows)


def test_what_was_lost_is_drawn(tmp_path: Path) -> None:
    ops = [op(1, 1.0, "add", input=5), op(2, 2.0, "read", output=[])]
    header = Header(workload="set", model="set")
    write_history(tmp_path / "h.jsonl", History(header=header, ops=ops))
    asked = ["check", str(tmp_path / "h.jsonl"), "--checker", "set", "--report"]
    done = CliRunner().invoke(app, [*asked, str(tmp_path / "out")])
    assert done.exit_code == 1, done.output
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "result.json", "witness.txt", "witness-0.svg",
    }  # fmt: skip
    assert "add 5" in (tmp_path / "out" / "witness-0.svg").read_text()


def test_every_kind_of_anomaly_is_drawn_and_no_more_than_anyone_looks_at() -> None:
    two = [Anomaly(type=kind, witness=witness(op(1, 1.0))) for kind in ("lost", "overlap")]
    assert [*witness_files(result(*two))] == ["witness-0.svg", "witness-1.svg"]
    assert len(witness_files(result(*two * TIMELINES_MAX))) == TIMELINES_MAX
    assert len(witness_files(result(*[cycle(2)] * 2 * CYCLES_DRAWN_MAX))) == CYCLES_DRAWN_MAX


def test_a_loop_brings_its_style_and_one_that_is_too_long_is_drawn_in_rows() -> None:
    files = witness_files(result(cycle(3), cycle(MEMBERS_MAX + 1)))
    assert [*files] == ["cycle-0.svg", "witness-0.svg"]
    root = ET.fromstring(files["cycle-0.svg"])
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None
    assert "var(" not in str(style.text)
    assert "T12" not in files["cycle-0.svg"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"value": 5, "seen": ["a", "b"]}],
        [{**witness(op(1, 1.0))[0], "invoke_event": 3}],
        [{**witness(op(1, 1.0))[0], "invoke_ts": None}],
        [*witness(op(1, 1.0)), {"note": "no operation"}],
    ],
)
def test_what_is_no_operation_with_times_is_not_drawn(rows: list[dict[str, Any]]) -> None:
    assert witness_files(result(Anomaly(type="lost", witness=rows))) == {}
