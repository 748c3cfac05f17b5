"""What to do after a failure: commands with the run's own path, and what each finds out."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dstest.report.remedies import REPLAYED, of_run

__all__ = ["Step", "after_failure"]

_AGAIN: Final = "Does it come again with the same seed and the same faults?"
_WHOSE: Final = (
    "Is the system to blame, or the test? The run is made again as it was, and its operations"
    " through a second client (the generator swap)."
)
_SMALLER: Final = "What does it take? Fewer faults, shorter windows, less load, run by run."


class Step(NamedTuple):
    """A command, and in a sentence or two what it answers."""

    asks: str
    command: str


def after_failure(spec: dict[str, Any], path: str, *, blamed: bool = False) -> list[Step]:
    """The steps after a violation in the run at `path`; none after one that was not made here,
    whose `spec` is empty. `blamed`: it is known already that the system did it."""
    if not spec:
        return []
    steps = [Step(_AGAIN, f"{of_run('replay', spec, path)}{REPLAYED}")]
    if not blamed:
        steps.append(Step(_WHOSE, of_run("blame", spec, path)))
    return [*steps, Step(_SMALLER, of_run("shrink", spec, path))]
