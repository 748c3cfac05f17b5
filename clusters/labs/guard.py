"""A process of the control host that starts nodes again when the run that stopped them is gone.

A node's own leases end with the node. This process holds one end of a pipe: where the other end
closes without a word, nobody is left to start the nodes, and it does that, and runs on each of them
the command that brings its server back. It has a session of its own and outlives us.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.labs import state
from dstest.core import registry
from dstest.core.errors import LabError

ARMED = b"armed\n"
RELEASED = b"released\n"
END_TIMEOUT_S = 10.0


class Guard:
    """Starts the process and returns when it watches. Raises LabError where it does not."""

    def __init__(self, lab_id: str, healing: Mapping[str, Sequence[str]]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clusters.labs.guard", lab_id, json.dumps(healing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        with self._process.stdout as answer:
            armed = answer.readline() == ARMED
        if not armed:
            self._process.kill()
            raise LabError(f"nobody would start the nodes of lab {lab_id} again: no guard")

    def release(self) -> bool:
        """The nodes run again. False where the guard was gone before."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(RELEASED)
            self._process.stdin.close()
        except (OSError, ValueError):
            return False
        try:
            return self._process.wait(END_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            return False


def main(lab_id: str, healing: Mapping[str, Sequence[str]]) -> int:
    """Wait for a word or for the end of who started us; 1 where nodes had to be started."""
    sys.stdout.buffer.write(ARMED)
    sys.stdout.buffer.flush()
    if sys.stdin.buffer.readline() == RELEASED:
        return 0
    if (lab := state.load(lab_id)) is not None:
        registry.load("labs", lab.kind).bring_back(lab_id, healing)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
