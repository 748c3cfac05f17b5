"""Names that are taken for one another: each class is tried, and a store that confuses names of any
one class is found."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from checkers._findings import Findings, OutOfTime
from checkers.boundary import CHECKER
from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.protocols import OpDraft
from dstest.history.generator.simulated_clients import Sim
from workloads._confusables import SPELLERS, cell_of
from workloads.boundary import BOUNDARY, CONTROLS

pytestmark = pytest.mark.slow

Fold = Callable[[str, str], tuple[str, str]]


def drawn(seed: int = 1, worker: int = 0, **given: Any) -> Any:
    options = {name: option.default for name, option in BOUNDARY.options.items()}
    return BOUNDARY.generator(seed, worker, 10, options | given)


class Store:
    """Keys by tenant, under the names that `fold` makes of theirs."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.held: dict[tuple[str, str], str] = {}

    def mine(self, tenant: str) -> list[list[str]]:
        mine = self.fold(tenant, "")[0]
        return [[name, value] for (owner, name), value in self.held.items() if owner == mine]

    def drop(self, tenant: str) -> None:
        for name, _ in self.mine(tenant):
            self.held.pop((self.fold(tenant, "")[0], name), None)

    def count(self, tenant: str) -> int:
        return len(self.mine(tenant))

    def do(self, draft: OpDraft) -> Any:
        tenant, asked = str(draft.key), draft.input
        match draft.op_type:
            case "put":
                self.held[self.fold(tenant, asked["name"])] = asked["value"]
                return None
            case "get" | "probe":
                return self.held.get(self.fold(tenant, asked["name"]))
            case "list" | "probe_list":
                return self.mine(tenant)
            case "count" | "probe_count":
                return self.count(tenant)
        return self.drop(tenant)


class Joined(Store):
    """Tenant and key are one text, with this between them."""

    def __init__(self, mark: str) -> None:
        super().__init__(lambda tenant, name: ("", f"{tenant}{mark}{name}"))
        self.mark = mark

    def mine(self, tenant: str) -> list[list[str]]:
        mine = tenant + self.mark
        return [[n.removeprefix(mine), v] for (_, n), v in self.held.items() if n.startswith(mine)]

    def drop(self, tenant: str) -> None:
        mine = tenant + self.mark
        self.held = {at: v for at, v in self.held.items() if not at[1].startswith(mine)}


class Kept(Store):
    """A tenant that goes leaves its keys to whoever comes."""

    def drop(self, tenant: str) -> None:
        return


class Inclusive(Store):
    """A list ends with the first key of the tenant behind, whose name follows `tenant/`."""

    def mine(self, tenant: str) -> list[list[str]]:
        behind = sorted(super().mine(f"{tenant}0"))
        return super().mine(tenant) + behind[:1]


class Counting(Store):
    """Counts the tenants whose names begin as this one's."""

    def count(self, tenant: str) -> int:
        return sum(owner.startswith(tenant) for owner, _ in self.held)


def same(tenant: str, name: str) -> tuple[str, str]:
    return tenant, name


def wrapped(tenant: str, name: str) -> tuple[str, str]:
    return (str(int(tenant) % 2**32) if tenant.lstrip("-").isdigit() else tenant), name


def normal(tenant: str, name: str) -> tuple[str, str]:
    return unicodedata.normalize("NFKC", tenant), unicodedata.normalize("NFKC", name)


CONFUSED: dict[str, Callable[[], Store]] = {
    "same name": lambda: Store(lambda tenant, name: ("", name)),
    "prefix": lambda: Joined(""),
    "case": lambda: Store(lambda tenant, name: (tenant.lower(), name.lower())),
    "separator": lambda: Joined(":"),
    "trailing": lambda: Store(lambda tenant, name: (tenant.strip(), name.strip())),
    "recycled": lambda: Kept(same),
    "off by one": lambda: Inclusive(same),
    "overflow": lambda: Store(wrapped),
    "unicode": lambda: Store(normal),
}
MORE: dict[str, Callable[[], Store]] = {
    "keys in one case": lambda: Store(lambda tenant, name: (tenant, name.lower())),
    "names cut at a null": lambda: Store(
        lambda tenant, name: (tenant.partition("\x00")[0], name.partition("\x00")[0])
    ),
    "keys as floats": lambda: Store(
        lambda tenant, name: (tenant, str(float(name)) if name.lstrip("-").isdigit() else name)
    ),
    "a count of neighbours": lambda: Counting(same),
}


