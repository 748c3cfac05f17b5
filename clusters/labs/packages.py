"""Which Debian packages a node image needs for the systems that are to run on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clusters.labs.recipe import BASE_PACKAGES
from dstest.core import registry

__all__ = ["absent", "packages_for", "packages_of_all_systems"]


def packages_of_all_systems() -> tuple[str, ...]:
    """The union over all systems of this distribution, sorted: one image then serves them all."""
    systems = (registry.load("systems", name) for name in registry.names("systems", ours=True))
    return tuple(sorted({package for system in systems for package in system.packages}))


def packages_for(systems: Iterable[Any]) -> tuple[str, ...]:
    """Those of the image for these systems: the shared one where it has all that they need."""
    wanted = {package for system in systems for package in system.packages}
    shared = packages_of_all_systems()
    return tuple(sorted(wanted)) if absent(wanted, shared) else shared


def absent(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """What nodes lack whose image was made with the packages `there`."""
    return sorted({*wanted} - {*there, *BASE_PACKAGES})
