"""Plug-ins as somebody else would ship them: a module and its entry points, in a folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dstest.core import registry
from dstest.runner.load import NoTraffic

BARE = '''\
"""A system that can do nothing for a nemesis; `Toy` may be given more."""

from dstest.core.protocols import System, Timing


class Deployment:
    timing, members = Timing(), {}

    def __init__(self, nodes, options):
        pass

    def endpoints(self): return []

    async def install(self): ...
    async def start(self): ...
    async def stop(self): ...
    async def wipe(self): ...
    async def version(self): return "1"
    async def healthy(self): return {}


class Toy(System):
    name, doc, packages, services, options = "toy", "a toy", (), (), {}
    capabilities = frozenset({"register"})
    definite_errors, homes, client_port = {}, (), 1
    deployment = Deployment

    def members(self, nodes, options):
        return list(nodes)

    def deploy(self, nodes, options):
        return self.deployment(nodes, options)

    def client(self, capability, at, every, options):
        raise NotImplementedError


SYSTEM = Toy()
'''

PROCESSES = """

class Deployment(Deployment):
    async def processes(self, names=()): return {}
    def restart_command(self, name): return ["true"]
    async def kill(self, names, service=""): ...
    async def restart(self, names): ...


Toy.deployment = Deployment
"""
"""To be added to `BARE`: servers, but nobody leads."""

LINKED = """

class Deployment(Deployment):
    def links(self): return None


Toy.deployment = Deployment
"""
"""To be added to `BARE`: members that all talk to each other."""


def ship(folder: Path, source: str, **groups: str) -> None:
    """Write a distribution that `folder` on the path makes known.

    `groups` are entry points, as `systems="toy = toy_plugin:SYSTEM"`.
    """
    (folder / "toy_plugin.py").write_text(source)
    info = folder / "toy_plugin-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-plugin\nVersion: 1.0\n")
    rows = [f"[dstest.{group}]\n{row}\n" for group, row in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(rows))
    registry.look_again()


def context(deployment: Any, **rest: Any) -> Any:
    """A nemesis' context whose deployment is taken to have whatever is asked of it."""
    asked = {"deployment": deployment, "traffic": NoTraffic(), **rest}
    return SimpleNamespace(
        need=lambda capability: deployment, offered=lambda capability: deployment, **asked
    )
