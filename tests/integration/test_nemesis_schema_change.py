"""Schema changes on a real PostgreSQL with standbys, each of which has a catalogue of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from runs import RATE, healed_by_all, killed_in_mid_fault, landed_and_healed, not_proven

from clusters.labs.lxc import LAB
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisContext
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session
from nemeses.base.driver import Facts
from nemeses.member.schema_change import NEMESIS, SchemaChange

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(400)]

SYSTEM = "postgresql-standby"


def run(lab_id: str, store: Path, nemesis: SchemaChange) -> Finished:
    wanted = RunSpec(
        system=SYSTEM,
        workload="bank",
        model="snapshot-isolation",
        rate=RATE,
        time_limit_s=22.0,
        seed=11,
    )
    plugins = resolve(wanted, ["fault_s=4", "quiet_s=6"], nemesis=nemesis)
    return run_session(plugins, store=store, lab_id=lab_id, ui=Quiet())


def test_it_lands_and_heals(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    fault = landed_and_healed(run(lab_for(SYSTEM), tmp_path, NEMESIS))
    assert fault["facts"]["changes"] == 44
    assert fault["victim"]["during"] == {f"n{i + 1}": 44 for i in range(5)}


class Nothing(SchemaChange):
    """Says that it has changed the tables."""

    async def changes(self, ctx: NemesisContext) -> AsyncGenerator[str]:
        for n in range(44):
            yield f"change {n}"


class TakenBack(SchemaChange):
    """Changes the tables, and changes them back."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        facts = await super().apply(ctx, record)
        await self.revert(ctx, record)
        return facts


@pytest.mark.parametrize("nemesis", [Nothing(), TakenBack()])
def test_what_the_catalogues_do_not_say_has_not_landed(
    lab_for: Callable[[str], str], tmp_path: Path, nemesis: SchemaChange
) -> None:
    fault = not_proven(run(lab_for(SYSTEM), tmp_path, nemesis))
    assert "n3 shows 0 of 44 changes" in fault["victim"]["detail"]


def test_kill_9_of_ours_in_mid_fault(lab_for: Callable[[str], str], tmp_path: Path) -> None:
    """The tables go with the data of the run."""
    lab = LAB.known(lab_for(SYSTEM))
    assert lab is not None
    words = ("--system", SYSTEM, "--workload", "bank", "--model", "snapshot-isolation")
    args = (*words, "--nemesis", "schema-change", "-o", "fault_s=30")
    killed_in_mid_fault(lab, tmp_path, args, lambda: healed_by_all(lab), 40)
