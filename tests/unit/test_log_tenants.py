"""Values of tenants in logs of servers are told, and are no violation."""

from __future__ import annotations

from pathlib import Path

from log_files import ORIGIN, at, written

from dstest.core.op import Op
from dstest.debug.logs.analysis import CHECKS, Extra, LogAnalysis, Options, analyse
from dstest.debug.logs.lines import sources_of
from dstest.debug.logs.scene import CheckOutcome, Clocks, Scene, Windows
from workloads.boundary import BOUNDARY

OPTIONS = {name: option.default for name, option in BOUNDARY.options.items()}


def puts() -> list[Op]:
    """The first ten of the workload."""
    generator = BOUNDARY.generator(1, 0, 4, OPTIONS)
    drafts = [generator.next() for _ in range(200)]
    return [
        Op(
            op_id=n, process_id=0, invoke_ts=n, complete_ts=n + 1, op_type="put", key=draft.key,
            input=draft.input,
        )
        for n, draft in enumerate([d for d in drafts if d.op_type == "put"][:10])
    ]  # fmt: skip


def looked(folder: Path, *messages: str, ops: list[Op]) -> tuple[LogAnalysis, CheckOutcome]:
    lines = [f"{at(1)} [INFO]: {message}" for message in messages]
    sources = sources_of([written(folder, {"n1": lines})])
    scene = Scene(["n1"], Windows([], known=True), {}, named=True)
    extra = Extra(ops=enumerate(ops, 2))
    made = analyse(sources, scene, Clocks(ORIGIN, {}), None, Options(CHECKS), extra)
    return made, next(one for one in made.outcomes if one.check == "tenant_values")


def test_a_value_in_a_log_is_told_and_speaks_against_nobody(tmp_path: Path) -> None:
    ops = puts()
    mine, other = ops[0], next(op for op in ops if op.key != ops[0].key)
    made, one = looked(
        tmp_path,
        f"stored {mine.input['value']} of {mine.key}",
        f"stored {mine.input['value']} and {other.input['value']}",
        "stored secret-9-9-00000000 of nobody",
        f"tenant {mine.key} is served",
        ops=ops,
    )
    assert not one.not_evaluated and "10 values" in one.looked
    assert [(f.severity, f.count, f.nodes) for f in one.findings] == [
        ("medium", 1, ["n1"]),
        ("low", 1, ["n1"]),
    ]
    assert not [f for f in made.bad if f.check == "tenant_values"]


def test_calm_logs_and_other_workloads(tmp_path: Path) -> None:
    assert looked(tmp_path / "a", "serving", ops=puts())[1].findings == []
    assert looked(tmp_path / "b", "serving", ops=[])[1].not_evaluated
