"""Trees of spans, the critical path by time, flows, clocks: golden traces, and properties."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dstest.debug.traces.analysis import analyse, as_mermaid, as_text, tree_lines
from dstest.debug.traces.flows import (
    corrections,
    critical_path,
    flows_of,
    imbalance,
    loops_of,
    messages_of,
    own_time,
    pairs_of,
    parallel_of,
    shift,
    storms_of,
    work_of,
)
from dstest.debug.traces.spans import Message, Span, Trace, contradictions, forest, relation

pytestmark = pytest.mark.slow

MS = 1_000_000


def span(id_: str, start: float, end: float, parent: str = "", **more: object) -> Span:
    return Span(
        trace=str(more.pop("trace", "t")),
        id=id_,
        parent=parent,
        name=str(more.pop("name", id_)),
        start_ns=int(start * MS),
        end_ns=int(end * MS),
        **more,  # type: ignore[arg-type]
    )


def one(*spans: Span) -> Trace:
    (trace,) = forest(spans).traces.values()
    return trace


def path_of(trace: Trace) -> list[tuple[str, int]]:
    return [
        (part.span.id if part.span else "-", part.duration_ns // MS)
        for part in critical_path(trace)
    ]


def test_the_child_that_takes_most_of_the_time_is_on_the_path() -> None:
    """The longest chain of spans is a-b-c, and it took 60 of 1000 ms."""
    trace = one(
        span("root", 0, 1000),
        span("a", 10, 70, "root"),
        span("b", 20, 60, "a"),
        span("c", 30, 50, "b"),
        span("slow", 80, 980, "root"),
    )
    assert path_of(trace) == [
        *(("root", 10), ("a", 10), ("b", 10), ("c", 20), ("b", 10), ("a", 10)),
        *(("root", 10), ("slow", 900), ("root", 20)),
    ]


def test_of_two_at_once_the_one_that_ends_last_is_waited_for() -> None:
    trace = one(span("root", 0, 100), span("x", 10, 60, "root"), span("y", 20, 90, "root"))
    assert path_of(trace) == [("root", 20), ("y", 70), ("root", 10)]


def test_the_slower_one_of_a_quorum_is_not_waited_for() -> None:
    trace = one(
        span("write", 0, 100),
        span("commit", 10, 50, "write"),
        span("quick", 11, 48, "commit"),
        span("slow", 11, 95, "commit"),
    )
    assert path_of(trace) == [
        *(("write", 10), ("commit", 1), ("quick", 37), ("commit", 2), ("write", 50)),
    ]


def test_what_goes_on_behind_its_parent_counts_to_its_end() -> None:
    trace = one(span("root", 0, 50), span("late", 40, 100, "root"), span("later", 90, 140, "late"))
    assert path_of(trace) == [("root", 40), ("late", 50), ("later", 50)]


def test_what_ended_late_is_not_waited_for_by_what_began_later() -> None:
    trace = one(span("root", 0, 50), span("x", 40, 60, "root"), span("late", 70, 100, "root"))
    assert path_of(trace) == [("root", 50), ("-", 20), ("late", 30)]


def test_time_in_which_nobody_was_at_work_is_a_gap() -> None:
    trace = one(span("a", 0, 10), span("b", 30, 40))
    assert path_of(trace) == [("a", 10), ("-", 20), ("b", 10)]
    assert [top.id for top in trace.roots] == ["a", "b"]


def test_orphans_several_roots_and_loops_of_parents_are_kept() -> None:
    trace = one(
        span("root", 0, 10),
        span("other", 1, 2),
        span("orphan", 2, 9, "gone"),
        span("below", 3, 8, "orphan"),
        span("x", 4, 5, "z"),
        span("y", 5, 6, "x"),
        span("z", 6, 7, "y"),
        span("self", 7, 8, "self"),
    )
    assert [s.id for s in trace.roots] == ["root", "other"]
    assert [s.id for s in trace.orphans] == ["orphan"]
    assert {s.id for s in trace.looped} == {"x", "self"}
    assert sorted(s.id for _, s in trace.walk()) == sorted(trace.spans)
    text = "\n".join(as_text(analyse(trace.spans.values()), "x", []))
    assert "its parent gone is not there" in text and "below itself" in text


def test_no_span_is_there_twice() -> None:
    a, b = span("root", 0, 10), span("a", 1, 5, "root")
    made = forest([a, b, b, a, span("a", 2, 6, "root")])
    assert (made.doubled, [s.start_ns for s in made.clashes]) == (2, [2 * MS])
    (trace,) = made.traces.values()
    assert len(trace.below(a)) == 1
    again = forest(made.spans)
    assert len(next(iter(again.traces.values())).below(a)) == 1


def test_parallelism_is_more_than_one_where_work_is_done_at_once() -> None:
    """Two of 900 ms at once within a second are 1.9 at work, and not half of one."""
    at_once = one(span("r", 0, 1000), span("a", 50, 950, "r"), span("b", 50, 950, "r"))
    in_turn = one(span("r", 0, 1000), span("a", 0, 500, "r"), span("b", 500, 1000, "r"))
    assert parallel_of(at_once).mean == pytest.approx(1.9)
    assert (parallel_of(at_once).most, parallel_of(in_turn).most) == (2, 1)
    assert parallel_of(in_turn).mean == pytest.approx(1.0)


def asks(there: str, back: str, start: float, end: float, **more: float) -> list[Span]:
    """A call from one node to another: `delay` there and back, clocks `apart`."""
    delay, apart, number = more.get("delay", 1.0), more.get("apart", 0.0), int(start)
    return [
        span(f"c{number}{there}{back}", start, end, node=there, kind="client"),
        span(
            f"s{number}{there}{back}",
            start + delay + apart,
            end - delay + apart,
            f"c{number}{there}{back}",
            node=back,
            kind="server",
        ),
    ]


def test_clocks_that_differ_are_found_to_half_of_the_quickest_ways() -> None:
    calls = [
        *asks("a", "b", 0, 10, delay=3, apart=250),
        *asks("a", "b", 20, 24, delay=1, apart=250),
        *asks("b", "a", 40, 46, delay=1.5, apart=-250),
    ]
    made = forest(calls)
    (pair,) = pairs_of(made.traces.values())
    assert pair.differs and pair.exchanges == 3
    assert pair.offset_ns == 250 * MS and pair.doubt_ns == MS
    by = corrections([pair], "a")
    assert by == {"a": 0, "b": pair.offset_ns}
    for call in (shift(s, by) for s in calls if s.kind == "server"):
        parent = shift(next(s for s in calls if s.id == call.parent), by)
        assert parent.start_ns <= call.start_ns and call.end_ns <= parent.end_ns


def test_clocks_that_may_be_one_are_left_alone_and_drift_is_said() -> None:
    alike = forest(asks("a", "b", 0, 10, delay=3) + asks("a", "b", 20, 30, delay=1))
    assert corrections(pairs_of(alike.traces.values())) == {}
    drift = forest(asks("a", "b", 0, 10, apart=100) + asks("a", "b", 20, 30, apart=900))
    (pair,) = pairs_of(drift.traces.values())
    assert not pair.consistent and corrections([pair]) == {}


def test_an_answer_that_nobody_waited_for_says_nothing_of_clocks() -> None:
    gave_up = [
        span("c", 0, 10, node="a", kind="client", error="timeout"),
        span("s", 500, 505, "c", node="b", kind="server"),
    ]
    assert pairs_of(forest(gave_up).traces.values()) == []


def test_flows_loops_and_storms() -> None:
    chain = one(
        span("r", 0, 100, node="a", name="start"),
        span("x", 1, 90, "r", node="b", name="do"),
        span("inner", 1, 90, "x", node="b", name="inner"),
        span("y", 2, 80, "inner", node="a", name="do"),
        span("z", 3, 70, "y", node="b", name="do"),
    )
    sent = list(messages_of(chain))
    assert [(f.source, f.target, f.count) for f in flows_of(sent)] == [("a", "b", 2), ("b", "a", 1)]
    loops = loops_of([chain], [])
    assert [(lp.path, lp.names, lp.same) for lp in loops] == [
        (["a", "b", "a"], ["do", "do"], True),
        (["b", "a", "b"], ["do", "do"], True),
    ]
    assert storms_of(sent) == []
    many = [
        Message(source="a", target=f"n{n % 5}", type="gossip", trace="t", id=str(n))
        for n in range(101)
    ]
    (storm,) = storms_of(many)
    assert (storm.node, storm.messages, storm.targets) == ("a", 101, 5)
    assert storms_of(many[:100]) == []


def test_a_message_that_goes_back_under_its_id_is_a_loop_and_an_answer_is_none() -> None:
    def sent(a: str, b: str, id_: str, at: int) -> Message:
        return Message(source=a, target=b, type="fwd", id=id_, time_ns=at)

    assert loops_of([], [sent("a", "b", "1", 1), sent("b", "a", "2", 2)]) == []
    (loop,) = loops_of([], [sent("a", "b", "1", 1), sent("b", "a", "1", 2)])
    assert loop.path == ["a", "b", "a"] and loop.same


def test_load_that_is_unbalanced_and_a_node_that_did_nothing() -> None:
    trace = one(*(span(f"s{n}", n, n + 1, node="a" if n < 10 else "b") for n in range(13)))
    assert "more than 3 times" in imbalance(work_of([trace]))
    even = one(*(span(f"s{n}", n, n + 1, node="ab"[n % 2]) for n in range(10)))
    assert imbalance(work_of([even])) == ""
    assert "c 0" in imbalance(work_of([even], ["a", "b", "c"]))


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        ({"x": 1}, {"x": 2}, "happens-before"),
        ({"x": 1, "y": 1}, {"x": 1}, "happens-after"),
        ({"x": 1, "y": 0}, {"x": 1}, "equal"),
        ({"x": 1}, {"y": 1}, "concurrent"),
    ],
)
def test_vector_clocks(a: dict[str, int], b: dict[str, int], word: str) -> None:
    assert relation(a, b) == word


def test_children_that_no_parent_began() -> None:
    good = one(span("p", 0, 9, vector={"a": 1}), span("c", 1, 2, "p", vector={"a": 1, "b": 1}))
    bad = one(span("p", 0, 9, vector={"a": 2}), span("c", 1, 2, "p", vector={"a": 1, "b": 1}))
    assert list(contradictions(good)) == []
    assert [(p.id, c.id) for p, c in contradictions(bad)] == [("p", "c")]


ids = st.integers(0, 12)
rows = st.lists(
    st.tuples(ids, st.none() | ids, st.integers(0, 1000), st.integers(0, 500), st.integers(0, 3)),
    max_size=25,
)


def made_of(given_rows: Sequence[tuple[int, int | None, int, int, int]]) -> list[Span]:
    return [
        span(str(id_), start, start + took, "" if parent is None else str(parent), node=f"n{node}")
        for id_, parent, start, took, node in given_rows
    ]


@given(rows)
def test_any_spans_make_trees_with_each_of_them_once(
    given_rows: list[tuple[int, int | None, int, int, int]],
) -> None:
    spans = made_of(given_rows)
    made = forest(spans)
    walked = [s.id for trace in made.traces.values() for _, s in trace.walk()]
    assert sorted(walked) == sorted({s.id for s in spans})
    assert len(walked) + made.doubled + len(made.clashes) == len(spans)


@given(rows)
def test_the_path_has_each_moment_of_the_trace_once(
    given_rows: list[tuple[int, int | None, int, int, int]],
) -> None:
    for trace in forest(made_of(given_rows)).traces.values():
        path = critical_path(trace)
        assert sum(part.duration_ns for part in path) == trace.end_ns - trace.start_ns
        at = trace.start_ns
        for part in path:
            assert part.start_ns == at < part.end_ns
            at = part.end_ns
            if part.span is not None:
                assert part.span.start_ns <= part.start_ns <= part.end_ns <= part.span.end_ns


@given(rows)
def test_own_times_are_within_spans_and_all_can_be_told(
    given_rows: list[tuple[int, int | None, int, int, int]],
) -> None:
    spans = made_of(given_rows)
    found = analyse(spans)
    for trace in found.traces.traces.values():
        for s in trace.spans.values():
            assert 0 <= own_time(trace, s) <= s.duration_ns
        assert list(tree_lines(trace, critical_path(trace)))
    list(as_text(found, "x", []))
    assert as_mermaid(found).startswith("flowchart LR\n")


def test_a_deep_chain_is_told_in_lines_that_can_be_read() -> None:
    deep = 5000
    spans = [
        span(f"s{at}", at, 2 * deep - at, f"s{at - 1}" if at else "", node=f"n{at % 3}")
        for at in range(deep)
    ]
    lines = list(as_text(analyse(spans, ["n0", "n1", "n2"], {}), "deep", []))
    assert len(lines) < 400
    assert max(map(len, lines)) < 250
    assert any("stretches that are no longer" in line for line in lines)
    assert any(" (199) " in line for line in lines)
