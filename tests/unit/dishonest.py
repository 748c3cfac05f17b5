"""What somebody might try so that a gate lets a release through: changes of an honest store, each
with one thing wrong in it, and the rule that has to name it.

Whoever edits a fact here does it well: the run is judged anew and summed up anew (`sealed`), as if
it had been so from the beginning. Where a rule names the edit all the same, sums were never what
it rests on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from gate_store import (
    BUG,
    DAY,
    GIVEN,
    NAME,
    now,
    planned,
    recorded_at,
    run_at,
    sealed,
)
from made_runs import registers
from real_run import change_facts, change_record

from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.runner.fault_plans import SCHEDULE
from dstest.runner.plugins import resolve, schedule_of

Trick = Callable[[Path], None]


def run_of(store: Path, seed: int) -> RunDir:
    (path,) = (store / NAME).glob(f"*-{seed}")
    return RunDir.open(path)


def gone(store: Path, seed: int) -> None:
    shutil.rmtree(run_of(store, seed).path)


def replaced(seed: int, **how: Any) -> Trick:
    """Another run in the place of one."""

    def trick(store: Path) -> None:
        gone(store, seed)
        run_at(store, seed, **how)

    return trick


def facts(seed: int, **changes: Any) -> Trick:
    """Facts of run.json edited, and all that follows from them made anew."""

    def trick(store: Path) -> None:
        run = run_of(store, seed)
        change_facts(run, **changes)
        sealed(run)

    return trick


def text(run: RunDir, name: str, old: str, new: str) -> None:
    path = run.path / name
    found = path.read_text()
    assert old in found, (name, old)
    path.write_text(found.replace(old, new))


# Files


def a_word_of_a_verdict(store: Path) -> None:
    text(run_of(store, 1), "verdict.json", "PASS-smoke", "PASS-hardening")


def a_verdict_and_its_sums(store: Path) -> None:
    run = run_of(store, 1)
    for name in ("verdict.json", "status"):
        text(run, name, "PASS-smoke", "PASS-hardening")
    run.write_sums()


def evidence_and_its_sums(store: Path) -> None:
    run = run_of(store, 1)
    text(run, "verdict.json", '"ops_consumed": 6', '"ops_consumed": 96')
    run.write_sums()


def a_history_cut_short(store: Path) -> None:
    run = run_of(store, 1)
    lines = run.history.read_bytes().splitlines(keepends=True)
    run.history.write_bytes(b"".join(lines[:-50]))
    run.write_sums()


def a_green_report_of_a_failure(store: Path) -> None:
    """junit.xml is what a CI server shows."""
    run, good = run_of(store, 4), run_of(store, 1)
    shutil.copy(good.path / "junit.xml", run.path / "junit.xml")
    run.write_sums()


def no_sums(store: Path) -> None:
    (run_of(store, 1).path / "sha256sums").unlink()


def a_file_more(store: Path) -> None:
    (run_of(store, 1).path / "nodes" / "n9.log").write_text("all is well\n")


def an_unfinished_failure(store: Path) -> None:
    """What has no verdict has not failed."""
    run = recorded_at(store, 9, bug=True, given=GIVEN)
    change_facts(run, options_given=GIVEN)
    run.write_status("running")


def a_failure_without_segments(store: Path) -> None:
    shutil.rmtree(run_of(store, 4).segments)


def a_link_to_a_run(store: Path) -> None:
    run = run_of(store, 1)
    aside = store.parent / "elsewhere"
    run.path.rename(aside)
    run.path.symlink_to(aside)


def a_link_in_a_run(store: Path) -> None:
    run = run_of(store, 1)
    aside = store.parent / "history"
    run.history.rename(aside)
    run.history.symlink_to(aside)


# Names and copies


def another_name(store: Path) -> None:
    run = run_of(store, 3)
    run.path.rename(run.path.with_name(run.path.name[:-1] + "9"))


def a_failure_called_blame(store: Path) -> None:
    """Runs beside a run are not looked at, and a run that passed has none."""
    run_at(store, 9, bug=True)
    run_of(store, 9).path.rename(f"{run_of(store, 1).path}.blame")


def a_failure_called_blame_of_nothing(store: Path) -> None:
    run_at(store, 9, bug=True)
    failed = run_of(store, 9).path
    failed.rename(f"{failed}.blame")


def a_copy_as_another_seed(store: Path) -> None:
    """All that names the seed is changed, and the faults are those that it plans."""
    gone(store, 3)
    _as_seed(store, 1, 8)


def _as_seed(store: Path, seed: int, other: int, *, plan: bool = True) -> RunDir:
    source = run_of(store, seed)
    name = f"{source.path.name.rpartition('-')[0]}-{other}"
    copy = RunDir(shutil.copytree(source.path, source.path.with_name(name)))
    meta = copy.read_meta()
    assert meta is not None
    spec = msgspec.structs.replace(msgspec.convert(meta.spec, RunSpec), seed=other)
    change_facts(copy, spec=msgspec.to_builtins(spec))
    if plan:
        made = schedule_of(resolve(spec, list(meta.options_given or [])))
        copy.write_json(SCHEDULE, made)
        planned(copy, msgspec.to_builtins(made.plans))
    return sealed(copy)


def a_copy_with_its_times_shifted(store: Path) -> None:
    gone(store, 3)
    ops = [
        msgspec.structs.replace(
            op,
            invoke_ts=op.invoke_ts + 1000,
            complete_ts=None if op.complete_ts is None else op.complete_ts + 1000,
        )
        for op in registers(seed=1, count=700)
    ]
    run_at(store, 3, ops=ops)


# Time


def old(store: Path) -> None:
    replaced(1, at=now() - 40 * DAY)(store)


def old_and_touched(store: Path) -> None:
    old(store)
    for path in [run_of(store, 1).path, *run_of(store, 1).path.rglob("*")]:
        os.utime(path)


def of_the_future(store: Path) -> None:
    replaced(1, at=now() + 2 * DAY)(store)


def without_clocks(store: Path) -> None:
    facts(1, origin_ns=...)(store)


# Words


def of_a_file_of_faults(store: Path) -> None:
    run = run_of(store, 1)
    meta = run.read_meta()
    assert meta is not None
    spec = msgspec.convert({**meta.spec, "schedule": "faults.json"}, RunSpec)
    change_facts(run, spec=msgspec.to_builtins(spec))
    sealed(run)


def a_plugin_of_somebody(store: Path) -> None:
    run = run_of(store, 1)
    change_facts(run, plugin_files={"/x/mine.py": "0" * 64})
    run.write_sums()


def host(**changes: Any) -> Trick:
    def trick(store: Path) -> None:
        run = run_of(store, 1)
        plain = run.read_json("run.json")["host"]
        facts(1, host={**plain, **changes})(store)

    return trick


# What was tested


def a_fault_that_never_landed(store: Path) -> None:
    run = run_of(store, 1)
    change_record(run, landed="no")
    sealed(run)


def that_ended_early(store: Path) -> None:
    facts(1, ended_by="the disk was full")(store)


def a_violation(store: Path) -> None:
    run = recorded_at(store, 9, bug=True, given=GIVEN)
    gone(store, 4)
    run_at(store, 4, bug=True)
    _honestly_given(run, GIVEN)


def _honestly_given(run: RunDir, given: list[str]) -> None:
    meta = run.read_meta()
    assert meta is not None
    spec = resolve(msgspec.convert(meta.spec, RunSpec), given).spec
    change_facts(run, spec=msgspec.to_builtins(spec), options_given=given)
    sealed(run)


def an_old_violation_of_another_dstest(store: Path) -> None:
    """What speaks against a release need not be fresh."""
    run = recorded_at(store, 9, bug=True, given=GIVEN, at=now() - 300 * DAY)
    change_facts(run, host={"dstest": "0.0.1"})
    _honestly_given(run, GIVEN)


def a_violation_of_another_test(store: Path) -> None:
    run = recorded_at(store, 9, bug=True, given=[*GIVEN, "write_ratio=0.4"])
    _honestly_given(run, [*GIVEN, "write_ratio=0.4"])


def a_violation_in_the_green_control(store: Path) -> None:
    given = [*GIVEN, "reads=linearizable"]
    gone(store, 5)
    run = recorded_at(store, 5, bug=True, given=GIVEN)
    _honestly_given(run, given)


def a_bug_that_was_not_found(store: Path) -> None:
    replaced(4, given=[*GIVEN, BUG])(store)


def a_control_with_another_option(store: Path) -> None:
    replaced(4, given=[*GIVEN, BUG, "write_ratio=0.4"])(store)


def a_seed_less(store: Path) -> None:
    gone(store, 3)


def no_bug_at_all(store: Path) -> None:
    gone(store, 4)


def nothing_of_the_claim(store: Path) -> None:
    for seed in (1, 2, 3):
        gone(store, seed)


TRICKS: list[tuple[Trick, str]] = [
    (a_word_of_a_verdict, "G01"),
    (no_sums, "G01"),
    (a_file_more, "G01"),
    (a_verdict_and_its_sums, "G02"),
    (evidence_and_its_sums, "G02"),
    (a_history_cut_short, "G02"),
    (a_green_report_of_a_failure, "G02"),
    (an_unfinished_failure, "G03"),
    (a_failure_without_segments, "G03"),
    (a_link_to_a_run, "G04"),
    (a_link_in_a_run, "G04"),
    (another_name, "G05"),
    (a_failure_called_blame, "G05"),
    (a_failure_called_blame_of_nothing, "G05"),
    (a_copy_as_another_seed, "G06"),
    (a_copy_with_its_times_shifted, "G06"),
    (of_the_future, "G07"),
    (without_clocks, "G07"),
    (host(dstest="0.0.1"), "G12"),
    (facts(1, system_version="3.4.22"), "G13"),
    (host(kernel="6.2.0"), "G14"),
    (a_plugin_of_somebody, "G15"),
    (old, "G16"),
    (old_and_touched, "G16"),
    (replaced(1, given=[*GIVEN, "write_ratio=0.4"]), "G17"),
    (of_a_file_of_faults, "G18"),
    (replaced(1, model="cas-register"), "G19"),
    (nothing_of_the_claim, "G21"),
    (a_violation, "G22"),
    (an_old_violation_of_another_dstest, "G22"),
    (a_violation_in_the_green_control, "G22"),
    (a_violation_of_another_test, "G23"),
    (a_fault_that_never_landed, "G24"),
    (that_ended_early, "G24"),
    (a_seed_less, "G26"),
    (a_bug_that_was_not_found, "G30"),
    (a_control_with_another_option, "G17"),
    (no_bug_at_all, "G32"),
]
"""What is done to a store, and the one rule that is broken then."""