def used(store: Store, seed: int, count: int = 1500, **luck: float) -> History:
    """What clients of the workload see of this store."""
    generator = drawn(seed)
    sim = Sim(seed, 8, luck.get("unknown", 0.02), luck.get("fail", 0.02))

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        draft = generator.next()
        return draft.op_type, draft.key, draft.input, lambda: store.do(draft)

    sim.run(count, step)
    return sim.history()


def judged(history: History, model: str = "isolated") -> CheckResult:
    return CHECKER.check(history, model, Budget(time_s=60.0))


@pytest.mark.parametrize("seed", range(5))
def test_a_store_that_confuses_nothing_is_clean(seed: int) -> None:
    history = used(Store(same), seed, unknown=0.05 * seed)
    for model in CHECKER.models:
        result = judged(history, model)
        assert result.valid is True, result.reason
        assert result.stats["answers_by_class"].keys() == SPELLERS.keys()
        assert result.stats["controls"] > 100


@pytest.mark.parametrize("kind", [*CONFUSED, *MORE])
def test_a_store_that_confuses_one_class_is_found(kind: str) -> None:
    assert CONFUSED.keys() == SPELLERS.keys()
    for seed in range(3):
        history = used((CONFUSED | MORE)[kind](), seed)
        result = judged(history)
        assert result.valid is False, seed
        classes = {
            op["input"]["class"]
            for group in result.anomalies.values()
            for one in group
            for op in one.witness
        }
        assert kind in classes or kind in MORE, result.anomaly_types
        if kind != "recycled":
            assert judged(history, "isolated-late").valid is False, "names alone show it"
        else:
            assert {"resurrected"} <= {*result.anomaly_types}


def test_each_worker_begins_with_all_classes_and_shares_no_tenant() -> None:
    kinds: dict[str, Counter[str]] = {}
    tenants: list[set[Any]] = []
    for worker in range(3):
        generator = drawn(7, worker)
        drafts = [generator.next() for _ in range(3000)]
        tenants.append({draft.key for draft in drafts})
        for draft in drafts[:800]:
            kinds.setdefault(draft.op_type, Counter())[draft.input["class"]] += 1
    assert (
        not tenants[0] & tenants[1] and not tenants[1] & tenants[2] and not tenants[0] & tenants[2]
    )
    assert all(count.keys() == SPELLERS.keys() for count in kinds.values())
    assert kinds.keys() == BOUNDARY.op_types


def test_controls_ask_for_what_nobody_puts() -> None:
    generator = drawn(3)
    drafts = [generator.next() for _ in range(20_000)]
    put = {(d.key, d.input["name"]) for d in drafts if d.op_type == "put"}
    values = [d.input["value"] for d in drafts if d.op_type == "put"]
    assert len({*values}) == len(values)
    for draft in drafts:
        if draft.op_type == "probe":
            assert (draft.key, draft.input["name"]) not in put
        elif draft.op_type in CONTROLS:
            assert draft.key not in {tenant for tenant, _ in put}


@pytest.mark.parametrize("kind", SPELLERS)
def test_a_cell_has_places_that_differ(kind: str) -> None:
    for number in range(40):
        cell = cell_of(kind, 2, number, random.Random(number))
        every = [*cell.places, *cell.absent]
        assert len({*every}) == len(every) and len(cell.places) >= 2
        assert not {*cell.strangers} & {*cell.tenants}


@pytest.mark.parametrize(
    ("kind", "fold"),
    [
        ("trailing", str.lstrip),
        ("trailing", lambda name: name.replace("\u200b", "")),
        ("separator", lambda name: name.replace("_", "-")),
        ("prefix", lambda name: name[:64]),
    ],
)
def test_names_of_tenants_that_such_a_fold_takes_for_one(
    kind: str, fold: Callable[[str], str]
) -> None:
    cells = [cell_of(kind, 0, 9 * turn, random.Random(turn)) for turn in range(10)]
    every = [{*cell.tenants, *cell.strangers} for cell in cells]
    assert any(len({fold(name) for name in names}) < len(names) for names in every)


