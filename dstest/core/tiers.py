"""The tiers: how much has been looked at before a pass is called one of that tier."""

from __future__ import annotations

from typing import Final, Literal, get_args

Level = Literal["smoke", "hardening", "release"]
"""What can be asked for."""

Tier = Literal["none", "smoke", "hardening", "release"]
"""What can be met: `none` where not even the budget of smoke was."""

SMOKE_S: Final = 20.0
"""Seconds of load that smoke asks for."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""The least first."""

TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""The least first."""
