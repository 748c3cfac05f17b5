"""`dstest points`: what a program has, and what is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from touched_runs import dstest

from dstest.core.errors import Exit


def test_functions_of_a_program() -> None:
    code, said = dstest("points", Path(sys.executable).resolve(), "--search", "PyObject_Repr")
    assert code == Exit.PASS and "PyObject_Repr\n" in said and "functions" in said, said


def test_a_glob_and_a_limit() -> None:
    code, said = dstest(
        "points", Path(sys.executable).resolve(), "--search", "PyDict_*", "--limit", "3"
    )
    assert code == Exit.PASS and "3 of them listed" in said, said


@pytest.mark.parametrize("what", ["/etc/passwd", "nonesuch", "/etc"])
def test_what_is_no_program(what: str) -> None:
    code, said = dstest("points", what)
    assert code == Exit.USAGE and "remedy" in said, said


def test_a_program_that_is_cut_off(tmp_path: Path) -> None:
    whole = Path(sys.executable).resolve().read_bytes()
    for size in (0, 3, 64, 4096, len(whole) // 2, len(whole) - 100):
        (tmp_path / "cut").write_bytes(whole[:size])
        code, said = dstest("points", tmp_path / "cut")
        assert code in (Exit.USAGE, Exit.PASS) and "Traceback" not in said, (size, said)


def test_as_json() -> None:
    code, said = dstest("points", Path(sys.executable).resolve(), "--search", "PyDict_*", "--json")
    told = json.loads(said)
    assert code == Exit.PASS and told["fit"] >= len(told["names"]) > 3 and not told["go"]
