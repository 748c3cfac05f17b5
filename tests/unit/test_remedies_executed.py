"""Every cause that keeps a run from a pass: a run that ends by it, what is told to `try:`, and
with that done another verdict or another reason.

Causes are those of `dstest/judge/causes.py`, and that these are all is held against the text of the
judge. What a user can bring about is made by `dstest run --lab sim`; the rest is planted in the
facts of such a run (`remedy_cases.py`). Commands are done in the simulation, each once.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from made_once import Once
from remedy_cases import ASKED, FULL, NOT_SAID, PLANTED, Change, on_nodes, sentences
from touched_runs import dstest

from dstest.cli.reference.pages import every_command
from dstest.core.evidence import Evidence
from dstest.core.run_words import command_of
from dstest.core.verdict import Verdict
from dstest.history.layout import RunDir
from dstest.history.segment import SegmentWriter
from dstest.judge.audit import TITLES
from dstest.judge.causes import CAUSES, FOLLOWS, cause_of
from dstest.judge.decide import RULES, decide
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import RunFacts
from dstest.judge.lints import LINTS
from dstest.report.model import RunReport, load_report
from dstest.report.terminal import summary_text
from dstest.runner import judgement
from dstest.runner.simulated_run import SimulatedLoad

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SMALL = ("--nodes", "3", "--concurrency", "6", "--no-monitor", "--seed", "3")
BASE = ("--workload", "register", "--nemesis", "partition", "--rate", "60", "--time-limit", "30")
RUN_COMMAND: Any = dict(every_command())["dstest run"]

BY_PEOPLE = {
    "violation": "commands stand under `what next`",
    "not-again": "commands stand under `what next`",
    "clock-kind": "of a record that others made",
    "fields": "clients and generator have to record more",
    "keys-are-ids": "the generator has to draw keys of its own",
    "wire": "the system's class has to count requests",
    "no-checker": "the workload has to name one",
    "copies-accepted": "the checker has to be written anew",
    "surface-only": "another workload: which one is for people to say",
    "control-accepted": "a finding to be read",
    "not-reached": "a point or a workload is for people to say, where nothing else was reached",
    "not-reached-again": "as not-reached, of the try before",
    "none-reached": "a wider glob or another workload is for people to say",
}
"""Causes that no command of ours removes, and why."""

ELSEWHERE = {
    "simulated": "on nodes",
    "breadth": "on nodes",
    "more-faults": "on nodes",
}
"""Causes with a command that needs nodes: here it is read as `dstest run` reads it, and no more."""

TELLS = frozenset({"alarms", "ends", "sim-failures", "not-serving", "replicas"})
"""Causes with a command that says more of this run, after which it is as it was: a finding."""


class Ended(NamedTuple):
    """A run that ended: its report, and what it was asked for, without its seed."""

    report: RunReport
    asked: str

    @property
    def lines(self) -> list[str]:
        return self.report.verdict.why_not_better

    @property
    def causes(self) -> set[str]:
        return {cause.id for line in self.lines if (cause := cause_of(line)) is not None}

    def tries(self, cause: str) -> list[tuple[str, str]]:
        """(line, command) of this cause, as the terminal shows them."""
        text = " ".join(summary_text(self.report).split())
        rows = [
            row
            for line, row in zip(self.lines, self.report.remedies, strict=True)
            if (found := cause_of(line)) is not None and found.id == cause
        ]
        assert all(not row.command or f"try: {row.command}" in text for row in rows), text
        return [(row.obstacle, row.command) for row in rows]


def seedless(words: str) -> str:
    return re.sub(r" --seed \d+", "", words)


def ran(store: Path, *words: str) -> Ended:
    code, said = dstest("run", *words, "--store", store)
    runs = sorted(path.parent for path in store.glob("*/*/verdict.json"))
    assert len(runs) == 1, (code, said)
    report = load_report(runs[0])
    return Ended(report, seedless(report.command))


def simulated(store: Path, *words: str) -> Ended:
    return ran(store, "--lab", "sim", "--system", "toykv", *SMALL, *words)


@pytest.fixture(scope="module")
def base(once: Once) -> Ended:
    """A run with nothing wrong in it."""

    def make(folder: Path) -> None:
        simulated(folder / "s", *BASE, "-o", "fault_s=4")

    (run,) = (once("remedies", make) / "s").glob("*/2*")
    report = load_report(run)
    return Ended(report, seedless(report.command))


@pytest.fixture(scope="module")
def nodes(base: Ended, tmp_path_factory: pytest.TempPathFactory) -> RunFacts:
    """The same, as if its nodes had been real."""
    copy = tmp_path_factory.mktemp("facts") / "run"
    run = RunDir(Path(shutil.copytree(base.report.path, copy)))
    meta = run.read_meta()
    assert meta is not None
    history, folded = judgement.seal(run, meta)
    canary = base.report.canary
    return on_nodes(judgement._run_facts(run, meta, history, folded, canary))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ended]]:
    """What came of a command, which is done once."""
    done: dict[str, Ended] = {}

    def execute(command: str) -> Ended:
        if command not in done:
            store = tmp_path_factory.mktemp("after")
            words = shlex.split(command)
            assert words[:2] == ["dstest", "run"] and words[words.index("--lab") + 1] == "sim"
            if "--store" in words:  # a disk that is there
                del words[words.index("--store") :]
            seed = [] if "--tier" in words else ["--seed", "5"]
            done[command] = ran(store, *words[2:], *seed)
        return done[command]

    yield execute


def planted(base: Ended, nodes: RunFacts, cause: str, change: Change) -> Ended:
    changed = change(nodes)
    evidence = changed if isinstance(changed, Evidence) else build_evidence(changed)
    verdict = decide(evidence)
    spec, pairs = ASKED.get(cause, ({}, []))
    meta = base.report.meta
    meta = msgspec.structs.replace(
        meta, spec={**meta.spec, **spec}, options_given=[*(meta.options_given or []), *pairs]
    )
    report = msgspec.structs.replace(base.report, verdict=verdict, evidence=evidence, meta=meta)
    return Ended(report, seedless(command_of(meta.spec, meta.options_given)))


def firsts() -> dict[str, Change]:
    """The first planted case of each cause."""
    return dict(reversed(PLANTED))


def told(before: Ended, cause: str) -> str:
    """The command; that it does not make the same run again, unless something has to be done
    first, which is said."""
    assert cause in before.causes, before.lines
    (todo,) = (one.todo for one in CAUSES if one.id == cause)
    commands = []
    for line, command in before.tries(cause):
        others = {row.command for row in before.report.remedies} - {""}
        if seedless(command) == before.asked:
            assert todo in line, (line, command)
        elif not command:
            assert todo == FOLLOWS or todo in line or others, line
        commands.append(command)
    return commands[0]


def gone(cause: str, before: Verdict, after: Ended) -> None:
    """Another verdict or another reason, and never the same cause."""
    now = after.report.verdict
    assert (now.rule, now.reason) != (before.rule, before.reason)
    assert cause not in after.causes, after.lines


@pytest.mark.parametrize(("cause", "change"), PLANTED, ids=[cause for cause, _ in PLANTED])
def test_a_run_that_ends_by_it_is_told_what_to_do(
    cause: str, change: Change, base: Ended, nodes: RunFacts
) -> None:
    before = planted(base, nodes, cause, change)
    command = told(before, cause)
    if cause in BY_PEOPLE:
        assert not command and (before.report.verdict.rule != "V12b" or cause == "one-way")
    elif command.startswith("dstest run "):
        RUN_COMMAND.make_context("run", shlex.split(command)[2:])


LOW = ("--workload", "register", "--nemesis", "none")

REAL: dict[str, tuple[set[str], tuple[str, ...]]] = {
    "short fault": ({"idle-window"}, (*BASE, "-o", "fault_s=0.2")),
    "low rate": (
        {"idle-window", "tail-thin", "few-of-type", "operations"},
        (*BASE, "--rate", "2"),
    ),
    "few keys": ({"not-read-again"}, (*BASE[:3], "kill", *BASE[4:], "--rate", "6")),
    "three operations": ({"few-operations"}, (*LOW, "--rate", "0.1", "--time-limit", "25")),
    "empty seconds": ({"unanswered"}, (*LOW, "--rate", "2", "--time-limit", "60")),
    "left out": ({"left-out"}, (*LOW, "--rate", "40", "--time-limit", "22", "-o", "without=read")),
    "writes alone": (
        {"none-good"},
        ("--workload", "queue", "--nemesis", "none", "--rate", "40", "--time-limit", "22",
         "-o", "write_ratio=1"),
    ),
    "keys once": (
        {"keys-unused"},
        ("--workload", "ledger", "--nemesis", "none", "--rate", "40", "--time-limit", "22",
         "-o", "resend_ratio=0"),
    ),
    "no level": (
        {"undecided"}, (*LOW, "--rate", "40", "--time-limit", "22", "--checker", "slo")
    ),
    "fifteen seconds": ({"budget"}, (*LOW, "--rate", "40", "--time-limit", "15")),
    "no fault": ({"no-fault"}, (*LOW, "--rate", "40", "--time-limit", "22")),
}  # fmt: skip
"""What a user asks for, and the causes by which it ends short of a pass, or of more than smoke."""


MADE = {"stopped", "disk-full", "not-rerun"}.union(*(causes for causes, _ in REAL.values()))
"""Causes of which a run is really made."""

EXECUTED = sorted(firsts().keys() - BY_PEOPLE.keys() - ELSEWHERE.keys() - TELLS - MADE)


@pytest.mark.parametrize("cause", EXECUTED)
def test_with_that_done_it_ends_otherwise(
    cause: str,
    base: Ended,
    nodes: RunFacts,
    executed: Callable[[str], Ended],
    tmp_path: Path,
) -> None:
    before = planted(base, nodes, cause, firsts()[cause])
    command = told(before, cause)
    if not command:  # of another line, or of what is said under it
        command = next(row.command for row in before.report.remedies if row.command)
    if command.startswith("dstest recover "):  # of the run in which it is not planted
        copy = Path(shutil.copytree(base.report.path, tmp_path / Path(base.report.path).name))
        code, text = dstest("recover", copy)
        assert code == 0, text
        gone(cause, before.report.verdict, Ended(load_report(copy), base.asked))
    elif not command.startswith("dstest replay "):
        gone(cause, before.report.verdict, executed(command))


@pytest.mark.parametrize("cause", sorted(TELLS))
def test_what_a_finding_is_about_is_told(cause: str, base: Ended, nodes: RunFacts) -> None:
    command = told(planted(base, nodes, cause, firsts()[cause]), cause)
    code, text = dstest(*shlex.split(command)[1:])
    assert code in (0, 3) and len(text.splitlines()) > 3, text


@pytest.mark.parametrize("name", REAL)
def test_what_a_user_asks_for_ends_otherwise_by_the_remedy(
    name: str, executed: Callable[[str], Ended], tmp_path: Path
) -> None:
    causes, words = REAL[name]
    before = simulated(tmp_path, *words)
    assert causes <= before.causes, before.lines
    commands = {cause: told(before, cause) for cause in causes}
    assert len({*commands.values()}) == 1, commands
    for cause, command in commands.items():
        assert seedless(command) != before.asked
        gone(cause, before.report.verdict, executed(command))


def test_a_run_that_was_interrupted_is_run_to_its_end(
    executed: Callable[[str], Ended], base: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: SimulatedLoad, now_ns: int | None = None) -> None:
        if next(looks, None) is None:
            signal.raise_signal(signal.SIGINT)

    looks = iter(range(5))
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedLoad, "check", check)
        before = simulated(tmp_path, *BASE, "-o", "fault_s=4")
    assert "stopped" in before.causes
    (first, *_) = before.report.remedies
    gone("stopped", before.report.verdict, executed(first.command))


def test_a_full_disk_is_one_to_be_left(
    executed: Callable[[str], Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SegmentWriter.append

    def append(self: Any, event: Any) -> None:
        if "worker" in str(getattr(self, "path", "worker")) and next(left, None) is None:
            raise FULL
        whole(self, event)

    left = iter(range(200))
    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "append", append)
        before = simulated(tmp_path, *BASE, "-o", "fault_s=4")
    command = told(before, "disk-full")
    assert command.endswith(" --store /another/disk")
    gone("disk-full", before.report.verdict, executed(command))


def test_a_violation_is_replayed_and_then_no_replay_is_offered(tmp_path: Path) -> None:
    before = simulated(tmp_path, *LOW, "--time-limit", "20", "--rate", "40",
                       "-o", "bug=stale-follower-read")  # fmt: skip
    assert before.report.verdict.rule == "V04"
    command = told(before, "not-rerun")
    words = shlex.split(command)
    assert words[:2] == ["dstest", "replay"]
    dstest(*words[1:], "--store", tmp_path / "again")
    after = Ended(load_report(Path(before.report.path)), before.asked)
    assert after.report.verdict.rule == "V03"
    gone("not-rerun", before.report.verdict, after)
    assert "dstest replay" not in summary_text(after.report)
    for step in after.report.steps():
        assert seedless(step.command) != before.asked or "seed" in step.asks


def test_each_rule_row_and_lint_has_a_cause_and_each_cause_a_case() -> None:
    """Whoever adds one has to say what is to be done, and to show that it helps."""
    stand_at = {name for cause in CAUSES for name in cause.ids.split()}
    rules = {rule.id for rule in RULES}
    warnings_only = {"H15", "H17"}
    lints = {one.id for one in LINTS} - warnings_only
    # V10 and V12 are those of rows, V08 that of lints.
    assert stand_at | {"V10", "V12", "V08"} >= rules | TITLES.keys() | lints
    assert stand_at <= rules | TITLES.keys() | lints
    cases = firsts().keys()
    assert cases == {cause.id for cause in CAUSES}
    assert len({cause.id for cause in CAUSES}) == len(CAUSES)
    assert BY_PEOPLE.keys() | ELSEWHERE.keys() | TELLS <= cases
    assert all(cause.todo for cause in CAUSES)


def test_each_sentence_of_the_judge_is_in_a_line_that_a_case_has(
    base: Ended, nodes: RunFacts
) -> None:
    lines = {
        line for cause, change in PLANTED for line in planted(base, nodes, cause, change).lines
    }
    found = list(sentences())
    assert {one.text for one in found} >= NOT_SAID
    unseen = [
        one
        for one in found
        if one.text not in NOT_SAID and not any(one.pattern.search(line) for line in lines)
    ]
    assert not unseen, "add a cause to dstest/judge/causes.py and a case to remedy_cases.py"
    assert not [line for line in lines if cause_of(line) is None]
