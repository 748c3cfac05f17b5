"""Which run is this? What a run wrote down of itself, held to where it lies and to other runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from dstest.core import registry
from dstest.store.recorded import recorded_name

__all__ = ["RUN_NAME", "misplaced", "recorded_name"]

RUN_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(\d+)(-\d+)?")
"""Of a directory as dstest makes it: when, seed, and a number where that was there already."""


def misplaced(run: Path, spec: dict[str, Any]) -> str:
    """Why a run does not lie where it was made, where the names of its directories have the form
    of dstest's own; empty where nothing speaks against it. Other names are a user's."""
    if RUN_NAME.fullmatch(run.name) is None:
        return ""
    made_as = recorded_name(run)
    if run.name != made_as:
        return f"it lies in the place of another run: it was made as {made_as or 'no run'}"
    folder = run.parent.name
    usual = f"{spec.get('system')}-{spec.get('workload')}-{_faults(spec.get('nemesis'))}"
    if folder != usual and _is_of_a_test(folder):
        return f"it lies among runs of another test: it is one of {usual}"
    return ""


def _faults(nemesis: Any) -> str:
    return str(nemesis).replace(",", "+")


def _is_of_a_test(name: str) -> bool:
    """Is this `<system>-<workload>-<nemesis>`, of those that are installed?"""
    faults = frozenset(registry.names("nemeses"))
    for system in registry.names("systems"):
        for workload in registry.names("workloads"):
            before = f"{system}-{workload}-"
            if name.startswith(before) and faults.issuperset(name.removeprefix(before).split("+")):
                return True
    return False
