"""Which claim an anomaly breaks, by the names that the checkers of whole histories give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BREAKS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("lost", "lost-transfer"), "durability"),
    **dict.fromkeys(("duplicate", "duplicated"), "idempotency"),
    **dict.fromkeys(("incompatible-order", "nonmonotonic", "nonmonotonic-send"), "ordering"),
    **dict.fromkeys(("reordered", "skipped"), "ordering"),
    "starved-group": "fairness",
}
"""Type of anomaly -> claim, whatever else its workload claims. Others break what that claims."""
