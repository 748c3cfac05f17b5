"""What `dstest new` writes, on a real lab: smoke passes; a sabotaged fault is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_code
from runs import (
    CALM,
    SHORT,
    SHORT_S,
    dstest,
    fault_tables,
    faults_of,
    killed_in_mid_fault,
    latest,
    verdict_of,
)

from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.registry import FILES
from dstest.extend.scaffold.write import KINDS, write

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

SABOTAGED = """
class Sabotaged(DeafClients):
    async def apply(self, ctx, record):
        rules = RULES.replace("hook input", "hook forward").replace("CLIENTS", ctx.lab.control)
        for name in record.targets:
            await ctx.node(name).run(["nft", "-f", "-"], stdin=rules, check=False)

NEMESIS = Sabotaged()
"""


def a_run(lab: LabInfo, folder: Path, *words: str | Path) -> int:
    return dstest(
        *CALM, *words, "--seed", "3", "--lab-id", lab.lab_id, "--store", folder / "store",
        "--time-limit", str(SHORT_S),
    ).returncode  # fmt: skip


@pytest.mark.long
def test_a_workload(lab: LabInfo, tmp_path: Path) -> None:
    load, _ = write(KINDS["workload"], "few-registers", tmp_path)
    code = a_run(lab, tmp_path, "--workload", load, "--nemesis", "none")
    assert_code(code, latest(tmp_path / "store"))
    assert verdict_of(latest(tmp_path / "store"))["verdict"] == "PASS-smoke"


@pytest.mark.parametrize("nemesis", [pytest.param("none", marks=pytest.mark.long), "kill"])
def test_a_system(lab: LabInfo, tmp_path: Path, nemesis: str) -> None:
    system, _ = write(KINDS["system"], "small-store", tmp_path)
    options = [part for option in SHORT for part in ("-o", option)] if nemesis == "kill" else []
    what = ("--workload", "register", "--nemesis", nemesis)
    code = a_run(lab, tmp_path, "--system", system, *what, *options)
    assert_code(code, latest(tmp_path / "store"))
    assert verdict_of(latest(tmp_path / "store"))["verdict"] == "PASS-smoke"
    assert [record["landed"] for record in faults_of(latest(tmp_path / "store"))] == (
        ["yes"] if nemesis == "kill" else []
    )


@pytest.mark.parametrize("sabotaged", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_nemesis(lab: LabInfo, tmp_path: Path, sabotaged: bool) -> None:
    fault, _ = write(KINDS["nemesis"], "deaf-clients", tmp_path)
    if sabotaged:
        fault.write_text(fault.read_text() + SABOTAGED)
    options = [part for option in SHORT for part in ("-o", option)]
    code = a_run(lab, tmp_path, "--workload", "register", "--nemesis", fault, *options)
    run = latest(tmp_path / "store")
    (record,) = faults_of(run)
    assert record["heal_verified"], record["notes"]
    if sabotaged:
        assert (code, record["landed"]) == (Exit.NOT_PROVEN, "no")
        assert verdict_of(run)["verdict"] == "INCONCLUSIVE-fault-not-proven"
    else:
        assert record["landed"] == "yes"
        assert_code(code, run)
        assert verdict_of(run)["verdict"] == "PASS-smoke"


@pytest.mark.long
def test_a_nemesis_heals_without_us(
    lab: LabInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, _ = write(KINDS["nemesis"], "deaf-clients", tmp_path)
    monkeypatch.setenv(FILES, str(fault))  # a run that died is judged with the file that it had
    words = ("--nemesis", "deaf-clients", "-o", "fault_s=30", "--seed", "3")
    killed_in_mid_fault(lab, tmp_path, words, lambda: fault_tables(lab) == [], 15.0)
