"""What the page says of a run: where an anomaly lies among the faults, what it means, when nothing
was served, what it leaves out."""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from made_meta import meta
from made_moments import failing, fault, never, op, views
from made_report import HOSTILE, S, record, report

from checkers.kafka import _NAMES as KAFKA
from checkers.sessions import GUARANTEES
from checkers.txn.models import ANOMALIES, PROSCRIBES
from checkers.watch import _NAMES as WATCH
from dstest.core import registry
from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import Rerun
from dstest.core.op import Op
from dstest.core.protocols import Checker
from dstest.judge.audit_rows import CRASHES
from dstest.report import columns, html
from dstest.report.charts import Axis, axis_of, charts, ticks
from dstest.report.columns import packed
from dstest.report.html import render_html
from dstest.report.logs import LINES_MAX, around, read_logs, recorded_changes, spoken
from dstest.report.meanings import meaning_of, table_meaning
from dstest.report.moments import arms_of, headline, moments, often
from dstest.report.places import read_wrongly
from dstest.report.service import stretches
from dstest.report.timeline import full_label, loop_svg, timeline_svg

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


# ---- anomalies among faults


@pytest.mark.parametrize(
    ("at_s", "said"),
    [
        (5.0, "inside fault window f1 (partition one, in on n1)"),
        (12.1, "outside every fault: 3.1 s after f1 (partition) was healed and 7.9 s"),
        (1.0, "outside every fault: 3.0 s before f1 (partition) was injected"),
        (26.0, "outside every fault: 1.0 s after f2 (partition) was healed."),
    ],
)
def test_an_anomaly_is_placed_among_the_fault_windows(at_s: float, said: str) -> None:
    faults = [fault("f1", 4, 9), fault("f2", 20, 25)]
    (found,) = moments(failing(op(1, at_s), faults=faults), [])
    assert said in found.where
    assert bool(found.inside) is ("inside" in said)


def test_a_witness_that_began_inside_a_window_and_shows_outside_says_both() -> None:
    made = failing(op(1, 5, "write", input=1), op(2, 12, output=None), faults=[fault("f1", 4, 9)])
    (found,) = moments(made, [])
    assert "outside every fault: 3.0 s after f1 (partition) was healed" in found.where
    assert "Earlier operations of its witness ran inside fault window f1" in found.where
    assert [f.id for f in found.beside] == ["f1"]


def test_a_run_without_faults_and_a_fault_without_heal() -> None:
    none = moments(failing(op(1, 5), faults=[]), [])
    assert none[0].where == "No fault was injected in this run."
    planned = msgspec.structs.replace(failing(op(1, 5), faults=[]), faults=[never("f1")])
    assert "No fault was injected" in moments(planned, [])[0].where
    stands = [fault("f1", 4, None)]
    assert "inside fault window f1" in moments(failing(op(1, 500), faults=stands), [])[0].where


def test_the_operation_that_gave_it_away_is_the_one_that_the_explanation_names() -> None:
    ops = (op(41, 1, "write", input=3), op(42, 2, output=1), op(43, 3, "write", input=4))
    prose = failing(*ops, faults=[], text="read 42 saw 1, and it was 3 by then")
    assert moments(prose, [])[0].culprit == 43, "a number in prose is no name"
    assert moments(failing(*ops, faults=[], text="nothing"), [])[0].culprit == 43
    stuck = (
        "On key k no order explains it. There the register can hold: 3. Next completes read 1 "
        "(op 42, process 0): it needs the value 1. No other operation is running then."
    )
    found = moments(failing(*ops, faults=[], text=stuck), [])
    assert found[0].culprit == 42
    made = failing(*ops, faults=[], text=stuck)
    main, exact = headline(made, found)
    assert main.startswith("etcd 3.4.23 ")
    assert main.endswith(", on key k.")
    assert "“read → 1” at 2.01 s: it needs the value 1, and the register could only be 3." in exact


