"""Logs, line by line, against a specification; gaps where what wrote them ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dstest.core.errors import ConfigError, HistoryError
from dstest.spec import Record, Spec, Step, System, action, invariant, maps, when
from dstest.spec.conform import conform_log
from dstest.spec.conformance import ConformResult
from dstest.spec.mapping import Event
from dstest.spec.merge import read_log
from dstest.spec.model import model_of


@dataclass(frozen=True)
class State:
    """Entries, and how many of them are on disk."""

    entries: tuple[int, ...] = ()
    synced: int = 0


class Journal(Spec):
    """A log in memory whose beginning is on disk: a crash loses what is not there."""

    crash = "restart"

    def initial(self) -> Iterator[State]:
        yield State()

    @action(entry=(1, 2, 3))
    @when("grows", lambda s, entry: not s.entries or entry > s.entries[-1])
    def append(self, s: State, entry: int) -> State:
        return replace(s, entries=(*s.entries, entry))

    @action(upto=(0, 1, 2))
    @when("written", lambda s, upto: s.synced <= upto <= len(s.entries))
    def sync(self, s: State, upto: int) -> State:
        return replace(s, synced=upto)

    @action(kept=lambda s: range(s.synced, len(s.entries) + 1))
    def restart(self, s: State, kept: int) -> State:
        return State(s.entries[:kept], kept)

    @action(count=(0, 1, 2))
    @when("as many", lambda s, count: len(s.entries) == count)
    def tell(self, s: State, count: int) -> State:
        return s

    @invariant("JRN1", "what is on disk was written")
    def real(self, s: State) -> bool:
        return s.synced <= len(s.entries)

    @invariant("JRN2", "only a crash takes entries away", kind="action")
    def kept(self, before: State, step: Step, after: State) -> bool:
        return step.action == "restart" or after.entries[: len(before.entries)] == before.entries

    @maps("append", after=lambda s, record: s.entries[-1] == record.entry)
    def of_append(self, record: Record) -> Iterator[Step]:
        yield Step("append", (record.entry,))

    @maps("sync")
    def of_sync(self, record: Record) -> Iterator[Step]:
        yield Step("sync", (record.upto,))

    @maps("count", only_reads=True)
    def of_count(self, record: Record) -> Iterator[Step]:
        yield Step("tell", (record.output,))


def event(text: str) -> Event:
    kind, _, value = text.partition(" ")
    field = {"append": "entry", "sync": "upto", "count": "output"}.get(kind)
    return Event(kind, {field: int(value)} if field else {})


def conformed(*lines: str, spec: Spec | None = None, **options: Any) -> ConformResult:
    return conform_log(model_of(spec or Journal()), [event(line) for line in lines], **options)


LOG = ("append 1", "append 2", "sync 2", "append 3", "count 3")


def test_a_log_is_replayed_as_a_whole() -> None:
    said = conformed(*LOG)
    assert (said.verdict, said.consumed, said.total, said.frontier_peak) == ("accept", 5, 5, 1)
    assert said.counts["JRN1"].passed == 6 and said.counts["JRN2"].passed == 5
    assert said.taken == {"append": 3, "sync": 1, "restart": 0, "tell": 1}
    assert said.never_taken == ["restart"]


@pytest.mark.parametrize(
    ("at", "verdict", "index"),
    [(0, "reject", 1), (1, "reject", 1), (2, "accept", None), (3, "reject", 3)],
)
def test_two_lines_that_depend_are_refused_in_the_other_order(
    at: int, verdict: str, index: int | None
) -> None:
    """The place is that of the first line that cannot be; a sync and an append do not depend."""
    rows = list(LOG)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    said = conformed(*rows)
    assert (said.verdict, said.index) == (verdict, index)


def test_the_control_exchanges_lines() -> None:
    said = conformed(*LOG)
    assert said.swap is not None
    rows = list(LOG)
    at = said.swap.index
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    again = conformed(*rows)
    assert (again.verdict, again.index) == ("reject", said.swap.rejected_at)
    assert {one.by for one in again.refusals} == set(said.swap.refused_by)


def test_a_bypassed_rule_is_noticed() -> None:
    """A server that appends what is too old, and one that says it has synced what is not there."""
    said = conformed("append 2", "append 1", "sync 2")
    assert (said.verdict, said.index, said.refusals[0].by) == ("reject", 1, "grows")
    said = conformed("append 2", "sync 2")
    assert (said.verdict, said.index, said.refusals[0].by) == ("reject", 1, "written")


@pytest.mark.parametrize(
    ("after", "accepted"), [(2, True), (3, True), (4, True), (1, False), (5, False)]
)
def test_a_gap_loses_what_a_crash_may_lose(after: int, accepted: bool) -> None:
    rows = ("append 1", "append 2", "sync 2", "append 3", "append 4", "gap", f"count {after}")
    said = conformed(*rows)
    assert said.gaps == 1
    assert (said.verdict, said.index) == (("accept", None) if accepted else ("reject", 6))
    without = conformed(*rows[:5], rows[6])
    assert (without.verdict == "accept") == (after == 4)


def test_a_gap_needs_a_crash() -> None:
    class Eternal(Journal):
        crash = ""

    with pytest.raises(ConfigError, match="the log has a gap, and Eternal has no crash"):
        conformed(*LOG, "gap", spec=Eternal())


def test_what_a_line_says_of_the_state_after_it_is_compared() -> None:
    class Forgetful(Journal):
        @action(entry=(1, 2, 3))
        def append(self, s: State, entry: int) -> State:
            return replace(s, entries=(*s.entries, 0))

    said = conformed(*LOG, spec=Forgetful())
    assert (said.verdict, said.index) == ("reject", 0)
    assert said.refusals[0].by == "what the record says of the state after it"


def test_a_kind_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'compact'"):
        conformed(*LOG, "compact")

    class Lax(Journal):
        ignores = frozenset({"compact"})

    said = conformed("compact", *LOG, spec=Lax())
    assert (said.verdict, said.total, said.ignored) == ("accept", 6, {"compact": 1})
    assert conformed("compact", "append 1", "sync 2", spec=Lax()).index == 2
    assert conformed("compact", spec=Lax()).verdict == "vacuous"


def test_gaps_alone_are_vacuous() -> None:
    assert conformed("gap", "gap").verdict == "vacuous"
    assert conformed("append 1", "gap").verdict == "vacuous"


def test_a_cap_is_inconclusive() -> None:
    rows = [f"append {n}" for n in range(1, 30)]
    said = conformed(*rows, "gap", "count 3", frontier_max=10)
    assert (said.verdict, said.index, said.consumed) == ("inconclusive", 29, 29)
    assert conformed(*rows, "gap", "count 3").verdict == "accept"


def test_actions_that_no_record_stands_for_may_come_between() -> None:
    class Lazy(Journal):
        hidden = frozenset({"flush"})

        @action()
        @when("behind", lambda s: s.synced < len(s.entries))
        def flush(self, s: State) -> State:
            return replace(s, synced=s.synced + 1)

        @action(kept=lambda s: (s.synced,))
        def restart(self, s: State, kept: int) -> State:
            return State(s.entries[:kept], kept)

    for count in (0, 1, 2):
        rows = ("append 1", "append 2", "gap", f"count {count}", f"sync {count}")
        assert conformed(*rows, spec=Lazy()).index is None
    rows = ("append 1", "append 2", "sync 2", "gap", "count 1")
    assert conformed(*rows, spec=Lazy()).index == 4
    assert "flush may have happened at any time" in conformed(*LOG, spec=Lazy()).meaning


@dataclass(frozen=True)
class Free:
    """A switch."""

    on: bool = False


class Switch(Spec):
    """On by turns."""

    def initial(self) -> Iterator[Free]:
        yield Free()

    @action(who=lambda s: (1, 2) if not s.on else (3,))
    def flip(self, s: Free, who: int) -> Free:
        return Free(not s.on)

    @action()
    def idle(self, s: Free) -> Free:
        return s


class Both(System):
    """A domain of a part restricts what records bring."""

    parts = {"left": Switch(), "right": Switch()}

    @maps("flip")
    def of_flip(self, record: Record) -> Iterator[Step]:
        yield Step("flip", (record.who,))


def test_a_system_is_held_to_the_domains_of_its_parts() -> None:
    model = model_of(Both())
    good = conform_log(model, [Event("flip", {"who": who}) for who in (1, 3, 2)])
    assert good.verdict == "accept"
    bad = conform_log(model, [Event("flip", {"who": who}) for who in (1, 2)])
    assert (bad.verdict, bad.index, bad.refusals[0].by) == ("reject", 1, "sub:left.domain of who")


def test_each_key_has_a_log_of_its_own_and_all_have_the_gaps() -> None:
    class Journals(Journal):
        per_key = True

    def keyed(*rows: str) -> ConformResult:
        made = []
        for row in rows:
            one = event(row[2:])
            fields = {} if one.kind == "gap" else {**one.fields, "key": row[0]}
            made.append(Event(one.kind, fields))
        return conform_log(model_of(Journals()), made)

    rows = ("a append 2", "b append 1", "a sync 1", "- gap", "a count 1", "b count 0")
    said = keyed(*rows)
    assert (said.verdict, said.parts, said.total) == ("accept", 2, 6)
    said = keyed(*rows[:-2], "b count 0", "a count 0")
    assert (said.verdict, said.index) == ("reject", 5)
    model = model_of(Journals())
    two = [Event("append", {"entry": 1, "key": key}) for key in ([1, "x"], [1, "y"], {"z": 0})]
    assert conform_log(model, two).parts == 3


def test_lines_become_events() -> None:
    assert Event.of({"event": "sync", "upto": 2}, kind="event") == Event("sync", {"upto": 2})
    with pytest.raises(ConfigError, match="has no 'kind' that is a text"):
        Event.of({"event": "sync"})


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="has no field 'upto'"):
        conform_log(model_of(Journal()), [Event("sync", {"up": 2})])


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "append", "entry": 1}\n\n{"event": "gap"}\n{"event": "sy')
    found = list(read_log(path, kind="event"))
    assert found == [Event("append", {"entry": 1}), Event("gap")]
    path.write_text('{"event": "append", "entry": 1}\n{"event": "sy\n{"event": "gap"}\n')
    with pytest.raises(HistoryError, match="line 2: no JSON object"):
        list(read_log(path, kind="event"))
    path.write_text('{"event": "append"}\n{"kind": 7}\n')
    with pytest.raises(HistoryError, match="line 1: a record has no 'kind'"):
        list(read_log(path))
    with pytest.raises(HistoryError, match="No such file"):
        list(read_log(tmp_path / "none"))
