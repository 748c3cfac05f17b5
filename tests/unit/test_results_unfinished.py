"""A night that was cut off is no pass, however green the runs are that it had made by then; and a
violation is called the same wherever it is shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_nights import PASSES, item_of, night_with
from made_runs import made, registers

from dstest.campaign.nightly.state import NightDir
from dstest.core.check import CheckResult
from dstest.judge.symptom import fingerprints_of
from dstest.store.export.gather import gather, worst


@pytest.mark.parametrize(("ended", "code"), [("20260101T010000Z", 0), ("", 3)])
def test_a_night_that_is_not_over(tmp_path: Path, ended: str, code: int) -> None:
    store = tmp_path / "store"
    made(store / "a-run", registers(count=700), "register")
    night = night_with(1, [item_of("green", "green", [PASSES])], 0)
    NightDir.create(store, msgspec.structs.replace(night, ended=ended), b"")
    found = gather([store])
    assert worst(found) == code
    assert any(one.green for one in found)
    assert [one.reason for one in found if not one.green] == (
        [] if ended else ["this night is not over (died)"]
    )


def test_a_violation_has_the_names_of_its_anomalies_or_that_word() -> None:
    by_name = CheckResult(checker="c", valid=False, anomaly_types=["lost"])
    by_case = CheckResult(checker="c", valid=False, anomalies={"lost": []})
    for result in (by_name, by_case):
        assert result.kinds == {"lost"}
        assert len(fingerprints_of(result)) == 1
    assert CheckResult(checker="c", valid=False).kinds == {"violation"}
    assert CheckResult(checker="c", valid=True, anomaly_types=["lost"]).kinds == set()
