"""What lists and logs of a page hold: the value that proves it, who asked, why it failed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from made_meta import meta
from made_moments import op
from made_report import report

from dstest.core.op import FINAL_IDS, Op
from dstest.notebook import plots
from dstest.report.columns import packed
from dstest.report.html import render_html
from dstest.report.logs import read_logs, spoken
from dstest.report.service import REASONS_MAX, reasons
from dstest.report.timeline import story, timeline_svg


def test_a_list_shows_the_value_that_proves_it_and_a_drawing_stays_short() -> None:
    balances = {"0": 20, "1": 21, "2": 20, "3": 20, "4": 22, "5": 22, "6": 18, "7": 19}
    read = op(2, 1, output=balances)
    assert '"6": 18, "7": 19}' in story(read)
    look = [["r", 2, 0], ["r", 0, 0], ["touch", 1, None], ["r", 1, 1], ["r", 2, 0]]
    assert '["r", 1, 1], ["r", 2, 0]]' in story(op(3, 1, "look", output=look))
    assert '"7": 19' not in timeline_svg([read])
    long = story(op(4, 1, output=[*range(5000)]))
    assert "4997, 4998, 4999]" in long
    assert len(long) < 900


def names(*ops: Op, key: Any) -> list[str]:
    """What stands before bars."""
    drawn = timeline_svg(ops, key=key, narrow=True)
    return re.findall(r"<text [^>]*>(?:▶ )?(p[^<]*)<title>", drawn)


def test_of_lists_that_contradict_each_other_a_drawing_shows_where_they_part() -> None:
    many = [["r", 1, [7]], ["r", 257, [*range(50)]], ["append", 3, 1]]
    short = op(33, 0.1, "txn", output=[*many, ["r", 129, [2, 3]]], process_id=13)
    long = op(247, 0.4, "txn", output=[*many, ["r", 129, [2, 4, *range(9, 40)]]], process_id=15)
    assert names(short, long, key=129) == ["p13 n1  r 129 → [2 3]", "p15 n1  r 129 → [2 4 9 …]"]
    deep = [
        op(n, 0.1 * n, "txn", output=[*many, ["r", 5, [*range(1000, 1040), n, *range(90)]]])
        for n in (1, 2)
    ]
    assert [name.split("  ")[1] for name in names(*deep, key=5)] == [
        "r 5 → [… 1039 1 0 …]",
        "r 5 → [… 1039 2 0 …]",
    ]
    # Where none contradicts another the end is shown, and without a key all that was done.
    assert names(short, key=129)[0].endswith("  r 129 → [2 3]")
    assert "r 1 → [7], r 257" in names(short, key=None)[0]


def test_who_reads_at_the_end_is_called_so() -> None:
    final = op(2, 1, "dequeue", process_id=FINAL_IDS + 4)
    assert "the final reader at n1: dequeue" in story(final)
    assert "1099511627780" not in timeline_svg([final])
    assert "process 17 at n1" in story(op(2, 1, process_id=17))
    for draw in (on_the_canvas, in_a_notebook):
        assert "final" in draw(final), draw
        assert "1099511627780" not in draw(final), draw
        assert "17" in draw(op(2, 1, process_id=17)), draw


def on_the_canvas(one: Op) -> str:
    """The name of its row, as static/timeline.js gives it."""
    head = packed([one], 10**6).head
    (process,) = head["process_id"]
    return str(head["finals"].get(str(process), f"process {process}"))


def in_a_notebook(one: Op) -> str:
    return plots._name(one)


def test_colours_and_empty_lines_are_no_part_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "nodes" / "n1").mkdir(parents=True)
    stamp = "1970-01-01T00:00:05.000Z"
    text = f"\x1b[38;5;87m{stamp} [info] started\x1b[0m\n\x1b[0m\n\n{stamp} plain\n"
    (tmp_path / "nodes" / "n1" / "db.log").write_text(text, encoding="utf-8")
    (log,) = read_logs(tmp_path, meta(origin_ns=0, clock_start_ns=0))
    assert [line.text for line in log.lines] == [f"{stamp} [info] started", f"{stamp} plain"]
    assert log.stampless == 0


def test_a_lost_connection_is_no_change_of_the_lead(tmp_path: Path) -> None:
    (tmp_path / "nodes" / "n1").mkdir(parents=True)
    lines = ["lost TCP streaming connection with peer 4f", "raft: lost leader 4f at term 3",
             "became leader at term 4"]  # fmt: skip
    text = "".join(f"1970-01-01T00:00:0{n}.000Z {line}\n" for n, line in enumerate(lines, 1))
    (tmp_path / "nodes" / "n1" / "db.log").write_text(text, encoding="utf-8")
    found = spoken(read_logs(tmp_path, meta(origin_ns=0, clock_start_ns=0)))
    assert [line.split(" ", 1)[1] for _, _, line in found] == lines[1:]


def test_every_reason_is_counted_and_the_rare_are_one_row() -> None:
    ops = [op(n, n, "write", error="conflict 12", fault_epoch="f1" if n < 2 else None)
           for n in range(5)]  # fmt: skip
    ops += [op(100 + n, n, error="e" * (n + 1)) for n in range(REASONS_MAX + 4)]
    ops += [op(200, 3, complete_ts=None, timeout_marker=True), op(201, 3, output=1)]
    made = report()
    history = msgspec.structs.replace(made.history, ops=ops)
    rows = reasons(history)
    assert (rows[0].op_type, rows[0].text, rows[0].count, rows[0].during) == (
        "write", "conflict 12", 5, 2,
    )  # fmt: skip
    assert len(rows) == REASONS_MAX + 1
    assert rows[-1].text == "6 other reasons"
    assert sum(row.count for row in rows) == len(ops) - 1
    page = render_html(msgspec.structs.replace(made, history=history))
    assert "conflict 12" in page.partition('id="history"')[2]
    fine = msgspec.structs.replace(made.history, ops=[op(1, 1)])
    assert reasons(fine) == []
    assert "Every operation succeeded." in render_html(
        msgspec.structs.replace(made, history=fine, errors=[])
    )