def test_an_anomaly_without_operations_is_shown_all_the_same() -> None:
    made = failing(op(1, 1), faults=[fault("f1", 0, 2)])
    anomaly = Anomaly(type="panic", explanation="n1: panic: out of range")
    result = msgspec.structs.replace(made.results["linearizable"], anomalies={"panic": [anomaly]})
    made = msgspec.structs.replace(made, results={"no-crash": result})
    text = render_html(made)
    assert "etcd 3.4.23 panicked." in text
    assert "The witness names no operation of this history." in text


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ([op(1, 1, "write", input=1), op(2, 2, "write", input=2), op(3, 3, output=1)], "stale"),
        ([op(1, 1, "write", input=1), op(3, 3, output=None)],
         "returned nothing after a write had been confirmed"),
        ([op(1, 1, "write", input=1), op(4, 2, output=1, complete_ts=int(9e9)),
          op(3, 3, output=None)], "(stale read)"),
        ([op(1, 1, "write", input=1), op(3, 3, output=None), op(4, 5, output=None)], "forgot"),
        ([op(1, 1, "write", input=None), op(2, 2, "write", input=1), op(3, 3, output=None)],
         "old value after a newer one had been confirmed"),
        ([op(1, 1, "write", input=1), op(2, 2, "write", input=2, error="no", timeout_marker=False),
          op(3, 3, output=2)], "had refused"),
        ([op(1, 1, "write", input=1), op(2, 2, "write", input=2), op(3, 3, output=1.0)], "stale"),
        ([op(1, 1, "write", input=1), op(2, 2, "write", input=2),
          op(4, 2.5, "write", input=1, error="no"), op(3, 3, output=1)], ""),
        ([op(1, 1, "write", input=1), op(3, 3, output=None), op(4, 5, output=1)], "(stale read)"),
        ([op(1, 1, "write", input=1), op(3, 3, output=None), op(4, 5, "write", input=2),
          op(5, 7, output=2)], "returned nothing after a write had been confirmed"),
        ([op(1, 1, "write", input=1), op(2, 1, "write", input=2), op(4, 3, output=2),
          op(3, 5, output=1)], "newer one had been read"),
        ([op(1, 1, "write", input=1), op(2, 1, "write", input=2, complete_ts=None),
          op(4, 3, output=2), op(3, 5, output=1)], "never confirmed"),
        ([op(1, 1, "write", input=1), op(2, 1, "write", input=2, complete_ts=None),
          op(4, 3, output=1), op(3, 5, output=1)], ""),
        ([op(1, 1, "write", input=1), op(3, 3, output=9)], "nobody had written"),
        ([op(3, 3, output=9), op(4, 4, "write", input=9)], "before anybody wrote it"),
        ([op(1, 1, "write", input=1), op(3, 3, output=1)], ""),
        ([op(1, 1, "cas", input=[1, 2]), op(3, 3, output=None)], ""),
        ([op(1, 1, "write", input=1, complete_ts=None), op(2, 2, "write", input=2),
          op(3, 3, output=1)], ""),
    ],
)  # fmt: skip
def test_how_a_read_was_wrong(ops: list[Op], said: str) -> None:
    found = read_wrongly(next(o for o in ops if o.op_id == 3), ops)
    assert said in found
    assert bool(found) is bool(said)


def test_of_many_anomalies_each_kind_comes_first_once() -> None:
    made = report(fail=True)
    one = made.results["linearizable"].anomalies["stale-read"][0]
    other = msgspec.structs.replace(one, type="lost")
    rows = {"stale-read": [one] * 5, "lost": [other] * 5}
    result = msgspec.structs.replace(made.results["linearizable"], anomalies=rows)
    found = moments(msgspec.structs.replace(made, results={"linearizable": result}), [])
    assert [m.anomaly.type for m in found[:3]] == ["stale-read", "lost", "stale-read"]
    assert [m.number for m in found] == list(range(1, 11))


# ---- what anomalies mean


def _constants(node: ast.AST) -> set[str]:
    """The texts that an expression may come to."""
    if isinstance(node, ast.IfExp):
        return _constants(node.body) | _constants(node.orelse)
    found = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return {node.value} if found else set()  # type: ignore[attr-defined]


def _named_by(node: ast.AST) -> set[str]:
    """What a node of the tree calls an anomaly."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        reports = node.func.attr in ("anomaly", "fault") and bool(node.args)
        return _constants(node.args[0]) if reports else set()
    if isinstance(node, ast.keyword) and node.arg == "type":
        return _constants(node.value)
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return set()
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        target, value = target.elts[0], value.elts[0]
    named = isinstance(target, ast.Name) and target.id == "kind"
    return _constants(value) if named else set()


def names_in_code() -> set[str]:
    """What checkers call anomalies: the first argument of `anomaly`, and what a `kind` can be."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "checkers").rglob("*.py")]
    found = {name for tree in trees for node in ast.walk(tree) for name in _named_by(node)}
    return {name for name in found if re.fullmatch(r"[A-Za-z0-9.-]+", name)}


