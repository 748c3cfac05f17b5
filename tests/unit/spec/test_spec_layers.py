"""In which layers invariants were asked, from what the commands printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from counter_spec import Counter
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit
from dstest.spec.layers import Layers, layers_of
from dstest.spec.model import model_of


def answer(path: Path, number: int, **more: Any) -> Path:
    file = path / f"{number}.json"
    file.write_text(json.dumps({"spec": "Counter", **more}))
    return file


def held(passed: int, failed: int = 0) -> dict[str, Any]:
    return {"passed": passed, "failed": failed}


def found(path: Path, *rows: dict[str, Any]) -> Layers:
    return layers_of(model_of(Counter()), [answer(path, n, **r) for n, r in enumerate(rows)])


EXPLORED = {"depth": 3, "invariants": {"CN1": held(5), "CN2": held(1)}}
WALKED = {"walks": 3, "invariants": {"CN1": held(7)}}
CONFORMED = {"mode": "history", "model": "Counter", "counts": {"CN1": held(2)}}
SAMPLED = {"samples": 2, "invariants": {"CN1": held(2)}}


def test_all_that_can_ask_have(tmp_path: Path) -> None:
    said = found(tmp_path, EXPLORED, WALKED, CONFORMED, SAMPLED)
    assert (said.never, said.absent, said.code) == ({}, (), Exit.PASS)
    assert list(said.asked["CN2"]) == ["explore"]


def test_a_layer_that_never_asked_is_counted(tmp_path: Path) -> None:
    said = found(tmp_path, EXPLORED, WALKED, {**CONFORMED, "counts": {"CN1": held(0)}})
    assert said.never == {"CN1": ["conform", "live"]}
    assert said.absent == ("live",)
    assert said.code == Exit.NOT_PROVEN


def test_one_that_did_not_hold_is_worse(tmp_path: Path) -> None:
    said = found(tmp_path, EXPLORED, {**WALKED, "invariants": {"CN1": held(3, 1)}})
    assert said.code == Exit.FAIL


def test_several_of_a_layer_are_added_up(tmp_path: Path) -> None:
    said = found(tmp_path, WALKED, WALKED)
    assert said.asked["CN1"]["simulate"].passed == 14


@pytest.mark.parametrize(
    "row", [{}, {"walks": 1, "spec": "Other"}, {"walks": 1, "invariants": {"CN1": "many"}}]
)
def test_what_is_no_answer_is_refused(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        found(tmp_path, row)


def test_what_the_commands_print_is_read(tmp_path: Path) -> None:
    files = []
    for words in (["explore", "register"], ["simulate", "register", "--seed", "1", "--walks", "3"]):
        said = CliRunner().invoke(app, ["spec", *words, "--json"])
        files.append(tmp_path / f"{words[0]}.json")
        files[-1].write_text(said.stdout)
    said = CliRunner().invoke(app, ["spec", "layers", "register", *map(str, files)])
    assert said.exit_code == Exit.NOT_PROVEN
    assert "never asked: REG1 in 1 of 3: conform" in said.stdout
    assert "without an answer: conform, live" in said.stdout
