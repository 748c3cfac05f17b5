"""What audit rows say where no further run would help: the system's file has to change."""

from __future__ import annotations

from typing import Final

ENDED_EARLY: Final = "the run ended before its time: "
"""How the row of the load begins where it did; then the same command, run to its end, helps."""

NO_TRAFFIC: Final = (
    "carried any traffic before it: do members talk to each other? Is FullMesh, or what links()"
    " returns, true of this system?"
)
NOT_COUNTED: Final = "a client does not count its requests, which its `calls` is for"
BEYOND_RUNS: Final = (NO_TRAFFIC, NOT_COUNTED)
