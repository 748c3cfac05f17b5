"""What a command about a dead run says of the lab that the run leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dstest.core.run_meta import RunMeta


def lab_left(meta: RunMeta) -> str | None:
    """How to look at the lab of the run with this run.json; None where there is none any more."""
    from clusters.labs.state import adopted_ids
    from dstest.core import registry
    from dstest.core.errors import DstestError
    from dstest.runner.lab_use import lab_of_run, users_of

    kind = meta.lab or meta.spec.get("lab")
    try:
        lab = registry.load("labs", str(kind))
        lab_id = lab_of_run(lab, meta)
    except DstestError:
        return None  # a lab that is not installed here
    if lab_id is None:
        return None
    if users := users_of(lab, lab_id):
        return f"its lab {lab_id} is still there, and in use: {users[0].describe()}"
    ends = f"`dstest lab down --lab-id {lab_id}` removes it"
    if lab_id in adopted_ids():
        ends = f"`dstest lab release --lab-id {lab_id}` gives its machines back"
    return (
        f"its lab is still there: `dstest lab status --lab-id {lab_id}` shows what the run left on "
        f"it, {ends}"
    )
