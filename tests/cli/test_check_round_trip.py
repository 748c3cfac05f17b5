"""Our own export, read back, is judged as the history was: for every workload and notation."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core import registry
from dstest.core.errors import DstestError
from dstest.core.history import FaultWindow, Header, History
from dstest.core.op import Op
from dstest.history.generator.histories import Spec, events, lines
from dstest.history.generator.true_histories import history
from dstest.history.importers import load_history
from dstest.history.jsonl import read_stream, write_history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("judge_here")]

MS = 1_000_000
KIND = {
    "set": "set-full",
    "queue": "total-queue",
    "work-queue": "total-queue",
    "dead-letters": "dead-letters",
    "counter": "counter",
    "bank": "bank",
    "bank-replicas": "reconciliation",
    "boundary": "boundary",
    "long-fork": "long-fork",
    "lock": "lock",
    "critical-section": "lock",
    "lease": "lease",
    "unique-ids": "unique-ids",
    "revisions": "unique-ids",
    "session": "session",
    "causal": "causal",
    "watch": "watch",
    "append-log": "kafka",
    "atomic-view": "atomic-view",
    "g2": "g2",
    "closed-predicate": "closed-predicate",
    "ledger": "exactly-once",
    "tenants": "causal",
    "register": "causal",
}
WORKLOADS = registry.names("workloads")
NOTATIONS = ("edn", "json", "dstest")


def registers() -> list[Op]:
    """A compare-and-set register with outcomes of every kind, two keys, and instants that touch."""
    rows: list[tuple[str, str, Any, Any, str | None]] = [
        ("write", "a", 1, None, None),
        ("read", "a", None, 1, None),
        ("cas", "a", [1, 2], True, None),
        ("cas", "a", [7, 8], False, None),
        ("write", "b", 5, None, None),
        ("read", "b", None, 5, None),
        ("write", "a", 9, None, "refused"),
        ("read", "a", None, 2, None),
        ("cas", "b", [5, 6], None, None),
        ("read", "b", None, 6, None),
        ("write", "b", 7, None, "timeout"),
        ("read", "b", None, 7, None),
    ]
    ops = []
    for i, (op_type, key, asked, output, error) in enumerate(rows):
        gone = error == "timeout"
        ops.append(
            Op(
                op_id=f"w{i}",
                process_id="p1" if gone else 0,
                invoke_ts=10 * i,
                complete_ts=None if gone else 10 * i + 10,
                op_type=op_type,
                key=key,
                input=asked,
                output=output,
                error=error,
                timeout_marker=gone,
                node_seen=f"n{i % 3}",
                fault_epoch="f1" if i > 4 else None,
            )
        )
    return ops


def made(workload: str) -> History:
    plugin = registry.load("workloads", workload)
    if workload in ("list-append", "rw-register"):
        spec = Spec(workload=workload, txns=150, info_share=0.05, seed=4)
        import io

        found = read_stream(io.BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))
    elif workload == "cas-register":
        found = History(header=Header(), ops=registers())
    else:
        found = history(KIND[workload], 6, 160)
    counts = [str(op.outcome) for op in found.ops]
    header = msgspec.structs.replace(
        found.header,
        workload=workload,
        model=plugin.model,
        windows=[FaultWindow(epoch="f1", nemesis="kill", start_ns=50, healed_ns=400 * MS)],
        counters={"issued": len(counts), **{k: counts.count(k) for k in ("ok", "fail", "unknown")}},
        options={**found.header.options, **_thresholds(plugin.options)},
    )
    return History(header=header, ops=found.ops)


def _thresholds(options: Any) -> dict[str, Any]:
    return {k: o.default for k, o in options.items() if k.startswith(("fairness", "invariants"))}


def broken(found: History) -> History:
    """The same with one answer of another time: the last that told anything repeats an early one,
    or an element that nobody wrote."""
    ops = list(found.ops)
    telling = [i for i, op in enumerate(ops) if op.output is not None and op.error is None]
    last = telling[-1]
    earlier = [
        ops[i].output
        for i in telling[: len(telling) // 2]
        if ops[i].op_type == ops[last].op_type and ops[i].output != ops[last].output
    ]
    again = earlier and found.header.model != "at-least-once"
    output: Any = earlier[0] if again else 10**6
    if ops[last].op_type == "txn":
        last = next(
            i for i in reversed(telling) if any(m[0] == "r" and m[2] for m in ops[i].output)
        )
        output = [
            ["r", m[1], 10**6 if isinstance(m[2], int) else [10**6]] if m[0] == "r" and m[2] else m
            for m in ops[last].output
        ]
    ops[last] = msgspec.structs.replace(ops[last], output=output)
    return History(header=found.header, ops=ops)


def judged(path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["check", str(path), "--json"])
    if isinstance(done.exception, DstestError):
        raise done.exception
    answer: dict[str, Any] = {**json.loads(done.stdout), "code": done.exit_code}
    return answer


def told(answer: dict[str, Any], *, ids: bool) -> Any:
    """What must be the same. Transactions of op maps are named by their events."""
    anomalies = {
        kind: [(a["ops"], a["epochs"], a["explanation"]) if ids else len(a["ops"]) for a in group]
        for kind, group in answer["anomalies"].items()
    }
    same = {k: answer[k] for k in ("code", "valid", "anomaly_types", "not", "workload", "model")}
    return same, answer["ops"]["total"], answer["keys"]["total"], anomalies


def exported(path: Path, notation: str) -> Path:
    if notation == "dstest":
        return path
    out = path.with_suffix(f".{notation}")
    done = CliRunner().invoke(app, ["export", str(path), "--format", notation, "-o", str(out)])
    assert done.exit_code == 0, (done.output, done.exception)
    return out


@pytest.mark.parametrize("harm", ["true", "broken"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_export_is_judged_as_the_history(tmp_path: Path, workload: str, harm: str) -> None:
    found = made(workload) if harm == "true" else broken(made(workload))
    path = tmp_path / "history.jsonl"
    write_history(path, found)
    before = judged(path)
    assert before["code"] in ({0, 3} if harm == "true" else {1, 3}), before["reason"]
    txn = workload in ("list-append", "rw-register")
    for notation in NOTATIONS:
        out = exported(path, notation)
        packed = out.with_name(out.name + ".gz")
        packed.write_bytes(gzip.compress(out.read_bytes()))
        for again in (out, packed):
            ids = not txn or notation == "dstest"
            assert told(judged(again), ids=ids) == told(before, ids=ids), again.name
        if not txn and notation != "dstest":
            assert load_history(out) == found


def test_every_workload_is_accused_of_something_and_clean_of_something(tmp_path: Path) -> None:
    codes: dict[str, list[int]] = {}
    for workload in WORKLOADS:
        for found in (made(workload), broken(made(workload))):
            path = tmp_path / "history.jsonl"
            write_history(path, found)
            codes.setdefault(workload, []).append(judged(path)["code"])
    clean = [w for w, (code, _) in codes.items() if code == 0]
    accused = [w for w, (_, code) in codes.items() if code == 1]
    assert len(clean) >= len(WORKLOADS) - 4, codes
    assert len(accused) >= len(WORKLOADS) - 5, codes


def test_keys_are_not_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_history(path, made("cas-register"))
    done = CliRunner().invoke(app, ["export", str(path), "--no-keyed"])
    assert isinstance(done.exception, DstestError)
    assert "one object of 2 keys" in str(done.exception)


TUPLES = """\
{:process 0 :type :invoke :f :write :value [1 5]}
{:process 0 :type :ok :f :write :value [1 5]}
{:process 1 :type :invoke :f :read :value [1 nil]}
{:process 1 :type :ok :f :read :value [1 5]}
{:process 1 :type :invoke :f :write :value [2 7]}
{:process 1 :type :ok :f :write :value [2 7]}
{:process 0 :type :invoke :f :read :value [1 nil]}
{:process 0 :type :ok :f :read :value [1 5]}
"""


ID = "{:process 0 :type :invoke :f :generate}\n{:process 0 :type :ok :f :generate :value 1}\n"


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (TUPLES, [], 2, "--independent or --no-independent"),
        (TUPLES, ["--independent"], 0, "valid"),
        ("{:process 0 :type :invoke :f :read}\n{:process 0 :type :ok :f :read :value {0 5 1 5}}",
         [], 2, "--workload bank"),
        ("{:process 0 :type :invoke :f :enqueue :value 1}", [], 2, "--checker total-queue"),
        ("{:process 0 :type :invoke :f :acquire}", [], 2, "--model mutex"),
        ("{:process 0 :type :invoke :f :add :value 1}", [], 2, "--checker set"),
        ("{:process 0 :type :invoke :f :frob :value 1}", [], 2, "frob"),
        ('{:process 0 :type :invoke :f :put :key "a" :value "x"}', [], 3, "under kv-map"),
        ('{:process 0 :type :invoke :f :put :table "a" :value "x"}', [], 2, "beside its value"),
        ("{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 2}",
         [], 2, "asked for"),
        (TUPLES.replace(":ok :f :read :value [1 5]", ":ok :f :read :value [2 5]"),
         ["--independent"], 2, "answered for key"),
        (ID + ID, [], 1, "unique"),
    ],
)  # fmt: skip
def test_a_foreign_file_is_not_judged_by_a_guess(
    tmp_path: Path, text: str, options: list[str], code: int, said: str
) -> None:
    path = tmp_path / "h.edn"
    path.write_text(text + "\n")
    done = CliRunner().invoke(app, ["check", str(path), *options])
    error = done.exception
    got = int(error.exit_code) if isinstance(error, DstestError) else done.exit_code
    assert got == code, (done.output, error)
    assert said in (str(error) if isinstance(error, DstestError) else done.output)


BANK = """\
{:process 0 :type :invoke :f :read}
{:process 0 :type :ok :f :read :value {0 5 1 4}}
{:process 0 :type :invoke :f :transfer :value {:from 0 :to 1 :amount 2}}
{:process 0 :type :ok :f :transfer :value {:from 0 :to 1 :amount 2}}
{:process 0 :type :invoke :f :read}
{:process 0 :type :ok :f :read :value {0 3 1 6}}
"""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 3),
        (["-o", "bank_total=9"], 0),
        (["-o", "bank_total=10"], 1),
        (["-o", "bank_accounts=2", "-o", "bank_total=9"], 0),
        (["-o", "bank_accounts=3", "-o", "bank_total=9"], 1),
        (["-o", "bank_accounts=2", "-o", "bank_balance=5"], 1),
        (["-o", "bank_total=nine"], 2),
        (["-o", "total=9"], 0),
        (["-o", "total=9", "-o", "bank_total=10"], 2),
        (["-o", "sum=9"], 2),
    ],
)
def test_a_bank_is_told_its_total(tmp_path: Path, options: list[str], code: int) -> None:
    path = tmp_path / "bank.edn"
    path.write_text(BANK)
    done = CliRunner().invoke(app, ["check", str(path), *options])
    error = done.exception
    got = int(error.exit_code) if isinstance(error, DstestError) else done.exit_code
    assert got == code, (done.output, error)
    if code == 3:
        assert "-o total=N" in done.output
    path.write_text(BANK.replace("1 6", "1 5"))
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 1
