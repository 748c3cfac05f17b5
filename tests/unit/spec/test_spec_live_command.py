"""`dstest spec live`: recorded samples, and members that are asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.core.errors import ConfigError, DstestError, Exit, HistoryError

pytestmark = pytest.mark.slow


def run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["spec", "live", *words], input=given)


def status(server: int, term: int, leads: bool = False, commit: int = 5, **more: int) -> Any:
    said = {"id": server, "term": term, "leads": leads, "commit": commit, "applied": 5, "last": 6}
    return {"ok": {**said, **more}}


HEALTHY = (
    {"n1": status(1, 1, True), "n2": status(2, 1), "n3": None},
    {"n1": None, "n2": status(2, 2, True), "n3": status(3, 2)},
)


def lines(*samples: Any) -> str:
    return "".join(json.dumps(one) + "\n" for one in samples)


def test_a_cluster_that_is_healthy(tmp_path: Path) -> None:
    metrics = tmp_path / "dstest.prom"
    said = run("raft-status", "-", "--metrics", str(metrics), given=lines(*HEALTHY))
    assert said.exit_code == Exit.PASS
    assert said.output.splitlines()[0] == "2 samples"
    assert said.output.splitlines()[-1] == "healthy"
    assert 'dstest_invariant_checks_total{id="RS1",result="passed"} 2' in metrics.read_text()
    assert metrics.read_text().endswith("dstest_invariants_healthy 1\n")


@pytest.mark.parametrize(
    ("bad", "id_"),
    [
        ({"n3": status(3, 2, True)}, "RS1"),
        ({"n2": status(2, 1)}, "RS2"),
        ({"n2": status(2, 2, applied=6)}, "RS3"),
        ({"n2": status(2, 2, commit=7)}, "RS3"),
        ({"n2": status(2, 2), "n3": status(2, 2)}, "RS4"),
    ],
)
def test_a_violation_counts_within_one_sample(bad: Any, id_: str, tmp_path: Path) -> None:
    metrics = tmp_path / "dstest.prom"
    words = ("raft-status", "-", "--json", "--metrics", str(metrics))
    said = run(*words, given=lines(*HEALTHY, bad))
    assert said.exit_code == Exit.FAIL
    found = json.loads(said.stdout)
    assert [(one["sample"], one["id"]) for one in found["broken"]] == [(3, id_)]
    assert found["invariants"][id_] == {"passed": 2, "failed": 1}
    assert f'id="{id_}",result="failed"}} 1' in metrics.read_text()
    assert metrics.read_text().endswith("dstest_invariants_healthy 0\n")


def test_a_violation_that_is_over_is_still_one() -> None:
    healed = {"n2": status(2, 3), "n3": status(3, 3)}
    said = run("raft-status", "-", given=lines(*HEALTHY, {"n2": status(2, 1)}, healed))
    assert said.exit_code == Exit.FAIL
    assert "sample 3: RS2 does not hold: the term of a server never falls" in said.output


def test_where_nobody_answers_nothing_is_shown() -> None:
    said = run("raft-status", "-", given=lines({"n1": None}, {"n1": None}))
    assert said.exit_code == Exit.NOT_PROVEN
    assert "0 samples, 2 that nobody answered" in said.output
    assert run("raft-status", "-", given="").exit_code == Exit.NOT_PROVEN


@pytest.fixture
def member() -> Iterator[str]:
    """A server that says, in each term, that it leads; then once more in an older one."""
    answers = iter([status(1, 1, True), status(1, 2, True), status(1, 1, True)])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                link, _ = server.accept()
                with link, link.makefile("rb") as asked:
                    assert json.loads(asked.readline()) == {"op": "status"}
                    link.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_members_that_are_asked(member: str) -> None:
    gone = "127.0.0.1:1"
    words = ("--ask", member, "--ask", gone, "--every", "0.05", "--count", "3")
    said = run("raft-status", *words, "--json")
    found = json.loads(said.stdout)
    assert (found["samples"], found["unanswered"], found["healthy"]) == (3, 0, False)
    assert [(one["sample"], one["id"]) for one in found["broken"]] == [(3, "RS2")]


@pytest.mark.parametrize(
    ("words", "given", "error", "message"),
    [
        (("raft-status",), "", ConfigError, "recorded or asked for"),
        (("raft-status", "-", "--ask", "a:1"), "", ConfigError, "recorded or asked for"),
        (("raft-status", "--ask", "nowhere"), "", ConfigError, "is no address"),
        (("raft-status", "none.jsonl"), "", ConfigError, "No such file"),
        (("raft-status", "-"), "x\n", HistoryError, "stdin, line 1: no sample"),
        (("raft-status", "-"), '{"n1": 3}\n', HistoryError, "stdin, line 1: no sample"),
        (("raft-status", "-"), '{"n1": {}}\n', ConfigError, "a sample is no state: KeyError"),
        (("raft-status", "-"), '{"n1": null, "n1": null}\n', HistoryError, "line 1: no sample"),
        (("raft-status", "-"), '{"n1": {"term": Infinity}}\n', HistoryError, "line 1: no sample"),
        (("raft-status", "-"), "[" * 100_000 + "\n", HistoryError, "line 1: no sample"),
        (("raft-status", "--ask", "a:1", "--every", "inf"), "", ConfigError, "is too long"),
        (("lock", "-"), '{"n1": {}}\n', ConfigError, "does not say what state a sample is"),
    ],
)
def test_bad_input(
    words: tuple[str, ...], given: str, error: type[DstestError], message: str
) -> None:
    said = run(*words, given=given)
    assert isinstance(said.exception, error) and message in str(said.exception)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("leads", "false", "n1: leads is 'false', and neither true nor false"),
        ("term", "4", "n1: term is '4', and no whole number"),
        ("commit", 9.9, "n1: commit is 9.9"),
        ("last", True, "n1: last is True"),
        ("term", -1, "n1: term is -1"),
        ("id", None, "n1: id is None"),
        ("id", [1], r"n1: id is [1]"),
    ],
)
def test_an_answer_is_what_it_says(field: str, value: Any, message: str, tmp_path: Path) -> None:
    metrics = tmp_path / "dstest.prom"
    answer = {**status(1, 1)["ok"], field: value}
    given = lines({"n1": status(1, 1)}, {"n1": answer})
    said = run("raft-status", "-", "--metrics", str(metrics), given=given)
    assert isinstance(said.exception, ConfigError) and message in str(said.exception)
    assert metrics.read_text().endswith("dstest_invariants_healthy 0\n")


def test_metrics_say_where_nobody_answers(tmp_path: Path) -> None:
    metrics = tmp_path / "dstest.prom"
    words = ("raft-status", "-", "--metrics", str(metrics))
    assert run(*words, given=lines(*HEALTHY, {"n1": None})).exit_code == Exit.PASS
    assert metrics.read_text().endswith("dstest_invariants_healthy 0\n")
    assert run(*words, given=lines({"n1": None}, *HEALTHY)).exit_code == Exit.PASS
    assert metrics.read_text().endswith("dstest_invariants_healthy 1\n")


ASKS_NOTHING = """
from dstest.spec import Spec, action, invariant

