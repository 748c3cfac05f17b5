"""Words of a plan that programs read."""

from __future__ import annotations

import pytest

from dstest.plans.lint.runs import sentences_of
from dstest.plans.lint.scenarios import named_checkers
from dstest.plans.model import Line, Table, blocks_of, ids, placeholders, split_names, threats_of


def test_ids_in_their_order_each_once() -> None:
    assert ids("C2, C1 and C2; not c3, not XC4, S10.") == ("C2", "C1", "S10")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a, b, c", ("a", "b", "c")),
        ("a (x, y), b", ("a", "b")),
        ("a: NOT-RUN, for want of time; b", ("a", "b")),
        ("`set-full` and more", ("set-full` and more",)),
        ("", ()),
    ],
)
def test_lists(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text) == names


def test_threats_and_who_faces_them() -> None:
    rows = threats_of("a: pause (N03); (b) kill (N01)", "a: S1, S2; b: S3")
    assert rows == [("a", "pause (N03)", ("S1", "S2")), ("b", "kill (N01)", ("S3",))]
    assert threats_of("a: pause", "b: S1") == [("a", "pause", ())]
    assert threats_of("none", "none") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a <fill: why> b", ["<fill: why>"]),
        ("`<fill: why>`", ["<fill: why>"]),
        ("<who> knows", ["<who>"]),
        ("`<who>` is code, <https://a.b/> an address", []),
        ("p99 < 5 and rate > 3, gap_s<=20,ok_ratio>=0.5", []),
        ("```\n<who>\n<fill: x>\n```\n<…> after", ["<fill: x>", "<…>"]),
        ("```\ncode\n```\n<then>", ["<then>"]),
    ],
)
def test_placeholders(text: str, found: list[str]) -> None:
    assert [said for _, said in placeholders(text)] == found


def test_placeholders_know_their_lines() -> None:
    assert placeholders("one\ntwo <fill: x>\n") == [(2, "<fill: x>")]


def test_a_cell_may_hold_a_bar() -> None:
    table = blocks_of("\n| A | B |\n|---|---|\n| `x\\|y` | z |\n")[0]
    assert isinstance(table, Table) and table.line == 2
    assert table.rows[0].line == 4 and table.rows[0].cells == {"a": "`x|y`", "b": "z"}


def test_a_field_may_go_on_over_lines_and_hold_a_list() -> None:
    (line,) = blocks_of("- **Some Name:** one\n  two\n  - three\n    four\n")
    assert isinstance(line, Line) and line.name == "some name"
    assert line.text == "one two\nthree four"


def test_checkers_are_named_in_code_marks() -> None:
    assert named_checkers("`order` and `linearizable`, on a watch") == ["linearizable", "order"]
    assert named_checkers("events are in order") == []
    assert named_checkers("order, set", plainly=True) == ["order", "set"]
    assert named_checkers("`no-such`, order", plainly=True) == []


def test_sentences() -> None:
    assert len(sentences_of("One, e.g. this. Two? `Three` is 3.5 long.")) == 3
