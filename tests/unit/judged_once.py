"""The gate judges each run again, and most tests change one run of five. With the fixture
`judged_once` those that are to the byte as one that was judged before are not judged once more."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dstest.core.verdict import Verdict
    from dstest.history.layout import RunDir
    from dstest.runner.integrity import Again, RunStatement

    Judge = Callable[[RunDir, RunStatement, Again], Verdict]


def judging_once(judge: Judge) -> Judge:
    """`judge`, that is asked once about a run of this name with these files; what it refuses, each
    time."""
    known: dict[tuple[str, str, Again], Verdict] = {}

    def judged(run: RunDir, kept: RunStatement, again: Again) -> Verdict:
        key = (run.path.name, content(run), again)
        if key not in known:
            known[key] = judge(run, kept, again)
        return known[key]

    return judged


def content(run: RunDir) -> str:
    """The digest of all names below a run, and of what stands there."""
    digest = hashlib.sha256()
    for path in sorted(run.path.rglob("*")):
        what = b""
        if path.is_symlink():
            what = os.fsencode(os.readlink(path))
        elif path.is_file():
            what = path.read_bytes()
        name = os.fsencode(path.relative_to(run.path))
        digest.update(b"%d %s %d %s" % (len(name), name, len(what), what))
    return digest.hexdigest()


@pytest.fixture(scope="session")
def _judged_once() -> Judge:
    from dstest.runner.integrity import judged_again

    return judging_once(judged_again)


@pytest.fixture
def judged_once(_judged_once: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    from dstest.gate import gather

    monkeypatch.setattr(gather, "judged_again", _judged_once)
