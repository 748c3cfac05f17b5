"""What the facts of a record are called, read by name."""

from __future__ import annotations

from typing import Any

import pytest

from dstest.core.evidence import (
    Details,
    FaultDetails,
    LandingRecord,
    LeadDetails,
    PathDetails,
    ProcessDetails,
)


def record(**facts: Any) -> LandingRecord:
    return LandingRecord(
        fault_id="f1", nemesis="kill", targets=["n1"], scheduled_at=0, epoch="f1", facts=facts
    )


@pytest.mark.parametrize("kind", [FaultDetails, LeadDetails, PathDetails, ProcessDetails])
def test_a_record_may_lack_all_of_it(kind: type[Details]) -> None:
    assert kind.of(record(other=1)) == kind()


def test_what_is_there_is_read_as_it_is() -> None:
    found: Any = PathDetails.of(record(cuts=["n1->n2"], baseline_packets="many", share=0.3))
    assert (found.cuts, found.baseline_packets, found.links) == (["n1->n2"], "many", None)


def test_a_lead_that_moved_to_somebody_who_is_not_known() -> None:
    assert not LeadDetails.of(record(leader_before="n1", term_before=7)).moved
    assert LeadDetails.of(record(new_leader=None, new_term=8)).moved
    assert LeadDetails.of(record(new_leader="n2", new_term=None)).moved
