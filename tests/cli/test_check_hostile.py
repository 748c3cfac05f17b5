"""`dstest check` of hostile files: never exit 0 where it is not earned, never a crash.

Each attack is one thing done to a history; the exit codes that are allowed stand beside it.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checking import (
    KIND_OF,
    NEVER_CLEAN,
    REFUSED,
    UNSURE,
    check,
    generated,
    ours,
    put,
    text_of,
    written,
)
from forked import dstest

from dstest.core.op import Op

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
Attack = Callable[[Rows], Rows]


@pytest.fixture(autouse=True)
def judged(request: pytest.FixtureRequest) -> None:
    """In the process of the test, but for the bank's: its checkers keep theirs."""
    if "bank" not in request.node.name:
        request.getfixturevalue("judge_here")


def at(rows: Rows, outcome: str = "ok", *, after: int = 20, **fields: Any) -> int:
    """The first row from `after` on that ended so."""
    for i, row in enumerate(rows):
        state = (
            "unknown" if row.get("complete_ts") is None else "fail" if row.get("error") else "ok"
        )
        if i >= after and state == outcome and all(row.get(k) == v for k, v in fields.items()):
            return i
    raise LookupError(outcome)


def changed(outcome: str = "ok", **fields: Any) -> Attack:
    def attack(rows: Rows) -> Rows:
        i = at(rows, outcome)
        return [*rows[:i], {**rows[i], **fields}, *rows[i + 1 :]]

    return attack


def doubled_line(rows: Rows) -> Rows:
    i = at(rows)
    return [*rows[: i + 1], rows[i], *rows[i + 1 :]]


def doubled_later(rows: Rows) -> Rows:
    return [*rows, rows[at(rows)]]


def dropped(rows: Rows) -> Rows:
    i = at(rows)
    rows[0] = {**rows[0], "counters": {**rows[0].get("counters", {}), "issued": len(rows) - 1}}
    return [*rows[:i], *rows[i + 1 :]]


def counted(**more: int) -> Attack:
    def attack(rows: Rows) -> Rows:
        return [{**rows[0], "counters": more}, *rows[1:]]

    return attack


def all_ids_equal(rows: Rows) -> Rows:
    return [rows[0], *({**row, "op_id": 1} for row in rows[1:])]


def two_at_a_time(rows: Rows) -> Rows:
    i = at(rows)
    return [rows[0], *({**row, "process_id": rows[i]["process_id"]} for row in rows[1:])]


def on_after_unknown(rows: Rows) -> Rows:
    i = at(rows)
    gone = {**rows[i], "complete_ts": None, "output": None, "error": "x", "timeout_marker": True}
    return [*rows[:i], gone, *rows[i + 1 :]]


def two_ids_in_words(rows: Rows) -> Rows:
    made = [{**row, "op_id": f"op-{row['op_id']}"} for row in rows[1:]]
    made[5]["op_id"] = made[40]["op_id"]
    return [rows[0], *made]


def unmarked(rows: Rows) -> Rows:
    """The last operation of all never ended, and nobody says so."""
    last = {**rows[-1], "complete_ts": None, "output": None, "error": None}
    return [{**rows[0], "counters": {}}, *rows[1:-1], {**last, "timeout_marker": False}]


CORRUPT: dict[str, tuple[Attack, set[int]]] = {
    "a line twice": (doubled_line, REFUSED),
    "a line again at the end": (doubled_later, REFUSED),
    "a line dropped that was counted": (dropped, REFUSED),
    "more issued": (counted(issued=10**6), REFUSED),
    "fewer issued": (counted(issued=4), REFUSED),
    "more unknown": (counted(unknown=10**6), REFUSED),
    "fewer ok": (counted(ok=1), REFUSED),
    "all ids equal": (all_ids_equal, REFUSED),
    "two ids equal, in words": (two_ids_in_words, REFUSED),
    "one process for all": (two_at_a_time, REFUSED),
    "a process goes on after unknown": (on_after_unknown, REFUSED),
    "not marked unknown": (unmarked, UNSURE),
    "answered though unknown": (changed(timeout_marker=True), REFUSED),
    "output and no end": (changed(complete_ts=None), REFUSED),
    "an error and an output": (changed(error="conflict"), REFUSED),
    "ended before it began": (changed(complete_ts=-1), REFUSED),
    "a type nobody knows": (changed(op_type="Dequeue"), UNSURE),
    "no type": (changed(op_type=None), REFUSED),
    "a process that is a list": (changed(process_id=[1]), REFUSED),
    "a time that is text": (changed(invoke_ts="7"), REFUSED),
    "a time that is no integer": (changed(invoke_ts=7.5), REFUSED),
    "an end beyond 64 bits": (changed(complete_ts=2**70), REFUSED),
}