def op(op_id: int, op_type: str, tenant: str, at: int, **fields: Any) -> Op:
    asked = {key: fields.pop(key) for key in ("name", "value", "cell") if key in fields}
    return msgspec.structs.replace(
        Op(
            op_id=op_id, process_id=op_id, invoke_ts=10 * at, complete_ts=10 * at + 5,
            op_type=op_type, key=tenant, input=asked,
        ),
        **fields,
    )  # fmt: skip


def put(op_id: int, tenant: str, name: str, at: int, **more: Any) -> Op:
    return op(op_id, "put", tenant, at, name=name, value=f"v{op_id}", **more)


def get(op_id: int, tenant: str, name: str, at: int, output: Any, **more: Any) -> Op:
    return op(op_id, "get", tenant, at, name=name, output=output, **more)


UNKNOWN: dict[str, Any] = {"complete_ts": None, "timeout_marker": True}
LONG = {"complete_ts": 1000}

CASES: dict[str, tuple[list[Op], dict[str, list[int]]]] = {
    "another tenant's": ([put(0, "a", "k", 0), get(1, "b", "k", 1, "v0")], {"leak": [0, 1]}),
    "another key's": ([put(0, "a", "k", 0), get(1, "a", "K", 1, "v0")], {"wrong-key": [0, 1]}),
    "nobody's": ([put(0, "a", "k", 0), get(1, "a", "k", 1, "x")], {"phantom-key": [1]}),
    "of the future": ([get(0, "a", "k", 0, "v1"), put(1, "a", "k", 1)], {"phantom-key": [0]}),
    "refused": (
        [put(0, "a", "k", 0, error="no"), get(1, "a", "k", 1, "v0")],
        {"failed-but-applied": [0, 1]},
    ),
    "overwritten": (
        [put(0, "a", "k", 0), put(1, "a", "k", 1), get(2, "a", "k", 2, "v0")],
        {"stale": [0, 1, 2]},
    ),
    "overwritten by what was seen": (
        [
            put(0, "a", "k", 0), put(1, "a", "k", 1, **UNKNOWN), get(2, "a", "k", 2, "v1"),
            get(3, "a", "k", 3, "v0"),
        ],
        {"stale": [0, 1, 3]},
    ),
    "perhaps overwritten": (
        [put(0, "a", "k", 0), put(1, "a", "k", 1, **UNKNOWN), get(2, "a", "k", 2, "v0")],
        {},
    ),
    "dropped": (
        [put(0, "a", "k", 0), op(1, "drop", "a", 1), get(2, "a", "k", 2, "v0")],
        {"resurrected": [0, 1, 2]},
    ),
    "perhaps dropped": (
        [put(0, "a", "k", 0), op(1, "drop", "a", 1, **UNKNOWN), get(2, "a", "k", 2, None)],
        {},
    ),
    "another one dropped": (
        [put(0, "a", "k", 0), op(1, "drop", "A", 1, cell="1"), get(2, "a", "k", 2, None)],
        {"lost": [0, 2]},
    ),
    "one alike dropped": (
        [put(0, "a", "k", 0, cell="1"), op(1, "drop", "A", 1, cell="1"), get(2, "a", "k", 2, None)],
        {"lost-to-confusion": [0, 1, 2]},
    ),
    "one with, one without such a change": (
        [
            put(0, "a", "k", 0, cell="1"), put(1, "b", "k", 0, cell="2"),
            op(2, "drop", "A", 1, cell="1"), get(3, "a", "k", 2, None), get(4, "b", "k", 3, None),
        ],
        {"lost": [0, 3]},
    ),
    "gone before that": (
        [put(0, "a", "K", 0, cell="1"), put(1, "a", "k", 1, cell="1"), get(2, "a", "k", 2, None)],
        {"lost": [1, 2]},
    ),
    "missing in a list": (
        [put(0, "a", "k", 0), put(1, "a", "l", 0), op(2, "list", "a", 1, output=[["l", "v1"]])],
        {"lost": [0, 2]},
    ),
    "twice in a list": (
        [put(0, "a", "k", 0), op(1, "list", "a", 1, output=[["k", "v0"], ["k", "v0"]])],
        {"listed-twice": [1]},
    ),
    "counted too often": (
        [put(0, "a", "k", 0), op(1, "count", "a", 1, output=2)], {"count-off": [0, 1]},
    ),
    "counted too rarely": (
        [put(0, "a", "k", 0), op(1, "count", "a", 1, output=0)], {"count-off": [0, 1]},
    ),
    "counted while it came": ([put(0, "a", "k", 0, **LONG), op(1, "count", "a", 1, output=0)], {}),
    "counted when it had come": (
        [put(0, "a", "k", 0, **LONG), op(1, "count", "a", 1, output=1)], {},
    ),
    "counted where it may be": (
        [put(0, "a", "k", 0, **UNKNOWN), op(1, "count", "a", 1, output=1)], {},
    ),
    "a control that was answered": (
        [put(0, "a", "k", 0), op(1, "probe", "b", 1, name="k", output="v0")], {"leak": [0, 1]},
    ),
    "in the answer of a put": (
        [put(0, "a", "k", 0), put(1, "b", "k", 1, output="v0")], {"leak": [0, 1]},
    ),
    "in the answer of a drop": (
        [put(0, "a", "k", 0), op(1, "drop", "b", 1, output=[{"k": ["v0"]}])], {"leak": [0, 1]},
    ),
    "of a refused put, in the answer of a put": (
        [put(0, "a", "k", 0, error="no"), put(1, "b", "k", 1, output="v0")], {"leak": [0, 1]},
    ),
    "its own in the answer of a drop": (
        [put(0, "a", "k", 0), op(1, "drop", "a", 1, output=["v0", 1, None])], {},
    ),
    "its own in the answer of a put": (
        [put(0, "a", "k", 0), put(1, "a", "k", 1, output=["v0", "v1", "OK"])], {},
    ),
    "a control that counts": (
        [put(0, "a", "k", 0), op(1, "probe_count", "b", 1, output=1)], {"count-off": [1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", CHECKER.models)
@pytest.mark.parametrize(
    ("one", "another"),
    [(1, 1.0), (1, True), (0, False), (0, -0.0), (1, "1"), ([1], [True]), ({"t": 1}, {"t": 1.0})],
)
def test_tenants_that_are_equal_numbers_are_two(one: Any, another: Any, model: str) -> None:
    for mine, other in ((one, another), (another, one)):
        ops = [put(0, mine, "k", 0), get(1, other, "k", 1, "v0")]
        result = judged(History(header=Header(), ops=ops), model)
        assert result.valid is False and result.anomaly_types == ["leak"], result.reason
        own = judged(History(header=Header(), ops=[ops[0], get(1, mine, "k", 1, "v0")]), model)
        assert own.valid is True, own.reason


@pytest.mark.parametrize("name", CASES)
def test_each_anomaly_has_its_witness(name: str) -> None:
    ops, wanted = CASES[name]
    result = judged(History(header=Header(), ops=[*ops, get(99, "nobody", "k", 99, None)]))
    found = {kind: group[0].ops for kind, group in result.anomalies.items()}
    assert found == wanted
    assert result.valid is (not wanted)


def test_a_value_that_is_put_twice_leaves_all_open() -> None:
    ops = [put(0, "a", "k", 0), get(1, "b", "k", 1, "v0")]
    again = op(2, "put", "b", 2, name="k", value="v0")
    result = judged(History(header=Header(), ops=[*ops, again]))
    assert result.valid == "unknown" and "whose is it" in str(result.reason)


def test_a_control_asks_for_what_nobody_put() -> None:
    ops = [
        put(0, "a", "k", 0), put(1, "b", "k", 0, error="no"), op(2, "drop", "c", 0),
        op(3, "probe", "a", 1, name="k", output="v0"), op(4, "probe", "a", 1, name="l"),
        op(5, "probe", "b", 1, name="k"), op(6, "probe_list", "a", 1, output=[["k", "v0"]]),
        op(7, "probe_list", "c", 1, output=[]), op(8, "probe_count", "a", 1, output=1),
        op(9, "probe_count", "d", 1, output=0), get(10, "d", "k", 1, None),
    ]  # fmt: skip
    result = judged(History(header=Header(), ops=ops))
    assert result.valid is True and result.stats["controls"] == 4, result.reason


def test_a_number_in_the_answer_of_a_write_is_no_value() -> None:
    puts = [put(0, "a", "k", 0), put(1, "b", "k", 1, output=7)]
    ops = [msgspec.structs.replace(puts[0], input={"name": "k", "value": 7}), puts[1]]
    result = judged(History(header=Header(), ops=[*ops, get(2, "b", "k", 2, "v1")]))
    assert result.valid is True, result.reason


MANY = 20_000


def rewritten_and_counted() -> list[Op]:
    puts = [put(i, "a", "k", i) for i in range(MANY)]
    counts = [op(MANY + i, "count", "a", MANY + i, output=1) for i in range(MANY)]
    return [*puts, *counts, get(-1, "b", "k", 3 * MANY, "v3")]


def lost_again_and_again() -> list[Op]:
    ops = [put(0, "a", "k", 0, cell="1")]
    for i in range(1, MANY, 2):
        ops += [get(i, "a", "k", i, None), put(i + 1, "a", "K", i + 1, cell="1")]
    return ops


def lost_among_its_own() -> list[Op]:
    ops = [put(0, "a", "k", 0, cell="1", **UNKNOWN)]
    for i in range(1, MANY, 2):
        ops += [put(i, "a", "k", i, cell="1"), get(i + 1, "a", "k", i + 1, None)]
    return ops


def seen_and_lost() -> list[Op]:
    ops = [put(0, "a", "k", 0, cell="1")]
    for i in range(1, MANY, 2):
        ops += [get(i, "a", "k", i, "v0"), get(i + 1, "a", "k", i + 1, None)]
    return ops


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (rewritten_and_counted, "leak"),
        (lost_again_and_again, "lost"),
        (lost_among_its_own, "lost"),
        (seen_and_lost, "lost"),
    ],
)
def test_a_long_history_of_one_place_is_judged_at_once(make: Callable[[], Any], kind: str) -> None:
    result = CHECKER.check(History(header=Header(), ops=make()), "isolated", Budget(time_s=10.0))
    assert result.valid is False and kind in result.anomaly_types, result.reason
    assert not result.keys.undecided and result.seconds.check < 10


def test_what_was_found_before_the_budget_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(30))

    def tick(_: Any) -> None:
        if next(ticks, None) is None:
            raise OutOfTime

    monkeypatch.setattr(Findings, "tick", tick)
    result = judged(History(header=Header(), ops=lost_again_and_again()[:40]))
    assert result.valid is False and result.keys.undecided == [None]


def test_what_was_lost_before_an_answer_that_cannot_be_read_is_told() -> None:
    ops = [put(0, "a", "k", 0), get(1, "a", "k", 1, None), op(2, "count", "a", 2, output="1")]
    result = judged(History(header=Header(), ops=ops))
    assert result.valid is False and result.anomaly_types == ["lost"], result.reason


def test_nothing_is_shown() -> None:
    assert judged(History(header=Header(), ops=[put(0, "a", "k", 0)])).valid == "unknown"


def test_the_message_says_of_which_class_the_names_are_and_shows_what_is_unseen() -> None:
    asked = {"name": "k ", "class": "trailing"}
    ops = [put(0, "a", "k", 0), msgspec.structs.replace(get(1, "a", "k ", 1, "v0"), input=asked)]
    (one,) = judged(History(header=Header(), ops=ops)).anomalies["wrong-key"]
    assert "class trailing" in one.explanation and "'k '" in one.explanation
    assert one.element == "v0" and one.culprit == 1


def test_a_surface_is_where_a_tenant_is_shown_what_it_has() -> None:
    surfaces = {name: types - CONTROLS for name, types in BOUNDARY.fields.surfaces.items()}
    assert surfaces == {"keys": {"get"}, "lists": {"list"}, "counts": {"count"}}
    assert BOUNDARY.fields.nothing.keys() == CONTROLS


def test_clients_of_several_systems_can_do_it() -> None:
    for name in ("toykv", "etcd", "redis-sentinel"):
        assert BOUNDARY.capability in registry.load("systems", name).capabilities
