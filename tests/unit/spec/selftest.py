"""`make spec-selftest`: what specifications and simulation promise, as one table, each row with the
tests that show it, run now. A row that nothing shows yet says so, and the exit code is 3."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

HERE: Final = Path(__file__).parent
QUINT: Final = HERE.parents[1] / "quint"
SIM: Final = HERE.parent / "sim"


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
        "F-PROD",
        "a violation counts within one sample",
        HERE / "test_spec_live.py",
        ("one_sample",),
    ),
    Row("F-GUARD", "weakenings flagged, harmless changes not", HERE / "test_spec_weaker.py", ("",)),
    Row(
        "F-MUT", "all killed; a survivor with what is nearest", HERE / "test_spec_mutate.py", ("",)
    ),
    Row("F-RED-FIRST", "a scenario is red on a known bug first", None),
    Row("F-PATH", "simulated runs are smoke at most", None),
    Row("F-TRACE", "requirement, invariant, scenario, evidence", None),
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
        "F-TLA",
        "round trip with Quint, mistakes found",
        QUINT / "test_quint.py",
        ("walks_are", "mistake"),
    ),
    Row("F-CHART", "golden charts", HERE / "test_spec_chart.py", ("",)),
    Row("F-ADV", "a bug that only adversarial clients reach", None),
)


class Seen:
    """What became of each test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of its phases."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome


def main() -> int:
    files = sorted({str(row.file) for row in ROWS if row.file is not None})
    seen = Seen()
    pytest.main(["-q", "--no-header", "-p", "no:xdist", *files], plugins=[seen])
    code = 0
    for row in ROWS:
        found = [
            outcome
            for node, outcome in seen.outcomes.items()
            if row.file is not None
            and row.file.name == Path(node.partition("::")[0]).name
            and any(part in node.partition("::")[2] for part in row.tests)
        ]
        passed = found.count("passed")
        if not found or passed == 0:
            said, code = "not shown", max(code, 3)
        elif passed < len(found):
            said, code = f"{passed} of {len(found)} tests passed", 1
        else:
            said = f"{passed} tests passed"
        sys.stdout.write(f"{row.feature:12} {row.promise:52} {said}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
