"""The plugin of pytest: a marker, and fixtures for a lab, a run, and a check of a history that
needs no cluster (docs/pytest.md).

pytest imports this file in every project whose environment has dstest, so it imports nothing of
ours before somebody uses it. Whatever a project does with a marked test, it is no pass without the
run that it asks for: markers come late, fixtures hide others, plugins run a test again or take its
failure back, so what became of the run is asked of what was kept here, in each phase, and last
where pytest reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from dstest.testing.run import Run


MARK: Final = "dstest"
RUN: Final = "dstest_run"
_NO_RUN: Final = (
    "marked with dstest, and no run was made: ask for the fixture dstest_run, which no fixture of "
    "the project may replace, and add the marker before the test is set up"
)

_ATTEMPT: Final[pytest.StashKey[_Attempt]] = pytest.StashKey()
_VIOLATED: Final[pytest.StashKey[dict[str, Run]]] = pytest.StashKey()

_HELP: Final = (
    "dstest(system=..., workload=..., nemesis=..., time_limit_s=..., nodes=..., seed=..., "
    "options={...}, tier=..., expect='pass'): execute this run of dstest before the test; "
    "it fails unless the run ends as expected (docs/pytest.md)"
)


class _Attempt:
    """One time that a test is executed."""

    run: Run | None = None
    again: bool = False
    """Is it that of an earlier attempt?"""
    refused: str = ""
    """What nothing may hide, an expected failure neither."""
    told: bool = False
    """Has a report of it failed?"""
    passed: bool = False
    """Has its body?"""


def _violated(item: pytest.Item) -> dict[str, Run]:
    return item.session.stash.setdefault(_VIOLATED, {})


def _attempt(item: pytest.Item) -> _Attempt:
    if _ATTEMPT not in item.stash:
        item.stash[_ATTEMPT] = _Attempt()
    return item.stash[_ATTEMPT]


def forget(item: pytest.Item) -> None:
    """A new attempt begins. That an earlier one had a violation stays known."""
    if concerns(item):
        item.stash[_ATTEMPT] = _Attempt()


def concerns(item: pytest.Item) -> bool:
    """Is it a test of ours, or was it one?"""
    return item.get_closest_marker(MARK) is not None or _ATTEMPT in item.stash


def _refuse(item: pytest.Item, said: str) -> None:
    """Fails the test; that this failure is expected (xfail) makes no difference."""
    _attempt(item).refused = said
    pytest.fail(said, pytrace=False)


def mark_of(item: pytest.Item) -> pytest.Mark | None:
    """The marker that counts: that of the test, else of its class, else of its module. Fails the
    test where one of these has several, of which all but one would never be executed."""
    found = list(item.iter_markers_with_node(MARK))
    if not found:
        return None
    nearest, mark = found[0]
    beside = [one for node, one in found if node is nearest]
    if len(beside) > 1:
        told = ", ".join(_marker_text(one) for one in beside)
        _refuse(item, f"{nearest.name} has {len(beside)} markers, give it one: {told}")
    return mark


def _marker_text(mark: pytest.Mark) -> str:
    given = [*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())]
    return f"dstest({', '.join(given)})"


def earlier(item: pytest.Item) -> Run | None:
    """The run of an earlier attempt that had a violation: it is the answer, and no other is made.
    A run that finds nothing takes no violation back."""
    run = _violated(item).get(item.nodeid)
    if run is not None:
        _attempt(item).run, _attempt(item).again = run, True
    return run


def keep(item: pytest.Item, run: Run) -> None:
    """The run of this attempt."""
    _attempt(item).run = run
    if run.problem and run.violated:
        _violated(item)[item.nodeid] = run


def fails(item: pytest.Item) -> str:
    """Why the run is no pass of this test; empty where it is one, or has not been made."""
    attempt = _attempt(item)
    if attempt.refused:
        return attempt.refused
    before = _violated(item).get(item.nodeid)
    if before is not None and (attempt.again or before is not attempt.run):
        return f"an earlier attempt had a violation: {before.path}\n{before.problem}"
    return "" if attempt.run is None else attempt.run.problem


def _missing(item: pytest.Item) -> bool:
    return _attempt(item).run is None and item.get_closest_marker(MARK) is not None


def settle(item: pytest.Item) -> None:
    """Fails a test that is set up and has no run."""
    if _missing(item):
        _refuse(item, _NO_RUN)


def judge(item: pytest.Item, report: pytest.TestReport) -> None:
    """The last word about a phase: a report that did not fail is made to, where it has to.

    Without a verdict of the run nothing passes, and nothing that is expected to fail does so. A run
    that proves nothing may be skipped or expected to fail; a violation may not.
    """
    attempt = _attempt(item)
    said = fails(item)
    expected = report.skipped and hasattr(report, "wasxfail")
    over = report.when == "call" or (report.when == "teardown" and attempt.passed)
    attempt.passed = attempt.passed or (report.when == "call" and report.passed)
    if report.failed or attempt.told:
        attempt.told = True
        return
    hard = bool(attempt.refused) or item.nodeid in _violated(item)
    fail = hard and not (report.when == "setup" and report.passed)  # then the body is not executed
    fail = fail or (over and report.passed and bool(said))
    if over and (report.passed or expected) and _missing(item):
        said, fail = said or _NO_RUN, True
    if fail:
        report.outcome = "failed"
        report.longrepr = said
        report.__dict__.pop("wasxfail", None)
        attempt.told = True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("dstest_store", "where run directories go", default="store")
    parser.addini("dstest_lab", "kind of lab: lxc, podman, rootless, ...; default: lxc", default="")
    parser.addini("dstest_lab_id", "a lab that is up, instead of one of our own", default="")
    parser.addini(
        "dstest_without_lab",
        "error, or skip: what becomes of marked tests where no lab can be made",
        default="error",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """A marked test is one of its run, whether it asks for the fixture or not."""
    forget(item)
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker(MARK) and RUN not in names:
        item.fixturenames = [*names, RUN]  # type: ignore[attr-defined]  # shared by parameters
    yield
    settle(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fails the test, before its body, where the run did not end as expected."""
    if concerns(item) and (problem := fails(item)):
        pytest.fail(problem, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The body may have asked for the run, or added the marker; and a failure may be taken back."""
    report = yield
    if concerns(item):
        judge(item, report)
    return report


@pytest.fixture(scope="session")
def dstest_lab(request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of a lab that all marked tests share; it is gone when pytest is, however that ends."""
    from dstest.testing.lab import lab_for

    yield from lab_for(request.config, request.session.items)


@pytest.fixture
def dstest_run(request: pytest.FixtureRequest) -> Run:
    """The run that the marker of this test describes, executed in a process of its own."""
    from dstest.testing.run import execute, marker_args, simulated_kind

    mark = mark_of(request.node)
    if mark is None:
        pytest.fail("dstest_run is for tests with @pytest.mark.dstest(...)", pytrace=False)
    run = earlier(request.node)
    if run is None:
        asked = marker_args(mark.args, mark.kwargs)
        if asked.lab_id is not None:
            from dstest.testing.lab import require_up

            require_up(asked.lab_id, request.config)
        if (kind := simulated_kind(asked, request.config)) is not None:
            where = ["--lab", kind]
        else:
            where = ["--lab-id", asked.lab_id or request.getfixturevalue("dstest_lab")]
        run = execute(asked, where, request.config)
        keep(request.node, run)
    request.node.user_properties.append(("dstest_run", str(run.path)))
    request.node.user_properties.append(("dstest_verdict", run.state))
    return run


@pytest.fixture
def dstest_check(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[..., Any]:
    """A function that judges a history: `dstest_check(history, workload=..., models=[...])`."""
    from dstest.testing.checks import Checks

    return Checks(request.config.rootpath, tmp_path)
