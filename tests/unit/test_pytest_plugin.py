"""The plugin of pytest, with runs that were recorded in place of those that need a lab."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from faked_runs import MARKED, PLUGIN, Runs, comes_with, ended, shown_of
from gate_store import run_at, session_at

from dstest.core import processes
from dstest.core.check import CheckResult
from dstest.core.history import Header
from dstest.core.verdict import Verdict
from dstest.notebook import History
from dstest.runner.session_file import SessionDir
from dstest.testing import checks, keeper, lab, run
from dstest.testing.run import MarkerArgs, words_of

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return shown_of(run_at(tmp_path_factory.mktemp("plugin"), 1).path, 0)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return shown_of(run_at(tmp_path_factory.mktemp("plugin"), 4, bug=True).path, 1)


@pytest.fixture
def comes_to(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return comes_with(pytester, monkeypatch)


def test_a_violation_fails_the_test_and_its_body_is_not_run(
    pytester: pytest.Pytester, comes_to: Runs, failed: dict[str, Any]
) -> None:
    comes_to(failed, 1)
    done = ended(pytester, MARKED % ("", "", "raise SystemError('the body was run')"))
    done.assert_outcomes(failed=1)
    text = done.stdout.str()
    assert "dstest: FAIL (not re-run yet): " in text and "the body was run" not in text
    assert "nondeterministic" not in text
    assert "returned an old value after a newer one had been confirmed" in text
    assert f"report: {failed['run']}/report.html" in text
    assert "again: dstest run --system" in text
    for label, verb in (
        *(("why", "explain"), ("next", "confirm"), ("does it come again", "replay")),
        *(("whose fault is it", "blame"), ("what does it take", "shrink")),
    ):
        assert f"{label}: dstest {verb} {failed['run']}" in text


def test_an_id_that_no_lab_has_is_an_error(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    done = ended(pytester, MARKED % (", lab_id='nolab'", "", "pass"))
    done.assert_outcomes(errors=1)
    assert "no lab with the id 'nolab' is up: there are there" in done.stdout.str()
    assert not words
    ended(pytester, MARKED % (", lab_id='there'", "", "pass")).assert_outcomes(passed=1)


def test_a_pass_is_one_and_the_run_can_be_looked_at(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    body = (
        "assert dstest_run.state == 'PASS-smoke' and not dstest_run.violations; "
        "assert [f.landed for f in dstest_run.faults] == ['yes']; "
        "assert len(dstest_run.history.ops) == 700; "
        "assert dstest_run.verdict.rule == 'V12b' and dstest_run.path.is_dir()"
    )
    ended(pytester, MARKED % ("", "dstest_run", body)).assert_outcomes(passed=1)
    (asked,) = words
    text = " ".join(asked)
    assert text.startswith("run --json --store ") and "--lab-id there" in text
    assert text.endswith(
        "--system toykv --workload register --nemesis partition --time-limit 30 --nodes 5 --seed 1 "
        "-o shape=one -o clients=true"
    )


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        (", expect='fail'", "passed"),
        (", expect='FAIL-nondeterministic', anomalies=['nonlinearizable']", "passed"),
        (", expect='fail', anomalies=['lost']", "failed"),
        (", expect='FAIL-reproducible'", "failed"),
        (", expect='inconclusive'", "failed"),
    ],
)
def test_a_violation_may_be_what_is_expected(
    more: str, outcome: str, pytester: pytest.Pytester, comes_to: Runs, failed: dict[str, Any]
) -> None:
    comes_to(failed, 1)
    body = "assert {a.type for a in dstest_run.violations} == {'nonlinearizable'}"
    ended(pytester, MARKED % (more, "dstest_run", body)).assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize(
    ("state", "more", "outcome"),
    [
        ("INCONCLUSIVE-env", "", "failed"),
        ("INCONCLUSIVE-fault-not-proven", "", "failed"),
        ("INCONCLUSIVE-fault-not-proven", ", expect='inconclusive'", "passed"),
        ("INCONCLUSIVE-fault-not-proven", ", expect='partial'", "failed"),
        ("PARTIAL-model", "", "failed"),
        ("NOT-RUN", "", "failed"),
        ("NOT-RUN", ", expect='NOT-RUN'", "passed"),
    ],
)
def test_what_proves_nothing_fails_unless_expected(
    state: str, more: str, outcome: str, pytester: pytest.Pytester, comes_to: Runs,
    passed: dict[str, Any],
) -> None:  # fmt: skip
    verdict = {**passed["verdict"], "verdict": state}
    comes_to({**passed, "exit": 3, "verdict": verdict}, 3)
    ended(pytester, MARKED % (more, "", "pass")).assert_outcomes(**{outcome: 1})


def test_a_pass_that_is_worth_less_than_asked_fails(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    comes_to(passed, 0)
    done = ended(pytester, MARKED % (", tier='hardening'", "", "pass"))
    done.assert_outcomes(failed=1)
    assert "it met the tier smoke, and hardening was asked for" in done.stdout.str()


def test_a_pass_that_ended_early_fails(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    comes_to({**passed, "exit": 3, "ended_by": "the disk is full"}, 3)
    done = ended(pytester, MARKED % ("", "", "pass"))
    done.assert_outcomes(failed=1)
    assert "the disk is full" in done.stdout.str()


@pytest.mark.parametrize(("code", "lacks"), [(2, True), (4, True), (4, False), (130, False)])
def test_without_a_verdict_there_is_an_error(
    code: int, lacks: bool, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    shown = {**passed, "exit": code, "verdict": None if lacks else passed["verdict"]}
    comes_to(shown, code)
    done = ended(pytester, MARKED % (", expect='fail'", "", "pass"))
    done.assert_outcomes(errors=1)
    assert "dstest: said on stderr" in done.stdout.str()


def test_a_session(pytester: pytest.Pytester, comes_to: Runs, tmp_path: Path) -> None:
    path = session_at(tmp_path, [7, 8])
    verdict = SessionDir.open(path).read().verdict
    shown = {"session": str(path), "exit": 0, "ended_by": None, "verdict": verdict}
    words = comes_to(shown, 0)
    body = "assert len(dstest_run.runs) == 2 and len(dstest_run.faults) == 2"
    more = ", seeds=2"
    ended(pytester, MARKED % (more, "dstest_run", body)).assert_outcomes(passed=1)
    assert "--seeds 2" in " ".join(words[0])
    comes_to({**shown, "exit": 3}, 3)
    ended(pytester, MARKED % (more, "", "pass")).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("'etcd'", "by name"),
        ("sytem='etcd'", "sytem is no argument"),
        ("expect='green'", "expect='green'"),
        ("anomalies=['lost']", "anomalies are for expect='fail'"),
        ("nodes='three'", "nodes='three': it takes a number above 0"),
        ("nodes=[3, 0]", "nodes=[3, 0]: it takes"),
        ("nodes=[]", "nodes=[]: it takes"),
        ("nodes=2.5", "nodes=2.5: it takes"),
        ("seed=[]", "seed=[]: it takes"),
        ("seed={}", "seed={}: it takes"),
        ("rate=float('nan')", "rate=nan: it takes a number"),
        ("options='shape=one'", "options='shape=one': it takes a dict"),
        ("options={3: 4}", "options={3: 4}: it takes"),
        ("checkers='set'", "checkers='set': it takes a list"),
        ("plugins=3", "plugins=3: it takes a list"),
        ("system=['etcd']", "system=['etcd']: it takes a text"),
        ("lab_id=''", "lab_id='': it takes a text"),
        ("expect=['fail']", "expect=['fail']: it takes a text"),
        ("anomalies='lost', expect='fail'", "anomalies='lost': it takes a list"),
    ],
)
def test_a_marker_that_cannot_be_meant_is_an_error(
    mark: str, said: str, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    comes_to(passed, 0)
    done = ended(pytester, f"import pytest\n@pytest.mark.dstest({mark})\ndef test_it(): pass\n")
    done.assert_outcomes(errors=1)
    assert said in done.stdout.str()


def test_a_marker_of_one_parameter_is_not_that_of_others(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    body = """
    import pytest

    @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.dstest(seed=2)), 3])
    def test_it(n): pass
    """
    ended(pytester, body).assert_outcomes(passed=3)
    assert [" ".join(asked).endswith("--seed 2") for asked in words] == [True]


def test_the_fixture_without_the_marker_is_an_error(pytester: pytest.Pytester) -> None:
    ended(pytester, "def test_it(dstest_run): pass\n").assert_outcomes(errors=1)


@pytest.mark.parametrize("ini", ["error", "skip"])
def test_a_kind_of_lab_that_does_not_exist_is_an_error(ini: str, pytester: pytest.Pytester) -> None:
    """It is misspelt, which says nothing of this machine."""
    pytester.makeini(f"[pytest]\ndstest_lab = nonesuch\ndstest_without_lab = {ini}\n")
    done = ended(pytester, MARKED % ("", "", "pass"), "-rs")
    done.assert_outcomes(errors=1)
    text = done.stdout.str()
    assert "no lab for dstest (exit 2)" in text and "nonesuch" in text and "remedy" in text


KEEPER = """
import sys
from dstest.testing import keeper
keeper.DSTEST = (sys.executable, sys.argv.pop(1))
sys.exit(keeper.main())
"""
FAKE = """
import sys
from pathlib import Path
with Path({log!r}).open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
sys.exit({code} if sys.argv[2] == "up" else 0)
"""


@pytest.mark.parametrize(
    ("ini", "code", "outcome"),
    [
        ("skip", 1, "errors"),
        ("skip", 2, "errors"),
        ("skip", 3, "errors"),
        ("skip", 130, "errors"),
        ("skip", 4, "skipped"),
        ("error", 4, "errors"),
    ],
)
def test_only_a_machine_that_can_have_no_lab_skips(
    ini: str, code: int, outcome: str, pytester: pytest.Pytester, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(tmp_path / "log"), code=code))
    monkeypatch.setattr(lab, "KEEPER", (sys.executable, "-c", KEEPER, str(fake)))
    pytester.makeini(f"[pytest]\ndstest_without_lab = {ini}\n")
    done = ended(pytester, MARKED % ("", "", "pass"), "-rs")
    done.assert_outcomes(**{outcome: 1})
    assert f"no lab for dstest (exit {code})" in done.stdout.str()


@pytest.mark.parametrize("code", [0, 4])
def test_a_lab_goes_when_its_holder_does(code: int, tmp_path: Path) -> None:
    log, fake = tmp_path / "log", tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), code=code))
    words = [sys.executable, "-c", KEEPER, str(fake), "mine", "--nodes", "3"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline().strip() == (keeper.UP if code == 0 else "")
        if code == 0:
            assert log.read_text() == "lab up --lab-id mine --nodes 3\n"
            process.terminate()  # a signal does not end it, the end of its holder does
        process.stdin.close()
        assert process.wait(30) == code
    up, down = log.read_text().splitlines()
    assert up == "lab up --lab-id mine --nodes 3" and down == "lab down --lab-id mine --force"


def test_words_of_a_marker() -> None:
    given = {"nodes": [3, 5], "system_version": ["a.deb", "b.deb"], "checkers": ["set"]}
    text = " ".join(words_of(MarkerArgs(given)))
    assert text == "--nodes 3,5 --system-version a.deb --system-version b.deb --checker set"
    assert MarkerArgs(given | {"nodes": "3,7"}).nodes == 7
    assert MarkerArgs(given).nodes == MarkerArgs({"nodes": (5, "3")}).nodes == 5


def test_a_malformed_marker_is_an_error_of_its_own_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, comes_to: Runs,
    passed: dict[str, Any],
) -> None:  # fmt: skip
    log, fake = tmp_path / "log", tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), code=0))
    comes_to(passed, 0)
    monkeypatch.setattr(lab, "KEEPER", (sys.executable, "-c", KEEPER, str(fake)))
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    body = """
    import pytest

    @pytest.mark.dstest(nodes=[3, 5])
    def test_whole(): pass

    @pytest.mark.dstest(nodes="three")
    def test_nodes(): pass

    @pytest.mark.dstest(sytem=3)
    def test_strange(): pass
    """
    ended(pytester, body).assert_outcomes(passed=1, errors=2)
    assert log.read_text().startswith("lab up --lab-id pytest-")
    assert "--nodes 5\n" in log.read_text()


def test_options_of_a_check_are_written_as_those_of_a_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"wfr-keys": True, "decide": False, "permits": 3, "anomalies": "G0,G1a"}
    asked: list[list[str]] = []

    def fake(path: Path, words: Sequence[str], cwd: Path) -> CheckResult:
        asked.append(list(words))
        return CheckResult(valid=True, checker="x")

    monkeypatch.setattr(checks, "check_answer", fake)
    monkeypatch.setattr(processes, "check_answer", fake)
    checks.Checks(tmp_path, tmp_path)("h.jsonl", options=given)
    History.of(Header(), []).check(options=given)
    pairs = ["wfr-keys=true", "decide=false", "permits=3", "anomalies=G0,G1a"]
    said = [word for pair in pairs for word in ("-o", pair)]
    assert asked == [said, said] and words_of(MarkerArgs({"options": given})) == said


def test_a_project_without_it_is_not_disturbed(pytester: pytest.Pytester) -> None:
    """Nothing of ours is imported but the files that pytest asks for."""
    pytester.makepyfile(
        """
        import sys

        def test_it():
            ours = {n for n in sys.modules if n.split(".")[0] in ("dstest", "checkers", "msgspec")}
            allowed = {"dstest", "dstest.testing", "dstest.testing.plugin"}
            assert ours <= allowed, ours
            assert not {"numpy", "typer", "asyncio"} & {*sys.modules}
        """
    )
    done = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)


def test_the_verdict_is_that_of_the_judge(passed: dict[str, Any]) -> None:
    found = run.Run(passed, MarkerArgs({}))
    assert isinstance(found.verdict, Verdict) and found.problem == ""
