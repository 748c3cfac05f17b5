"""A failure is definite only where the system lists its code, with the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import clusters.systems
from clusters.systems.etcd.clients import objects
from clusters.systems.etcd.clients.connection import CONFLICT, DEFINITE_ERRORS
from dstest.core.protocols import NOT_HELD, Definite, code_of
from dstest.runner.worker import not_listed

FOLDER = Path(clusters.systems.__path__[0]) / "etcd" / "clients"
CONSTANTS = {"CONFLICT": CONFLICT, "EXPIRED": objects.EXPIRED, "NOT_HELD": NOT_HELD}


def text_of(argument: ast.expr) -> str:
    """The error's text as far as it is written down."""
    if isinstance(argument, ast.JoinedStr):
        argument = argument.values[0]
    if isinstance(argument, ast.Name):
        return CONSTANTS.get(argument.id, "")
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def raised() -> list[tuple[str, str]]:
    """(file, code) of every definite failure that an etcd client raises on its own account."""
    return [
        (path.name, Definite(text).code)
        for path in sorted(FOLDER.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Definite"
        and (text := text_of(node.args[0]))
    ]  # fmt: skip


def test_what_etcd_clients_raise_is_listed() -> None:
    assert len(raised()) >= 10
    assert [row for row in raised() if row[1] not in DEFINITE_ERRORS] == []


@pytest.mark.parametrize(
    ("text", "code"),
    [("conflict", "conflict"), ("INVALID_ARGUMENT: too large: 9", "INVALID_ARGUMENT"), ("", "")],
)
def test_the_code_of_an_error(text: str, code: str) -> None:
    assert Definite(text).code == code


@pytest.mark.parametrize(
    "error",
    [
        "not-held",
        "not-held: its lease is gone",
        ":not-held",
        '["not-held", "gone"]',
        ':not-held "gone"',
    ],
)
def test_the_code_of_a_recorded_failure(error: str) -> None:
    assert code_of(error) == NOT_HELD


@pytest.mark.parametrize(
    "error", [None, "", "conflict: not-held", "read phase: not-held", "refused"]
)
def test_another_code_is_another_one(error: str | None) -> None:
    assert code_of(error) != NOT_HELD


def test_what_is_not_listed_is_unknown() -> None:
    listed = {"conflict": "its documentation says so"}
    assert not_listed(Definite("conflict: a guard"), listed) is None
    assert not_listed(Definite("no leader"), listed) == "not listed as definite: no leader"
    assert not_listed(Definite(), listed) == "not listed as definite: "
