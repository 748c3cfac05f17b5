"""What a system promises with the settings of a run, where the run was held to more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.txn.models import canonical, implied_models, known_models
from dstest.core.protocols.systems import Relaxation


def weaker_promises(
    rows: Iterable[Relaxation], options: Mapping[str, Any], held_to: str | None
) -> list[Relaxation]:
    """Those of these that count with these options and name a model which `held_to` implies, and
    another one. What is no model of consistency, such as `register`, is the object that operations
    have to be linearizable on."""
    known = held_to is not None and held_to in known_models()
    asked = canonical(held_to) if known and held_to is not None else "linearizable"
    below = implied_models(asked) - {asked}
    return [
        row
        for row in rows
        if row.holds(options) and row.model in known_models() and canonical(row.model) in below
    ]
