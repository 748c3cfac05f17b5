"""The catalogue of faults: complete, honest about what is delivered, and its page is current."""

from __future__ import annotations

import json
from pathlib import Path

from typer import Typer
from typer.testing import CliRunner

from dstest.cli.listing import nemeses
from dstest.core import registry
from nemeses.catalogue import CATALOGUE, markdown, rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "nemeses.md"


def test_all_34_are_listed_once() -> None:
    assert [fault.number for fault in CATALOGUE] == [f"N{i:02}" for i in range(1, 35)]


def test_what_plugins_claim_is_in_the_catalogue() -> None:
    numbers = {fault.number for fault in CATALOGUE}
    for name in registry.names("nemeses"):
        assert set(registry.load("nemeses", name).faults) <= numbers


def test_each_row_is_delivered_or_says_why_not() -> None:
    for row in rows():
        assert row.delivered == bool(row.nemeses)
        assert (row.reason is None) == row.delivered
    by_number = {row.number: row for row in rows()}
    assert by_number["N01"].nemeses == ["kill"]
    assert by_number["N12"].nemeses == ["partition"]


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == markdown(), "dstest nemeses --markdown >docs/nemeses.md"


def test_the_command() -> None:
    app = Typer()
    app.command()(nemeses)
    found = CliRunner().invoke(app, ["--json"])
    assert found.exit_code == 0
    assert len(json.loads(found.stdout)) == 34
    text = CliRunner().invoke(app, []).stdout
    assert "N03  pause" in text
    assert "of 34 can be delivered" in text
