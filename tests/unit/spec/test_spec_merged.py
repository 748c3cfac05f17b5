"""Logs of several servers as one, in an order that each of them could have come in."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import HistoryError
from dstest.sim.simulate import sim_spec_of, simulate
from dstest.sim.world import Profile
from dstest.spec.merge import log_of_run, merge

pytestmark = pytest.mark.slow

FILE = "protocol.jsonl"


def file(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(seq: int, at: int, kind: str, run: int | None = None, **saw: list[int]) -> dict[str, Any]:
    begins = {} if run is None else {"run": run, "server": 7}
    return {"seq": seq, "wall_ns": at, "kind": kind, **begins, **({"saw": saw} if saw else {})}


def kinds(**files: bytes) -> list[str]:
    return [one.kind for one in merge(files).events]


def test_what_a_line_comes_from_stands_before_it_whatever_the_clocks_show() -> None:
    late = file(row(1, 900, "asks", run=1), row(2, 901, "counts", n2=[1, 1]))
    early = file(row(1, 5, "votes", run=1, n1=[1, 1]), row(2, 6, "waits"))
    assert kinds(n1=late, n2=early) == ["asks", "votes", "waits", "counts"]


def test_of_lines_that_are_not_related_the_earlier_one_comes_first() -> None:
    one = file(row(1, 1, "a", run=1), row(2, 7, "d"))
    assert kinds(n1=one, n2=file(row(1, 2, "b", run=1), row(2, 3, "c"))) == list("abcd")


def test_a_line_says_where_it_stands_and_of_which_server() -> None:
    (event,) = merge({"n1": file({**row(1, 1, "a", run=1), "term": 3})}).events
    assert event.fields == {"at": "n1:1", "server": 7, "term": 3}


def test_what_comes_from_a_line_that_is_not_there_is_left_out_and_all_behind() -> None:
    said = merge(
        {
            "n1": file(row(1, 1, "a", run=1)),
            "n2": file(row(1, 2, "b", run=1), row(2, 3, "c", n1=[1, 2]), row(3, 4, "d")),
            "n3": file(row(1, 5, "e", run=1), row(2, 6, "f", n2=[1, 3])),
        }
    )
    assert [one.kind for one in said.events] == ["a", "b", "e"]
    assert said.left_out == {"n2": 2, "n3": 1}


def test_a_start_may_follow_a_run_that_lost_its_end() -> None:
    assert kinds(n1=file(row(1, 1, "a", run=1), row(1, 9, "b", run=2), row(2, 10, "c"))) == [*"abc"]


def test_nothing_stands_behind_a_hole() -> None:
    text = file(row(1, 1, "a", run=1), row(3, 2, "b"), row(1, 3, "c", run=2))
    said = merge({"n1": text})
    assert ([one.kind for one in said.events], said.left_out) == (["a"], {"n1": 2})
    torn = file(row(1, 1, "a", run=1)) + b'{"seq": 2, "ki\n' + file(row(3, 2, "b"))
    said = merge({"n1": torn})
    assert ([one.kind for one in said.events], said.left_out, said.damaged) == (
        ["a"],
        {"n1": 1},
        {"n1": 1},
    )


def test_lines_that_come_from_one_another() -> None:
    one, two = file(row(1, 1, "a", run=1, n2=[1, 1])), file(row(1, 1, "b", run=1, n1=[1, 1]))
    with pytest.raises(HistoryError, match="in a circle"):
        merge({"n1": one, "n2": two})


def test_a_directory_without_such_logs(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no server has a protocol\.jsonl"):
        log_of_run(tmp_path, FILE)
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / FILE).write_text("nothing\n")
    with pytest.raises(HistoryError, match="of no server can be read"):
        log_of_run(tmp_path, FILE)


@pytest.mark.parametrize("seed", [1, 2])
def test_clocks_that_are_wrong_change_no_verdict(seed: int) -> None:
    """What a simulation has written, with each server's clock off by up to an hour."""
    from dstest.spec.compose import load, of_logs
    from dstest.spec.conform import conform_log

    wanted = sim_spec_of(
        "toykv", "register", [], time_s=6.0, profile=Profile(kinds=("partition", "kill"))
    )
    notes = simulate(wanted, seed).notes
    numbers = random.Random(seed)
    files = {}
    for name, texts in notes.items():
        off = numbers.randrange(-3600 * 10**9, 3600 * 10**9)
        rows = [json.loads(line) for line in texts[FILE].splitlines()]
        files[name] = file(*({**one, "wall_ns": one["wall_ns"] + off} for one in rows))
    plain = merge({name: texts[FILE].encode() for name, texts in notes.items()}).events
    moved = merge(files).events
    assert [one.fields["at"] for one in moved] != [one.fields["at"] for one in plain]
    assert conform_log(of_logs(load("raft")), moved).verdict == "accept"


def test_runs_of_a_server_may_come_in_any_order_of_their_names() -> None:
    rows = [
        {**row(1, 5, "a"), "run": "7.2", "server": 7},
        {**row(1, 4, "b"), "run": "7.10", "server": 7},
    ]
    comes = {**row(1, 1, "c", run=1), "saw": {"n2": {"7.10": 1, "7.2": 1}}}
    assert kinds(n1=file(comes), n2=file(*rows)) == ["a", "b", "c"]


def test_an_older_log_is_refused_where_a_clock_went_back() -> None:
    """Of two runs it names the one with the greater number alone: that may be the earlier one."""
    comes = file(row(1, 1, "c", run=1, n2=[100, 1]))
    with pytest.raises(HistoryError, match="clock of n2 went back between two of its starts"):
        merge({"n1": comes, "n2": file(row(1, 5, "a", run=100), row(1, 6, "b", run=50))})
    assert kinds(n1=comes, n2=file(row(1, 5, "a", run=100), row(1, 6, "b", run=150))) == [*"acb"]


def test_a_run_that_begins_twice_is_refused() -> None:
    with pytest.raises(HistoryError, match="run 1 of n2 begins twice"):
        merge({"n2": file(row(1, 5, "a", run=1), row(1, 6, "b", run=1))})
