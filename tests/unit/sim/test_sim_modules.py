"""`modules` of a system are all of its servers: the version and the search for calls go by them."""

from __future__ import annotations

import subprocess
import sys

from clusters.systems.toykv.deployment import AGENTS
from dstest.core import registry

LOADED = """
import sys
import clusters.systems.toykv.system
import clusters.systems.toykv.simulated
print(*sorted(name for name in sys.modules if name.startswith({prefix!r})))
"""


def imported() -> set[str]:
    """In a process of its own: here a test may have imported more."""
    code = LOADED.format(prefix=f"{AGENTS}.")
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(said.stdout.split())


def test_who_judges_or_simulates_needs_no_ssh_and_no_graphs() -> None:
    """Their imports would be a third of what `dstest check RUN` takes."""
    code = "import sys, dstest.report.plots, dstest.runner.session, dstest.runner.simulated_run\n"
    code += "print({'asyncssh', 'fabric', 'networkx', 'paramiko'} & {*sys.modules})"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "set()\n"


def test_every_module_of_the_servers_is_named() -> None:
    simulable = registry.load("systems", "toykv").simulable
    assert simulable is not None
    assert imported() == set(simulable.modules)
