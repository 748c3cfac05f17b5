"""A machine's clock set to this host's: at its start it knows the time to a second only."""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

from clusters.labs import state
from clusters.labs.state import LabState
from clusters.remote.openssh import ssh_argv
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

SET_S: Final = 60.0

# It is ready before it is told, so that its own start costs no precision.
_SET: Final = """\
import sys, time
print("ready", flush=True)
ahead = float(sys.stdin.readline())
time.clock_settime(time.CLOCK_REALTIME, ahead)
print("set", flush=True)
"""


def ssh(lab: LabState, name: str) -> list[str]:
    """How a program is run on a node from here."""
    folder = state.lab_dir(lab.lab_id)
    info = NodeInfo(
        name=name,
        address=lab.address(lab.names.index(name) + 1),
        key_path=str(folder / "id_ed25519"),
        known_hosts_path=str(folder / "known_hosts"),
    )
    ssh, *words = ssh_argv(info)
    # What is said first holds. Nobody is there to be asked, and an emulated node takes a while.
    return [ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", *words]


def set_true(lab: LabState, name: str) -> None:
    """Set it. Raises LabError where that is not possible."""
    program = shlex.join(["python3", "-I", "-S", "-c", _SET])
    with subprocess.Popen(
        ["timeout", f"{SET_S:g}", *ssh(lab, name), program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        ready = asked.stdout.readline()
        try:
            asked.stdin.write(f"{clock.wall_ns() / 1e9:.6f}\n")
            asked.stdin.flush()
        except OSError:
            ready = ""
        said = asked.stdout.readline()
        if (ready.strip(), said.strip()) != ("ready", "set"):
            asked.kill()
            _, error = asked.communicate()
            raise LabError(f"the clock of {name} cannot be set: {error.strip()[-200:]}")
