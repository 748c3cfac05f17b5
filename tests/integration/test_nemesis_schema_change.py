"""Schema changes on a real PostgreSQL with standbys, each of which has a catalogue of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import RATE, faults_of

from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisContext
from dstest.core.spec import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.progress import Quiet
from dstest.runner.session import Finished, run_session
from nemeses.member.schema_change import NEMESIS, SchemaChange

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

SYSTEM = "postgresql-standby"


def run(lab_id: str, store: Path, nemesis: SchemaChange) -> Finished:
    wanted = RunSpec(system=SYSTEM, workload="set", time_limit_s=20.0, seed=11, rate=RATE)
    plugins = resolve(wanted, ["fault_s=4", "quiet_s=6"], nemesis=nemesis)
    return run_session(plugins, store=store, lab_id=lab_id, ui=Quiet())


def fault_of(done: Finished) -> dict[str, Any]:
    """The one fault of a run; what the run finds is not asked for, standbys are read late."""
    (fault,) = faults_of(done.path)
    return fault


def test_it_lands_and_heals(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    fault = fault_of(run(lab_for(SYSTEM), tmp_path, NEMESIS))
    assert fault["landed"] == "yes", (fault["injector"], fault["victim"], fault["control"])
    assert fault["heal_verified"], fault["notes"]
    assert fault["facts"]["tables"] == 22
    assert fault["victim"]["during"] == {f"n{i + 1}": 22 for i in range(5)}


class Nothing(SchemaChange):
    """Says that it has changed the tables."""

    async def change(self, ctx: NemesisContext, record: LandingRecord) -> int:
        return 22


class TakenBack(SchemaChange):
    """Changes the tables, and changes them back."""

    async def change(self, ctx: NemesisContext, record: LandingRecord) -> int:
        tables = await super().change(ctx, record)
        await self.revert(ctx, record)
        return tables


@pytest.mark.parametrize("nemesis", [Nothing(), TakenBack()])
def test_what_the_catalogues_do_not_say_has_not_landed(
    lab_for: Callable[[str], str], tmp_path: Path, nemesis: SchemaChange
) -> None:
    fault = fault_of(run(lab_for(SYSTEM), tmp_path, nemesis))
    assert fault["landed"] != "yes", fault
    assert "n3 says 0 of 22 tables" in fault["victim"]["detail"]
