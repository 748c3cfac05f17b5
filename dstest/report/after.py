"""What to do after a failure: commands with the run's own path, and what each finds out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from dstest.core.lab_words import simulates
from dstest.report.remedies import another_seed, of_run, on_nodes, replay_of

_AGAIN: Final = "Does it come again with the same seed and the same faults?"
_WHOSE: Final = (
    "Is the system to blame, or the test? The run is made again as it was, and its operations"
    " through a second client (the generator swap)."
)
_SAME: Final = "Is it the same simulation, byte for byte, by the dstest and the Python of here?"
_SEEDS: Final = "Does another seed show it? A second run of this one says nothing more."
_ON_NODES: Final = (
    "Is it there on nodes? Whether the system is to blame or the test, a simulation cannot tell: it"
    " has one client, and no host."
)
_SMALLER: Final = "What does it take? Fewer faults, shorter windows, less load, run by run."


class Step(NamedTuple):
    """A command, and in a sentence or two what it answers."""

    asks: str
    command: str


def after_failure(
    spec: dict[str, Any],
    path: str,
    *,
    given: Sequence[str] | None = None,
    blamed: bool = False,
    again: bool = False,
) -> list[Step]:
    """The steps after a violation in the run at `path`; none after one that was not made here,
    whose `spec` is empty. `given` are the options of its user. `blamed`: whose fault it is was
    asked already. `again`: the run was made again already."""
    if not spec:
        return []
    smaller = Step(_SMALLER, of_run("shrink", spec, path))
    if simulates(spec.get("lab")):
        return [
            *([] if again else [Step(_SAME, replay_of(spec, path))]),
            Step(_SEEDS, another_seed(spec, given)),
            Step(_ON_NODES, on_nodes(spec, given)),
            smaller,
        ]
    steps = [] if again else [Step(_AGAIN, replay_of(spec, path))]
    if not blamed:
        steps.append(Step(_WHOSE, of_run("blame", spec, path)))
    return [*steps, smaller]
