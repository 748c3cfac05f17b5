"""`dstest check --proof` writes an order, `dstest proof` believes it only as far as it goes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import session_files as made
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import DstestError

pytestmark = pytest.mark.slow


def call(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(done.exception, DstestError):
        said = f"{done.exception}\n{done.exception.remedy}"
        return int(done.exception.exit_code), done.stdout, said
    return done.exit_code, done.stdout, done.stderr


def generated(folder: Path, workload: str, level: str, form: str = "jsonl") -> Path:
    path = folder / f"{workload}-{level}.{form}"
    words = ("--workload", workload, "--level", level, "--format", form, "--txns", "300")
    assert call("generate", *words, "-o", path)[0] == 0
    return path


def change(path: Path, **changes: Any) -> Path:
    other = path.with_name("changed.json")
    other.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))
    return other


@pytest.mark.parametrize("form", ["jsonl", "edn"])
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
@pytest.mark.parametrize(
    ("level", "model"),
    [
        ("strict-serializable", "strong-serializable"),
        ("serializable", "serializable"),
        ("strong-session-snapshot-isolation", "strong-session-snapshot-isolation"),
        ("snapshot-isolation", "snapshot-isolation"),
    ],
)
def test_what_is_valid_is_proved(
    tmp_path: Path, form: str, workload: str, level: str, model: str
) -> None:
    path, order = generated(tmp_path, workload, level, form), tmp_path / "order.json"
    words = ("--workload", workload, "--model", level)
    code, _, said = call("check", path, *words, "--proof", order)
    assert (code, f"transactions is in {order}: {model}" in said) == (0, True), said
    code, told, _ = call("proof", path, order)
    assert code == 0
    assert f"{model} is proved, by an order of " in told


def test_what_is_violated_has_no_order(tmp_path: Path) -> None:
    path, order = generated(tmp_path, "rw-register", "snapshot-isolation"), tmp_path / "order.json"
    words = ("--workload", "rw-register", "--proof", order, "--model")
    code, _, said = call("check", path, *words, "serializable")
    assert (code, order.exists()) == (1, False)
    assert f"no order is written to {order}: the history is not valid" in said
    assert call("check", path, *words, "snapshot-isolation")[0] == 0
    code, told, _ = call("proof", path, order, "--model", "serializable")
    assert code == 3
    assert "serializable is not proved by this order: transaction" in told


def test_what_was_changed_proves_nothing(tmp_path: Path) -> None:
    path, order = generated(tmp_path, "list-append", "serializable"), tmp_path / "order.json"
    assert call("check", path, "--model", "serializable", "--proof", order)[0] == 0
    txns = json.loads(order.read_bytes())["transactions"]
    for changed, why in (
        (txns[::-1], "what no commit has left"),
        (txns[1:], "was acknowledged, and is not in it"),
        ([*txns, txns[0]], "is in it twice"),
        ([*txns, 10**6], "names 1000000, which is no transaction"),
    ):
        code, told, said = call("proof", path, change(order, transactions=changed))
        assert (code, why in told) == (3, True), (told, said)
    lines = path.read_text().splitlines(keepends=True)
    assert call("check", path, "--proof", order)[0] in (0, 1)
    path.write_text("".join(lines[:-1]))
    assert call("proof", path, order)[0] == 3


def test_a_history_in_which_nothing_is_read_is_not_proved(tmp_path: Path) -> None:
    path, order = tmp_path / "h.json", tmp_path / "order.json"
    txn = {"process": 0, "f": "txn", "value": [["w", "x", 1]]}
    events = [{**txn, "type": kind, "index": at} for at, kind in enumerate(("invoke", "ok"))]
    path.write_text("\n".join(json.dumps(event) for event in events))
    words = ("--workload", "rw-register", "--model", "serializable")
    code, _, said = call("check", path, *words, "--proof", order)
    assert (code, "the answer is unknown" in said, order.exists()) == (3, True, False)
    row = {"schema": "dstest.order/1", "workload": "rw-register", "model": "serializable"}
    order.write_text(json.dumps({**row, "transactions": [1]}))
    code, told, _ = call("proof", path, order)
    assert (code, "nothing was tested" in told) == (3, True)


def test_real_time_is_not_proved_of_files_without_times(tmp_path: Path) -> None:
    history: made.History = [
        [([("w", 1, 5)], True), ([("r", 2, 6)], True)],
        [([("r", 1, 5), ("w", 2, 6)], True)],
    ]
    path, order = tmp_path / "plume.txt", tmp_path / "order.json"
    path.write_text(made.plume(history))
    code, _, said = call("check", path, "--proof", order)
    assert (code, "strong-session-serializable" in said) == (0, True), said
    assert call("proof", path, order)[0] == 0
    code, told, _ = call("proof", path, order, "--model", "strict-serializable")
    assert (code, "the file has no times" in told) == (3, True)
    code, _, said = call("check", path, "--proof", order, "--model", "strict-serializable")
    assert (code, "which is an older one: the answer is unknown" in said) == (3, True)


def test_what_the_keys_start_with_is_kept(tmp_path: Path) -> None:
    path, order = tmp_path / "h.json", tmp_path / "order.json"
    reads = [{"process": 0, "f": "txn", "value": [["r", "x", 0]]}]
    writes = [{"process": 1, "f": "txn", "value": [["w", "x", 1]]}]
    later = [{"process": 0, "f": "txn", "value": [["r", "x", 1]]}]
    rows = [{**txn, "type": kind} for txn in [*reads, *writes, *later] for kind in ("invoke", "ok")]
    path.write_text("\n".join(json.dumps({**row, "index": at}) for at, row in enumerate(rows)))
    words = ("--workload", "rw-register", "--initial", "0")
    code, _, said = call("check", path, *words, "--proof", order)
    assert code == 0, said
    code, told, _ = call("proof", path, order, "--initial", "0")
    assert (code, "every key starts as 0" in told) == (0, True)
    assert call("proof", path, order)[0] == 3
    assert call("proof", path, order, "--initial", "7")[0] == 3
    assert call("proof", path, change(order, initial=0))[0] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-o", "decide=no"), "--proof takes no -o"),
        (("--format", "nonsense"), "no format called 'nonsense'"),
    ],
)
def test_what_an_order_does_not_tell_is_refused(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    path = generated(tmp_path, "list-append", "serializable")
    code, _, said = call("check", path, *words, "--proof", tmp_path / "order.json")
    assert (code, why in said) == (2, True), said
    assert not (tmp_path / "order.json").exists()


def test_a_weak_model_is_proved_by_what_implies_it(tmp_path: Path) -> None:
    path, order = generated(tmp_path, "list-append", "serializable"), tmp_path / "order.json"
    code, _, said = call("check", path, "--model", "read-committed", "--proof", order)
    assert (code, "an order of" in said) == (0, True), said
    code, out, _ = call("proof", path, order, "--model", "read-committed")
    assert (code, "read-committed is proved" in out) == (0, True), out
    code, out, _ = call("proof", path, order, "--model", "strong-serializable")
    assert code == 3, out


def jepsen(path: Path, *rows: list[list[Any]]) -> Path:
    """Transactions that follow one another."""
    events = [
        {"process": at, "f": "txn", "type": kind, "value": value}
        for at, value in enumerate(rows)
        for kind in ("invoke", "ok")
    ]
    path.write_text("\n".join(json.dumps({**e, "index": n}) for n, e in enumerate(events)))
    return path


LISTS = ([["append", "x", 1]], [["r", "x", [2]]], [["r", "x", [1, 1, 7]]])
REGISTERS = ([["w", "x", 1]], [["r", "x", 99]], [["r", "x", 98]])
SINGLE = ([["append", "x", 1]], [["r", "x", 7]], [["r", "x", [1]]])


@pytest.mark.parametrize("rows", [LISTS, REGISTERS, SINGLE])
@pytest.mark.parametrize("workload", ["list-append", "rw-register", "bank", ""])
def test_an_order_does_not_say_what_the_history_is(
    tmp_path: Path, rows: tuple[Any, ...], workload: str
) -> None:
    """Lists taken for registers would all be empty, and registers taken for lists."""
    path, order = jepsen(tmp_path / "h.json", *rows), tmp_path / "order.json"
    row = {"schema": "dstest.order/1", "workload": workload, "model": "serializable"}
    for txns in itertools.permutations([1, 3, 5]):
        order.write_text(json.dumps({**row, "transactions": txns}))
        assert call("proof", path, order)[0] in (2, 3)
    for asked in ("list-append", "rw-register"):
        written = tmp_path / f"{asked}.json"
        words = ("--workload", asked, "--model", "serializable", "--proof", written)
        assert call("check", path, *words)[0] in (1, 2)
        assert not written.exists()


def test_each_model_is_asked(tmp_path: Path) -> None:
    rows = ([["w", "x", 1]], [["r", "x", None]], [["r", "x", 1]])
    path, order = jepsen(tmp_path / "h.json", *rows), tmp_path / "order.json"
    words = ("--workload", "rw-register", "--model", "serializable", "--proof", order)
    assert call("check", path, *words)[0] == 0
    assert call("proof", path, order)[0] == 0
    for models in ("serializable,strict-serializable", "strict-serializable,serializable"):
        code, told, _ = call("proof", path, order, "--model", models)
        assert (code, "strict-serializable is not proved" in told) == (3, True)


def test_a_run_that_was_touched_or_failed_is_not_proved(tmp_path: Path) -> None:
    path, order = generated(tmp_path, "list-append", "serializable"), tmp_path / "order.json"
    assert call("check", path, "--model", "serializable", "--proof", order)[0] == 0
    run = tmp_path / "run"
    run.mkdir()
    (run / "history.jsonl").write_bytes(path.read_bytes())
    (run / "status").write_text("verdict: FAIL\n")
    (run / "sha256sums").write_text("0  history.jsonl\n")
    assert call("proof", run, order)[0] == 3
    assert call("check", run, "--proof", run / "order.json")[0] == 2


def test_the_history_is_not_written_over(tmp_path: Path) -> None:
    path = generated(tmp_path, "list-append", "serializable")
    before = path.read_bytes()
    assert call("check", path, "--model", "serializable", "--proof", path)[0] == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize("budget", ["0", "-5", "99999999999999999999"])
def test_a_budget_is_a_number_of_megabytes(tmp_path: Path, budget: str) -> None:
    path = generated(tmp_path, "list-append", "serializable")
    assert call("proof", path, path, "--budget-mb", budget)[0] == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"workload": "list-append", "model": "serializable", "transactions": []}',
        '{"schema": "x/2", "workload": "list-append", "model": "serializable", "transactions": []}',
        '{"workload": "list-append", "model": "serializable", "transactions": [1.5]}',
        '{"workload": "list-append", "model": "nonsense", "transactions": []}',
        '{"workload": "nonsense", "model": "serializable", "transactions": []}',
        '{"workload": "rw-register", "model": "serializable", "transactions": []}',
    ],
)
def test_what_is_no_order_is_refused(tmp_path: Path, text: str) -> None:
    path, order = generated(tmp_path, "list-append", "serializable"), tmp_path / "order.json"
    order.write_text(text)
    code, told, said = call("proof", path, order)
    assert code in (2, 3), told + said
    assert told or said.splitlines()[1]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    path = generated(tmp_path, "list-append", "serializable")
    code, _, said = call("proof", path, tmp_path / "nowhere")
    assert (code, "cannot read" in said) == (2, True)
    code, _, said = call("proof", tmp_path / "nowhere", tmp_path / "nowhere")
    assert code == 2


def test_an_object_is_judged_and_has_no_order(tmp_path: Path) -> None:
    path, order = tmp_path / "h.edn", tmp_path / "order.json"
    rows = [("write", 1, 1), ("read", "nil", 1)]
    path.write_text(
        "\n".join(
            f"{{:process 0, :type {kind}, :f :{f}, :value {value}, :index {2 * at + n}}}"
            for at, (f, *values) in enumerate(rows)
            for n, (kind, value) in enumerate(zip((":invoke", ":ok"), values, strict=True))
        )
    )
    code, told, said = call("check", path, "--model", "cas-register", "--proof", order)
    assert (code, "valid under cas-register" in told) == (0, True), said
    assert "no order is written" in said
    assert not order.exists()


def test_a_level_that_is_none_leaves_nothing(tmp_path: Path) -> None:
    code, told, _ = call("generate", "--level", "nonsense")
    assert (code, told) == (2, "")
    assert call("generate", "--level", "nonsense", "-o", tmp_path / "h.jsonl")[0] == 2
    assert not (tmp_path / "h.jsonl").exists()
