"""What is exported, and what is refused: tests/quint asks Quint what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import Spec, Step, System, action, invariant, when
from dstest.spec.compose import load, shipped_names
from dstest.spec.export.quint import as_quint
from dstest.spec.export.tla import as_cfg, as_tla
from dstest.spec.model import model_of


@dataclass(frozen=True, slots=True)
class Bag:
    held: frozenset[int] = frozenset()
    order: tuple[int, ...] = ()
    open: bool = True


class Bags(Spec):
    """A bag."""

    most = 2

    def initial(self) -> Iterable[Bag]:
        yield Bag()

    @action(n=(1, 2, 3))
    @when("open", lambda s: s.open)
    @when("new", lambda s, n: n not in s.held)
    @when("room", lambda self, s: len(s.held) < self.most)
    def put(self, s: Bag, n: int) -> Bag:
        return replace(s, held=s.held | {n}, order=(*s.order, n))

    @action()
    @when("full", lambda self, s: len(s.order) == self.most)
    def close(self, s: Bag) -> Bag:
        return replace(s, open=False)

    @invariant("B1", "all that is held has an order")
    def ordered(self, state: Bag) -> bool:
        return all(one in state.order for one in state.held if one > 0)

    @invariant("B2", "it can be closed", kind="sometimes")
    def closed(self, s: Bag) -> bool:
        return not s.open


def test_quint() -> None:
    text = as_quint(model_of(Bags()))
    for line in (
        "  type State = { held: Set[int], order: List[int], open: bool }",
        "// not exported: B2",
        (
            "  pure def can_put(s: State, n_: int): bool = and { s.open,"
            " not(s.held.contains(n_)), (s.held.size() < 2) }"
        ),
        (
            '  pure def do_put(s: State, n_: int): State = s.with("held", s.held.union(Set(n_)))'
            '.with("order", s.order.concat([n_]))'
        ),
        (
            "  pure def holds_B1(s: State): bool = s.held.forall(one_ => or { not((one_ > 0)),"
            " s.order.indices().map(at => s.order.nth(at)).contains(one_) })"
        ),
    ):
        assert line in text.splitlines()


def test_tla() -> None:
    text = as_tla(model_of(Bags()))
    for line in (
        "  /\\ (Cardinality(s.held) < 2) \\* room",
        "  [s EXCEPT !.held = (s.held \\cup {n}), !.order = (s.order \\o <<n>>)]",
        "Init == st = [held |-> {}, order |-> <<>>, open |-> TRUE]",
    ):
        assert line in text.splitlines()
    assert as_cfg(model_of(Bags())) == "SPECIFICATION Spec\nINVARIANT B1\n"


def sum_of_types() -> Spec:
    @dataclass(frozen=True)
    class Held:
        by: Any = None

    class Lock(Spec):
        def initial(self) -> Iterable[Held]:
            yield Held()

        @action(who=(1, "a"))
        def take(self, s: Held, who: Any) -> Held:
            return Held(who)

    return Lock()


def a_sum() -> Spec:
    class Sums(Bags):
        @action()
        @when("small", lambda s: sum(s.order) < 3)
        def add(self, s: Bag) -> Bag:
            return s

    return Sums()


def a_loop() -> Spec:
    class Loops(Bags):
        @action()
        def add(self, s: Bag) -> Bag:
            for one in s.order:
                s = replace(s, order=(one,))
            return s

    return Loops()


def divided() -> Spec:
    class Divided(Bags):
        @action()
        @when("even", lambda s: len(s.order) % len(s.held) == 0)
        def look(self, s: Bag) -> Bag:
            return s

    return Divided()


def mixed() -> Spec:
    class Mixed(Bags):
        @action()
        @when("one", lambda s: len(s.order) != True)  # noqa: E712
        def look(self, s: Bag) -> Bag:
            return s

    return Mixed()


def mixed_in() -> Spec:
    class Mixed(Bags):
        @action()
        @when("one", lambda s: s.open in s.held)
        def look(self, s: Bag) -> Bag:
            return s

    return Mixed()


def either_value() -> Spec:
    class Either(Bags):
        @action()
        @when("one", lambda s: (s.order or (1,)) == (1,))
        def look(self, s: Bag) -> Bag:
            return s

    return Either()


def taken_for_true() -> Spec:
    class Taken(Bags):
        @action()
        @when("one", lambda s: s.order)
        def look(self, s: Bag) -> Bag:
            return s

    return Taken()


def another_type() -> Spec:
    class Another(Bags):
        @action()
        def look(self, s: Bag) -> Bag:
            return replace(s, open=len(s.order))  # type: ignore[arg-type]

    return Another()


def three_bounds() -> Spec:
    class Three(Bags):
        @action()
        @when("one", lambda s: all(n in s.held for n in range(1, len(s.held), 2)))
        def look(self, s: Bag) -> Bag:
            return s

    return Three()


class Box:
    """Nothing that another language has."""


@dataclass(frozen=True)
class Boxed:
    box: Box


def unknown_class() -> Spec:
    class Boxes(Spec):
        def initial(self) -> Iterable[Boxed]:
            yield Boxed(Box())

        @action()
        def take(self, s: Boxed) -> Boxed:
            return s

    return Boxes()


def asking(guard: Callable[..., Any], name: str) -> Callable[[], Spec]:
    """A bag that asks this of its state."""

    def made() -> Spec:
        class Asking(Bags):
            @action()
            @when("asked", guard)
            def look(self, s: Bag) -> Bag:
                return s

        return Asking()

    made.__name__ = name
    return made


@dataclass(frozen=True)
class Bounded:
    n: int = 0

    def __post_init__(self) -> None:
        if self.n > 2:
            object.__setattr__(self, "n", 0)


@dataclass(frozen=True)
class Noted:
    n: int = 0
    why: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Alike:
    n: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    def __hash__(self) -> int:
        return 0


def of_class(cls: type) -> Callable[[], Spec]:
    def made() -> Spec:
        class Classes(Spec):
            def initial(self) -> Iterable[Any]:
                yield cls()

            @action()
            def up(self, s: Any) -> Any:
                return replace(s, n=s.n + 1)

        return Classes()

    made.__name__ = cls.__name__
    return made


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (asking(lambda s: depth(len(s.order)) < 2, "itself"), "calls itself is not exported"),
        (asking(lambda s: s.order == [1, 2], "a list"), r"`s.order == \[1, 2\]` is not exported"),
        (asking(lambda s: s.order != list(s.order), "made a list"), "is not exported"),
        (asking(lambda s: s.order == range(2), "a range"), "is not exported"),
        (asking(lambda s: sum({len(s.order), len(s.held)}) == 1, "sum of a set"), "sum"),
        (asking(lambda s: sum(1 for _ in {len(s.order), len(s.held)}) < 2, "count"), "for _ in"),
        (
            asking(lambda s: len(dict(((len(s.order), 1), (len(s.held), 2)))) < 2, "keys"),  # noqa: C406
            "is not exported",
        ),
        (of_class(Bounded), "Bounded has __post_init__, which is not exported"),
        (of_class(Noted), "Noted has why with compare=False, which is not exported"),
        (of_class(Alike), "Alike has __eq__ of its own, which is not exported"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_would_mean_something_else_is_refused(made: Callable[[], Spec], said: str) -> None:
    """Parts of a set or keys that may be equal, lists beside tuples, classes with a will."""
    for export in (as_quint, as_tla):
        with pytest.raises(ConfigError, match=said):
            export(model_of(made()))


def test_a_loop_of_ours_takes_no_name_of_theirs() -> None:
    guard = asking(lambda s: any(i in s.order for i in range(len(s.held))), "names")
    assert ".indices().map(at => s.order.nth(at)).contains(i_)" in as_quint(model_of(guard()))
    assert "[at] : at \\in DOMAIN" in as_tla(model_of(guard()))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (sum_of_types, "a field of the states of Lock is int and str, which is not exported"),
        (a_sum, r"Sums.add.small: `sum\(s.order\)` is not exported"),
        (a_loop, "Loops.add: `for one in s.order"),
        (divided, r"Divided.look.even: `len\(s.order\) % len\(s.held\)` is not exported"),
        (mixed, r"Mixed.look.one: `len\(s.order\) != True` has int and bool in one place"),
        (mixed_in, "Mixed.look.one: `s.open in s.held` has bool and int in one place"),
        (either_value, r"Either.look.one: `s.order or \(1,\)` is not exported"),
        (taken_for_true, "Taken.look.one is list of int where bool is wanted"),
        (another_type, r"Another.look: open=len\(s.order\) is int where bool is wanted"),
        (three_bounds, r"Three.look.one: `range\(1, len\(s.held\), 2\)` is not exported"),
        (unknown_class, "Boxed.box is Box, which is not exported"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_has_no_counterpart_is_refused_by_name(made: Callable[[], Spec], said: str) -> None:
    model = model_of(made())
    for export in (as_quint, as_tla, as_cfg):
        with pytest.raises(ConfigError, match=said):
            export(model)


def test_helpers_and_values_given_names() -> None:
    text = as_quint(model_of(textbook.Hanoi()))
    assert ".concat([to_]).concat(s.at.slice((if (" in text
    assert "{ val moved_ = (if ((s.small < (5 - s.big))) s.small else (5 - s.big)) {" in as_quint(
        model_of(textbook.DieHard())
    )


class Stays(Bags):
    def done(self, s: Bag) -> bool:
        return not s.open


def test_where_it_may_stay_is_told_and_is_no_deadlock() -> None:
    model = model_of(Stays())
    assert "\\* not exported: B2, done()" in as_tla(model)
    assert "// not exported: B2, done()" in as_quint(model)
    assert as_cfg(model).splitlines() == [
        "SPECIFICATION Spec",
        "INVARIANT B1",
        "\\* not exported: done(), so that no state is a deadlock here",
        "CHECK_DEADLOCK FALSE",
    ]


def test_a_specification_without_words_has_those_of_no_other() -> None:
    class Silent(Bags):
        pass

    assert as_quint(model_of(Silent())).startswith("// not exported: B2\nmodule Silent")
    assert model_of(Silent()).doc == ""


def test_what_is_empty_or_nothing_is_asked_for_as_such() -> None:
    class Asked(Bags):
        @action()
        @when("empty", lambda s: not s.order)
        @when("some", lambda s: bool(s.held))
        @when("count", lambda s: not len(s.order))
        def look(self, s: Bag) -> Bag:
            return replace(s, order=s.order if s.order else (1,))

    text = as_quint(model_of(Asked()))
    for part in ("not((s.order.length() != 0))", "(s.held.size() != 0)"):
        assert part in text
    assert "(if ((s.order.length() != 0)) s.order else [1])" in text


def test_a_divisor_above_nothing_is_exported_as_python_rounds() -> None:
    class Halves(Bags):
        @action()
        @when("even", lambda s: (len(s.order) - 3) // 2 == (len(s.order) - 3) % 2)
        def look(self, s: Bag) -> Bag:
            return s

    rest = "((((s.order.length() - 3) % 2) + 2) % 2)"
    assert f"((((s.order.length() - 3) - {rest}) / 2) == {rest})" in as_quint(model_of(Halves()))
    assert "(Len(s.order) - 3) \\div 2" in as_tla(model_of(Halves()))


def test_names_of_a_file_are_those_of_its_writer(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom dstest.spec import Spec, action\n"
        "@dataclass(frozen=True)\nclass Job:\n    n: int = 0\n"
        "class Box:\n    pass\n@dataclass(frozen=True)\nclass S:\n"
        "    job: Box | None = None\n    jobs: Job = Job()\n"
        "class Jobs(Spec):\n    def initial(self):\n        yield S()\n"
        "    @action()\n    def stay(self, s):\n        return s\n"
    )
    with pytest.raises(ConfigError) as caught:
        as_quint(load(str(file)))
    assert "S.job is Box, which is not exported" in caught.value.message


def test_every_shipped_specification_but_raft_is_exported() -> None:
    refused = set()
    for name in shipped_names():
        model = load(name)
        try:
            texts = as_quint(model), as_tla(model), as_cfg(model)
        except ConfigError:
            refused.add(name)
            continue
        for one in model.of_kind("state", "action"):
            assert f"  val {one.id} = " in texts[0]
            assert f"\n{one.id} == " in texts[1]
            assert f"INVARIANT {one.id}\n" in texts[2]
    assert refused == {"raft"}


class Right(Bags):
    @action(n=lambda s: s.held)
    @when("one", lambda s: len(s.held) == 1)
    def put(self, s: Bag, n: int) -> Bag:
        return replace(s, order=(*s.order, max(s.held), min(n, 2, len(s.order))))

    @invariant("R1", "it grows", kind="action")
    def grows(self, before: Bag, step: Step, after: Bag) -> bool:
        match step.action, step.args:
            case "put", (n,):
                return n in after.held
        return True


class Both(System):
    """Two."""

    parts = {"left": Bags(), "right": Right()}

    @action(m=(None, 1))
    def close(self, s: Any, m: int | None) -> Any:
        return s if m is None else replace(s, left=s.right)


def test_a_system_is_exported_by_its_parts() -> None:
    text = as_quint(model_of(Both()))
    for line in (
        "// not exported: left.B2, right.B2",
        "  val left_B1 = holds_left_B1(st)",
        '  val R1 = not(broken.contains("R1"))',
        "  pure def holds_R1_put(s: State, n_: int, t: State): bool = t.right.held.contains(n_)",
    ):
        assert line in text.splitlines()
    assert "oneOf({ val s = st Set(1, 2, 3).intersect(s.right.held) })" in text
    assert "s.right.held.filter(one_ => s.right.held.forall(other_ => (one_ >= other_)))" in text
    tla = as_tla(model_of(Both()))
    assert "VARIABLES st, broken" in tla.splitlines()
    assert 'R1 == "R1" \\notin broken' in tla
    assert "(CHOOSE one \\in s.right.held : (\\A other \\in s.right.held : (one >= other)))" in tla


def test_an_argument_of_several_types_is_an_action_for_each() -> None:
    class Mixed(Bags):
        @action(what=(1, ("a", 2)))
        @when("number", lambda s, what: what in s.held if isinstance(what, int) else s.open)
        def look(self, s: Bag, what: Any) -> Bag:
            return s

    text = as_quint(model_of(Mixed()))
    assert "  // look: what=('a', 2)" in text.splitlines()
    assert "  pure def can_look_2(s: State): bool = and { s.open }" in text.splitlines()
