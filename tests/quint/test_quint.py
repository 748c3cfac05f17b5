"""Exported specifications, asked of Quint: the same steps from each state, both ways."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import python_edges
import textbook

from dstest.spec import Spec
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
        for action in model.actions:
            for args in action.choices(state):
                after = action.update(state, args) if action.enabled(state, args) else None
                edges.append((state, Step(action.name, args), after))
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
    for action in model.actions:
        mine = [edge for edge in edges if edge[1].action == action.name]
        assert agrees(model, dice.sample(mine, min(len(mine), 20)), tmp_path), action.name


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


class Loose(Quint):
    """An exporter with a mistake: what is below is at most."""

    def compare(self, sign: str, left: str, right: str) -> str:
        return super().compare("<=" if sign == "<" else sign, left, right)


class Late(Quint):
    """An exporter with a mistake: a part of a row begins one later."""

    def part(self, row: str, start: str, end: str) -> str:
        return super().part(row, f"({start} + 1)" if start != "0" else start, end)


@pytest.mark.parametrize(
    ("name", "wrong"), [("jugs", Loose), pytest.param("hanoi", Late, marks=pytest.mark.long)]
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


def test_there_are_three() -> None:
    assert all(isinstance(spec, Spec) for spec in SPECS.values())
    assert len(SPECS) == 3
