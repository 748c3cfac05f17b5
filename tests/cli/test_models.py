"""`dstest models`: what there is to ask for, from the checkers themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from checkers.txn import exact
from checkers.txn.columns import WORKLOADS
from checkers.txn.models import MODELS
from dstest.cli.app import app
from dstest.core import registry


def models(*options: str) -> str:
    done = CliRunner().invoke(app, ["models", *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_every_object_has_a_line_with_its_operations() -> None:
    for shown in (models(), models("--objects")):
        lines = shown.splitlines()
        checker = registry.load("checkers", "linearizable")
        traits = checker
        for model in checker.models:
            (line,) = [row for row in lines if row.split("  ")[0] == model and "--initial" in row]
            assert all(kind in line for kind in traits.op_types[model])
            assert traits.initial[model] in line


def test_every_other_checker_has_a_line_with_its_models() -> None:
    lines = models("--objects").splitlines()
    for name in registry.names("checkers"):
        if name in (*WORKLOADS, "linearizable"):
            continue
        rest = [row for row in lines if row.split(" ")[0] == name and "--initial" not in row]
        known = registry.load("checkers", name).models
        assert len(rest) == 1 and all(model in rest[0] for model in known), (name, rest)


def test_objects_as_json() -> None:
    found: dict[str, Any] = json.loads(models("--objects", "--json"))
    assert found.keys() == {*registry.names("checkers")} - {*WORKLOADS}
    assert found["linearizable"]["fifo-queue"] == {
        "operations": ["dequeue", "enqueue", "peek"],
        "initial": "a list, what was put in first before the others",
    }
    assert found["set-full"]["linearizable"]["initial"] is None


def test_the_json_of_transactions_is_what_it_was() -> None:
    found = json.loads(models("--json"))
    assert found.keys() == MODELS.keys()
    fields = {"implies", "aliases", "proscribes", "judged", "decided", "untested"}
    assert all(row.keys() == fields for row in found.values())


def test_lists_are_decided_as_well() -> None:
    shown = models()
    said = "  decided for registers, and for lists that agree on their order"
    assert shown.count(said) == len(exact.MODELS) + len(exact.SAME)
    assert "decided for registers (rw-register)" not in shown


def test_pages_name_the_objects() -> None:
    root = Path(__file__).resolve().parents[2]
    assert "dstest models --objects" in (root / "docs" / "reference" / "formats.md").read_text()
    guide = (root / "docs" / "guide.md").read_text()
    assert "lists that agree on their order" in " ".join(guide.split())
