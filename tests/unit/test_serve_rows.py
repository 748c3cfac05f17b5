"""What is asked of rows: words and filters, violations over runs, trends, addresses, charts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dstest.core.summary import Figures, Tested
from dstest.serve.pages import Site, cell_address, figure, neighbours, run_address, stamp
from dstest.serve.views import Dot, dots, triage
from dstest.store.query import Query, cells, choices, query_of, select, sign_of
from dstest.store.rows import RunRow

A, B = "linearizable/stale-read/#/register", "set/lost/*/set"


def a_row(day: int, said: str = "PASS-smoke", **more: Any) -> RunRow:
    test = Tested(
        id=more.pop("test", "t1"),
        system=more.pop("system", "etcd"),
        workload="register",
        nemesis=more.pop("nemesis", "partition,kill"),
        seed=more.pop("seed", 7),
    )
    code = 1 if said.startswith("FAIL") else 0 if said.startswith("PASS") else 3
    given: dict[str, Any] = {
        "ref": f"x/2026010{day}T000000Z-7",
        "standing": "judged",
        "said": said,
        "why": "because",
        "exit_code": code,
        "started": f"2026010{day}T000000Z",
        "test": test,
    }
    return RunRow(**{**given, **more})


FAILED = "FAIL-reproducible"
ROWS = [
    a_row(1, FAILED, fingerprints=(A,), anomalies=("stale-read",), seed="1"),
    a_row(2, seed="2"),
    a_row(3, FAILED, fingerprints=(A, B), anomalies=("lost", "stale-read"), seed="3",
          reproducer="x/20260103T000000Z-7.shrink/repro.sh"),
    a_row(4, test="t2", system="toykv", nemesis="pause"),
    a_row(5, FAILED, test="t3", standing="damaged", fingerprints=()),
    a_row(6, "INCONCLUSIVE-env", test="t1"),
]  # fmt: skip


def days(rows: list[RunRow]) -> list[int]:
    return [int(row.started[6:8]) for row in rows]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"sort": "started", "down": "0"}, [1, 2, 3, 4, 5, 6]),
        ({"verdict": FAILED}, [3, 1]),
        ({"verdict": "damaged"}, [5]),
        ({"nemesis": "kill"}, [6, 5, 3, 2, 1]),
        ({"nemesis": "kil"}, []),
        ({"system": "toykv"}, [4]),
        ({"anomaly": "lost"}, [3]),
        ({"fingerprint": A}, [3, 1]),
        ({"words": "STALE seed=3"}, [3]),
        ({"words": "nothing"}, []),
        ({"since": "2026-01-03", "until": "20260104"}, [4, 3]),
        ({"until": "20260101"}, [1]),
        ({"sort": "no such", "page": "x"}, [6, 5, 4, 3, 2, 1]),
    ],
)
def test_what_is_asked_for(asked: dict[str, str], wanted: list[int]) -> None:
    assert days(select(ROWS, query_of(asked))) == wanted


def test_what_is_asked_for_comes_back_as_words() -> None:
    asked = query_of({"system": "etcd", "down": "0", "page": "3", "odd": "1"})
    assert asked.plain == {"system": "etcd", "down": "0", "page": "3"}
    assert query_of(asked.plain) == asked
    assert Query().plain == {}


def test_choices_count_runs() -> None:
    assert choices(ROWS)["nemesis"] == [("kill", 5), ("partition", 5), ("pause", 1)]
    assert dict(choices(ROWS)["verdict"])["damaged"] == 1


def test_a_violation_over_runs() -> None:
    seen = {one.fingerprint: one for one in triage(ROWS)}
    assert set(seen) == {A, B}
    one = seen[A]
    assert (days([one.first]), days([one.last])) == ([1], [3])
    # Of runs 1, 2, 3 and 6 of that test; the damaged one says nothing.
    assert (one.rate.hits, one.rate.total) == (2, 4)
    assert one.seeds == ["1", "3"]
    assert one.reproducer.endswith("repro.sh")
    assert triage([ROWS[1], ROWS[4]]) == []


def test_trends_count_what_was_judged() -> None:
    numbers = {1: 100.0, 2: 300.0, 3: 200.0}

    def figures(row: RunRow) -> Figures | None:
        known = numbers.get(int(row.started[6:8]))
        return None if known is None else Figures(ok_per_s=known)

    mine = {cell.name: cell for cell in cells(ROWS, figures)}
    cell = mine["etcd", "register", "partition,kill"]
    assert days(cell.strip) == [1, 2, 3, 5, 6]
    assert [sign_of(row) for row in cell.strip] == ["fail", "pass", "fail", "damaged", "open"]
    assert (cell.found.hits, cell.found.total) == (2, 4)
    assert (cell.passed.hits, cell.passed.total) == (1, 4)
    assert (cell.ok_per_s, cell.p99_ms, cell.measured) == (200.0, None, 3)
    assert mine["toykv", "register", "pause"].ok_per_s is None


def test_an_experiment_turns_no_trend_red() -> None:
    """What was set otherwise is a cell of its own, whatever order it was said in."""
    plain, relaxed = a_row(1), a_row(2, FAILED)
    options = ("reads=serializable", "keys=3")
    tests = [replace(relaxed.test, settings=one) for one in (options, options[::-1])]
    rows = [plain, *(replace(relaxed, test=test) for test in tests)]
    found = {cell.name: cell.found for cell in cells(rows, lambda _: None)}
    etcd = ("etcd", "register", "partition,kill")
    assert {name: (one.hits, one.total) for name, one in found.items()} == {
        etcd: (0, 1),
        (*etcd, "keys=3", "reads=serializable"): (2, 2),
    }


def test_neighbours_are_of_the_same_test() -> None:
    rows = sorted(ROWS, key=lambda row: row.started, reverse=True)
    before, after = neighbours(rows, ROWS[2])
    assert before is not None
    assert after is not None
    assert (days([before]), days([after])) == ([2], [6])
    assert neighbours(rows, ROWS[3]) == (None, None)


def test_a_pass_is_green_only_with_exit_0() -> None:
    assert a_row(1).tone == "pass"
    assert a_row(1, exit_code=3).tone == "open"
    assert a_row(1, standing="running").tone == "open"
    assert a_row(1, FAILED, standing="died").tone == "open"


def test_links_are_relative_and_quoted() -> None:
    site = Site(run_address("a+b/c d"), static=True)
    assert site.run("x/y?z") == "../../../run/x/y%3Fz/index.html"
    assert site.file("x/repro.sh").endswith("/x/repro.sh.txt")
    assert Site("index.html", static=False).to("pair.html", run=["a", "b"]) == (
        "pair.html?run=a&run=b"
    )
    names = {cell_address((a, "../..", b)) for a in ("a", "a b") for b in ("c/d", "c d")}
    assert len(names) == 4
    assert all(name.count("/") == 1 and ".." not in name for name in names)


def test_words_of_figures() -> None:
    assert (figure(None), figure(float("inf")), figure(12345.6)) == ("-", "no answer", "12,346")
    assert stamp("20261121T215100Z") == "2026-11-21 21:51:00"
    assert stamp("<b>") == "<b>"


def test_charts_are_plain() -> None:
    assert dots("a", "ms", []) == ""
    drawn = dots('a"<', "ms", [Dot(0.0, "pass", "<x>"), Dot(7.5, "fail", "y")])
    assert "<x>" not in drawn
    assert drawn.count("<circle") == 2
    assert "10 ms" in drawn
