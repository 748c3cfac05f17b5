"""`make spec-selftest`: what specifications and simulation promise, as one table, each row with the
tests that show it, run now, and what they have seen. A row that nothing shows yet says so, and the
exit code is 3. Words behind the command are features: their rows alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

HERE: Final = Path(__file__).parent
QUINT: Final = HERE.parents[1] / "quint"
SIM: Final = HERE.parent / "sim"
PLANS: Final = HERE.parent
"""Of what executes plans, whose helpers lie there."""


class Row(NamedTuple):
    """A promise, and where it is shown: parts of names of tests."""

    feature: str
    promise: str
    file: Path | None
    tests: tuple[str, ...] = ()


ROWS: Final = (
    Row(
        "F-SPEC",
        "labels of guards are unique",
        HERE / "test_spec_explore.py",
        ("no_specification",),
    ),
    Row(
        "F-SPEC",
        "one spec in search, walk and samples",
        HERE / "test_spec_live.py",
        ("all_layers",),
    ),
    Row("F-INV", "each id is executed in each layer", HERE / "test_spec_live.py", ("all_layers",)),
    Row(
        "F-EXH",
        "states of five textbook models",
        HERE / "test_spec_explore.py",
        ("jugs", "hanoi", "philosophers", "two_phase", "mutual"),
    ),
    Row(
        "F-EXH",
        "states of Raft, counted another way as well",
        HERE / "test_spec_raft.py",
        ("another_count", "bypassed_breaks", "walks_of_three"),
    ),
    Row(
        "F-EXH",
        "a shortest trace; deadlock",
        HERE / "test_spec_explore.py",
        ("shortest", "deadlock"),
    ),
    Row(
        "F-EXH",
        "Quint takes the same steps on three",
        QUINT / "test_quint.py",
        ("same_steps", "mistake"),
    ),
    Row(
        "F-SIM",
        "same seed, same events; in other processes",
        SIM / "test_sim_toykv.py",
        ("same_seed", "in_others"),
    ),
    Row("F-SIM", "forbidden calls are found", SIM / "test_sim_forbidden.py", ("",)),
    Row(
        "F-SIM",
        "planted bugs are found, none without",
        SIM / "test_sim_toykv.py",
        ("planted", "no_bug"),
    ),
    Row("F-SIM", "torn and lost writes", SIM / "test_sim_files.py", ("",)),
    Row(
        "F-CONF",
        "a swapped pair is rejected at its index",
        HERE / "test_spec_conform_log.py",
        ("",),
    ),
    Row(
        "F-CONF",
        "toykv's servers: accepted, swap, crash, canaries",
        HERE / "test_spec_raft.py",
        ("no_bug", "swapped", "crash", "canary", "without_rules"),
    ),
    Row(
        "F-CONF",
        "planted bugs are rejected by their rules",
        HERE / "test_spec_raft.py",
        ("planted", "not_seen"),
    ),
    Row("F-CONF", "logs merged in a causal order", HERE / "test_spec_merged.py", ("",)),
    Row(
        "F-PROD",
        "a violation counts within one sample",
        HERE / "test_spec_live.py",
        ("one_sample",),
    ),
    Row(
        "F-PROD",
        "its command: recorded, and members that are asked",
        HERE / "test_spec_live_command.py",
        ("",),
    ),
    Row("F-GUARD", "weakenings flagged, harmless changes not", HERE / "test_spec_weaker.py", ("",)),
    Row(
        "F-MUT", "all killed; a survivor with what is nearest", HERE / "test_spec_mutate.py", ("",)
    ),
    Row(
        "F-RED-FIRST",
        "red on a known bug first, or no evidence",
        PLANS / "test_plan_simulated.py",
        ("each_scenario_was_red", "whose_red_side_is_green"),
    ),
    Row(
        "F-RED-FIRST",
        "a plan without a red side is told of",
        PLANS / "test_plan_red.py",
        ("old_plan", "broken_cop"),
    ),
    Row(
        "F-PATH",
        "what clusters in one process show is smoke at most",
        SIM / "test_sim_runs.py",
        ("higher_tier", "among_any_arms", "declared_path", "gate_counts"),
    ),
    Row(
        "F-TRACE",
        "requirement, claim, invariant, scenario, evidence",
        PLANS / "test_plan_simulated.py",
        ("chains_are_whole", "taken_out", "never_ran", "must_is"),
    ),
    Row(
        "F-RAND", "planted violation; never enabled; never false", HERE / "test_spec_walk.py", ("",)
    ),
    Row("F-REPLAY", "unknown outcomes are branched", HERE / "test_spec_conform.py", ("",)),
    Row(
        "F-DRIVE",
        "20 of 20 planted states",
        HERE / "test_spec_why.py",
        ("driven", "cannot_be_reached"),
    ),
    Row(
        "F-WHY",
        "the two guards and their levels; three; reachable",
        HERE / "test_spec_why.py",
        ("two_guards", "of_three", "no_contradiction"),
    ),
    Row("F-KNOCK", "1-minimal, few questions", HERE / "test_spec_why.py", ("smallest_set",)),
    Row(
        "F-BISECT",
        "one of 32 in six runs; unbuildable skipped",
        HERE / "test_spec_regressed.py",
        ("",),
    ),
    Row("F-LEDGER", "three commits are a circle", HERE / "test_spec_ledger.py", ("",)),
    Row(
        "F-LEDGER",
        "its command: sightings, fixes, circles",
        HERE / "test_spec_ledger_command.py",
        ("",),
    ),
    Row(
        "F-TLA",
        "round trip with Quint, mistakes found",
        QUINT / "test_quint.py",
        ("walks_are", "mistake"),
    ),
    Row("F-CHART", "golden charts", HERE / "test_spec_chart.py", ("",)),
    Row(
        "F-ADV",
        "a bug that only adversarial clients reach",
        HERE / "test_spec_adversary.py",
        ("only_adversaries", "in_all_states"),
    ),
)


SHOWN: Final = "shown"
"""What a test that passed says of what it has seen (`record_property`)."""


class Seen:
    """What became of each test, and what it said."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.said: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of its phases."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome
        if report.when == "call":
            said = [str(text) for name, text in report.user_properties if name == SHOWN]
            self.said[report.nodeid] = said


def main(features: Sequence[str] = ()) -> int:
    rows = [row for row in ROWS if not features or row.feature in features]
    files = sorted({str(row.file) for row in rows if row.file is not None})
    parts = sorted({part for row in rows for part in row.tests}) if features else []
    chosen = ["-k", " or ".join(parts)] if all(parts) and parts else []
    seen = Seen()
    pytest.main(["-q", "--no-header", "-p", "no:xdist", *chosen, *files], plugins=[seen])
    code = 0
    for row in rows:
        nodes = [node for node in seen.outcomes if row.file is not None and _is_of(node, row)]
        found = [seen.outcomes[node] for node in nodes]
        passed = found.count("passed")
        if not found or passed == 0:
            said, code = "not shown", max(code, 3)
        elif passed < len(found):
            said, code = f"{passed} of {len(found)} tests passed", 1
        else:
            said = f"{passed} tests passed"
        sys.stdout.write(f"{row.feature:12} {row.promise:52} {said}\n")
        shown = dict.fromkeys(text for node in nodes for text in seen.said.get(node, ()))
        sys.stdout.writelines(f"{'':12}   {text}\n" for text in shown)
    return code


def _is_of(node: str, row: Row) -> bool:
    """Is it a test of this row?"""
    file, _, name = node.partition("::")
    assert row.file is not None
    return row.file.name == Path(file).name and any(part in name for part in row.tests)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
