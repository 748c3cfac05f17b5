"""The EDN reader: what it accepts, what it turns into, and where it says an error is."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from dstest.core.errors import HistoryError
from dstest.history.edn import Char, Keyword, Map, Plain, Symbol, Tagged, plain, read_all, where


def one(text: str) -> Any:
    (value,) = read_all(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("7N", 7),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("2.5", 2.5),
        ("-1e3", -1000.0),
        ("2.5M", 2.5),
        ("1/4", 0.25),
        ('"a\\n\\"b\\\\\\u0041\\101"', 'a\n"b\\AA'),
        ('"over\nlines"', "over\nlines"),
        ("\\a", "a"),
        ("\\newline", "\n"),
        ("\\u0041", "A"),
        ("\\(", "("),
        (":read", "read"),
        (":jepsen.core/read", "jepsen.core/read"),
        ("name", "name"),
        ("-", "-"),
        ("a.b/c?", "a.b/c?"),
        ("[]", []),
        ("(1 [2 #{3}] ())", [1, [2, [3]], []]),
        ("[1,,2 ; comment\n 3]", [1, 2, 3]),
        ("[1 #_2 3]", [1, 3]),
        ("[1 #_ #_ 2 3 4]", [1, 4]),
        ("[1 #_ {:a #_ b 2}]", [1]),
        ("{:a 1, :b {:c [nil]}}", {"a": 1, "b": {"c": [None]}}),
        ("{[1 2] 3}", {(1, 2): 3}),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = one(text)
    assert found == value
    assert type(found) is type(value) or isinstance(found, Char | Keyword | Symbol | Map)


def test_special_numbers() -> None:
    assert one("##Inf") == math.inf
    assert one("##-Inf") == -math.inf
    assert math.isnan(one("##NaN"))


def test_tags_keywords_and_symbols_are_told_apart() -> None:
    tagged = one('#inst "2026"')
    assert isinstance(tagged, Tagged)
    assert (tagged.tag, tagged.value) == ("inst", "2026")
    assert isinstance(one(":a"), Keyword)
    assert isinstance(one("a"), Symbol)
    nested = one("#a #b [1]")
    assert (nested.tag, nested.value.tag, nested.value.value) == ("a", "b", [1])


def test_many_forms_and_offsets() -> None:
    forms = list(read_all("{:a 1}\n; x\n {:b 2}"))
    assert forms == [{"a": 1}, {"b": 2}]
    assert [f.offset for f in forms] == [0, 12]
    assert where("{:a 1}\n; x\n {:b 2}", 12) == (3, 2)
    assert list(read_all("")) == list(read_all(" ; nothing")) == []


def test_plain_is_json() -> None:
    assert plain(one("#op.Op{:f :read, :value [#{1} x \\c]}")) == {
        "f": "read",
        "value": [[1], "x", "c"],
    }
    assert type(plain(one(":f"))) is str
    assert plain(one("{[1 :a] 2}")) == {'[1, "a"]': 2}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[1", 1, 1),
        ("\n [1\n (2", 3, 2),
        ("]", 1, 1),
        ("[1)", 1, 3),
        ("{:a 1 :b}", 1, 1),
        ('[\n"abc', 2, 1),
        ('"\\q"', 1, 2),
        ("[1 #_]", 1, 6),
        ("#_", 1, 1),
        ("#tag", 1, 1),
        ("[1 ^", 1, 4),
        ("[" * 600, 1, 101),
    ],
)
def test_malformed_text_is_located(text: str, line: int, column: int) -> None:
    with pytest.raises(HistoryError) as caught:
        list(read_all(text))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{:a 1 :a 2}", 1, 1),
        ("[1\n 12abc]", 2, 2),
        (":", 1, 1),
        ("::a", 1, 1),
        ("1/0", 1, 1),
        ("1e400", 1, 1),
        ("[@x]", 1, 2),
        ("'x", 1, 1),
        ('#"re\\"g"', 1, 1),
        ("#<Foo@1 <init> x>", 1, 1),
        ('{:a #object[java.lang.Object 0x4bd07fe5 "x"]}', 1, 5),
    ],
)
def test_what_is_no_value_may_stand_where_nobody_reads_it(
    text: str, line: int, column: int
) -> None:
    (found,) = read_all(text)
    with pytest.raises(HistoryError) as caught:
        Plain(text).value(found)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_else_clojure_prints() -> None:
    assert plain(one("[0x1F -0xff 2r101 36rZz 017]")) == [31, -255, 5, 1295, 17]
    assert plain(one("#:etcd{:code 5, :_/x 1, :a/b 2}")) == {"etcd/code": 5, "x": 1, "a/b": 2}
    assert plain(one("^{:line 3} [1]")) == [1]


def test_sets_are_equal_whatever_their_order() -> None:
    a = one("{:a #{3 1 2} #{:x :y} #{[1 2] {:b 1 :c #{2 1}}}}")
    b = one("{#{:y :x} #{{:c #{1 2} :b 1} [1 2]} :a #{1 2 3}}")
    assert a == b
    assert plain(a) == plain(b)


def test_numbers_are_equal_where_their_values_are() -> None:
    texts = ["0.1", "0.1M", "0.10M", "0.10000000000000000000000001M", "1/3", "1e400M", "2e400M"]
    a, b, c, *others = plain(one(f"[{' '.join(texts)}]"))
    assert a == b == c == 0.1
    assert len({a, *map(repr, others)}) == 5
    assert plain(one("1.50M")) == 1.5


def test_names_of_different_kinds_are_different_values() -> None:
    forms = list(read_all('[:a "a" a \\a "b" :c] [:c "c"]'))
    values = Plain()
    assert [values.value(form) for form in forms] == [["a", "a", "a", "a", "b", "c"], ["c", "c"]]
    assert values.settle()
    found = [values.value(form) for form in forms]
    assert found == [["a", '"a"', "'a", "\\a", "b", "c"], ["c", '"c"']]
    assert not values.settle()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("{1 :a}", '{"1" :a}'), ("{nil 1}", '{"null" 1}'), ("{true 1}", "{:true 1}"),
        ("{[1 2] 3}", '{"[1, 2]" 3}'), ("[{:a {1 2}}]", '[{:a {"1" 2}}]'),
        ("{{1 2} 3}", "{[[1 2]] 3}"), ("{{1 2} 3}", '{["{}" [1 2]] 3}'),
        ("{:x {1 2}}", '{:x {"1" 2} :y "~1"}'), ('#uuid "a"', '"a"'), ('#uuid "a"', '#inst "a"'),
        ("{1 :a, 2 :b}", '{1 :a, "2" :b}'),
    ],
)  # fmt: skip
def test_what_differs_by_its_kind_is_no_one_value(a: str, b: str) -> None:
    values = Plain()
    for text in (a, b):
        values.value(one(text))
    values.settle()
    assert values.value(one(a)) != values.value(one(b))
    assert values.value(one(a)) == values.value(one(a))


def test_keys_are_texts_where_nothing_else_is_called_so() -> None:
    assert plain(one('{1 :a, nil "1", 2.0 [1.5]}')) == {"1": "a", "null": "1", "2": [1.5]}
    assert plain(one('{1 :a, "1" :b}')) == {"~1": "a", "1": "b"}
    assert plain(one('{1 :a, "1" :b, "~1" :c}')) == {"~1": "a", "1": "b", '"~1"': "c"}


def test_random_text_is_read_or_refused() -> None:
    rng = random.Random(1)
    pieces = ["{", "}", "[", "]", "(", ")", "#{", "#_", "#t ", '"', '"a"', "\\a", ":k", " ", "1"]
    pieces += ["nil", "\n", ";", "\\", "##Inf", "#", "~", "1.5e", "é", "-1", ","]
    read = 0
    for _ in range(5_000):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 12)))
        try:
            list(read_all(text))
            read += 1
        except HistoryError as error:
            assert error.line is not None and error.column is not None
    assert read > 200
