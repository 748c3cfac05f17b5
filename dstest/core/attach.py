"""Systems that run already (`--attach`): which object stands for a system then."""

from __future__ import annotations

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import System


def system_of(name: str, *, attach: bool) -> System:
    """The system of that name; where it runs already, what finds it and asks it. Raises ConfigError
    where that cannot be."""
    system: System = registry.load("systems", name)
    if not attach:
        return system
    attached: System | None = system.attached
    if attached is None:
        able = ", ".join(
            one
            for one in registry.names("systems")
            if registry.load("systems", one).attached is not None
        )
        raise ConfigError(
            f"--attach: {name} does not say how its servers are found where they run already",
            remedy=f"{able} can be attached to; a system of your own says it as `attached`",
        )
    return attached
