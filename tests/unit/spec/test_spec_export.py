"""What is exported, and what is refused: tests/quint asks Quint what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest
import textbook

from dstest.core.errors import ConfigError
from dstest.spec import Spec, System, action, invariant, when
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
            " s.order.indices().map(i_ => s.order.nth(i_)).contains(one_) })"
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


def none_at_all() -> Spec:
    @dataclass(frozen=True)
    class Held:
        by: int | None = None

    class Lock(Spec):
        def initial(self) -> Iterable[Held]:
            yield Held()

        @action()
        def take(self, s: Held) -> Held:
            return Held(1)

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


def from_the_end() -> Spec:
    class Ends(Bags):
        @action()
        @when("last", lambda s: s.order[-1] == 1)
        def look(self, s: Bag) -> Bag:
            return s

    return Ends()


def parts() -> Spec:
    class Whole(System):
        parts = {"bag": Bags()}

    return Whole()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (none_at_all, "Held.by is int | None, which is not exported"),
        (a_sum, r"Sums.add.small: `sum\(s.order\)` is not exported"),
        (a_loop, "Loops.add: `for one in s.order"),
        (from_the_end, "Ends.look.last: `s.order"),
        (parts, "is made of parts"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_has_no_counterpart_is_refused_by_name(made: Callable[[], Spec], said: str) -> None:
    model = model_of(made())
    for export in (as_quint, as_tla):
        with pytest.raises(ConfigError, match=said):
            export(model)


def test_helpers_and_values_given_names() -> None:
    text = as_quint(model_of(textbook.Hanoi()))
    assert (
        "s.at.slice(0, disk_).concat([to_]).concat(s.at.slice((disk_ + 1), s.at.length()))" in text
    )
    assert "{ val moved_ = (if ((s.small < (5 - s.big))) s.small else (5 - s.big)) {" in as_quint(
        model_of(textbook.DieHard())
    )
