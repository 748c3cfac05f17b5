"""`dstest check` of files that leave something out, or say it in other words: nothing is dropped
without a word, and nothing that is absent is taken for null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checking import check, put
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.op import Op

pytestmark = pytest.mark.slow

Row = dict[str, Any]


def written(rows: list[Row]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def record(number: int, op_type: str, **fields: Any) -> Row:
    """A record of ours; sequential, each by process 0 unless told otherwise."""
    times = {"invoke_ts": 10 * number, "complete_ts": 10 * number + 5}
    op = {"op_id": number, "process_id": 0, **times, "op_type": op_type, **fields}
    return dict(msgspec.to_builtins(Op(**op)))


def ours(folder: Path, *rows: Row, **header: Any) -> Path:
    return put(folder, written([{"schema": "dstest.history/1", **header}, *rows]))


def renamed(row: Row, field: str, other: str, value: Any) -> Row:
    return {**{k: v for k, v in row.items() if k != field}, other: value}


def jepsen(folder: Path, *events: Row, name: str = "h.json") -> Path:
    return put(folder, "".join(json.dumps(event) + "\n" for event in events), name)


def event(process: Any, kind: str, f: str, value: Any = None, **more: Any) -> Row:
    return {"process": process, "type": kind, "f": f, "value": value, **more}


def txn(number: int, *mops: list[Any], **more: Any) -> Row:
    asked = [[f, k, None if f == "r" else v] for f, k, v in mops]
    return record(number, "txn", input=asked, output=[list(mop) for mop in mops], **more)


REGISTER = (record(0, "write", key="x", input=1), record(1, "read", key="x", output=1))
TXNS = (txn(0, ["append", 1, 1]), txn(1, ["r", 1, [1]]))


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("output", "value"), ("output", "val"), ("output", "out"), ("output", "result"),
        ("key", "obj"), ("error", "err"), ("node_seen", "node"), ("input", "Input"),
        ("timeout_marker", "timed_out"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("workload", ["cas-register", "list-append"])
def test_a_field_of_another_name_is_refused(
    tmp_path: Path, workload: str, field: str, other: str
) -> None:
    rows = list(REGISTER if workload == "cas-register" else TXNS)
    assert check(ours(tmp_path, *rows, workload=workload))[0] == 0
    for beside in (False, True):
        odd = {**rows[1], other: 77} if beside else renamed(rows[1], field, other, 77)
        code, said = check(ours(tmp_path, rows[0], odd, workload=workload))
        assert code == 2
        assert other in said
        assert "line 3" in said


@pytest.mark.parametrize("workload", ["cas-register", "list-append"])
def test_documented_extensions_are_read(tmp_path: Path, workload: str) -> None:
    rows = REGISTER if workload == "cas-register" else TXNS
    more = {"retry_of": 0, "fault_epochs": ["f1"], "error_ts": 7, "idx": 3}
    code, said = check(ours(tmp_path, *({**row, **more} for row in rows), workload=workload))
    assert code == 0, said


@pytest.mark.parametrize("field", ["complete_ts", "input", "output", "error", "timeout_marker"])
@pytest.mark.parametrize("workload", ["cas-register", "list-append", "unique-ids", "queue"])
def test_a_record_that_lacks_a_field_is_never_clean(
    tmp_path: Path, workload: str, field: str
) -> None:
    rows: dict[str, list[Row]] = {
        "cas-register": list(REGISTER),
        "list-append": list(TXNS),
        "unique-ids": [record(0, "generate", output=1), record(1, "generate", output=2)],
        "queue": [record(0, "enqueue", input=1), record(1, "dequeue", output=1),
                  record(2, "dequeue")],
    }  # fmt: skip
    made = rows[workload]
    made[-1] = {k: v for k, v in made[-1].items() if k != field}
    code, said = check(ours(tmp_path, *made, workload=workload))
    assert code in {2, 3}, said


@pytest.mark.parametrize("due", [-1, 11, 1 << 63, 1 << 70])
@pytest.mark.parametrize("workload", ["cas-register", "list-append"])
def test_what_was_due_after_it_was_sent_contradicts_itself(
    tmp_path: Path, workload: str, due: int
) -> None:
    first, then = REGISTER if workload == "cas-register" else TXNS
    for told, code in ((0, 0), (10, 0), (due, 2)):
        path = ours(tmp_path, first, {**then, "due_ts": told}, workload=workload)
        got, said = check(path, "--checker", "slo", "-o", "slo=p50_ms<=100,gap_s<1")
        assert got in {code, 3 if code == 0 else 2}, said
        if workload == "cas-register":
            assert check(path)[0] == code


def test_a_violation_without_a_field_is_one(tmp_path: Path) -> None:
    bad = record(1, "read", key="x", output=9)
    del bad["error"]
    assert check(ours(tmp_path, REGISTER[0], bad, workload="cas-register"))[0] == 1


def called(process: Any, f: str, asked: Any, told: Any, **more: Any) -> list[Row]:
    return [event(process, "invoke", f, asked, **more), event(process, "ok", f, told, **more)]


WRITE_READ = [*called(0, "write", 1, 1), *called(0, "read", None, 1)]
APPEND_READ = [
    *called(0, "txn", [["append", 1, 1]], [["append", 1, 1]]),
    *called(0, "txn", [["r", 1, None]], [["r", 1, [1]]]),
]


@pytest.mark.parametrize("process", ["c1", "1", "client", ":worker", 1.5])
def test_a_client_that_has_a_name_is_not_left_out(tmp_path: Path, process: Any) -> None:
    wrong = called(process, "read", None, 77)
    code, said = check(jepsen(tmp_path, *WRITE_READ[:2], *wrong, *WRITE_READ[2:]))
    assert (code, "process" in said) == (2, True), said
    wrong = called(process, "txn", [["r", 1, None]], [["r", 1, [9]]])
    code, said = check(jepsen(tmp_path, *APPEND_READ[:2], *wrong, *APPEND_READ[2:]))
    assert (code, "process" in said) == (2, True), said
    edn = "".join(
        f'{{:process {p} :type {t} :f :read :value {v}}}\n'
        for p in ('"1"', ":c") for t, v in ((":invoke", "nil"), (":ok", "77"))
    )  # fmt: skip
    assert check(put(tmp_path, edn, "h.edn"), "--workload", "cas-register")[0] == 2


@pytest.mark.parametrize("name", ["nemesis", ":nemesis", "nemesis-2"])
def test_the_nemesis_is_innocent(tmp_path: Path, name: str) -> None:
    fault = [event(name, "info", "start", "partition"), event(name, "info", "stop")]
    assert check(jepsen(tmp_path, *WRITE_READ[:2], *fault, *WRITE_READ[2:]))[0] == 0
    assert check(jepsen(tmp_path, *APPEND_READ[:2], *fault, *APPEND_READ[2:]))[0] == 0


def numbered(events: list[Row], *fields: str) -> list[Row]:
    return [{**e, **dict.fromkeys(fields, 10 * i)} for i, e in enumerate(events)]


@pytest.mark.parametrize("events", [WRITE_READ, APPEND_READ], ids=["register", "txn"])
def test_file_order_does_not_win_over_index_and_time(tmp_path: Path, events: list[Row]) -> None:
    for fields in (("index",), ("time",), ("index", "time")):
        whole = numbered(events, *fields)
        assert check(jepsen(tmp_path, *whole))[0] == 0
        swapped = [*whole[2:], *whole[:2]]
        code, said = check(jepsen(tmp_path, *swapped))
        assert code == (0 if "index" in fields else 2), said
        assert code == 0 or "order" in said or "sort" in said
    stale = [*called(1, "read", None, None, index=9), *called(0, "write", 1, 1, index=1)]
    stale = [{**e, "index": e["index"] + i % 2} for i, e in enumerate(stale)]
    assert check(jepsen(tmp_path, *stale))[0] == 1


EXPORTED = (
    (
        '{"index":0,"time":10,"process":0,"type":"invoke","f":"write","value":["x",1],"dstest":'
        '{"header":{"schema":"dstest.history/1","workload":"register"},"keyed":true}}'
    ),
    '{"index":1,"time":20,"process":0,"type":"ok","f":"write","value":["x",1],"dstest":{"id":0}}',
    '{"index":2,"time":30,"process":1,"type":"invoke","f":"read","value":["x",null]}',
    '{"index":3,"time":40,"process":1,"type":"ok","f":"read","value":["x",1],"dstest":{"id":1}}',
)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (2, {"time": None}), (2, {"time": 30.0}), (2, {"time": -5}), (3, {"time": "40"}),
        (2, {"time": 5}), (3, {"time": 25}),
        (3, {"dstest": {"id": 1, "output": 2}}),
        (3, {"value": ["x", 77], "dstest": {"id": 1, "output": 1}}),
        (3, {"type": "info", "dstest": {"id": 1, "output": 1}}),
    ],
)  # fmt: skip
def test_an_export_that_contradicts_itself_is_refused(
    tmp_path: Path, line: int, change: Row
) -> None:
    events = [json.loads(text) for text in EXPORTED]
    assert check(jepsen(tmp_path, *events))[0] == 0
    events[line] |= change
    code, said = check(jepsen(tmp_path, *events))
    assert code == 2, said
    assert f"line {line + 1}" in said


@pytest.mark.parametrize("f", ["read", "dequeue", "txn"])
def test_an_answer_without_a_value_is_not_null(tmp_path: Path, f: str) -> None:
    begun = called(0, "enqueue", 1, 1) if f == "dequeue" else WRITE_READ[:2]
    options = ["--model", "fifo-queue"] if f == "dequeue" else []
    begun, options = (APPEND_READ, []) if f == "txn" else (begun, options)
    silent: list[Row] = [{k: v for k, v in e.items() if k != "value"} | {"val": [["r", 1, [9]]]}
                         for e in called(0, f, None, None)]  # fmt: skip
    code, said = check(jepsen(tmp_path, *begun, *silent), *options)
    assert code in {2, 3}, said
    code, said = check(jepsen(tmp_path, *silent, *begun), *options)
    assert code in {2, 3}, said


def test_without_invocations_real_time_is_unknown(tmp_path: Path) -> None:
    path = jepsen(tmp_path, *APPEND_READ[1::2])
    for model in ("strict-serializable", "strong-session-serializable"):
        code, said = check(path, "--model", model)
        assert (code, "invocation" in said) == (3, True), said
    assert check(path, "--model", "serializable")[0] == 0


@pytest.mark.parametrize(
    "odd",
    [
        "INFO  jepsen.util - 2\t:OK\t:read\t9",
        "INFO  jepsen.util - 2\t:done\t:read\t9",
        "INFO  jepsen.core - 2\t:ok\t:read\t9",
        "INFO  jepsen.util - 2\t:ok\t:read",
    ],
)
def test_a_log_line_that_looks_like_an_event_is_not_passed_over(tmp_path: Path, odd: str) -> None:
    start = "INFO  jepsen.util - "
    rows = [f"{start}0\t:invoke\t:write\t1", f"{start}0\t:ok\t:write\t1"]
    other = [
        "INFO  jepsen.os.debian - :n4 setting up debian",
        f"{start}:nemesis\t:info\t:start\tnil",
    ]
    fine = "\n".join([*rows, *other, f"{start}2\t:invoke\t:read\tnil", f"{start}2\t:ok\t:read\t1"])
    assert check(put(tmp_path, fine + "\n", "h.log"))[0] == 0
    bad = "\n".join([*rows, f"{start}2\t:invoke\t:read\tnil", odd])
    code = 1 if "jepsen.core" in odd else 2  # an event, whichever of Jepsen's loggers wrote it
    assert check(put(tmp_path, bad + "\n", "h.log"))[0] == code


UNREAD: dict[str, tuple[str, str, Any]] = {
    "set": ("add", "read", [0]),
    "set-full": ("add", "read", [0]),
    "no-lost-ack": ("add", "read", [0]),
    "counter": ("inc", "read", 1),
}


@pytest.mark.parametrize("checker", UNREAD)
def test_a_key_that_nobody_read_is_undecided(tmp_path: Path, checker: str) -> None:
    write, read, told = UNREAD[checker]
    asked = 1 if write == "inc" else 0
    seen = [record(0, write, key="A", input=asked), record(1, read, key="A", output=told)]
    blind = [record(10 + i, write, key="B", input=i + 1) for i in range(30)]
    options = ["--workload", "counter"] if checker == "counter" else ["--checker", checker]
    assert check(ours(tmp_path, *seen), *options)[0] == 0
    code, said = check(ours(tmp_path, *seen, *blind), *options)
    assert (code, '"B"' in said, "1 of 2 keys decided" in said) == (3, True, True), said


@pytest.mark.parametrize(
    "options",
    [
        {"bank_negative": "false"}, {"bank_negative": 1}, {"bank_total": "20"},
        {"bank_total": 20.0}, {"bank_total": True}, {"counter_start": "NaN"},
        {"fairness_p99_ratio": "inf"}, {"invariants": 7}, {"fairness_by": "moon"},
    ],
)  # fmt: skip
def test_options_of_the_header_have_types(tmp_path: Path, options: Row) -> None:
    moved = record(0, "transfer", input={"from": 0, "to": 1, "amount": 1}, output=True)
    rows = [moved, record(1, "read", output={"0": 9, "1": 11})]
    fine = {"bank_total": 20, "bank_negative": False}
    assert check(ours(tmp_path, *rows, workload="bank", options=fine))[0] == 0
    code, said = check(ours(tmp_path, *rows, workload="bank", options={**fine, **options}))
    assert (code, next(iter(options)) in said) == (2, True), said


@pytest.mark.parametrize(
    "odd",
    [
        {"model": "snapshot-isolation"}, {"Models": ["serializable"]}, {"option": {}},
        {"opts": {"anomaly": ["G1a"]}}, {"opts": {"wfr_keys": True}},
        {"opts": {"wfr-keys?": "false"}},
    ],
)  # fmt: skip
def test_a_batch_line_with_an_unknown_field_is_refused(tmp_path: Path, odd: Row) -> None:
    line = {"name": "n", "workload": "list-append", "history": APPEND_READ}
    for more, code in (({}, 0), (odd, 2)):
        path = put(tmp_path, json.dumps({**line, **more}) + "\n")
        done = CliRunner().invoke(app, ["check", "--batch", str(path)])
        assert done.exit_code == code, done.output


def test_tokens_that_are_no_numbers_are_undecided(tmp_path: Path) -> None:
    def hold(number: int, process: int, token: Any) -> Row:
        times = {"invoke_ts": 100 * number, "complete_ts": 100 * number + 1}
        asked = {"ttl_ns": 20}
        return record(number, "acquire", input=asked, output={"token": token},
                      process_id=process) | times  # fmt: skip

    # Refused while the first one holds: without that nothing is tested.
    refused = hold(2, 2, None) | {"output": False, "invoke_ts": 2, "complete_ts": 3}
    for first, second, code in ((4, 5, 0), ("9", "4", 3), (4, "5", 3), (9, 4, 1)):
        path = ours(tmp_path, hold(0, 0, first), refused, hold(1, 1, second), workload="lease")
        got, said = check(path)
        assert got == code, said


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_lone_surrogate_is_no_crash(tmp_path: Path, options: list[str]) -> None:
    for f in ("generate", "read"):
        events = [*called(0, f, None, "\ud800"), *called(0, f, None, "\ud800")]
        code, said = check(jepsen(tmp_path, *events), *options)
        assert code in {1, 2}, said
        assert "\ud800" not in said