@pytest.mark.parametrize("name", CORRUPT)
@pytest.mark.parametrize("kind", KIND_OF)
@pytest.mark.sampled(30)
def test_what_contradicts_itself_is_never_clean(tmp_path: Path, kind: str, name: str) -> None:
    attack, allowed = CORRUPT[name]
    workload = KIND_OF[kind]
    rows = generated(kind) if workload is None else ours(kind, workload=workload)
    path = put(tmp_path, written(rows))
    assert check(path)[0] in ({0, 1} if kind == "total-queue" else {0}), check(path)
    code, said = check(put(tmp_path, written(attack(rows))))
    assert code in allowed, said
    packed = gzip.compress(written(attack(rows)))
    assert check(put(tmp_path, packed, "h.jsonl.gz"))[0] in allowed


def twice(field: str, value: str, nested: bool = False) -> Callable[[bytes], bytes]:
    def attack(text: bytes) -> bytes:
        head, *rest = text.splitlines(keepends=True)
        rest[30] = rest[30].replace(b"{", f'{{"{field}":{value},'.encode(), 1)
        return head + b"".join(rest)

    return attack


BYTES: dict[str, tuple[Callable[[bytes], bytes], set[int]]] = {
    "an output twice": (twice("output", "null"), REFUSED),
    "an id twice": (twice("op_id", "123456"), REFUSED),
    "a process twice": (twice("process_id", "99"), REFUSED),
    "a time twice": (twice("complete_ts", "999999999999"), REFUSED),
    "a key twice": (twice("key", '"k"'), REFUSED),
    "a marker twice": (twice("timeout_marker", "false"), REFUSED),
    "an error twice": (twice("error", '"e"'), REFUSED),
    "counters twice": (lambda t: t.replace(b"{", b'{"counters":{},', 1), REFUSED),
    "a model twice": (lambda t: t.replace(b"{", b'{"model":"read-committed",', 1), REFUSED),
    "empty": (lambda t: b"", REFUSED),
    "the header alone": (lambda t: t.splitlines(keepends=True)[0], UNSURE),
    "no header": (lambda t: b"".join(t.splitlines(keepends=True)[1:]), REFUSED),
    "no schema": (lambda t: t.replace(b'"schema":"dstest.history/1",', b"", 1), REFUSED),
    "another schema": (lambda t: t.replace(b"history/1", b"history/2", 1), REFUSED),
    "two headers": (lambda t: t.splitlines(keepends=True)[0] + t, REFUSED),
    "two histories": (lambda t: t + t, REFUSED),
    "two histories, one header": (lambda t: t + b"".join(t.splitlines(True)[1:]), REFUSED),
    "cut in a line": (lambda t: t[: len(t) * 2 // 3 // 10 * 10 + 7].rstrip(b"\n"), REFUSED),
    "no last newline": (lambda t: t[:-1], REFUSED),
    "a NUL": (lambda t: t.replace(b'"op_id"', b'"op\0id"', 1), REFUSED),
    "no UTF-8": (lambda t: t.replace(b'"error":null', b'"error":"\xff"', 1), REFUSED),
    "a lone surrogate": (lambda t: t.replace(b'"key":null', b'"key":"\\ud800"', 1), UNSURE | {0}),
    "NaN": (lambda t: t.replace(b'"complete_ts":', b'"complete_ts":NaN,"x":', 1), REFUSED),
    "a comment": (lambda t: t + b"# all good\n", REFUSED),
    "EDN within": (lambda t: t + b"{:type :ok, :process 0}\n", REFUSED),
    "UTF-16": (lambda t: t.decode().encode("utf-16"), REFUSED),
    "half a gzip": (lambda t: gzip.compress(t)[:-20], REFUSED),
    "a gzip with a bit flipped": (
        lambda t: (g := gzip.compress(t))[:200] + bytes([g[200] ^ 4]) + g[201:], REFUSED,
    ),
    "gzip in gzip": (lambda t: gzip.compress(gzip.compress(t)), REFUSED),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("kind", ["bank", "list-append", "set-full"])
def test_damaged_bytes_are_never_clean(tmp_path: Path, kind: str, name: str) -> None:
    attack, allowed = BYTES[name]
    code, said = check(put(tmp_path, attack(text_of(kind))))
    assert code in allowed, said


@pytest.mark.parametrize("kind", ["bank", "list-append"])
def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path, kind: str) -> None:
    text = text_of(kind)
    assert check(put(tmp_path, b"\xef\xbb\xbf" + text))[0] == 0
    assert check(put(tmp_path, text.replace(b"\n", b"\r\n")))[0] == 0


def of_type(op_type: str, output: Any, **more: Any) -> bytes:
    op = Op(
        op_id=0, process_id=0, invoke_ts=0, complete_ts=1, op_type=op_type, output=output, **more
    )
    read = Op(op_id=1, process_id=1, invoke_ts=2, complete_ts=3, op_type="read", output=output)
    return written([{"schema": "dstest.history/1"}, *map(msgspec.to_builtins, (op, read))])


@pytest.mark.parametrize("depth", [90, 200, 500, 900, 20_000])
@pytest.mark.parametrize(
    "workload", ["cas-register", "set", "bank", "queue", "watch", "list-append"]
)
def test_deep_nesting_is_no_crash(tmp_path: Path, workload: str, depth: int) -> None:
    inner = "[" * depth + "]" * depth
    deep = of_type("write", "@").replace(b'"@"', inner.encode())
    assert check(put(tmp_path, deep), "--workload", workload)[0] in NEVER_CLEAN
    event = f'{{"process":0,"type":"invoke","f":"write","value":{inner}}}\n'
    assert check(put(tmp_path, event, "h.json"), "--workload", workload)[0] in NEVER_CLEAN
    edn = f"{{:process 0 :type :invoke :f :write :value {inner}}}\n"
    assert check(put(tmp_path, edn, "h.edn"), "--workload", workload)[0] in NEVER_CLEAN


@pytest.mark.parametrize("number", ["9" * 30, "-" + "9" * 400, "1e400", "1" + "0" * 5000, "1e-400"])
def test_numbers_of_any_size_are_no_crash(tmp_path: Path, number: str) -> None:
    for workload in ("cas-register", "set", "counter", "unique-ids"):
        text = of_type("write", "@").replace(b'"@"', number.encode())
        assert check(put(tmp_path, text), "--workload", workload)[0] in {0, 1, 2, 3}
    event = f'{{"process":0,"type":"invoke","f":"txn","value":[["append",1,{number}]]}}\n'
    assert check(put(tmp_path, event, "h.json"))[0] in UNSURE


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        *(("cas", b) for b in ("1", "4", "8")),
        ("bank", "1"),
        ("list-append", "1"),
        ("total-queue", "8"),
    ],
)
def test_small_memory_is_unknown(tmp_path: Path, kind: str, budget: str) -> None:
    if kind == "cas":
        rows = [{"schema": "dstest.history/1", "workload": "cas-register"}]
        for i in range(3000):
            op = Op(op_id=i, process_id=i % 5, invoke_ts=10 * i, complete_ts=10 * i + 5,
                    op_type="write", key=f"k{i % 7}", input=i)  # fmt: skip
            rows.append(msgspec.to_builtins(op))
        text = written(rows)
    else:
        text = text_of(kind)
    ran = dstest("check", put(tmp_path, text), "--budget-mb", budget)
    assert ran.returncode in {0, 3}, ran.stderr
    assert "Traceback" not in ran.stderr