NOT_ANOMALIES = {"history"}


def every_name() -> set[str]:
    tables = {*KAFKA.values(), *WATCH.values(), *GUARANTEES.values(), *ANOMALIES}
    tables |= {name for row in PROSCRIBES.values() for name in row.split()}
    effects = {"acknowledged-without-effect", "failed-but-applied", "applied-twice"}
    effects |= {"effect-without-request", "applied-differently", "not-what-a-replay-gives"}
    balances = {"missing-account", "unexpected-account", "nil-balance"}
    groups = {"unfair-latency", "failing-group", "unsteady-group"}
    return names_in_code() - NOT_ANOMALIES | tables | effects | balances | groups | CRASHES


def test_the_code_names_anomalies() -> None:
    some = {"lost", "phantom", "nonlinearizable", "wrong-total", "lost-increment"}
    assert some <= names_in_code()


@pytest.mark.parametrize("name", sorted(every_name()))
def test_every_anomaly_that_a_checker_can_give_has_its_meaning(name: str) -> None:
    found = table_meaning(name)
    assert found is not None, f"static/anomalies.toml says nothing of {name}"
    assert found.told
    assert found.means.endswith((".", ")"))
    assert len(found.means) > 60
    assert found.did[0].islower()
    assert not found.did.endswith(".")


def test_names_that_are_put_together() -> None:
    plain, timed = table_meaning("G2"), table_meaning("G2-item-realtime")
    assert plain is not None
    assert timed is not None
    assert timed.means.startswith(plain.means)
    assert "real time" in timed.means.lower()
    assert "single keys" in timed.means
    assert table_meaning("endings") is None
    assert table_meaning("never-heard-of") is None


def test_a_checker_of_ones_own_says_what_its_anomalies_mean(monkeypatch: Any) -> None:
    class Own(Checker):
        means = {"overdrawn": "Somebody spent what was not there."}

    monkeypatch.setattr(registry, "load", lambda group, name: Own())
    assert meaning_of("mine", "overdrawn").means == "Somebody spent what was not there."
    other = meaning_of("mine", "odd")
    assert not other.told
    assert "mine" in other.means


# ---- service


def busy(start_s: float, end_s: float, **changes: Any) -> list[Op]:
    n = int((end_s - start_s) * 20)
    return [op(int(start_s * 1000) + i, start_s + i / 20, **changes) for i in range(n)]


def test_a_stretch_without_service_is_named_with_the_fault_before_it() -> None:
    down = busy(11, 17, timeout_marker=True, complete_ts=None, error="timeout")
    ops = [*busy(0, 11), *down, *busy(17, 30)]
    (row,) = stretches(ops, [fault("f1", 4, 10.9)])
    assert row.said.startswith("No operation succeeded from 11.0 s to 17.0 s (6.0 s)")
    assert "it began 0.1 s after f1 (partition) was healed" in row.said
    assert "121 asked for meanwhile, of which 0 failed and 120 ended unknown" in row.said


def test_one_to_the_end_and_one_from_the_start() -> None:
    dead = {"error": "refused"}
    (last,) = stretches([*busy(0, 5), *busy(5, 9, **dead)], [fault("f1", 4.98, None)])
    assert "to the end of the load" in last.said
    assert last.open_end
    (first,) = stretches([*busy(0, 5, **dead), *busy(5, 9)], [])
    assert "from the start" in first.said
    (never,) = stretches(busy(0, 5, **dead), [])
    assert "from the start to the end of the load" in never.said


def test_what_nobody_asked_for_is_no_outage_and_nor_is_a_slow_load() -> None:
    assert stretches([*busy(0, 5), *busy(9, 12)], []) == []
    slow = [op(i, 3.0 * i) for i in range(30)]
    assert stretches(slow, []) == []
    assert stretches([], []) == []


