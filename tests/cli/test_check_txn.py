"""`dstest check` of transactional histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dstest.check.file import transaction_options
from dstest.cli.app import app
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.history import FaultWindow, Header
from dstest.history.generator.histories import Spec, events, lines


def write(folder: Path, fmt: str, workload: str, **spec: Any) -> Path:
    path = folder / f"history.{fmt}"
    wanted = Spec(workload=workload, txns=100, **spec)
    path.write_bytes(b"".join(lines(events(wanted), wanted, fmt)))
    return path


def answer(path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["check", str(path), "--json", *options])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize("fmt", ["jsonl", "edn"])
@pytest.mark.parametrize("workload", ["list-append", "rw-register"])
def test_the_workload_is_seen_in_the_file(tmp_path: Path, workload: str, fmt: str) -> None:
    code, result = answer(write(tmp_path, fmt, workload, inject={"G1a": 1}))
    assert code == 1
    assert result["workload"] == workload
    assert result["anomaly_types"] == ["G1a"]


def test_key_order_options_are_elles(tmp_path: Path) -> None:
    path = write(tmp_path, "edn", "rw-register", inject={"cyclic-versions": 1})
    assert answer(path, "--model", "read-uncommitted")[0] == 0
    for spelled in ("wfr-keys?=true", "wfr-keys=true"):
        code, result = answer(path, "--model", "read-uncommitted", "-o", spelled)
        assert code == 1
        assert result["anomaly_types"] == ["cyclic-versions"]


def test_the_given_order_of_transactions(tmp_path: Path) -> None:
    order = tmp_path / "order.json"
    order.write_text('{"3": 0, "1": 1}')
    given = transaction_options([f"transaction-order={order}", "anomalies=G0,G1a"])
    assert given == {"transaction-order": {"3": 0, "1": 1}, "anomalies": ["G0", "G1a"]}
    for wrong in (f"transaction-order={tmp_path}", "keys=5", "wfr-keys=perhaps"):
        with pytest.raises(ConfigError):
            transaction_options([wrong])


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (["--model", "prefix", "-o", "session-order=true"], "leave -o session-order out"),
        (["-o", "anomalies=G7"], "behind -o anomalies"),
    ],
)
def test_what_is_asked_and_cannot_be_is_not_the_files_fault(
    tmp_path: Path, given: list[str], remedy: str
) -> None:
    path = write(tmp_path, "jsonl", "list-append")
    for more in ([], ["--stream"]) if "--model" in given else ([],):
        done = CliRunner().invoke(app, ["check", str(path), *given, *more])
        assert isinstance(done.exception, ConfigError), done.output
        assert remedy in str(done.exception.remedy)


def test_a_file_of_the_other_kind_is_told_which_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", "list-append")
    done = CliRunner().invoke(app, ["check", str(path), "--workload", "rw-register"])
    assert isinstance(done.exception, HistoryError)
    assert "--workload list-append" in str(done.exception.remedy)


def test_a_record_that_does_not_say_when_it_ended_has_no_end(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", "list-append", inject={"G1a": 1}, info_share=0.2)
    head, *rows = path.read_text().splitlines()
    records = [json.loads(row) for row in rows]
    left_out = 0
    for record in records:
        if record["complete_ts"] is None:
            del record["complete_ts"]
            left_out += 1
    assert left_out
    path.write_text("\n".join([head, *map(json.dumps, records)]) + "\n")
    code, result = answer(path)
    assert (code, result["anomaly_types"]) == (1, ["G1a"])


def test_our_own_records_have_times_and_epochs(tmp_path: Path) -> None:
    import msgspec

    path = write(tmp_path, "jsonl", "list-append", inject={"G1a": 1})
    head, _, rest = path.read_bytes().partition(b"\n")
    window = FaultWindow(epoch="f1", nemesis="kill", start_ns=0, healed_ns=10**12)
    header = msgspec.structs.replace(msgspec.json.decode(head, type=Header), windows=[window])
    path.write_bytes(msgspec.json.encode(header) + b"\n" + rest)
    _, result = answer(path)
    (anomaly,) = result["anomalies"]["G1a"]
    assert anomaly["epochs"] == ["f1"]
    assert all(row["invoke_ts"] < row["complete_ts"] for row in anomaly["witness"])
    assert "invoke_event" not in anomaly["witness"][0]


def test_a_cycle_is_drawn(tmp_path: Path) -> None:
    path = write(tmp_path, "edn", "list-append", inject={"G1c": 1})
    folder = tmp_path / "report"
    done = CliRunner().invoke(app, ["check", str(path), "--report", str(folder)])
    assert done.exit_code == 1
    assert "invoke_event" in done.stdout
    assert "<svg" in (folder / "cycle-0.svg").read_text()


def test_a_batch_has_the_budget(tmp_path: Path) -> None:
    history = [
        {"index": i, "type": kind, "process": 0, "f": "txn", "value": [["append", 1, i // 2]]}
        for i in range(2000)
        for kind in (["invoke", "ok"][i % 2],)
    ]
    read = ["r", 1, list(range(1000))]
    asked = ["r", 1, None]
    history += [{"index": 2000, "type": "invoke", "process": 1, "f": "txn", "value": [asked]}]
    history += [{"index": 2001, "type": "ok", "process": 1, "f": "txn", "value": [read]}]
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"name": 1, "workload": "list-append", "history": history}) + "\n")
    for budget, valid in (("60", True), ("0.000001", "unknown")):
        done = CliRunner().invoke(app, ["check", "--batch", str(path), "--budget-s", budget])
        assert json.loads(done.stdout)["results"]["strict-serializable"]["valid"] == valid
