"""One bad history per lint, each flagged once; a clean one flagged by none."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec
import pytest

from dstest.core.evidence import Lint
from dstest.core.history import ClockSource, FaultWindow, Header, History, epochs_of
from dstest.core.op import Op
from dstest.judge.lints import LintContext, end_of, lint

MS = 1_000_000
WINDOW = FaultWindow(
    epoch="f1", nemesis="partition", start_ns=1_000 * MS, healed_ns=2_000 * MS, heal_ns=1_900
)
CONTEXT = LintContext(
    op_types=frozenset({"read", "write"}),
    landed_epochs=frozenset({"f1"}),
    node_of_process={0: "n1", 1: "n2", 2: "n1"},
)


def clean_ops(count: int = 300) -> list[Op]:
    ops = []
    for i in range(count):
        start = i * 10 * MS
        stamped = "f1" if start <= 2_000 * MS and start + 5 * MS >= 1_000 * MS else None
        ops.append(
            Op(
                op_id=i,
                process_id=i % 2,
                invoke_ts=start,
                complete_ts=start + 5 * MS,
                op_type="read" if i % 3 else "write",
                key="r1",
                input=None if i % 3 else i,
                output=None if i % 3 == 0 else i - i % 3,
                node_seen="n1",
                fault_epoch=stamped,
            )
        )
    return ops


def history(ops: list[Op], **header: Any) -> History:
    fields: dict[str, Any] = {
        "clock": ClockSource(host="control"),
        "windows": [WINDOW],
        "counters": {"issued": len(ops), "invokes": len(ops)},
    }
    return History(header=Header(**(fields | header)), ops=ops)


def change(index: int, **fields: Any) -> History:
    ops = clean_ops()
    ops[index] = msgspec.structs.replace(ops[index], **fields)
    return history(ops)


def ids(found: Lint) -> dict[str, list[str]]:
    return {
        severity: list(getattr(found, severity))
        for severity in ("weak", "corrupt", "warning")
        if getattr(found, severity)
    }


def context(**fields: Any) -> LintContext:
    return msgspec.structs.replace(CONTEXT, **fields)


def family(name: str, *ops: Op, **fields: Any) -> tuple[History, LintContext]:
    return history(list(ops), windows=[]), LintContext(family=name, **fields)


def op(op_id: int, op_type: str, **fields: Any) -> Op:
    base: dict[str, Any] = {
        "process_id": op_id,
        "invoke_ts": op_id * MS,
        "complete_ts": op_id * MS + MS,
        "node_seen": "n1",
    }
    return Op(op_id=op_id, op_type=op_type, **(base | fields))


BAD: dict[str, tuple[str, History, LintContext]] = {
    "H02": ("corrupt", change(7, op_id=6), CONTEXT),
    "H03 none": ("weak", history(clean_ops(), clock=None), CONTEXT),
    "H03 wall": ("corrupt", history(clean_ops(), clock=ClockSource(name="WALL")), CONTEXT),
    "H03 alone": (
        "weak",
        history(clean_ops(), clock=ClockSource(name="WALL")),
        context(compares_processes=False),
    ),
    "H04 weak": ("weak", change(299, complete_ts=None, output=None), CONTEXT),
    "H04 output": ("corrupt", change(299, complete_ts=None, output=5), CONTEXT),
    "H05 output": ("corrupt", change(299, timeout_marker=True, complete_ts=None), CONTEXT),
    "H05 time": ("corrupt", change(299, timeout_marker=True, output=None), CONTEXT),
    "H06": ("corrupt", change(10, complete_ts=99 * MS), CONTEXT),
    "H07": ("corrupt", change(10, error="boom"), CONTEXT),
    "H08 wrong": ("weak", change(150, fault_epoch="f2"), CONTEXT),
    "H08 absent": ("weak", change(150, fault_epoch=None), CONTEXT),
    "H09 overlap": ("corrupt", change(10, complete_ts=121 * MS), CONTEXT),
    "H09 reuse": (
        "corrupt",
        change(
            210, complete_ts=None, timeout_marker=True, output=None, fault_epoch=None, error="x"
        ),
        CONTEXT,
    ),
    "H10": ("weak", change(10, node_seen=None), CONTEXT),
    "H11": ("weak", change(10, op_type="cas"), CONTEXT),
    "H14 issued": ("corrupt", history(clean_ops(), counters={"issued": 301}), CONTEXT),
    "H14 none": ("weak", history(clean_ops(), counters={}), CONTEXT),
    "H14 ok": ("corrupt", history(clean_ops(), counters={"issued": 300, "ok": 299}), CONTEXT),
    "H14 wrong": ("corrupt", history(clean_ops()), context(mismatches=["a line is damaged"])),
    "H14 forgiven": ("warning", history(clean_ops()), context(forgiven=["a last line is torn"])),
    "H15": ("warning", history(clean_ops()), context(hidden_retries=True)),
    "H16": ("weak", history(clean_ops()), context(sends=[("worker 0", 5, 5), ("worker 1", 5, 6)])),
    "H17": ("warning", history(clean_ops()), context(ops_eligible=300, ops_consumed=299)),
    "H18 window": ("weak", history(clean_ops()), context(ops_per_epoch_min=200)),
    "H18 node": ("weak", history(clean_ops()), context(node_of_process={0: "n1", 9: "n3"})),
    "H12 queue": (
        "weak",
        *family("queue", op(1, "enqueue", input=1), op(2, "enqueue", input=2, invoke_ts=MS)),
    ),
    "H12 log": ("weak", *family("log", op(1, "read", output=[1]))),
    "H12 counter": ("weak", *family("counter", op(1, "inc"))),
    "H12 ledger": ("weak", *family("ledger", op(1, "credit", key="a", input=5))),
    "H12 session": ("weak", *family("session", op(1, "write", input=5))),
    "H12 lease": ("weak", *family("lease", op(1, "acquire"), lease_ttl_ns=5)),
    "H13 op_id": (
        "weak",
        *family(
            "none",
            op(1, "credit", input={"id": 1}),
            op(2, "credit", input={"id": 9}),
            op(3, "credit", input={"id": 9}),
            idem_field="id",
        ),
    ),
    "H13 vacuous": ("weak", *family("none", op(1, "credit", input={"id": 9}), idem_field="id")),
}


@pytest.mark.parametrize("name", BAD)
def test_each_lint_is_flagged_alone(name: str) -> None:
    severity, bad, ctx = BAD[name]
    assert ids(lint(bad, context=ctx)) == {severity: [name.split()[0]]}


def test_a_clean_history_has_no_lint() -> None:
    assert lint(history(clean_ops()), context=CONTEXT) == Lint()


def test_h01_reads_the_raw_records() -> None:
    good = history(clean_ops())
    raw = [msgspec.to_builtins(o) for o in good.ops]
    assert lint(good, raw, CONTEXT) == Lint()
    for name in ("node_seen", "fault_epoch"):
        del raw[3][name]
    found = lint(good, raw, CONTEXT)
    assert ids(found) == {"weak": ["H01"]}
    assert found.weak["H01"] == "record 3 lacks fault_epoch, node_seen"


def test_an_open_window_lasts_to_the_end_of_the_run() -> None:
    windows = [FaultWindow(epoch="f1", nemesis="partition", start_ns=1_000 * MS)]
    ops = [
        msgspec.structs.replace(o, fault_epoch="f1" if o.invoke_ts >= 1_000 * MS - 5 * MS else None)
        for o in clean_ops()
    ]
    assert lint(history(ops, windows=windows), context=CONTEXT) == Lint()


def test_the_first_of_two_overlapping_windows_counts() -> None:
    second = FaultWindow(epoch="f2", nemesis="kill", start_ns=1_500 * MS, healed_ns=1_800 * MS)
    assert lint(history(clean_ops(), windows=[WINDOW, second]), context=CONTEXT) == Lint()


@pytest.mark.parametrize("seed", range(30))
def test_epochs_are_recomputed_as_defined(seed: int) -> None:
    dice = random.Random(seed)
    windows = []
    for i in range(dice.randrange(6)):
        start = dice.randrange(100)
        healed = None if dice.random() < 0.2 else start + dice.randrange(40)
        windows.append(FaultWindow(epoch=f"f{i}", nemesis="kill", start_ns=start, healed_ns=healed))
    ops = []
    for i in range(60):
        start = dice.randrange(140)
        unknown = dice.random() < 0.2
        draft = Op(
            op_id=i,
            process_id=i,
            invoke_ts=start,
            complete_ts=None if unknown else start + dice.randrange(30),
            op_type="read",
            timeout_marker=unknown,
            node_seen="n1",
        )
        first = next(iter(epochs_of(draft, windows, 200)), None)
        ops.append(msgspec.structs.replace(draft, fault_epoch=first))
    ctx = LintContext(end_ns=200)
    assert lint(history(ops, windows=windows), context=ctx) == Lint()
    ops[7] = msgspec.structs.replace(ops[7], fault_epoch="f9")
    assert ids(lint(history(ops, windows=windows), context=ctx)) == {"weak": ["H08"]}


def test_an_imported_history_needs_no_counters() -> None:
    assert lint(history(clean_ops(), counters={}, source="jepsen"), context=CONTEXT) == Lint()


def test_the_number_of_offenders_is_said() -> None:
    ops = [msgspec.structs.replace(o, node_seen=None) for o in clean_ops()]
    assert lint(history(ops), context=CONTEXT).weak["H10"].endswith("(300 in all)")


def test_every_thin_window_is_told_the_emptiest_first() -> None:
    found = lint(history(clean_ops()), context=context(ops_per_epoch_min=200)).weak["H18"]
    assert found.startswith("too few operations in windows, 200 are needed: ")
    assert "in all" not in found and " in f1" in found
    quiet = context(node_of_process={0: "n1", 9: "n3", 10: "n4"})
    found = lint(history(clean_ops()), context=quiet).weak["H18"]
    assert found.startswith("too few operations at nodes, ") and "0 at n3 in f1" in found
    assert "0 at n4 in f1" in found and "in all" not in found


def test_an_empty_history_is_linted() -> None:
    assert "H18" in lint(history([]), context=CONTEXT).weak


def test_a_hundred_thousand_operations_in_a_second() -> None:
    big = history(clean_ops(100_000))
    raw = [msgspec.to_builtins(o) for o in big.ops]
    start = time.process_time()
    found = lint(big, raw, CONTEXT)
    assert time.process_time() - start < 1.0
    assert found == Lint()


@pytest.mark.parametrize(
    ("ops", "windows", "end_ns"),
    [
        ([], [], 0),
        ([(5, 9), (6, 8)], [], 9),
        ([(5, None), (3, 4)], [], 5),
        ([(5, 9)], [WINDOW], WINDOW.healed_ns),
        ([(5, 9)], [msgspec.structs.replace(WINDOW, healed_ns=None)], WINDOW.start_ns),
    ],
)
def test_the_end_of_a_run_is_its_last_stamp(ops: Any, windows: Any, end_ns: int) -> None:
    one = clean_ops(1)[0]
    stamped = [msgspec.structs.replace(one, invoke_ts=a, complete_ts=b) for a, b in ops]
    assert end_of(history(stamped, windows=windows)) == end_ns