class Steps(Spec):
    def initial(self):
        yield 0

    def sampled(self, before, sample):
        return 1

    @action()
    def go(self, s):
        return s

    @invariant("ST1", "never falls", kind="action")
    def rises(self, before, step, after):
        return after >= before
"""


def test_a_specification_that_asks_nothing_of_a_state(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(ASKS_NOTHING)
    metrics = tmp_path / "dstest.prom"
    words = (str(tmp_path / "steps.py"), "-", "--metrics", str(metrics))
    said = run(*words, given=lines({"n1": {}}))
    assert said.exit_code == Exit.NOT_PROVEN
    assert "it asks nothing of a sample" in said.output
    assert said.output.splitlines()[-1] == "not healthy"
    assert json.loads(run(*words, "--json", given=lines({"n1": {}})).output)["healthy"] is False
    assert metrics.read_text().endswith("dstest_invariants_healthy 0\n")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", [b"x", b"x" * 65536])
def test_a_member_that_never_ends_its_line(part: bytes) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                while not over.wait(0.02):
                    link.sendall(part)

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            place = f"127.0.0.1:{server.getsockname()[1]}"
            said = run("raft-status", "--ask", place, "--count", "1")
        finally:
            over.set()
            thread.join()
    assert said.exit_code == Exit.NOT_PROVEN and "1 that nobody answered" in said.output