def test_a_type_and_a_node_that_stand_still_while_the_others_work() -> None:
    ops = sorted(
        [
            *busy(0, 20),
            *busy(0, 5, op_type="write", node_seen="n2"),
            *busy(5, 12, op_type="write", node_seen=None, timeout_marker=True, complete_ts=None),
            *busy(12, 20, op_type="write", node_seen="n2"),
        ],
        key=lambda o: o.invoke_ts,
    )
    ops = [
        msgspec.structs.replace(o, op_id=n, process_id=1 if o.op_type == "write" else 0)
        for n, o in enumerate(ops)
    ]
    found = {row.what: row for row in stretches(ops, [])}
    assert set(found) == {"No write succeeded", "n2 answered nothing with success"}
    assert found["No write succeeded"].tried == found["n2 answered nothing with success"].tried


def at_nodes(*rows: list[Op]) -> list[Op]:
    ops = sorted((one for row in rows for one in row), key=lambda o: o.invoke_ts)
    return [msgspec.structs.replace(one, op_id=n) for n, one in enumerate(ops)]


def of_processes(ops: list[Op], first: int, count: int) -> list[Op]:
    return [msgspec.structs.replace(one, process_id=first + n % count) for n, one in enumerate(ops)]


@pytest.mark.parametrize(("asked", "told"), [(1, False), (4, True)])
def test_a_node_that_clients_left_is_no_outage_and_one_where_all_hang_is(
    asked: int, told: bool
) -> None:
    """After a change of the lead hardly anybody asks who led before."""
    other = of_processes(busy(0, 20, node_seen="n2"), 0, 4)
    led = of_processes(busy(0, 8, node_seen="n1"), 10, 4)
    hang = busy(8.1, 12, node_seen=None, timeout_marker=True, complete_ts=None)[:asked]
    found = stretches(at_nodes(other, led, of_processes(hang, 10, 4)), [])
    assert [row.what for row in found] == ["n1 answered nothing with success"] * told


# ---- leaders, logs, seeds


def test_changes_of_the_lead_come_from_the_records() -> None:
    moved = msgspec.structs.replace(
        record(0), facts={"leader_before": "n1", "new_leader": "n3", "new_term": 4}
    )
    step = {"leader": "n3", "new_leader": "n2", "new_term": 5, "moved": True}
    steps = [step, {"moved": False}, 7]
    rolling = msgspec.structs.replace(record(1), facts={"steps": steps})
    first, second = recorded_changes([rolling, moved, record(2)])
    assert (first.said, first.time_ns) == ("n1 → n3, term 4", record(0).landed_at)
    assert second.said.startswith("n3 → n2, term 5")
    page = render_html(msgspec.structs.replace(report(), records=[moved]))
    assert "n1 → n3, term 4" in page


def logged(path: Path, **logs: str) -> Any:
    for node, text in logs.items():
        (path / "nodes" / node).mkdir(parents=True)
        (path / "nodes" / node / "db.log").write_text(text)
    return meta(origin_ns=0, clock_start_ns=0)


def line(second: float, text: str) -> str:
    return f"1970-01-01T00:{int(second) // 60:02}:{second % 60:06.3f}Z {text}\n"


def test_lines_of_every_node_around_a_moment(tmp_path: Path) -> None:
    many = "".join(line(i / 10, f"tick {i}") for i in range(400))
    facts = logged(
        tmp_path,
        n1=many + line(18.5, "panic: out of range"),
        n2=line(3, "early") + line(4, "elected leader n2") + line(31, "later") + line(32, "end"),
        n3="no stamp at all\n",
        n4="",
    )
    logs = read_logs(tmp_path, facts)
    first, second, third, fourth = around(logs, 20 * S, 20 * S)
    assert len(first.lines) == LINES_MAX
    assert first.lines[0].alarm == "panic"
    assert all(18 * S <= found.time_ns <= 22 * S for found in first.lines)
    assert first.left_out == 41 + 1 - LINES_MAX
    assert [found.text[-5:] for found in second.lines] == ["early", "er n2", "later", "Z end"]
    assert second.why == "it says nothing then; its last lines before and the next ones are shown"
    assert "no line has a time stamp" in third.why
    assert "empty" in fourth.why
    assert [(at, node) for at, node, _ in spoken(logs)] == [(4 * S, "n2")]


