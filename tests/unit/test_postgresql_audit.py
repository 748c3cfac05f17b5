"""What PostgreSQL says that it has committed: rows of logical decoding."""

from __future__ import annotations

import json
from pathlib import Path

from clusters.systems.postgresql_audit import PostgresqlEffects, lines
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import END
from dstest.judge.server_journal import Answer, effects_of, judge_effects

LOG = PostgresqlEffects()


def change(table: str, kind: str, text: str) -> str:
    return f"table public.{table}: {kind}: {text}"


def register(kind: str, key: str, value: int | str) -> str:
    return change("registers_0", kind, f"k[character varying]:'{key}' v[bigint]:{value}")


ROWS = [
    "BEGIN", register("INSERT", "0-1", 3), "COMMIT",
    "BEGIN", change("health", "INSERT", "k[bigint]:77"), "COMMIT",
    "BEGIN", register("UPDATE", "0-1", 4), "COMMIT",
    "BEGIN", register("UPDATE", "it''s", "null"), "COMMIT",
    "BEGIN", "COMMIT",
    "BEGIN", register("UPDATE", "0-1", 5), register("UPDATE", "0-2", 5), "COMMIT",
    "BEGIN", change("elements_2", "INSERT", "k[character varying]:'s' v[bigint]:-7"), "COMMIT",
    "BEGIN", change("elements_2", "DELETE", "(no-tuple-data)"), "COMMIT",
    "BEGIN", change("lists_1", "INSERT", "k[character varying]:'l' v[text]:'v[int]:9'"), "COMMIT",
]  # fmt: skip


def test_each_commit_is_a_line() -> None:
    told, last = lines(ROWS, 0)
    rows = [json.loads(line) for line in told]
    assert [row["at"] for row in rows] == [1, 2, 3, 4, 5, 6, 7] and last == 7
    effects = [LOG.effect_of(row)[1] for row in rows]
    assert [(e.op_type, e.key, e.input) if e else None for e in effects] == [
        ("write", "0-1", 3), ("write", "0-1", 4), ("write", "it's", None), None,
        ("add", "s", -7), None, None,
    ]  # fmt: skip
    assert rows[3]["changes"] == 2


def test_columns_and_changes_of_others() -> None:
    rows = [
        "BEGIN", change("other", "INSERT", "k[integer[]]:'{1,2}' v[boolean]:true"), "COMMIT",
        "BEGIN", change("registers_0", "TRUNCATE", "(no-flags)"), "COMMIT",
    ]  # fmt: skip
    told, last = lines(rows, 0)
    assert last == 2 and [LOG.effect_of(json.loads(line))[1] for line in told] == [None, None]
    assert json.loads(told[0])["row"] == {"k": "{1,2}", "v": "true"}


def test_numbers_go_on() -> None:
    told, last = lines(ROWS[:3], 41)
    assert json.loads(told[0])["at"] == last == 42


def op(number: int, kind: str, given: object, output: object = None) -> Op:
    return Op(
        op_id=number, process_id=0, invoke_ts=number * 10, complete_ts=number * 10 + 5,
        op_type=kind, key="0-1", input=given, output=output, error=None, timeout_marker=False,
        node_seen="n1",
    )  # fmt: skip


def judged(folder: Path, rows: list[str], ops: list[Op]) -> Answer:
    (folder / "n1").mkdir(parents=True)
    (folder / "n1" / LOG.file).write_bytes(b"".join([*lines(rows, 0)[0], END]))
    effects = effects_of(folder, ["n1"], LOG)
    assert effects is not None
    return judge_effects(History(header=Header(workload="cas-register"), ops=ops), effects, LOG)


def test_against_what_clients_know(tmp_path: Path) -> None:
    rows = [*ROWS[:3], *ROWS[6:9], "BEGIN", register("UPDATE", "0-1", 6), "COMMIT"]
    good = [op(1, "write", 3), op(2, "cas", [3, 4], True), op(4, "write", 6)]
    assert judged(tmp_path / "good", rows, good).violation is None
    lost = judged(tmp_path / "lost", rows, [*good[:2], op(3, "write", 9), good[2]]).violation
    assert lost is not None and lost.anomaly_types == ["acknowledged-without-effect"]
    refused = judged(tmp_path / "no", rows, [good[0], op(2, "cas", [3, 4], False), good[2]])
    assert refused.violation is not None
    assert refused.violation.anomaly_types == ["failed-but-applied"]
