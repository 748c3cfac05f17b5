"""A marked test without the pass of its run is never green, whatever its project does with it."""

from __future__ import annotations

from typing import Any

import pytest
from faked_runs import MARKED, Runs, comes_with, ended, shown_of
from gate_store import run_at

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

MARK = "pytest.mark.dstest(system='toykv')"
NO_RUN = "marked with dstest, and no run was made"


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return shown_of(run_at(tmp_path_factory.mktemp("guard"), 1).path, 0)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return shown_of(run_at(tmp_path_factory.mktemp("guard"), 4, bug=True).path, 1)


@pytest.fixture
def unproven(passed: dict[str, Any]) -> dict[str, Any]:
    verdict = {**passed["verdict"], "verdict": "INCONCLUSIVE-env"}
    return {**passed, "exit": 3, "verdict": verdict}


@pytest.fixture
def comes_to(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return comes_with(pytester, monkeypatch)


def of_conftest(where: str) -> str:
    return f"""
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker({where})
"""


@pytest.mark.parametrize("bug", [True, False])
def test_a_marker_added_after_collection_executes_its_run(
    bug: bool, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any],
    failed: dict[str, Any],
) -> None:  # fmt: skip
    words = comes_to(failed, 1) if bug else comes_to(passed, 0)
    pytester.makeconftest(of_conftest(MARK))
    done = ended(pytester, "def test_it(): pass\n")
    done.assert_outcomes(**{"failed" if bug else "passed": 1})
    assert [asked[0] for asked in words] == ["run"]


FIXTURE = f"""
@pytest.fixture
def late(request): request.node.add_marker({MARK})
def test_it(late): pass
"""
LATE = {
    "an autouse fixture": (FIXTURE.replace("fixture", "fixture(autouse=True)"), {"errors": 1}),
    "applymarker": (FIXTURE.replace("node.add_marker", "applymarker"), {"errors": 1}),
    "the body": (f"def test_it(request): request.node.add_marker({MARK})", {"failed": 1}),
    "the body of what may fail": (
        f"""
@pytest.mark.xfail
def test_it(request):
    request.node.add_marker({MARK})
    assert False
""",
        {"failed": 1},
    ),
    "a finalizer": (
        FIXTURE.replace("request.node", "\n    yield\n    request.node"),
        {"passed": 1, "errors": 1},
    ),
}


@pytest.mark.parametrize("where", LATE)
def test_a_marker_that_comes_too_late_fails(
    where: str, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    body, outcomes = LATE[where]
    done = ended(pytester, f"import pytest\n{body}")
    done.assert_outcomes(**outcomes)
    assert done.ret == 1 and NO_RUN in done.stdout.str() and words == []


@pytest.mark.parametrize("xfail", ["", "@pytest.mark.xfail\n"])
@pytest.mark.parametrize("bug", [True, False])
def test_the_run_may_be_asked_for_in_the_body(
    bug: bool, xfail: str, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any],
    failed: dict[str, Any],
) -> None:  # fmt: skip
    """The marker and the fixture come only when the body is executed."""
    comes_to(failed, 1) if bug else comes_to(passed, 0)
    body = f"""
import pytest

{xfail}def test_it(request):
    request.node.add_marker({MARK})
    request.getfixturevalue("dstest_run")
"""
    done = ended(pytester, body)
    done.assert_outcomes(**{"failed" if bug else "xpassed" if xfail else "passed": 1})
    assert ("dstest: FAI" in done.stdout.str()) == bug


@pytest.mark.parametrize("bug", [True, False])
def test_a_fixture_may_add_the_marker_and_ask_for_the_run(
    bug: bool, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any],
    failed: dict[str, Any],
) -> None:  # fmt: skip
    comes_to(failed, 1) if bug else comes_to(passed, 0)
    body = f"""
import pytest

@pytest.fixture
def late(request):
    request.applymarker({MARK})
    return request.getfixturevalue("dstest_run")

def test_it(late): pass
"""
    ended(pytester, body).assert_outcomes(**{"failed" if bug else "passed": 1})


@pytest.mark.parametrize("args", [("--reruns", "1"), ("--reruns", "3")])
def test_a_violation_is_not_rerun_away(
    args: tuple[str, ...], pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any],
    failed: dict[str, Any],
) -> None:  # fmt: skip
    words = comes_to(failed, 1, (passed, 0))
    done = ended(pytester, MARKED % ("", "dstest_run", "pass"), *args)
    outcomes = done.parseoutcomes()
    assert outcomes == {"failed": 1, "rerun": int(args[1])}
    assert f"an earlier attempt had a violation: {failed['run']}" in done.stdout.str()
    assert len(words) == 1


def test_what_proves_nothing_may_be_run_again(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any], unproven: dict[str, Any]
) -> None:
    words = comes_to(unproven, 3, (passed, 0))
    done = ended(pytester, MARKED % ("", "", "pass"), "--reruns", "1")
    assert done.parseoutcomes() == {"passed": 1, "rerun": 1} and len(words) == 2


def test_an_expected_violation_is_none_to_remember(
    pytester: pytest.Pytester, comes_to: Runs, failed: dict[str, Any]
) -> None:
    comes_to(failed, 1)
    body = "import sys; sys.tries = getattr(sys, 'tries', 0) + 1; assert sys.tries > 1"
    done = ended(pytester, MARKED % (", expect='fail'", "", body), "--reruns", "1")
    assert done.parseoutcomes() == {"passed": 1, "rerun": 1}


