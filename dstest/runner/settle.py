"""Once all faults are healed: does every node serve again?"""

from __future__ import annotations

import asyncio
from typing import Final

from dstest.core.answers import check_health
from dstest.core.patience import ask_s, in_time
from dstest.core.protocols import Deployment

_TRIES: Final = 10
_GAP_S: Final = 1.0


async def all_serve(deployment: Deployment) -> dict[str, bool]:
    """Per node whether it serves, as soon as all do, or as it is after some tries.

    Raises LabError where `healthy` never comes back."""
    healthy: dict[str, bool] = {}
    for _ in range(_TRIES):
        answer = in_time(deployment, "healthy", deployment.healthy(), ask_s(deployment.timing))
        healthy = check_health(deployment, await answer)
        if all(healthy.values()):
            break
        await asyncio.sleep(_GAP_S)
    return healthy
