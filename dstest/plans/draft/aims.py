"""What a fault asks of a nemesis's options, where their defaults may not bring it about."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

_AIMS: Final = MappingProxyType(
    {
        "N06": {"direction": "in"},
        "N10": {"shape": "one"},
        "N11": {"shape": "majority"},
        "N12": {"shape": "leader"},
    }
)
"""Number of a fault -> options, of a nemesis that has them with these values among its choices."""

KIND_OF: Final = MappingProxyType(
    {
        "safety": "correctness",
        "durability": "durability",
        "idempotency": "idempotency/replay",
        "isolation": "correctness",
        "ordering": "correctness",
        "membership": "configuration",
        "boundary": "configuration",
        "liveness": "liveness",
        "fairness": "performance/fairness",
        "performance-SLO": "performance/fairness",
        "operational": "upgrade/rollback",
    }
)
"""Category of claims -> the kind of a hypothesis that comes from no pitfall."""


def aimed(number: str, nemesis: Any) -> dict[str, str] | None:
    """The options by which a nemesis brings a fault about, None where it has no such options."""
    wanted = _AIMS.get(number, {})
    for key, value in wanted.items():
        if key not in nemesis.options or value not in nemesis.options[key].choices:
            return None
    return dict(wanted)
