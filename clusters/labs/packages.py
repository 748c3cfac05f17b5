"""Which Debian packages a node image needs for the systems that are to run on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from clusters.labs.recipe import BASE_PACKAGES
from dstest.core import registry
from dstest.core.builds import build_of
from dstest.core.protocols import SystemTraits


def shared_packages() -> tuple[str, ...]:
    """The union over the systems of this distribution that share an image, sorted."""
    ours = [registry.load("systems", name) for name in registry.names("systems", ours=True)]
    alike = [system for system in ours if not SystemTraits.of(system).own_image]
    return tuple(sorted({package for system in alike for package in system.packages}))


def packages_for(systems: Iterable[Any], builds: Sequence[str] = ()) -> tuple[str, ...]:
    """Those of the image for these systems, the shared one where it has all that they need; and
    the builds."""
    wanted = {package for system in systems for package in system.packages}
    shared = shared_packages()
    return tuple(sorted({*(wanted if absent(wanted, shared) else shared), *builds}))


def absent(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """What nodes lack whose image was made with the packages and builds `there`."""
    return sorted({*wanted} - {*there, *BASE_PACKAGES})


def strange(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """Builds on such nodes that nobody asks for: what runs there would be another version."""
    return sorted(name for name in {*there} - {*wanted} if build_of(name))
