"""Exported specifications, asked of Quint: the same steps from each state, both ways."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import python_edges
import textbook

from dstest.spec import Spec, System, action, invariant, when
from dstest.spec.compose import load, shipped_names
from dstest.spec.explore import explore
from dstest.spec.export import quint
from dstest.spec.export.quint import Quint, as_quint, as_test, state_from_itf
from dstest.spec.model import Model, Step, model_of

ROOT = Path(__file__).resolve().parents[2]
QUINT = Path(os.environ.get("DSTEST_QUINT", ROOT / ".venv/quint/node_modules/.bin/quint"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not QUINT.exists(), reason="no Quint: `.ci/setup quint .venv`"),
    pytest.mark.timeout(300),
]

SPECS = {
    "jugs": textbook.DieHard(wanted=-1),
    "hanoi": textbook.Hanoi(disks=3),
    "philosophers": textbook.Philosophers(),
}


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(QUINT), *words, "--backend=typescript"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


Edge = tuple[Any, Step, Any | None]


def edges_of(model: Model) -> list[Edge]:
    """What can be done, and what cannot, in each state that can be reached."""
    seen, todo, edges = set(model.initial), list(model.initial), list[Edge]()
    while todo:
        state = todo.pop()
        for one in model.actions:
            for args in one.choices(state):
                after = one.update(state, args) if one.enabled(state, args) else None
                edges.append((state, Step(one.name, args), after))
                if after is not None and after not in seen:
                    seen.add(after)
                    todo.append(after)
    assert len(seen) == explore(model, deadlock=False, all_violations=True).states
    return edges


def agrees(model: Model, edges: list[Edge], tmp_path: Path) -> bool:
    file = tmp_path / "edges.qnt"
    file.write_text(as_test(model, edges))
    done = asked("test", f"--main={model.name}", str(file))
    assert ("1 passing" in done.stdout) != ("1 failed" in done.stdout), done.stdout + done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.sampled(1)
def test_the_same_steps_from_each_state(name: str, tmp_path: Path) -> None:
    model = model_of(SPECS[name])
    assert agrees(model, edges_of(model), tmp_path)


@pytest.mark.long
def test_what_python_means_otherwise_is_written_so(tmp_path: Path) -> None:
    """Some of the steps of each action: Quint takes seconds for each hundred."""
    model = model_of(python_edges.PythonEdges())
    edges, dice = edges_of(model), random.Random(1)
    for one in model.actions:
        mine = [edge for edge in edges if edge[1].action == one.name]
        assert agrees(model, dice.sample(mine, min(len(mine), 20)), tmp_path), one.name


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.sampled(1)
def test_one_wrong_step_among_them_is_found(name: str, tmp_path: Path) -> None:
    model = model_of(SPECS[name])
    edges = edges_of(model)
    at = random.Random(name).randrange(len(edges))
    before, step, after = edges[at]
    others = [end for _, _, end in edges if end is not None and end != after]
    edges[at] = (before, step, others[0] if after is None else None)
    assert not agrees(model, edges, tmp_path)


class AtMost(Quint):
    """An exporter with a mistake: what is below is at most."""

    def compare(self, sign: str, left: str, right: str) -> str:
        return super().compare("<=" if sign == "<" else sign, left, right)


class Late(Quint):
    """An exporter with a mistake: a part of a row begins one later."""

    def part(self, row: str, start: str, end: str) -> str:
        return super().part(row, f"({start} + 1)" if start != "0" else start, end)


@pytest.mark.parametrize(
    ("name", "wrong"), [("jugs", AtMost), pytest.param("hanoi", Late, marks=pytest.mark.long)]
)
def test_a_mistake_of_the_exporter_is_found(
    name: str, wrong: type[Quint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(SPECS[name])
    edges = edges_of(model)
    monkeypatch.setattr(quint, "Quint", wrong)
    file = tmp_path / "edges.qnt"
    file.write_text(as_test(model, edges))
    assert asked("test", f"--main={model.name}", str(file)).returncode != 0


def traces(model: Model, tmp_path: Path) -> list[list[Mapping[str, Any]]]:
    file = tmp_path / "spec.qnt"
    file.write_text(as_quint(model))
    out = tmp_path / "t_{seq}.itf.json"
    done = asked(
        "run", f"--out-itf={out}", "--n-traces=5", "--max-samples=20", "--max-steps=15",
        "--seed=7", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(one.read_text())["states"] for one in sorted(tmp_path.glob("t_*.itf.json"))]


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.sampled(1)
def test_its_walks_are_walks_of_ours(name: str, tmp_path: Path) -> None:
    model = model_of(SPECS[name])
    found = traces(model, tmp_path)
    assert len(found) == 5
    for rows in found:
        states = [state_from_itf(model, row) for row in rows]
        assert states[0] in model.initial
        assert len(states) > 3
        for before, after in itertools.pairwise(states):
            assert after in [end for _, end in model.steps(before)]


def test_it_finds_the_violation_that_we_find(tmp_path: Path) -> None:
    model = model_of(textbook.DieHard())
    assert explore(model).outcome == "violated"
    file = tmp_path / "jugs.qnt"
    file.write_text(as_quint(model))
    done = asked(
        "run", "--invariant=DH1", "--max-steps=30", "--seed=3", "--max-samples=500", str(file)
    )
    assert "Found an issue" in done.stdout, done.stdout


NO_COUNTERPART = {"raft"}
"""Its logs are objects of a class of its own."""

SMALL = {"list-append": ["keys=('x',)"], "kv": ["keys=('x',)", "changes=2", "values=(1,)"]}


def some_of(model: Model, count: int) -> list[Edge]:
    """Of each action so many steps that can be taken, and that cannot."""
    seen, todo, edges = set(model.initial), list(model.initial), list[Edge]()
    while todo and len(seen) < 100:
        state = todo.pop(0)
        for one in model.actions:
            for args in one.choices(state):
                after = one.update(state, args) if one.enabled(state, args) else None
                edges.append((state, Step(one.name, args), after))
                if after is not None and after not in seen:
                    seen.add(after)
                    todo.append(after)
    dice, found = random.Random(1), list[Edge]()
    for one in model.actions:
        for can in (True, False):
            mine = [e for e in edges if e[1].action == one.name and (e[2] is not None) is can]
            found += dice.sample(mine, min(len(mine), count))
    return found


@pytest.mark.parametrize("name", sorted(set(shipped_names()) - NO_COUNTERPART))
@pytest.mark.sampled(1)
def test_what_is_shipped_means_the_same(name: str, tmp_path: Path) -> None:
    """Guards, next states, and the invariants of states and of steps."""
    model = load(name, SMALL.get(name, []))
    assert agrees(model, some_of(model, 6), tmp_path)


@dataclass(frozen=True)
class Side:
    sent: int = 0
    seen: frozenset[tuple[int, int]] = frozenset()
    last: int | None = None


class Sender(Spec):
    most = 3

    def initial(self) -> Iterable[Side]:
        yield Side()

    @action(number=lambda self: range(1, self.most + 1))
    @when("next", lambda s, number: number == s.sent + 1)
    def send(self, s: Side, number: int) -> Side:
        return replace(s, sent=number, last=number)

    @invariant("SD1", "numbers rise by one", kind="action")
    def rises(self, before: Side, step: Step, after: Side) -> bool:
        return step.action != "send" or after.sent == before.sent + 1


class Receiver(Spec):
    def initial(self) -> Iterable[Side]:
        yield Side()

    @action(number=lambda s: {1, 2, *(one for one in (s.sent + 1,))})
    def send(self, s: Side, number: int) -> Side:
        return replace(s, sent=max(s.sent, number), seen=s.seen | {(number, s.sent)})

    @action()
    @when("something", lambda s: bool(s.seen))
    def forget(self, s: Side) -> Side:
        return replace(s, seen=frozenset(), last=max(number for number, _ in s.seen))

    @invariant("RC1", "it is seen once")
    def once(self, s: Side) -> bool:
        return len({number for number, _ in s.seen}) == len(s.seen)


class Link(System):
    """Both, and when each may."""

    parts = {"left": Sender(), "right": Receiver()}

    @action()
    @when("in step", lambda s: s.left.sent == s.right.sent)
    def send(self, s: Any) -> Any:
        return s

    @invariant("LK1", "the receiver is not ahead")
    def behind(self, s: Any) -> bool:
        return bool(s.right.sent <= s.left.sent)


class Loose(Link):
    """Sends without being in step, and forgets what both had."""

    @action()
    def send(self, s: Any) -> Any:
        return s

    @action()
    def forget(self, s: Any) -> Any:
        return replace(s, left=Side())


def test_a_system_of_parts_means_the_same(tmp_path: Path) -> None:
    model = model_of(Link())
    assert agrees(model, some_of(model, 8), tmp_path)


class Sloppy(type(load("register").spec)):  # type: ignore[misc]
    """A compare-and-set that compares nothing."""

    @action(old=(None, 0, 1), new=(0, 1))
    def cas(self, s: Any, old: Any, new: Any) -> Any:
        return replace(s, value=new)


@pytest.mark.parametrize(("made", "id_"), [(Loose, "LK1"), (Sloppy, "REG3")])
def test_planted_bugs_are_found_by_it(made: type[Spec], id_: str, tmp_path: Path) -> None:
    model = model_of(made())
    found = explore(model, deadlock=False)
    assert [one.id for one in found.violations] == [id_]
    file = tmp_path / "planted.qnt"
    file.write_text(as_quint(model))
    said = asked(
        "run", f"--invariant={id_}", "--max-steps=10", "--seed=1", "--max-samples=300", str(file)
    )
    assert "Found an issue" in said.stdout, said.stdout + said.stderr


def test_there_are_three() -> None:
    assert all(isinstance(spec, Spec) for spec in SPECS.values())
    assert len(SPECS) == 3
