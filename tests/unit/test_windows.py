"""A fault window: when it stands, when its effects show, what it explains."""

from __future__ import annotations

import msgspec
import pytest
from made_moments import fault
from made_report import S

from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow, Header, Recovery, windows_of

ONE = fault("f1", 10, 20, until_s=25)


@pytest.mark.parametrize(
    ("at_s", "stands", "shows"),
    [(9.9, 0, 0), (10, 1, 1), (20, 1, 1), (25, 0, 1), (25.1, 0, 0)],
)
def test_it_stands_until_its_heal_and_shows_until_the_recovery(
    at_s: float, stands: int, shows: int
) -> None:
    at = int(at_s * S)
    assert ONE.stands(at, at) == stands
    assert ONE.shows(at, at) == shows
    assert ONE.explains(at) == shows


def test_it_explains_what_is_about_its_own_nodes_where_it_landed() -> None:
    assert ONE.explains(12 * S, "n1") and not ONE.explains(12 * S, "n2")
    everywhere = msgspec.structs.replace(ONE, nodes=())
    assert everywhere.explains(12 * S, "n2")
    for landed in ("no", "ambiguous"):
        assert not msgspec.structs.replace(ONE, landed=landed).explains(12 * S)


def test_a_clock_may_be_off() -> None:
    assert not ONE.explains(9 * S) and ONE.explains(9 * S, doubt_ns=S)
    assert not ONE.explains(26 * S) and ONE.explains(26 * S, doubt_ns=S)


def record(name: str, start_s: int | None, end_s: int | None) -> LandingRecord:
    return LandingRecord(
        fault_id=name,
        nemesis="kill",
        targets=["n1"],
        scheduled_at=0,
        injected_at=None if start_s is None else start_s * S,
        healed_at=None if end_s is None else end_s * S,
        epoch=name,
    )


@pytest.mark.parametrize(
    ("recoveries", "until_s"),
    [
        ([Recovery(healed_ns=20 * S, settled_ns=23 * S)], [23, None]),
        ([Recovery(healed_ns=20 * S, settled_ns=None)], [40, None]),
        ([Recovery(healed_ns=20 * S, settled_ns=19 * S)], [20, None]),
        ([Recovery(healed_ns=9 * S, settled_ns=9 * S)], [40, None]),
        ([], [40, None]),
    ],
)
def test_effects_end_with_the_recovery_or_with_the_next_fault(
    recoveries: list[Recovery], until_s: list[int | None]
) -> None:
    records = [record("f2", 40, None), record("f1", 10, 20), record("f3", None, None)]
    found = windows_of(records, recoveries)
    assert [one.id for one in found] == ["f1", "f2"]
    assert [one.until_ns for one in found] == [None if s is None else s * S for s in until_s]


def test_what_nobody_measured_excuses_nothing_after_the_heal() -> None:
    records = [record("f1", 10, 20), record("f2", 40, 50)]
    assert [one.until_ns for one in windows_of(records)] == [40 * S, None]
    assert [one.until_ns for one in windows_of(records, strict=True)] == [20 * S, 50 * S]


def test_a_header_has_the_names_that_files_have_always_had() -> None:
    old = (
        b'{"epoch": "f1", "nemesis": "kill", "inject_start": 1, "landed_at": 2, "heal_start": 3, '
        b'"healed_at": 4}'
    )
    read = msgspec.json.decode(old, type=FaultWindow)
    assert (read.id, read.start_ns, read.landed_ns, read.heal_ns, read.healed_ns) == (
        "f1", 1, 2, 3, 4,
    )  # fmt: skip
    written = msgspec.to_builtins(Header(windows=[ONE]))["windows"][0]
    assert written["inject_start"] == 10 * S and written["until"] == 25 * S
    assert written["fault"] == "f1" and written["nodes"] == ("n1",)