@pytest.mark.parametrize(
    ("what", "more", "outcome"),
    [
        ("failed", "", "failed"),
        ("failed", ", expect='fail', anomalies=['lost']", "failed"),
        ("failed", ", expect='fail'", "xfailed"),
        ("unproven", "", "xfailed"),
        ("passed", "", "xfailed"),
    ],
)
def test_xfail_does_not_swallow_a_violation(
    what: str, more: str, outcome: str, pytester: pytest.Pytester, comes_to: Runs,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    shown = request.getfixturevalue(what)
    comes_to(shown, shown["exit"])
    body = MARKED % (more, "", "assert False")
    done = ended(pytester, body.replace("@pytest", "@pytest.mark.xfail\n@pytest", 1))
    done.assert_outcomes(**{outcome: 1})


def test_a_fixture_does_not_skip_a_violation_away(
    pytester: pytest.Pytester, comes_to: Runs, failed: dict[str, Any]
) -> None:
    comes_to(failed, 1)
    skips = """
@pytest.fixture
def skips(dstest_run):
    if dstest_run.state != "PASS-smoke":
        pytest.skip("not today")
"""
    done = ended(pytester, MARKED % ("", "skips", "pass") + skips)
    assert done.ret == 1 and "dstest: FAI" in done.stdout.str()


@pytest.mark.parametrize(("body", "outcome"), [("pass", "errors"), ("return dstest_run", "passed")])
@pytest.mark.parametrize("xfail", [False, True])
def test_a_fixture_of_the_same_name_is_no_run(
    xfail: bool, body: str, outcome: str, pytester: pytest.Pytester, comes_to: Runs,
    passed: dict[str, Any],
) -> None:  # fmt: skip
    """One that asks for ours is fine."""
    words = comes_to(passed, 0)
    ours = "dstest_run" if "return" in body else ""
    pytester.makeconftest(f"import pytest\n@pytest.fixture\ndef dstest_run({ours}):\n    {body}\n")
    marked = MARKED % ("", "dstest_run", "pass")
    if xfail:
        marked = marked.replace("@pytest", "@pytest.mark.xfail\n@pytest", 1)
    done = ended(pytester, marked)
    done.assert_outcomes(**{"xpassed" if xfail and ours else outcome: 1})
    assert (NO_RUN in done.stdout.str()) == (words == []) == (not ours)


def test_a_test_that_is_skipped_needs_no_run(pytester: pytest.Pytester, comes_to: Runs) -> None:
    words = comes_to({}, 0)
    body = MARKED % ("", "", "pass")
    ended(pytester, body.replace("@pytest", "@pytest.mark.skip\n@pytest", 1)).assert_outcomes(
        skipped=1
    )
    assert words == []


STACKED = {
    "stacked": """
@pytest.mark.dstest(seed=1)
@pytest.mark.dstest(seed=2)
def test_it(): pass
""",
    "inherited": """
@pytest.mark.dstest(seed=1)
class Base: pass

@pytest.mark.dstest(seed=2)
class TestIt(Base):
    def test_it(self): pass
""",
    "of a parameter": """
@pytest.mark.dstest(seed=1)
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.dstest(seed=2))])
def test_it(n): pass
""",
    "of a module": """
pytestmark = [pytest.mark.dstest(seed=1), pytest.mark.dstest(seed=2)]
def test_it(): pass
""",
}


@pytest.mark.parametrize("xfail", [False, True])
@pytest.mark.parametrize("how", STACKED)
def test_several_markers_in_one_place_are_an_error(
    how: str, xfail: bool, pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    body = STACKED[how]
    if xfail:
        pytester.makeconftest(of_conftest("pytest.mark.xfail"))
    done = ended(pytester, f"import pytest\n{body}")
    done.assert_outcomes(errors=1)
    text = done.stdout.str()
    assert "dstest(seed=1)" in text and "dstest(seed=2)" in text and words == []


def test_the_nearest_marker_counts(
    pytester: pytest.Pytester, comes_to: Runs, passed: dict[str, Any]
) -> None:
    words = comes_to(passed, 0)
    body = """
import pytest
pytestmark = pytest.mark.dstest(seed=1)

@pytest.mark.dstest(seed=2)
class TestIt:
    def test_of_class(self): pass

    @pytest.mark.dstest(seed=3)
    def test_own(self): pass

def test_of_module(): pass
"""
    ended(pytester, body).assert_outcomes(passed=3)
    assert [asked[-1] for asked in words] == ["2", "3", "1"]


def test_a_project_of_its_own_markers_is_as_before(
    pytester: pytest.Pytester, comes_to: Runs
) -> None:
    comes_to({}, 0)
    body = """
import pytest

def test_good(): pass
@pytest.mark.xfail
def test_known(): assert False
@pytest.mark.skip
def test_no(): pass
def test_bad(): assert False
"""
    ended(pytester, body).assert_outcomes(passed=1, xfailed=1, skipped=1, failed=1)


@pytest.mark.parametrize(
    ("fixture", "args", "outcomes"),
    [
        ("", (), {"passed": 1}),
        ("", ("--strict-markers",), {"errors": 1}),
        ("dstest_run", (), {"errors": 1}),
    ],
)
def test_without_the_plugin_the_project_has_to_be_strict(
    fixture: str, args: tuple[str, ...], outcomes: dict[str, int], pytester: pytest.Pytester
) -> None:
    """What the page says of `-p no:dstest`: nothing of ours is there to fail the test."""
    pytester.makeini("[pytest]\ndstest_store = store\n")
    pytester.makepyfile(MARKED % ("", fixture, "pass"))
    done = pytester.runpytest_subprocess("-p", "no:dstest", "-p", "no:cacheprovider", *args)
    done.assert_outcomes(errors=outcomes.get("errors", 0), passed=outcomes.get("passed", 0))
    if not fixture and not args:
        assert "PytestUnknownMarkWarning: Unknown pytest.mark.dstest" in done.stdout.str()