def test_what_is_new_comes_before_what_is_said_again(tmp_path: Path) -> None:
    noise = "".join(line(20 + i / 100, f"heartbeat {i} to 0xa{i}f") for i in range(60))
    told = line(19.6, "lease 17 expired") + line(18.3, "elected leader n2")
    found = around(read_logs(tmp_path, logged(tmp_path, n1=told + noise)), 20 * S, 20 * S)
    texts = [one.text.partition("Z ")[2] for one in found[0].lines]
    assert texts[:2] == ["elected leader n2", "lease 17 expired"]
    assert len(texts) == LINES_MAX and texts[2] == "heartbeat 0 to 0xa0f"


def test_lines_of_no_weight_count_near_the_moment_alone(tmp_path: Path) -> None:
    told = line(18.5, "a peer connected") + line(19.8, "applied") + line(18.6, "level=warn slow")
    (found,) = around(read_logs(tmp_path, logged(tmp_path, n1=told)), 20 * S, 20 * S)
    texts = [one.text.partition("Z ")[2] for one in found.lines]
    assert texts == ["level=warn slow", "applied"] and found.left_out == 1


def test_json_is_its_level_and_message(tmp_path: Path) -> None:
    said = {
        "level": "warn",
        "ts": "1970-01-01T00:00:20.000Z",
        "caller": "a.go:1",
        "msg": "slow",
        "took": "2s",
    }
    facts = logged(tmp_path, n1=json.dumps(said) + "\n")
    (found,) = around(read_logs(tmp_path, facts), 20 * S, 20 * S)
    assert [one.text for one in found.lines] == ["warn: slow took=2s"]


def test_a_run_without_logs_says_so(tmp_path: Path) -> None:
    assert read_logs(tmp_path, meta()) == []
    assert "There are no logs beside this page" in render_html(report(fail=True))


def session(path: Path, kinds: list[list[str]]) -> Path:
    arms = []
    for n, found in enumerate(kinds):
        run = path / "arms" / f"a{n}" / "t"
        run.mkdir(parents=True)
        row = {"valid": not found, "anomaly_types": found}
        (run / "verdict.json").write_text(json.dumps({"checkers": {"c": row}}))
        arms.append(
            {"id": f"a{n}", "seed": n, "nodes": 3, "done": True, "attempts": [f"arms/a{n}/t"]}
        )
    (path / "session.json").write_text(json.dumps({"arms": arms}))
    return path / "arms" / "a0" / "t"


def test_how_often_over_the_seeds_of_a_session(tmp_path: Path) -> None:
    run = session(tmp_path, [["lost"], [], ["lost", "stale"]])
    result = CheckResult(checker="c", valid=False, stats={"anomalies": {"lost": 40}})
    said = " ".join(often("c", "lost", result, Rerun(), arms_of(run)))
    assert "In this run: 40 times" in said
    assert "Over the 3 judged arms" in said
    assert "in 2 (a0, a2)." in said
    assert arms_of(tmp_path / "elsewhere" / "x" / "y") == []
    (tmp_path / "session.json").write_text("{")
    assert arms_of(run) == []
    again = often("c", "lost", result, Rerun(same_seed_runs=3, reproduced=2), [])
    assert "2 of 3 showed" in " ".join(again)


# ---- charts


def test_all_charts_have_one_axis_and_windows_at_the_same_places() -> None:
    made = report(fail=True)
    axis = axis_of(made)
    drawn, left = charts(made, axis, [])
    assert left == ""
    bands = [
        tuple(re.findall(r'<rect class="band" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', c.svg))
        for c in drawn
    ]
    assert len(set(bands)) == 1
    assert len(bands[0]) == 2
    assert len({re.search(r'viewBox="0 0 (\d+) ', c.svg)[1] for c in drawn}) == 1  # type: ignore[index]
    assert [c.title for c in drawn] == [
        "Faults and outages",
        "read: operations per second", "write: operations per second",
        "read: latency of those that succeeded, ms", "write: latency of those that succeeded, ms",
    ]  # fmt: skip
    for said in ("ok", "failed", "unknown", "p50", "p95", "p99", "max"):
        assert any(f">{said}" in c.svg for c in drawn)