def peak_mb(path: Path, *options: str) -> tuple[int, float]:
    """Exit code and peak memory of a check in a process of its own."""
    code = (
        "import resource,subprocess,sys\n"
        "r=subprocess.run([sys.executable,'-m','dstest','check',*sys.argv[1:]],"
        "capture_output=True,timeout=100)\n"
        "print(r.returncode,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path), *options],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    code_, peak = ran.stdout.split()
    return int(code_), float(peak)


@pytest.mark.parametrize("notation", ["ours", "ours-txn", "edn", "json"])
def test_a_small_file_that_unpacks_to_much_stays_within_the_budget(
    tmp_path: Path, notation: str
) -> None:
    if notation == "ours":
        text = of_type("write", None, input=1)
        line = text.splitlines(keepends=True)[1]
        text = text.splitlines(keepends=True)[0] + line * 600_000
    elif notation == "ours-txn":
        head, line = text_of("list-append").splitlines(keepends=True)[:2]
        text = head + line * 600_000
    elif notation == "edn":
        text = b"{:process 0 :type :invoke :f :write :value 1}\n" * 1_500_000
    else:
        text = b'{"process":0,"type":"invoke","f":"write","value":1}\n' * 1_500_000
    path = put(tmp_path, gzip.compress(text, 1), "bomb.gz")
    assert path.stat().st_size < 3 << 20
    code, peak = peak_mb(path, "--budget-mb", "100", "--workload",
                         "list-append" if notation == "ours-txn" else "cas-register")  # fmt: skip
    assert code in UNSURE
    assert peak < 260
