"""Which Debian packages a node image needs so that any registered system can run on it."""

from __future__ import annotations

from dstest.core import registry

__all__ = ["packages_of_all_systems"]


def packages_of_all_systems() -> tuple[str, ...]:
    """The union over all registered systems, sorted: one image then serves every run."""
    systems = (registry.load("systems", name) for name in registry.names("systems"))
    return tuple(sorted({package for system in systems for package in system.packages}))
