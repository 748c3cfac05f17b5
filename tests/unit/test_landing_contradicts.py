"""Landing records that contradict themselves prove nothing, whoever made them."""

from __future__ import annotations

from typing import Any

import made_audit
import msgspec
import pytest

from dstest.core.evidence import LandingRecord, Signal, contradiction, heal_contradiction
from dstest.judge.evidence import demoted

CUT = made_audit.record(0)
THERE, BACK = CUT.facts["cuts"]
DEAD = Signal(signal="probes", before={THERE: [3, 3], BACK: [3, 3]},
              during={THERE: [0, 0], BACK: [0, 0]}, moved=True)  # fmt: skip


def but(**changes: Any) -> LandingRecord:
    return msgspec.structs.replace(CUT, **changes)


def signal(name: str, **changes: Any) -> LandingRecord:
    return but(**{name: msgspec.structs.replace(getattr(CUT, name), **changes)})


WRONG = {
    "a path that was cut answers as before": but(
        victim=msgspec.structs.replace(DEAD, during={THERE: [0, 0], BACK: [3, 3]})
    ),
    "a rule of a path in use counted nothing": signal("injector", during={THERE: 9, BACK: 0}),
    "a rule counted less than nothing": signal("injector", during={THERE: -1}),
    "signals of another fault": signal("victim", before={"n4->n5": 2}, during={"n4->n5": 0}),
    "the control was hit": but(control=Signal(signal="probes", moved=True)),
    "the control is dead": but(
        control=Signal(signal="probes", before={"n3->n4": 1}, during={"n3->n4": 0})
    ),
    "no time of landing": but(landed_at=None),
    "landed before it was injected": but(landed_at=(CUT.injected_at or 0) - 1),
    "landed after its heal": but(landed_at=(CUT.healed_at or 0) + 1),
    "healed before it was injected": but(heal_start=0, healed_at=1, landed_at=CUT.injected_at),
}


def test_a_record_of_a_fault_that_landed_does_not() -> None:
    assert contradiction(CUT) is None
    assert contradiction(but(victim=DEAD)) is None
    assert contradiction(but(targets=[*CUT.targets, "n5"])) is None, "a bridge has no cut"
    idle = {**CUT.facts, "idle_paths": [BACK]}
    assert CUT.injector is not None
    counted = msgspec.structs.replace(CUT.injector, during={THERE: 9, BACK: 0})
    assert contradiction(but(facts=idle, injector=counted)) is None, "an idle path counts nothing"


@pytest.mark.parametrize("name", WRONG)
def test_what_contradicts_itself_has_not_landed(name: str) -> None:
    assert contradiction(WRONG[name]) is not None
    facts = made_audit.good()
    records = [WRONG[name], *facts.records[1:]]
    first, *others = demoted(msgspec.structs.replace(facts, records=records))
    assert first.landed == "ambiguous"
    assert {record.landed for record in others} == {"yes"}


def test_a_heal_after_which_nothing_lives_is_not_verified() -> None:
    after = but(victim=msgspec.structs.replace(DEAD, after={THERE: [0, 0], BACK: [0, 0]}))
    assert heal_contradiction(after) is not None
    facts = made_audit.good()
    first, *_ = demoted(msgspec.structs.replace(facts, records=[after, *facts.records[1:]]))
    assert not first.heal_verified
    ahead = Signal(signal="seconds ahead", before={"n1": 0.002}, during={"n1": 5.0}, moved=True)
    right = but(victim=msgspec.structs.replace(ahead, after={"n1": 0.0}))
    assert heal_contradiction(right) is None, "a clock that is right again shows no seconds"
    whole = but(victim=msgspec.structs.replace(DEAD, after={THERE: [3, 3], BACK: [3, 3]}))
    assert heal_contradiction(whole) is None