def test_a_fault_that_is_not_proven_is_drawn_otherwise() -> None:
    made = msgspec.structs.replace(report(), faults=views([fault("f1", 4, 9, "no")]))
    drawn, _ = charts(made, axis_of(made), [])
    assert 'class="window unproven"' in drawn[0].svg
    assert "landed: no" in drawn[0].svg


@pytest.mark.parametrize("every_s", [0.5, 3.0, 8.0])
def test_names_of_short_windows_lie_over_no_other(every_s: float) -> None:
    """Where there is no room for all that is to be said the id is shown."""
    faults = [fault(f"f{n}", 1 + every_s * n, 1.2 + every_s * n, "ambiguous") for n in range(7)]
    made = msgspec.structs.replace(report(), faults=views(faults))
    drawn, _ = charts(made, axis_of(made), [])
    found = re.findall(r'<text class="on" x="([\d.]+)" y="(\d+)">([^<]*)<', drawn[0].svg)
    assert sorted(name.split(" ")[0] for *_, name in found) == [f"f{n}" for n in range(7)]
    for x, y, name in found:
        later = [float(a) for a, b, _ in found if b == y and float(a) > float(x)]
        assert float(x) + 6.5 * len(name) <= min(later, default=1000)
    last = found[-1][2]
    assert last == "f6 partition, landed: ambiguous" or every_s == 8
    assert {name for *_, name in found[:-1]} >= {"f1" if every_s < 8 else "f1 partition"}


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0, 60, 10) == [0, 10, 20, 30, 40, 50, 60]
    assert ticks(0.0, 1e-9, 3)
    assert Axis(0, 10).x(-5) == Axis(0, 10).x(0)


# ---- drawings of a witness


def test_a_witness_has_a_row_per_operation_and_the_fault_behind_it() -> None:
    ops = [op(1, 5, "write", input=1), op(2, 6, complete_ts=None, timeout_marker=True)]
    svg = timeline_svg(ops, [fault("f1", 4, 9), fault("f2", 50, 60)], 1)
    assert "▶ p0 n1  write 1" in svg
    assert "f1 partition" in svg
    assert "f2" not in svg
    assert "stroke-dasharray" in svg


def test_a_transaction_is_told_as_what_it_did() -> None:
    mops = [["r", 5, [1, 2, 3, 4, 5]], ["append", 5, 6], ["r", 7, None]]
    done = op(1, 1, "txn", key=None, input=3, output=mops)
    assert full_label(done) == "r 5 → [… 3 4 5], append 5 6, r 7 → nil"
    assert full_label(op(1, 1, "txn", key=None, input=mops, error="x")).endswith("→ fail")
    assert full_label(op(1, 1, "txn", input=3, output=4)) == "txn 3 → 4"


def test_a_cycle_is_drawn_and_a_long_one_told() -> None:
    def row(n: int, to: int) -> dict[str, Any]:
        mops = [["r", 1, HOSTILE]]
        edge = {"to": to, "reason": "rw", "key": 1, "text": "x"}
        return {"op_id": n, "input": mops, "output": mops, "edge": edge}

    two = loop_svg(Anomaly(type="G2", witness=[row(1, 2), row(2, 1)]))
    assert two.count('class="edge rw"') == 2
    assert "missed the write of" in two
    assert "<script" not in two
    many = [row(n, (n + 1) % 30) for n in range(30)]
    assert loop_svg(Anomaly(type="G2", witness=many)) == ""


# ---- operations on the page


def unpacked(found: columns.Packed) -> tuple[dict[str, list[int]], list[str]]:
    """As static/timeline-data.js reads it."""
    raw = zlib.decompress(base64.b64decode(found.numbers))
    n, at, rows = found.head["n"], 0, {}
    for name, width in found.head["columns"]:
        planes = np.frombuffer(raw[at : at + n * width], np.uint8).reshape(width, n)
        values = sum(planes[k].astype(np.int64) << (8 * k) for k in range(width))
        at += n * width
        if name in ("invoke_ts", "op_id"):
            values = np.cumsum((values >> 1) ^ -(values & 1))
        rows[name] = np.asarray(values).tolist()
    assert at == len(raw)
    return rows, zlib.decompress(base64.b64decode(found.texts)).decode().split("\n")


