"""Which directories a policy asks for, so that nobody throws them away: by what they say that they
are, whatever they are worth."""

from __future__ import annotations

from pathlib import Path

from dstest.core.errors import DstestError
from dstest.gate.policy import Policy
from dstest.gate.relevance import of_test
from dstest.history.layout import RunDir
from dstest.plans.execution.state import ExecutionDir
from dstest.store.inventory import StorePlace, walk


def directories_needed(store: Path, policy: Policy) -> set[Path]:
    """Runs of the tests of its claims and controls, and executions of its plans."""
    return {place.path for place in walk(store).places if _asked_for(place, policy)}


def _asked_for(place: StorePlace, policy: Policy) -> bool:
    try:
        if place.kind == "plan":
            sha256 = ExecutionDir.open(place.path).read().plan_sha256
            return any(plan.sha256 == sha256 for plan in policy.plan)
        meta = RunDir.open(place.path).read_meta() if place.kind == "run" else None
    except DstestError:
        return True  # who knows what it is
    rows = (*policy.claim, *policy.control)
    return meta is not None and any(of_test(meta, row) for row in rows)
