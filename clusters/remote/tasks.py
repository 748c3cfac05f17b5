"""Fabric's corner: people's chores on all nodes of a lab. Never part of a run.

dstest lab ssh --all -- uptime
fab --search-root clusters/remote on-all --lab-id demo --command uptime
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fabric import task
from invoke.exceptions import CommandTimedOut
from paramiko import SSHException  # type: ignore[import-untyped]

from clusters.remote.chores import opened
from dstest.core import registry
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Completed, NodeInfo

__all__ = ["on_all", "run_everywhere"]

PARALLEL = 16


def run_everywhere(
    nodes: Sequence[NodeInfo], command: str, *, timeout_s: float = 60.0
) -> dict[str, Completed | LabError]:
    """Run a shell command on all nodes at once: node name -> how it ended, or why it did not run.

    Host keys must be the pinned ones.
    """

    def one(info: NodeInfo) -> Completed | LabError:
        try:
            with opened(info) as connection:
                done = connection.run(
                    command, hide=True, warn=True, in_stream=False, timeout=timeout_s
                )
        except LabError as error:
            return error
        except CommandTimedOut:
            return LabError(f"{info.name}: `{command}` did not end within {timeout_s:g} s")
        except (SSHException, OSError, EOFError) as error:
            return LabError(f"{info.name} ({info.address}): {error or type(error).__name__}")
        return Completed(status=done.return_code, stdout=done.stdout, stderr=done.stderr)

    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip([info.name for info in nodes], pool.map(one, nodes), strict=True))


def render(results: dict[str, Completed | LabError]) -> str:
    """What each node said, under its name."""
    parts = []
    for name, result in results.items():
        if isinstance(result, LabError):
            parts.append(f"== {name}: {result.message}\n")
        else:
            said = result.stdout + result.stderr
            parts.append(f"== {name}: status {result.status}\n{said}")
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts)


@task  # type: ignore[untyped-decorator]
def on_all(context: Any, command: str, lab_id: str = "default", lab: str = "lxc") -> None:
    """Run COMMAND on every node of a running lab and show what each node said."""
    info = registry.load("labs", lab).status(lab_id)
    if info is None:
        raise ConfigError(f"lab {lab_id} is not running", remedy=f"dstest lab up --lab-id {lab_id}")
    text = render(run_everywhere(info.nodes, command))
    context.run(f"printf %s {shlex.quote(text)}")