def test_columns_hold_every_field() -> None:
    ops = report(hostile=True).history.ops
    found = packed(ops, 10_000_000)
    rows, lines = unpacked(found)
    assert (found.kept, found.told, found.unit_ns) == (200, 200, 1)
    head = found.head
    for n, one in enumerate(ops):
        assert rows["invoke_ts"][n] == one.invoke_ts
        assert rows["op_id"][n] == one.op_id
        if one.complete_ts is not None:
            assert rows["lasted"][n] == one.complete_ts - one.invoke_ts
        assert bool(rows["flags"][n] & 8) is (one.complete_ts is not None)
        assert bool(rows["flags"][n] & 4) is one.timeout_marker
        assert head["process_id"][rows["process_id"][n]] == one.process_id
        assert head["node_seen"][rows["node_seen"][n]] == one.node_seen
        asked, answered, error = lines[n].split("\t")
        assert asked == ("" if one.input is None else json.dumps(one.input))
        assert bool(answered) is (one.output is not None)
        assert bool(error) is (one.error is not None)


def test_ids_that_are_no_numbers_and_times_of_long_runs() -> None:
    ops = [op(1, 1.0), msgspec.structs.replace(op(2, 9_000_000.5), op_id="x")]
    found = packed(ops, 10**6)
    assert found.head["ids"] == ["1", "x"]
    assert unpacked(found)[0]["invoke_ts"] == [S, 9_000_000_500_000_000]


def test_what_there_is_no_room_for_is_left_out_farthest_first() -> None:
    rng = np.random.default_rng(1)
    ops = [
        op(i, i / 100 + float(rng.random()) / 200, input=int(rng.integers(1 << 60)))
        for i in range(4000)
    ]
    whole = packed(ops, 10**7).size
    texts_cut = packed(ops, whole // 2, wanted=[7], instants=[20 * S])
    assert (texts_cut.kept, texts_cut.unit_ns) == (4000, 1000)
    assert 0 < texts_cut.told < 4000
    assert texts_cut.size <= whole // 2
    _, lines = unpacked(texts_cut)
    told_at = [n for n, text in enumerate(lines) if text]
    assert 7 in told_at
    assert all(abs(n - 2000) <= texts_cut.told for n in told_at if n != 7)
    few = packed(ops, whole // 12, wanted=[7], instants=[20 * S])
    assert 0 < few.kept < 4000
    assert few.size <= whole // 12
    assert 7 in few.places
    assert min(few.places[1:]) > 1000


def test_the_page_says_what_it_leaves_out() -> None:
    made = report(fail=True, count=3000)
    axis = axis_of(made)
    found = moments(made, [])
    whole = html.embedded(made, axis, found, 10**6)
    assert "All 3,000 operations are here" in whole.said
    part = html.embedded(made, axis, found, 12_000)
    assert "history.jsonl" in part.said
    none = html.embedded(made, axis, found, 300)
    assert none.run == ""
    assert "no room" in none.said


def test_no_value_leaves_its_script_element() -> None:
    made = report(hostile=True, fail=True)
    bad = "</script><script>alert(1)</script><!--\u2028"
    ops = made.history.ops
    ops = [msgspec.structs.replace(o, key=bad, op_type=bad, node_seen=bad) for o in ops]
    history = msgspec.structs.replace(made.history, ops=ops)
    text = render_html(msgspec.structs.replace(made, history=history))
    assert "<script>alert" not in text
    assert "<!--" not in text
    assert text.count("</script>") == 4
    data = text.split('id="run-data">')[1].split("</script>")[0]
    assert "</script><script>alert(1)</script>" in json.loads(data)["ops"]["op_type"][0]


def test_an_empty_run_has_a_whole_page() -> None:
    made = report()
    history = msgspec.structs.replace(made.history, ops=[])
    text = render_html(msgspec.structs.replace(made, history=history, faults=[], records=[]))
    assert "There are no operations to show." in text
    assert "<canvas" not in text
    assert "<script" not in text


def test_an_ended_run_shows_where_it_ended() -> None:
    made = report()
    made.meta.traceback = "Traceback (most recent call last): ZeroDivisionError"
    assert "ZeroDivisionError" in render_html(made)


def test_the_index_of_a_name_tells_types_apart() -> None:
    names = columns._Names()
    assert [names.of(value) for value in (1, True, 1.0, "1", 1)] == [0, 1, 2, 3, 0]
