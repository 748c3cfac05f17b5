"""After a failure every output says what to do next, where it lies, and how many there are."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from failing_runs import FAMILIES, failing, passing

from dstest.campaign.shrink.reproducer import lines_of
from dstest.cli.check_text import text_of
from dstest.core.check import Anomaly, CheckResult, Spread
from dstest.core.evidence import BlameProbe, Rerun
from dstest.core.reproducer import Reproducer, Size
from dstest.core.words import sentences
from dstest.history.layout import RunDir
from dstest.judge.blame import PROBES, PROBES_FILE, aside_of
from dstest.report.findings import render_findings
from dstest.report.html import render_html
from dstest.report.model import RunReport, load_report
from dstest.report.remedies import after_failure
from dstest.report.terminal import brief_text, summary_text
from dstest.report.write import render_junit
from dstest.runner.integrity import verify_run
from dstest.store.export.formats import render_junit as suite
from dstest.store.export.formats import render_summary
from dstest.store.export.gather import gather
from dstest.store.export.sarif import render_sarif

pytestmark = pytest.mark.slow

RUN_ON = re.compile(r"[a-z0-9)] (?:It shows at|Both held it|First acknowledged|Acknowledged at)")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return failing(tmp_path_factory.mktemp("store") / "a run", "lock")


@pytest.fixture(scope="module")
def report(run: RunDir) -> RunReport:
    return load_report(run.path)


def commands(path: Path) -> list[str]:
    quoted = shlex.quote(str(path))
    return [
        f"dstest replay {quoted} --times 3",
        f"dstest blame {quoted}",
        f"dstest shrink {quoted}",
    ]


def test_the_terminal_names_what_to_do_next_with_the_real_path(
    run: RunDir, report: RunReport
) -> None:
    text = summary_text(report)
    for command in commands(run.path):
        assert text.count(command) == 1
    assert "generator swap" in text.partition("what next")[2]


def test_findings_name_it_and_so_does_the_page(run: RunDir, report: RunReport) -> None:
    action = next(
        line for line in render_findings(report).splitlines() if line.startswith("- Next action")
    ).replace("\\", "")
    page = render_html(report).replace("&#39;", "'")
    for command in commands(run.path):
        assert command in action
        assert page.count(f"<code>{command}</code>") == 1


def test_the_file_for_ci_servers_names_it_without_a_place(run: RunDir, report: RunReport) -> None:
    text = render_junit(report)
    assert "dstest blame RUN" in text and "dstest replay RUN" in text
    assert str(run.path) not in text


def test_formats_of_many_runs_name_it(run: RunDir) -> None:
    found = gather([run.path])
    for text in (render_summary(found), suite(found)):
        for command in commands(run.path):
            assert command in text.replace("&apos;", "'").replace("&#x27;", "'")


def test_a_pass_names_none_of_them(tmp_path: Path) -> None:
    report = load_report(passing(tmp_path / "run").path)
    assert not report.steps()
    for text in (summary_text(report), render_findings(report), render_junit(report)):
        assert "dstest blame" not in text and "dstest shrink" not in text


def test_whose_fault_it_is_is_not_asked_where_it_is_known(report: RunReport) -> None:
    probes = {name: BlameProbe(fired=False, said="no") for name in PROBES}
    assert [step.command.split()[1] for step in report.steps(probes)] == ["replay", "shrink"]
    assert after_failure({}, "run") == []


def test_a_copy_elsewhere_is_as_good_as_the_original(run: RunDir, tmp_path: Path) -> None:
    """The place of the original is in its findings, quoted for a shell."""
    copy = tmp_path / "copied"
    shutil.copytree(run.path, copy)
    assert verify_run(RunDir(copy)).exit_code == 1


def test_the_table_of_probes_says_how_those_that_were_not_run_are(report: RunReport) -> None:
    rows = [row for row in render_findings(report).splitlines() if row.startswith("| generator")]
    assert len(rows) == 1 and "dstest blame" in rows[0].replace("\\", "")


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_the_terminal_says_where_it_lies_among_the_faults(kind: str, tmp_path: Path) -> None:
    text = summary_text(load_report(failing(tmp_path / "run", kind).path))
    assert re.search(
        r"inside\s+fault\s+window|outside\s+every\s+fault|while\s+its\s+effects\s+may", text
    )


def many(report: RunReport, witnesses: int, counted: int) -> RunReport:
    """The report with so many anomalies of one kind."""
    import msgspec

    (name, result), *_ = report.results.items()
    (kind, (first, *_)), *_ = result.anomalies.items()
    spreads = {kind: Spread(count=counted)}
    result = msgspec.structs.replace(
        result, anomalies={kind: [first] * witnesses}, spreads=spreads, stats={}
    )
    return msgspec.structs.replace(report, results={name: result})


def test_the_terminal_says_how_many_there_are(report: RunReport) -> None:
    text = " ".join(summary_text(many(report, 16, 227)).split())
    assert "227 of this kind" in text
    assert "13 more with a witness" in text
    few = " ".join(summary_text(many(report, 2, 2)).split())
    assert "2 of this kind" in few and "with a witness" not in few


def result_with(witnesses: int, counted: int) -> CheckResult:
    found = [Anomaly(type="lost", ops=[1], explanation="gone") for _ in range(witnesses)]
    return CheckResult(
        checker="some",
        valid=False,
        anomalies={"lost": found},
        stats={"anomalies": {"lost": counted}},
    )


@pytest.mark.parametrize(
    ("witnesses", "counted", "said"),
    [
        (16, 227, "13 more in --json; counted were 227 in all, 16 of them with a witness"),
        (16, 16, "13 more in --json"),
        (2, 50, "Counted were 50 in all, 2 of them with a witness"),
        (3, 3, None),
    ],
)
def test_a_check_says_how_many_there_are(witnesses: int, counted: int, said: str | None) -> None:
    lines = text_of("history", result_with(witnesses, counted)).splitlines()
    told = [line for line in lines if "--json" in line or "in all" in line]
    assert told == ([] if said is None else [said])


@pytest.mark.parametrize("kind", ["lock", "set-full"])
def test_sentences_for_ci_do_not_run_together(kind: str, tmp_path: Path) -> None:
    found = gather([failing(tmp_path / "run", kind).path])
    for text in (render_summary(found), render_sarif(found, 1), suite(found)):
        assert not RUN_ON.search(text)
    assert RUN_ON.search("read again later It shows at 3 s")


def test_sentences_get_the_full_stop_that_they_lack() -> None:
    assert sentences("one", "two.", "", "three?") == "one. two. three?"


def test_what_was_asked_already_is_not_offered_again(tmp_path: Path) -> None:
    """After `dstest replay` and `dstest blame`, neither of them is."""
    run = failing(tmp_path / "run", "lock")
    evidence = load_report(run.path).evidence
    again = msgspec.structs.replace(evidence, rerun=Rerun(same_seed_runs=2, reproduced=2))
    report = msgspec.structs.replace(load_report(run.path), evidence=again)
    assert [step.command.split()[1] for step in report.steps()] == ["blame", "shrink"]
    none = msgspec.structs.replace(evidence, rerun=Rerun(same_seed_runs=2, reproduced=0))
    steps = msgspec.structs.replace(report, evidence=none).steps()
    assert [step.command.split()[1] for step in steps] == ["blame", "run"]
    assert "--seed" not in steps[-1].command
    aside_of(run.path).mkdir()
    (aside_of(run.path) / PROBES_FILE).write_text("{}")
    assert [step.command.split()[1] for step in report.steps(asked=True)] == ["shrink"]
    assert "dstest blame" not in summary_text(report)
    probes = {name: BlameProbe(fired=False, said="no") for name in PROBES}
    assert "blame       SUT" in summary_text(report, more=probes)
    assert "pending" not in summary_text(report, more=probes)


@pytest.mark.parametrize("kept", [[], ["partition"]])
def test_a_reduction_without_the_fault_may_be_of_another_bug(kept: list[str]) -> None:
    def size(kinds: list[str]) -> Size:
        return Size(
            events=len(kinds), kinds=kinds, time_limit_s=9, nodes=3, clients=3, rate=None,
            op_types=["read"],
        )  # fmt: skip

    found = SimpleNamespace(
        before=size(["partition"]), after=size(kept), history_ops=(9, 3), fingerprint="a/b/c/d",
        rate_before=None, rate_after=SimpleNamespace(said="2 of 2", came=2), runs=4, stopped="",
    )  # fmt: skip
    text = "\n".join(lines_of(cast(Reproducer, found), Path("x")))
    assert ("does not say that it is the same bug" in text) == (not kept)


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_the_first_look_is_short(kind: str, tmp_path: Path) -> None:
    report = load_report(failing(tmp_path / "run", kind).path)
    text = brief_text(report)
    assert len(text.splitlines()) <= 16, text
    assert "why         dstest explain " in text and "next        dstest confirm " in text
    assert "/report.html" in text
    assert "landed yes" not in text and "landed yes" in summary_text(report)


def test_the_first_look_says_that_replays_showed_nothing(report: RunReport) -> None:
    import msgspec

    rerun = Rerun(same_seed_runs=2, reproduced=0)
    evidence = msgspec.structs.replace(report.evidence, rerun=rerun)
    verdict = msgspec.structs.replace(
        report.verdict, reason="none of 2 re-runs showed it again", evidence=evidence
    )
    text = brief_text(msgspec.structs.replace(report, evidence=evidence, verdict=verdict))
    assert "none of 2 re-runs showed it again" in text and "not re-run yet" not in text
    assert "next        dstest confirm " in text


@pytest.mark.parametrize("again", [0, 2])
def test_what_nobody_ran_again_is_called_neither_reproducible_nor_not(
    again: int, report: RunReport
) -> None:
    import msgspec

    rerun = Rerun(same_seed_runs=again, reproduced=0)
    evidence = msgspec.structs.replace(report.evidence, rerun=rerun)
    verdict = msgspec.structs.replace(report.verdict, evidence=evidence)
    made = msgspec.structs.replace(report, evidence=evidence, verdict=verdict)
    said = "FAIL-nondeterministic" if again else "FAIL (not re-run yet)"
    for text in (brief_text(made), summary_text(made)):
        assert text.splitlines()[1] == said
        assert ("nondeterministic" in text) == bool(again)


def test_the_first_look_shows_the_fault_that_did_not_land(report: RunReport) -> None:
    import msgspec

    one, *others = report.faults
    odd = msgspec.structs.replace(one, landed="ambiguous")
    text = brief_text(msgspec.structs.replace(report, faults=[odd, *others]))
    assert f"{one.id} {one.nemesis}" in text and "injector: " in text
    assert text.count("injector: ") == 1
