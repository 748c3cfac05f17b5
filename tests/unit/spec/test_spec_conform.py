"""Histories of concurrent operations against a specification: verdict, index, what is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from notation import op as parsed

from dstest.core.errors import ConfigError
from dstest.core.op import Op
from dstest.spec import Record, Spec, Step, action, invariant, maps, when
from dstest.spec.conform import conform_history
from dstest.spec.conformance import ConformResult, as_data, lines
from dstest.spec.model import model_of
from dstest.spec.shipped.list_append import ListAppend
from dstest.spec.shipped.queue import Queue
from dstest.spec.shipped.register import Register
from dstest.spec.taking import without_guards

pytestmark = pytest.mark.slow


def ops(text: str) -> list[Op]:
    return [parsed(line, n) for n, line in enumerate(text.strip().splitlines())]


def conformed(text: str, spec: Spec | None = None, **options: Any) -> ConformResult:
    return conform_history(model_of(spec or Register()), ops(text), **options)


SOUND = """
0 write 1 -> @1-2
1 read -> 1 @3-4
0 cas [1,2] -> true @5-6
1 cas [1,3] -> false @7-8
0 read -> 2 @9-10
"""


def test_what_is_a_behaviour_is_accepted_as_a_whole() -> None:
    said = conformed(SOUND)
    assert said.verdict == "accept"
    assert (said.consumed, said.total, said.index, said.parts) == (5, 5, None, 1)
    assert said.compared == {
        "cas": ["input", "output"],
        "read": ["output"],
        "write": ["input"],
    }
    assert (
        "read: output" in said.meaning and "What is in no record was not compared" in said.meaning
    )
    assert said.constants == {"start": "None", "values": "(0, 1, 2)"}
    assert {id_: count.failed for id_, count in said.counts.items()} == {
        "REG1": 0,
        "REG2": 0,
        "REG3": 0,
    }
    assert all(count.passed >= 5 for count in said.counts.values())


@pytest.mark.parametrize("at", range(5))
def test_a_rejection_names_the_completion(at: int) -> None:
    """A read that saw what was never written, in each place."""
    rows = SOUND.strip().splitlines()
    start = 2 * at + 1
    later = [
        line.rsplit("@", 1)[0] + f"@{2 * n + 3}-{2 * n + 4}" for n, line in enumerate(rows[at:], at)
    ]
    said = conformed("\n".join([*rows[:at], f"7 read -> 9 @{start}-{start + 1}", *later]))
    assert (said.verdict, said.index, said.consumed, said.total) == ("reject", at, at, 6)
    assert said.op_id == at and said.record.startswith("read")
    assert said.refusals[0].step == "read(9)" and said.refusals[0].by == "current"


def test_a_rejection_tells_states_and_guards() -> None:
    said = conformed("0 write 1 -> @1-2\n1 cas [2,3] -> true @3-4")
    assert (said.verdict, said.index) == ("reject", 1)
    assert said.frontier == ["State(value=1)"] and said.states == 1
    assert [(r.step, r.by, r.states) for r in said.refusals] == [("cas(2, 3)", "as compared", 1)]
    told = "\n".join(lines(said))
    assert "at 1 (operation 1)" in told and "cas(2, 3): as compared (1 states)" in told


def test_the_index_counts_all_completions() -> None:
    """Those that failed, and of other keys, as well; the first one that is refused is named."""
    text = """
    0 write[a] 1 -> ! @1-2
    0 write[b] 1 -> @3-4
    1 read[b] -> 7 @7-8
    0 read[a] -> 1 @5-6
    """
    said = conformed("\n".join(line.strip() for line in text.strip().splitlines()))
    assert (said.verdict, said.index, said.op_id, said.parts) == ("reject", 2, 3, 2)
    assert said.failed == 1


def test_operations_that_overlap_have_any_order() -> None:
    both = "0 write 1 -> @1-9\n1 write 2 -> @1-9\n"
    for first, second in ((1, 2), (2, 1)):
        said = conformed(
            both + f"2 read -> {first} @2-3\n2 read -> {second} @4-5\n3 read -> 9 @9-9"
        )
        assert said.verdict == "reject" and said.index == 4, (first, second)
    assert conformed(both + "2 read -> 1 @2-3\n2 read -> 2 @4-5\n2 read -> 1 @6-7").index == 2


def test_bounds_belong_to_the_interval() -> None:
    assert conformed("0 write 1 -> @1-3\n1 read -> null @3-4").verdict != "reject"
    assert conformed("0 write 1 -> @1-2\n1 read -> null @3-4").verdict == "reject"


LOST = "0 write 1 -> @1-2\n1 write 2 -> ? @3-4\n"


@pytest.mark.parametrize(
    ("reads", "verdict"),
    [
        ("0 read -> 1 @5-6", "not rejected"),
        ("0 read -> 2 @5-6", "not rejected"),
        ("0 read -> 1 @5-6\n0 read -> 2 @7-8", "not rejected"),
        ("0 read -> 2 @5-6\n0 read -> 1 @7-8", "reject"),
        ("0 read -> 3 @5-6", "reject"),
        ("0 read -> 2 @5-6\n0 write 4 -> @7-8\n0 read -> 2 @9-10", "reject"),
        ("0 write 4 -> @7-8\n0 read -> 2 @9-10", "not rejected"),
    ],
)
def test_an_unknown_outcome_has_both_branches(reads: str, verdict: str) -> None:
    said = conformed(LOST + reads)
    assert said.unknown == 1
    assert said.verdict == "reject" if verdict == "reject" else said.verdict != "reject"


def test_an_unknown_outcome_happens_once_and_not_before_it_was_asked_for() -> None:
    twice = "0 read -> 2 @5-6\n0 write 4 -> @7-8\n0 read -> 2 @9-10"
    assert conformed(LOST + twice).index == 3
    assert conformed(LOST + "9 write 2 -> ? @3-4\n" + twice).verdict != "reject"
    assert conformed("0 read -> 2 @1-2\n1 write 2 -> ? @3-4").index == 0


@pytest.mark.parametrize(
    ("reads", "happened"),
    [("0 read -> 1 @5-6", 0), ("0 read -> 2 @5-6", 1), ("0 write 3 -> @5-6\n0 read -> 3 @7-8", 0)],
)
def test_what_happened_for_certain_is_counted(reads: str, happened: int) -> None:
    said = conformed(LOST + "2 write 9 -> ? @3-4\n" + reads)
    assert (said.unknown, said.unknown_happened) == (2, happened)
    told = f"unknown outcome: 2 operations, of which {happened} took effect for certain"
    assert told in lines(said)
    assert as_data(said)["never_taken"] == said.never_taken


def test_the_one_that_is_needed_later_is_left_for_later() -> None:
    """Each of the two makes it 2, but only the write can do so again when it is 3."""
    text = "0 write 1 -> @1-2\n1 write 2 -> ? @3-4\n2 cas [1,2] -> ? @3-4\n"
    text += "0 read -> 2 @5-6\n0 write 3 -> @7-8\n0 read -> 2 @9-10"
    said = conformed(text)
    assert said.verdict != "reject" and said.unknown_happened == 2
    assert conformed(text[: text.index("0 write 3")]).unknown_happened == 0
    assert conformed(text + "\n0 write 3 -> @11-12\n0 read -> 2 @13-14").index == 5


def test_equal_ones_of_unknown_outcome_are_one_for_another() -> None:
    lost = "".join(f"{n} write 2 -> ? @3-4\n" for n in range(1, 40))
    said = conformed(f"0 write 1 -> @1-2\n{lost}0 read -> 2 @5-6\n0 read -> 2 @7-8")
    assert said.unknown == 39 and said.frontier_peak == 1


def test_a_failed_operation_had_no_effect() -> None:
    said = conformed("0 write 1 -> ! @1-2\n0 read -> 1 @3-4")
    assert (said.verdict, said.index, said.failed) == ("reject", 1, 1)


def test_the_output_of_an_unknown_outcome_is_nobodys() -> None:
    class Asks(Register):
        @maps("swap")
        def of_swap(self, record: Record) -> Iterator[Step]:
            yield Step("write", (record.output,))

    with pytest.raises(ConfigError, match="nobody knows the output of a swap"):
        conformed("0 swap -> ? @1-2", Asks())


def test_a_kind_that_is_not_mapped_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="neither maps nor ignores records of kind 'increment'"):
        conformed(SOUND + "3 increment 1 -> @11-12")


class Lax(Register):
    ignores = frozenset({"increment", "ping"})


def test_what_is_ignored_is_counted_by_kind() -> None:
    said = conformed(SOUND + "3 increment 1 -> @11-12\n3 ping -> @13-14\n3 ping -> @15-16", Lax())
    assert said.verdict == "accept" and said.ignored == {"increment": 1, "ping": 2}
    assert "ignored: 2 of kind ping" in lines(said)


def test_nothing_left_is_vacuous() -> None:
    for text in ("3 ping -> @13-14", "3 write 1 -> ! @1-2", "3 write 1 -> ? @1-2"):
        said = conformed(text, Lax())
        assert said.verdict == "vacuous"
        assert said.weak == ["no record was held against the specification"]
    assert conform_history(model_of(Lax()), []).verdict == "vacuous"


def test_a_cap_is_inconclusive_and_says_how_to_raise_it() -> None:
    text = "\n".join(f"{n} enqueue {n} -> @1-{n + 10}" for n in range(6))
    said = conformed(text, Queue(), frontier_max=50)
    assert said.verdict == "inconclusive" and said.index is not None
    assert "frontier_max=50" in said.reason and "--frontier allows more" in said.reason
    assert conformed(text + "\n0 dequeue -> 3 @20-21", Queue()).verdict != "inconclusive"


def test_a_state_in_which_what_is_under_way_is_too_late_leads_nowhere() -> None:
    """The reader knows the order of all, so that others need not be tried."""
    rows = [f'{n} txn [["append","x",{n}]] -> [["append","x",{n}]] @1-{20 + n}' for n in range(7)]
    order = [3, 1, 0, 2, 6, 5, 4]
    rows.append(f'9 txn [["r","x",null]] -> [["r","x",{order}]] @2-30')
    later = '\n9 txn [["append","x",50]] -> [["append","x",50]] @40-41'
    later += f'\n9 txn [["r","x",null]] -> [["r","x",{[*order, 50]}]] @42-43'
    said = conformed("\n".join(rows) + later, ListAppend())
    assert said.verdict == "accept" and said.frontier_peak < 8
    rows[-1] = f'9 txn [["r","x",null]] -> [["r","x",{order[:-1]}]] @2-30'
    assert conformed("\n".join(rows), ListAppend()).index is None
    rows[-1] = f'9 txn [["r","x",null]] -> [["r","x",{[*order, 99]}]] @2-30'
    said = conformed("\n".join(rows), ListAppend(), frontier_max=100)
    assert said.verdict == "reject" and "would take more than frontier_max=100" in said.reason
    exact = conformed("\n".join(rows), ListAppend())
    assert (exact.verdict, exact.index, exact.reason) == ("reject", 7, "")
    assert exact.refusals[0].by == "reads are current"


def test_what_is_too_late_cannot_happen() -> None:
    class Hasty(Register):
        @maps("put", too_late=lambda s, record: s.value is not None)
        def of_put(self, record: Record) -> Iterator[Step]:
            yield Step("write", (record.input,))

    with pytest.raises(ConfigError, match="is said to be too late in State"):
        conformed("0 write 1 -> @1-2\n0 put 2 -> @3-4\n0 read -> 2 @5-6", Hasty())

    class Wrong(Register):
        @maps("change", too_late=lambda s, record: s.value != record.input[0])
        def of_change(self, record: Record) -> Iterator[Step]:
            yield Step("cas", record.input)

    with pytest.raises(ConfigError, match="what is said to be too late has happened later"):
        conformed("0 change [1,2] -> @1-9\n1 write 1 -> @2-3\n0 read -> 2 @10-11", Wrong())


def test_a_rejection_elsewhere_counts_in_spite_of_a_cap() -> None:
    many = "\n".join(f"{n} enqueue[a] {n} -> @1-{n + 10}" for n in range(6))
    said = conformed(many + "\n9 dequeue[b] -> 3 @30-31", Queue(), frontier_max=50)
    assert (said.verdict, said.index) == ("reject", 6)
    assert "was not decided" in said.reason


def test_swapped_records_are_refused_at_their_place() -> None:
    said = conformed("0 write 1 -> @1-2\n1 read -> 1 @3-4")
    assert said.verdict == "accept" and said.swap is not None
    assert (said.swap.index, said.swap.other, said.swap.rejected_at) == (0, 1, 0)
    assert said.swap.refused_by == ["current"]
    swapped = conformed("1 read -> 1 @1-2\n0 write 1 -> @3-4")
    assert (swapped.verdict, swapped.index) == ("reject", said.swap.rejected_at)


def test_what_no_swap_can_break_is_not_accepted() -> None:
    said = conformed("0 write 1 -> @1-2\n1 write 2 -> @3-4\n0 write 1 -> @5-6")
    assert said.verdict == "vacuous" and said.swap is None and said.swaps_tried >= 2
    assert "no two records near each other matter" in said.weak[0]


class Deaf(Queue):
    """A queue that does not listen to what was dequeued."""

    @maps("take")
    def of_take(self, record: Record, s: Any) -> Iterator[Step]:
        yield from (Step("dequeue", (oldest,)) for oldest in s.waiting[:1])


def test_outputs_that_nothing_compares_are_not_accepted() -> None:
    text = "0 enqueue 1 -> @1-2\n0 take -> 5 @3-4\n0 enqueue 2 -> @5-6\n0 take -> 6 @7-8"
    said = conformed(text, Deaf())
    assert said.swap is not None and said.without_guards
    assert said.altered[0].kind == "take" and said.altered[0].refused == 0 < said.altered[0].tried
    assert said.verdict == "vacuous" and "none was noticed" in said.weak[0]
    heard = text.replace("take -> 5", "dequeue -> 1").replace("take -> 6", "dequeue -> 2")
    said = conformed(heard, Deaf())
    assert said.verdict == "accept" and said.altered[0].refused > 0


def test_a_mapping_may_rely_on_guards() -> None:
    """With all guards dropped it is asked in states that there are not otherwise."""

    class Sure(Register):
        @maps("double")
        def of_double(self, record: Record, s: Any) -> Iterator[Step]:
            yield Step("cas", (s.value, 2 * s.value))

        @maps("either")
        def of_either(self, record: Record) -> Iterator[Step]:
            yield Step("cas", (9, None))
            yield Step("cas", (1, 2))

    text = "0 write 1 -> @1-2\n0 either -> @3-4\n0 double -> @5-6\n0 read -> 4 @7-8"
    said = conformed(text, Sure())
    assert said.verdict == "accept" and said.without_guards is False
    said = conformed(text.replace("either", "double"), Sure())
    assert said.verdict == "accept" and said.without_guards is True


def test_guards_that_were_not_needed_are_named() -> None:
    said = conformed("0 write 1 -> @1-2\n1 read -> 1 @3-4")
    assert set(said.never_false) == {"read: current", "cas: as compared", "refuse: another"}
    needed = conformed("0 write 1 -> @1-9\n1 write 2 -> @1-9\n2 read -> 2 @3-4\n2 read -> 1 @5-6")
    assert "read: current" not in needed.never_false


def test_without_a_guard_that_was_never_false_all_is_as_before() -> None:
    model = msgspec.structs.replace(model_of(Queue()), invariants=())
    rows = "\n".join(f"{n} enqueue {n} -> @{n}-{n + 4}" for n in range(1, 5))
    text = rows + "\n1 dequeue -> 2 @20-21\n1 dequeue -> 1 @22-23"
    said = conform_history(model, ops(text))
    assert said.verdict == "accept"
    assert said.never_false == ["enqueue: never there", "find_empty: nothing waits"]
    for one in said.guards:
        spare = without_guards(model, {f"{one.action}.{one.guard}"})
        again = conform_history(spare, ops(text))
        same = (again.verdict, again.taken, again.frontier_peak) == (
            said.verdict,
            said.taken,
            said.frontier_peak,
        )
        assert same == (not one.false), one


def test_of_several_keys_the_first_that_is_refused_is_named_in_any_order() -> None:
    for first, second in ("ab", "ba"):
        text = f"0 read[{first}] -> 8 @1-2\n0 write[{second}] 3 -> @3-4\n0 read[{second}] -> 8 @5-6"
        said = conformed(text + f"\n0 read[{first}] -> 7 @7-8")
        assert (said.index, said.op_id, said.parts) == (0, 0, 2)
        said = conformed(f"1 write[{first}] 3 -> @9-10\n{text.partition(chr(10))[2]}")
        assert (said.index, said.op_id) == (1, 2)


def test_of_another_key_what_began_before_is_looked_at() -> None:
    text = "0 read[a] -> 8 @4-5\n1 write[b] 3 -> @1-100\n2 read[b] -> 9 @2-3"
    assert conformed(text).index == 0
    assert conformed(text.replace("9 @", "3 @")).index == 1


@dataclass(frozen=True)
class Total:
    n: int = 0


class Counter(Spec):
    """Adds up; 13 must not be reached."""

    def initial(self) -> Iterator[Total]:
        yield Total()

    @action(by=(1, 2))
    def add(self, s: Total, by: int) -> Total:
        return replace(s, n=s.n + by)

    @action(n=(0, 1, 2))
    @when("current", lambda s, n: s.n == n)
    def tell(self, s: Total, n: int) -> Total:
        return s

    @action(by=lambda s: range(s.n + 1))
    def take(self, s: Total, by: int) -> Total:
        return replace(s, n=s.n - by)

    @invariant("CNT1", "never 13")
    def lucky(self, s: Total) -> bool:
        return s.n != 13

    @maps("add")
    def of_add(self, record: Record) -> Iterator[Step]:
        yield Step("add", (record.input,))

    @maps("read", only_reads=True)
    def of_read(self, record: Record) -> Iterator[Step]:
        yield Step("tell", (record.output,))

    @maps("take")
    def of_take(self, record: Record) -> Iterator[Step]:
        yield Step("take", (record.input,))


def test_an_invariant_refuses_what_breaks_it() -> None:
    said = conformed("0 add 6 -> @1-2\n0 add 7 -> @3-4\n0 read -> 13 @5-6", Counter())
    assert (said.verdict, said.index) == ("reject", 1)
    assert said.refusals[0].by == "invariant CNT1" and said.counts["CNT1"].failed >= 1
    assert said.counts["CNT1"].passed >= 2


def test_a_domain_of_the_state_restricts_and_a_fixed_one_does_not() -> None:
    assert conformed("0 add 99 -> @1-2\n0 read -> 99 @3-4", Counter()).verdict == "accept"
    said = conformed("0 add 5 -> @1-2\n0 take 6 -> @3-4", Counter())
    assert (said.verdict, said.index, said.refusals[0].by) == ("reject", 1, "domain of by")


class Anything(Counter):
    @maps("any")
    def of_any(self, record: Record) -> Iterator[Step]:
        yield Step("add", (1,))
        yield Step("tell", (record.output,))
        yield Step("take", (1,))


def test_a_record_that_may_be_any_action_is_refused() -> None:
    with pytest.raises(ConfigError, match="may stand for any action"):
        conformed("0 any -> @1-2", Anything())


def test_what_is_said_to_only_read_must_not_change_the_state() -> None:
    class Wrong(Counter):
        @maps("bump", only_reads=True)
        def of_bump(self, record: Record) -> Iterator[Step]:
            yield Step("add", (record.input,))

    with pytest.raises(ConfigError, match="said to only read, and changes"):
        conformed("0 bump 1 -> @1-2", Wrong())


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Step("ad", (1,)), "no action with its arguments"),
        (Step("add"), "no action with its arguments"),
        (Step("add", ([1],)), "cannot be hashed"),
        (("add", 1), "no action with its arguments"),
    ],
)
def test_a_step_that_no_action_can_take_is_refused(step: Any, said: str) -> None:
    class Wrong(Counter):
        @maps("bump")
        def of_bump(self, record: Record) -> Iterator[Step]:
            yield step

    with pytest.raises(ConfigError, match=said):
        conformed("0 bump 1 -> @1-2", Wrong())


def test_two_mappings_of_a_kind_or_one_that_is_ignored_are_refused() -> None:
    class Twice(Counter):
        @maps("add")
        def of_add_again(self, record: Record) -> Iterator[Step]:
            yield Step("add", (record.input,))

    class Ignored(Counter):
        ignores = frozenset({"add"})

    for spec in (Twice(), Ignored()):
        with pytest.raises(ConfigError, match="mapped or ignored elsewhere"):
            conformed("0 add 1 -> @1-2", spec)
    for kind in ("*", "", "gap"):
        with pytest.raises(ConfigError, match="named one by one"):
            maps(kind)


def test_a_specification_without_mappings_is_refused() -> None:
    class Mute(Spec):
        def initial(self) -> Iterator[Total]:
            yield Total()

        @action()
        def grow(self, s: Total) -> Total:
            return Total(s.n + 1)

    with pytest.raises(ConfigError, match="says of no record what it stands for"):
        conformed("0 add 1 -> @1-2", Mute())
