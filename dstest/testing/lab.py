"""One lab for all tests of a session of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pytest

from dstest.core.errors import Exit
from dstest.core.processes import dstest, environment
from dstest.testing.keeper import UP
from dstest.testing.run import MarkerArgs, marker_args, several

KEEPER: Final = (sys.executable, "-m", "dstest.testing.keeper")
_DOWN_S: Final = 300.0
"""A lab that is not gone by then is left, and said to be."""


def _marked(items: Sequence[pytest.Item]) -> list[MarkerArgs]:
    """Those that need a lab of ours. What cannot be meant needs none: it is an error of its own
    test, and of no other."""
    marks = (item.get_closest_marker("dstest") for item in items)
    asked = (_meant(mark) for mark in marks if mark is not None)
    return [one for one in asked if one is not None and one.lab_id is None]


def _meant(mark: pytest.Mark) -> MarkerArgs | None:
    try:
        return marker_args(mark.args, mark.kwargs)
    except pytest.fail.Exception:
        return None


def _words(config: pytest.Config, asked: Sequence[MarkerArgs]) -> list[str]:
    nodes = max((one.nodes for one in asked), default=5)
    words = ["--nodes", str(nodes)]
    if kind := config.getini("dstest_lab"):
        words += ["--lab", str(kind)]
    for system in dict.fromkeys(str(s) for one in asked if (s := one.given.get("system"))):
        words += ["--system", system]
    builds = (b for one in asked for b in several(one.given.get("system_version") or ()))
    for build in dict.fromkeys(map(str, builds)):
        words += ["--system-version", build]
    return words


def lab_for(config: pytest.Config, items: Sequence[pytest.Item]) -> Iterator[str]:
    """The id of the lab. Errors, or skips where the project asks for that, if none can be made."""
    wanted = config.getini("dstest_without_lab")
    if wanted not in ("error", "skip"):
        raise pytest.UsageError(f"dstest_without_lab = {wanted}: error or skip")
    if named := str(config.getini("dstest_lab_id")):
        require_up(named, config)
        yield named
        return
    lab_id = f"pytest-{os.getpid()}"
    words = [*KEEPER, lab_id, *_words(config, _marked(items))]
    with tempfile.TemporaryFile("w+") as said:
        keeper = subprocess.Popen(
            words, cwd=config.rootpath, env=environment(), text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
        )  # fmt: skip
        is_up = False
        try:
            assert keeper.stdout is not None
            is_up = keeper.stdout.readline().strip() == UP
            if not is_up:
                _none(wanted, keeper, said)
            yield lab_id
        finally:
            if _end(keeper) and is_up:
                way_out = f"`dstest lab down --lab-id {lab_id}`"
                raise RuntimeError(f"lab {lab_id} may be left: {way_out}")


def labs_up(config: pytest.Config) -> list[str] | None:
    """The ids of the labs of this machine; None where nobody can say."""
    kind = str(config.getini("dstest_lab"))
    words = ["lab", "list", "--json", *(["--lab", kind] if kind else [])]
    try:
        told = msgspec.json.decode(dstest(words, config.rootpath).stdout)
        rows = told if isinstance(told, list) else next(iter(told.values()))
        return [str(row["lab_id"]) for row in rows]
    except (msgspec.DecodeError, AttributeError, KeyError, StopIteration, TypeError):
        return None


def require_up(lab_id: str, config: pytest.Config) -> None:
    """Fails where no lab is called so: `dstest run` would make one for an id that is misspelt."""
    there = labs_up(config)
    if there is None or lab_id in there:
        return
    known = f"there are {', '.join(there)}" if there else "there is none"
    pytest.fail(
        f"no lab with the id {lab_id!r} is up: {known}; `dstest lab up --lab-id {lab_id}` makes it",
        pytrace=False,
    )


def _none(wanted: str, keeper: subprocess.Popen[str], said: Any) -> None:
    """There is no lab: `dstest lab up` has said why, and what helps. Only where this machine has
    none to give the tests may be skipped: what is misspelt would never be executed anywhere."""
    keeper.wait(_DOWN_S)
    said.seek(0)
    lines = [line for line in said.read().splitlines() if "there was nothing of lab" not in line]
    why = "\n".join(lines[-20:]) or "dstest lab up said nothing"
    message = f"no lab for dstest (exit {keeper.returncode}):\n{why}"
    if wanted == "skip" and keeper.returncode == Exit.HARNESS:
        pytest.skip(message)
    pytest.fail(f"{message}\n`dstest doctor` names what this machine lacks", pytrace=False)


def _end(keeper: subprocess.Popen[str]) -> int:
    """Let it take the lab down; its exit code."""
    assert keeper.stdin is not None and keeper.stdout is not None
    keeper.stdin.close()
    keeper.stdout.close()
    try:
        return keeper.wait(_DOWN_S)
    except subprocess.TimeoutExpired:
        return -1
