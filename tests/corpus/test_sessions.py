"""Published and random histories with known verdicts, written as the files of other tools."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import session_files as made
from places import OUTER
from session_files import History

from checkers._findings import Start
from checkers.txn import api
from checkers.txn.columns import VACUOUS
from checkers.txn.sessions.formats import load_sessions

FILES = ("exact/published.json.gz", "exact/random.json.gz")

COUNTED = {
    "read-committed": "strong-session-monotonic-atomic-view",
    "read-atomic": "strong-session-read-atomic",
    "causal-cerone": "strong-session-causal",
    "strong-session-read-committed (session order counted)": "strong-session-monotonic-atomic-view",
    "strong-session-read-atomic (session order counted)": "strong-session-read-atomic",
}
"""What the corpora call a model -> our name of it: there the order of sessions always counts."""

WRITERS: dict[str, tuple[str, Callable[[History], Any]]] = {
    "plume": ("plume", made.plume),
    "awdit": ("awdit", made.awdit),
    "bincode": ("dbcop", made.bincode),
    "json": ("dbcop", made.new_json),
    "cobra": ("cobra", made.cobra),
}


def sessions_of(events: list[dict[str, Any]]) -> History:
    """Committed transactions by process, in its order."""
    found: dict[Any, Any] = {}
    for event in events:
        if event["type"] == "ok":
            mops = [(f, key, value) for f, key, value in event["value"]]
            found.setdefault(event["process"], []).append((mops, True))
    return list(found.values())


def numbered(history: History) -> History:
    """The same with a number for each write that no other has."""
    found: dict[tuple[int, int | None], int] = {}
    return [
        [
            ([(f, k, None if v is None else found.setdefault((k, v), len(found) + 1))
              for f, k, v in mops], done)
            for mops, done in session
        ]
        for session in history
    ]  # fmt: skip


@pytest.mark.outer_corpora
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.sampled(3)
def test_known_verdicts_hold_in_every_format(file: str, name: str, tmp_path: Path) -> None:
    assert OUTER is not None
    fmt, write = WRITERS[name]
    judged = 0
    for case in json.loads(gzip.decompress((OUTER / file).read_bytes())):
        history = numbered(sessions_of(case["history"]))
        content = write(history)
        path = tmp_path / "history"
        if isinstance(content, dict):
            path = made.put_logs(tmp_path / "logs", content)
            for log in path.iterdir():
                log.unlink() if log.name not in content else None
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        start = (Start(0, None),) if fmt == "awdit" else ()
        columns = load_sessions(path, fmt, *start)
        for words, truth in case["truth"].items():
            found = api.check(columns, "rw-register", [COUNTED.get(words, words)])
            untested = truth and found.reason == VACUOUS
            assert found.valid is truth or untested, (case["name"], words, found.reason)
            judged += not untested
    assert judged > 80
