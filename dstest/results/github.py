"""Results as annotations of GitHub Actions: an error for whatever is not a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dstest.ci.github import command
from dstest.ci.paths import shown_path
from dstest.results.model import Result

_SHOWN_MAX: Final = 10
"""GitHub shows that many errors of a step, and drops the others without a word."""


def annotated(results: Sequence[Result]) -> Iterator[str]:
    """A line for each result that is not green, and one that says how many were left out."""
    red = sorted((one for one in results if not one.green), key=lambda one: one.red != "failure")
    kept = red if len(red) <= _SHOWN_MAX else red[: _SHOWN_MAX - 1]
    for result in kept:
        again = f"\nagain: {result.command}" if result.command else ""
        path = shown_path(result.path)
        yield command("error", f"{result.word} {path}", f"{result.sentence}{again}", file=path)
    if len(kept) < len(red):
        more = f"{len(red) - len(kept)} more of {len(results)} are not a pass; the log names them"
        yield command("error", "dstest", more)
