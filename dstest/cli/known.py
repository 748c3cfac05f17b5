"""What the book of findings knows of a run that has just failed, beside its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _recalled(run: Path) -> Any:
    """None where there is no book, or it cannot be asked: a verdict does not depend on it."""
    from dstest.core.errors import DstestError
    from dstest.kb.book import Book
    from dstest.kb.recall import recalled
    from dstest.kb.runs import failing_runs
    from dstest.kb.where import book_file

    path = book_file()
    if not path.is_file():
        return None
    try:
        seen = next((one for one in failing_runs(run, own=True) if not isinstance(one, str)), None)
        if seen is None:
            return None
        with Book.opened(path) as book:
            found = recalled(book, seen)
            book.learn([seen])
    except DstestError as error:
        return str(error.message)
    return found


def known_lines(run: Path) -> Iterator[str]:
    """For a terminal, each with its head. The run is remembered."""
    from dstest.kb.recall import told

    found = _recalled(run)
    if found is None:
        return
    lines = [found] if isinstance(found, str) else list(told(found)) or ["nothing like it"]
    for n, line in enumerate(lines):
        yield f"{'known' if n == 0 else '':<12}{line}"


def known_plain(run: Path) -> dict[str, Any]:
    """For --json: ids, and what was done against each; nothing where there is no book."""
    found = _recalled(run)
    if found is None or isinstance(found, str):
        return {}
    return {
        "known": [
            {
                "id": one.id,
                "fingerprint": one.fingerprint,
                "seen": len(one.sightings),
                "fixes": {fix.commit: fix.outcome for fix in one.fixes},
            }
            for one in found.known
        ],
        "alike": [{"id": one.finding.id, "score": round(one.score, 3)} for one in found.alike],
    }
