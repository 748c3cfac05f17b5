"""`dstest logs` and `dstest trace` on a run that was simulated here, on the logs of a real one, and
on what is no input of theirs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from forked import Ended, dstests
from made_once import Once
from real_run import unpack

from dstest.debug.logs.analysis import Options, analyse
from dstest.debug.logs.rates import ErrorRates
from dstest.debug.logs.run_logs import run_logs
from dstest.history.jsonl import write_history

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

RUN = (
    *("run", "--lab", "sim", "--system", "toykv", "--workload", "register", "--nemesis", "kill"),
    *("--nodes", "3", "--time-limit", "17", "--seed", "3", "-o", "spans=yes"),
)


def ended(folder: Path, *words: str) -> Ended:
    return dstests([words], cwd=folder)[words]


LOGS = ("logs", "store/latest")
BEFORE = (*LOGS, "--until", "3", "--node", "n1")
AGAIN = (*LOGS, "--baseline", "store/latest", "--since", "0")
TRACE = ("trace", "store/latest")
OPERATION = (*TRACE, "--trace", "20")
PAGES = (*TRACE, "--html", "t.html", "--mermaid", "t.mmd")
JSON = (LOGS, BEFORE, AGAIN, TRACE, OPERATION)

Store = tuple[Path, dict[tuple[str, ...], Ended]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Store:
    """A run that wants spans, and what was said of it."""

    def make(folder: Path) -> None:
        done = ended(folder, *RUN)
        assert done.returncode == 3, done.stderr  # smoke is not proven to be more

    folder = tmp_path_factory.mktemp("simulated") / "mine"
    shutil.copytree(once("traced", make), folder, symlinks=True)
    return folder, dstests([*((*words, "--json") for words in JSON), PAGES], cwd=folder)


def told(store: Store, words: tuple[str, ...]) -> dict[str, Any]:
    done = store[1][*words, "--json"]
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == found["exit"], done.stderr
    return found


def test_logs_of_a_run(store: Store) -> None:
    found = told(store, LOGS)
    assert found["exit"] == 0 and found["nodes"] == ["n1", "n2", "n3"]
    expected = [one for one in found["findings"] if one["expected"]]
    assert {one["window"] for one in expected} == {"f1"}
    votes = next(c for c in found["checks"] if c["check"] == "silent_failures")["facts"]["votes"]
    assert set(votes) == {"n1", "n2", "n3"} and all(votes.values())
    silent = {c["check"] for c in found["checks"] if not c["evaluated"]}
    assert "duplicate_messages" in silent


def test_logs_of_a_run_by_time_node_and_baseline(store: Store) -> None:
    before = told(store, BEFORE)
    assert before["findings"] == [] and before["nodes"] == ["n1"]
    again = told(store, AGAIN)
    assert again["exit"] == 0
    rows = next(c for c in again["checks"] if c["check"] == "high_latency")["facts"]["p95"]
    assert {row["operation"] for row in rows} == {"read", "write"}
    assert all(row["baseline_ms"] for row in rows)


def test_a_trace_of_a_run_is_its_operation(store: Store) -> None:
    found = told(store, OPERATION)
    shown = found["shown"]
    line = int(re.search(r"history.jsonl:(\d+)", shown["operation"])[1])  # type: ignore[index]
    text = (store[0] / "store/latest/history.jsonl").read_text().splitlines()[line - 1]
    op = json.loads(text)
    assert op["op_id"] == 20
    root = next(s for s in shown["spans"] if s["depth"] == 0)
    assert (root["start_ns"], root["end_ns"]) == (op["invoke_ts"], op["complete_ts"])
    assert all(op["invoke_ts"] <= s["start_ns"] for s in shown["spans"])
    total = sum(part["end_ns"] - part["start_ns"] for part in shown["critical_path"])
    assert total == shown["length_ns"]


def test_in_a_simulation_the_spans_themselves_say_that_there_is_one_clock(store: Store) -> None:
    pairs = told(store, TRACE)["clocks"]["pairs"]
    assert len(pairs) >= 5
    assert all(pair["low_ns"] <= 0 <= pair["high_ns"] for pair in pairs)


def test_spans_change_nothing_of_a_run_that_wants_none(store: Store, tmp_path: Path) -> None:
    """Without the option the servers say and do the same, byte for byte; with it, what they ask one
    another is longer, and the run is judged alike."""
    ended(tmp_path, *RUN[:-2])
    plain, spans = (
        json.loads((folder / "store/latest/verdict.json").read_text())["verdict"]
        for folder in (tmp_path, store[0])
    )
    assert plain == spans
    assert not list((tmp_path / "store/latest/nodes").glob("*/spans.jsonl"))
    done = ended(tmp_path, "trace", "store/latest")
    assert done.returncode == 3 and "spans=yes" in done.stdout


def test_pages_and_diagrams(store: Store) -> None:
    page, diagram = store[0] / "t.html", store[0] / "t.mmd"
    assert store[1][PAGES].returncode == 0, store[1][PAGES].stderr
    text = page.read_text()
    assert "<svg" in text and "default-src 'none'" in text and "<script" not in text
    assert not re.search(r"(?:src|href)=", text)
    assert diagram.read_text().startswith("flowchart LR\n")


def test_a_name_of_a_span_is_text_and_no_markup(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>"]; click n0'
    span = {"traceId": "t", "spanId": "a", "nodeId": evil, "operation": evil, "startNs": 0}
    child = {**span, "spanId": "b", "parentSpanId": "a", "nodeId": "\x1b[2Jn", "endNs": 5}
    rows = [{**span, "endNs": 9}, child]
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    done = ended(tmp_path, "trace", "s.jsonl", "--html", "p.html", "--mermaid", "m.mmd")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert "<script>" not in (tmp_path / "p.html").read_text()
    assert '"x"' not in (tmp_path / "m.mmd").read_text()


def test_the_logs_of_a_real_run_of_etcd(tmp_path: Path) -> None:
    """Its partition explains all that they say of one; without its record nothing does."""
    run = unpack(tmp_path)
    meta = run.read_meta()
    assert meta is not None
    from dstest.runner.judgement import seal

    history, _ = seal(run, meta)
    of = run_logs(run.path)
    asked = Options()
    found = analyse(of.sources, of.scene, of.clocks, of.reader, asked, of.extra)
    assert found.bad == [], [msgspec.to_builtins(one) for one in found.bad]
    assert found.forms["etcd's JSON"] > 100
    apart = [one for one in found.findings if one.check == "network_partition_detected"]
    assert apart and all(one.expected and len(one.nodes) == 2 for one in apart)
    write_history(run.history, history)
    (run.path / "faults.jsonl").write_bytes(b"")
    again = run_logs(run.path)
    bad = analyse(again.sources, again.scene, again.clocks, again.reader, asked, again.extra).bad
    assert {one.check for one in bad} >= {"network_partition_detected"}
    assert isinstance(ErrorRates(again.scene).end().not_evaluated, str)


WRONG: list[tuple[Sequence[str], int, str]] = [
    (("logs", "nothing.log"), 2, "is not there"),
    (("logs", "empty"), 2, "holds no log"),
    (("logs", "n1.log", "--check", "latency"), 2, "is no check"),
    (("logs", "n1.log", "--node", "n7"), 2, "no such node"),
    (("logs", "n1.log", "--nodes", ","), 2, "names nobody"),
    (("logs", "n1.log", "--since", "5"), 2, "of no run"),
    (("logs", "n1.log", "--since", "soon"), 2, "is no time"),
    (("logs", "n1.log", "--system", "nosuch"), 2, "nosuch"),
    (("logs", "n1.log", "--baseline", "n1.log"), 2, "too few operations"),
    (("logs", "n1.log", "--check", "state-sync", "--check", "message-ordering"), 0, ""),
    (("logs", "none.log", "--nodes", "n1"), 1, ""),
    (("logs", "none.log", "--check", "state_divergence"), 3, ""),
    (("trace", "n1.log"), 2, "not JSON"),
    (("trace", "none.log"), 3, ""),
    (("trace", "empty"), 2, "no run directory"),
    (("trace", "s.jsonl", "--trace", "x"), 2, "no such trace"),
    (("trace", "s.jsonl", "--compare", "a"), 2, "two spans"),
    (("trace", "s.jsonl", "--compare", "a,b"), 2, "no span b"),
    (("trace", "s.jsonl", "--compare", "a,a"), 2, "no vector clock"),
]


def test_what_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "n1.log").write_text("2026-11-28T12:00:00Z [INFO]: well\n")
    (tmp_path / "none.log").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "s.jsonl").write_text('{"traceId":"t","spanId":"a","startNs":0,"endNs":1}\n')
    every = dstests([words for words, _, _ in WRONG], cwd=tmp_path)
    for words, code, said in WRONG:
        done = every[tuple(words)]
        told = (done.returncode, "Traceback" in done.stderr)
        assert (words, told) == (words, (code, False)), done.stderr
        assert said in done.stderr and ("remedy:" in done.stderr) == (code == 2), words


def test_vector_clocks_are_compared(tmp_path: Path) -> None:
    rows = [
        {"traceId": "t", "spanId": id_, "startNs": 0, "endNs": 1, "vectorClock": clock}
        for id_, clock in (("a", {"x": 1}), ("b", {"x": 2}), ("c", {"y": 1}))
    ]
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    pairs = {"a,b": "happens-before", "b,a": "happens-after", "a,c": "concurrent"}
    asked = {pair: ("trace", "s.jsonl", "--compare", pair) for pair in pairs}
    every = dstests(list(asked.values()), cwd=tmp_path)
    for pair, word in pairs.items():
        assert every[asked[pair]].returncode == 0 and word in every[asked[pair]].stdout


def test_a_run_that_was_changed_is_not_believed(store: Store, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree((store[0] / "store/latest").resolve(), run)
    with (run / "nodes/n1/spans.jsonl").open("a") as file:
        file.write("\n")
    for done in dstests([("logs", "run"), ("trace", "run")], cwd=tmp_path).values():
        assert done.returncode == 3 and "remedy:" in done.stderr
