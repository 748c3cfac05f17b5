"""Each page by its file name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from dstest.reference.anomalies import anomalies_page
from dstest.reference.commands import commands_page
from dstest.reference.models import models_page
from dstest.reference.plugins import (
    checkers_page,
    labs_page,
    nemeses_page,
    systems_page,
    workloads_page,
)

PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "commands.md": commands_page,
        "systems.md": systems_page,
        "workloads.md": workloads_page,
        "nemeses.md": nemeses_page,
        "checkers.md": checkers_page,
        "models.md": models_page,
        "anomalies.md": anomalies_page,
        "labs.md": labs_page,
    }
)
