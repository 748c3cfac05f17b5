"""The specifications that come with dstest: all of their states, and histories of each."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest
from notation import op as parsed

from dstest.core.errors import ConfigError
from dstest.history.generator.true_histories import history
from dstest.spec import FrozenDict, Spec, shipped
from dstest.spec.compose import load
from dstest.spec.conform import conform_history
from dstest.spec.conformance import ConformResult
from dstest.spec.explore import explore
from dstest.spec.model import Guard, Model, model_of
from dstest.spec.shipped.kv import Kv
from dstest.spec.shipped.list_append import ListAppend
from dstest.spec.shipped.lock import Lock
from dstest.spec.shipped.queue import Queue
from dstest.spec.shipped.register import Register

pytestmark = pytest.mark.slow

NAMES = sorted(module.name for module in pkgutil.iter_modules(shipped.__path__))


SIZES = {
    "register": (4, 40),
    "queue": (168, 320),
    "lock": (17, 141),
    "list_append": (25, 276),
    "kv": (57, 1077),
    "raft": (286, 2664),
    "raft_status": (451, 6504),
}
"""States and steps."""

BOUNDS = {"raft": {"terms": 1}}
"""Smaller than what it comes with, and still such that each action is taken."""

ELSEWHERE = {"raft": "test_spec_raft.py: rules of a later term need walks"}
"""Whose rules are left out one by one, and where."""


def spec_of(name: str) -> Spec:
    found = importlib.import_module(f"dstest.spec.shipped.{name}")
    cls: type[Spec] = getattr(found, "".join(word.capitalize() for word in name.split("_")))
    return cls(**BOUNDS.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_all_of_its_states_hold(name: str) -> None:
    said = explore(model_of(spec_of(name)))
    assert (said.outcome, (said.states, said.steps)) == ("holds", SIZES[name])
    assert not said.never_taken
    assert all(count.passed for count in said.counts.values())


def without(model: Model, action: str, guard: str) -> Model:
    """The model with one guard left out."""

    def kept(one: Guard) -> bool:
        return one.label != guard

    actions = tuple(
        msgspec.structs.replace(one, guards=tuple(filter(kept, one.guards)))
        if one.name == action
        else one
        for one in model.actions
    )
    return msgspec.structs.replace(model, actions=actions)


GUARDS = [
    (name, one.name, guard.label)
    for name in NAMES
    if name not in ELSEWHERE
    for one in model_of(spec_of(name)).actions
    for guard in one.guards
]


@pytest.mark.parametrize(("name", "action", "guard"), GUARDS)
def test_each_guard_is_held_by_an_invariant(name: str, action: str, guard: str) -> None:
    """Without it something is violated, or cannot be done; but what may expire may always."""
    changed = without(model_of(spec_of(name)), action, guard)
    if (name, action, guard) == ("kv", "delete", "there"):
        with pytest.raises(ConfigError, match="KeyError"):
            explore(changed)
        return
    harmless = (name, action, guard) == ("lock", "expire", "leased")
    assert explore(changed, max_states=20_000).outcome == ("holds" if harmless else "violated")


def conformed(spec: Spec, text: str) -> ConformResult:
    rows = [line.strip() for line in text.strip().splitlines()]
    timed = [f"{line} @{2 * n + 1}-{2 * n + 2}" for n, line in enumerate(rows)]
    return conform_history(model_of(spec), [parsed(line, n) for n, line in enumerate(timed)])


LEASED = Lock()
HELD = Lock(leased=False)


@pytest.mark.parametrize(
    ("spec", "text", "index"),
    [
        (Register(start=0), "0 read -> 0\n0 write 1 ->\n0 read -> 1", None),
        (Register(start=0), "0 read -> null", 0),
        (Queue(), "0 enqueue 1 ->\n0 enqueue 2 ->\n1 dequeue -> 1\n1 dequeue -> 2", None),
        (Queue(), "0 enqueue 1 ->\n0 enqueue 2 ->\n1 dequeue -> 2", 2),
        (Queue(), "0 enqueue 1 ->\n1 dequeue -> 1\n1 dequeue -> 1", 2),
        (Queue(), "0 enqueue 1 ->\n1 dequeue -> null", 1),
        (Queue(), "0 enqueue 1 ->\n1 dequeue -> ?\n1 dequeue -> null\n0 enqueue 2 ->", None),
        (Queue(), "0 enqueue[a] 1 ->\n0 enqueue[b] 1 ->\n1 dequeue[b] -> 1", None),
        (HELD, "0 acquire -> true\n1 acquire -> false\n0 release ->\n1 acquire -> true", None),
        (HELD, "0 acquire -> true\n1 acquire -> true", 1),
        (LEASED, '0 acquire -> {"token": 3}\n1 acquire -> {"token": 5}\n0 renew -> false', None),
        (LEASED, '0 acquire -> {"token": 3}\n1 acquire -> {"token": 5}\n0 renew -> true', 2),
        (LEASED, '0 acquire -> {"token": 3}\n1 acquire -> {"token": 3}', 1),
        (LEASED, "0 acquire -> ?\n1 acquire -> false\n0 release ->\n1 acquire -> false", 2),
        (LEASED, "1 acquire -> false", 0),
    ],
)
def test_histories_of_single_objects(spec: Spec, text: str, index: int | None) -> None:
    said = conformed(spec, text)
    assert said.index == index
    assert said.verdict == ("accept" if index is None else "reject")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (
            """
            0 txn [["append","x",1],["r","x",null]] -> [["append","x",1],["r","x",[1]]]
            1 txn [["r","x",null],["r","y",null]] -> [["r","x",[1]],["r","y",null]]
            1 txn [["r","x",null],["append","x",2]] -> [["r","x",[1]],["append","x",2]]
            """,
            None,
        ),
        (
            """
            0 txn [["append","x",1],["append","y",1]] -> [["append","x",1],["append","y",1]]
            1 txn [["r","x",null],["r","y",null]] -> [["r","x",[1]],["r","y",null]]
            """,
            1,
        ),
        (
            """
            0 txn [["append","x",1]] -> ?
            0 txn [["append","x",2]] -> ?
            1 txn [["r","x",null]] -> [["r","x",[2,1]]]
            1 txn [["r","x",null]] -> [["r","x",[2]]]
            """,
            1,
        ),
        ('0 txn [["append","x",1],["r","x",null]] -> [["append","x",1],["r","x",null]]', 0),
    ],
)
def test_transactions_on_lists(text: str, index: int | None) -> None:
    said = conformed(ListAppend(), text)
    assert said.index == index and (said.verdict == "reject") == (index is not None)
    if index is None:
        assert said.verdict == "accept"


KV = """
0 write[x] 7 -> {"version": 2}
1 write[y] 8 -> {"version": 3}
0 read[x] -> {"value": 7, "version": 2}
1 txn {"if": [["x", 2], ["z", 0]], "then": [["x", 9], ["z", 9]]} -> {"version": 4}
1 txn {"if": [["x", 2]], "then": [["x", 5]]} -> null
0 read[z] -> {"value": 9, "version": 4}
0 delete[z] -> {"version": 5}
0 delete[z] -> {"version": null}
0 write[z] 1 -> ?
0 read[z] -> {"value": 1, "version": 6}
"""


def test_a_store_with_revisions() -> None:
    said = conformed(Kv(), KV)
    assert (said.verdict, said.consumed) == ("accept", 9)
    assert not said.never_taken and said.unknown == 1


@pytest.mark.parametrize(
    ("good", "bad", "index"),
    [
        ('8 -> {"version": 3}', '8 -> {"version": 4}', 1),
        ('{"value": 7, "version": 2}', '{"value": 7, "version": 3}', 2),
        ('["z", 0]]', '["z", 1]]', 3),
        ("-> null", '-> {"version": 5}', 4),
        ('{"value": 9, "version": 4}', '{"value": null, "version": 0}', 5),
        ('delete[z] -> {"version": 5}', 'delete[z] -> {"version": null}', 6),
        ('delete[z] -> {"version": null}', 'delete[z] -> {"version": 6}', 7),
        ('{"value": 1, "version": 6}', '{"value": 1, "version": 7}', 8),
    ],
)
def test_a_store_that_breaks_what_it_promises(good: str, bad: str, index: int) -> None:
    assert KV.count(good) == 1
    said = conformed(Kv(), KV.replace(good, bad))
    assert (said.verdict, said.index) == ("reject", index)


@pytest.mark.parametrize(("kind", "spec"), [("lock", HELD), ("lease", LEASED)])
def test_histories_of_true_stores_are_accepted(kind: str, spec: Any) -> None:
    for seed in range(4):
        said = conform_history(model_of(spec), history(kind, seed, 200).ops)
        assert said.verdict == "accept", said


def test_frozen_dicts_are_values() -> None:
    one: FrozenDict[Any, Any] = FrozenDict({"x": 1})
    two = one.with_({"y": 2, "x": 3})
    assert two == FrozenDict({"y": 2, "x": 3}) and hash(two) == hash(FrozenDict({"x": 3, "y": 2}))
    assert two.without("y").with_({"x": 1}) == one != two and dict(one) == {"x": 1}
    assert hash(two.without("y").with_({"x": 1})) == hash(one)
    assert repr(two) == "{'x': 3, 'y': 2}" and two.get("z", 0) == 0 and "y" not in one


def test_what_begins_as_null_may_begin_as_anything() -> None:
    model = load("register", ["start=0"])
    assert model.initial[0].value == 0
    with pytest.raises(ConfigError, match="leased=3 is no bool"):
        load("lock", ["leased=3"])
