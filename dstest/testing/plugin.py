"""The plugin of pytest: a marker, and fixtures for a lab, a run and a check (docs/pytest.md).

pytest imports this file in every project whose environment has dstest, so it imports nothing of
ours but `guard.py` before somebody uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from dstest.testing import guard

if TYPE_CHECKING:
    from dstest.testing.run import Run

_HELP: Final = (
    "dstest(system=..., workload=..., nemesis=..., time_limit_s=..., nodes=..., seed=..., "
    "options={...}, tier=..., expect='pass'): execute this run of dstest before the test; "
    "it fails unless the run ends as expected (docs/pytest.md)"
)


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
    guard.forget(item)
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker(guard.MARK) and guard.RUN not in names:
        item.fixturenames = [*names, guard.RUN]  # type: ignore[attr-defined]  # shared by parameters
    yield
    guard.settle(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fails the test, before its body, where the run did not end as expected."""
    if guard.concerns(item) and (problem := guard.fails(item)):
        pytest.fail(problem, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The body may have asked for the run, or added the marker; and a failure may be taken back."""
    report = yield
    if guard.concerns(item):
        guard.judge(item, report)
    return report


@pytest.fixture(scope="session")
def dstest_lab(request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of a lab that all marked tests share; it is gone when pytest is, however that ends."""
    from dstest.testing.lab import lab_for

    yield from lab_for(request.config, request.session.items)


@pytest.fixture
def dstest_run(request: pytest.FixtureRequest) -> Run:
    """The run that the marker of this test describes, executed in a process of its own."""
    from dstest.testing.asked import asked_of
    from dstest.testing.run import execute

    mark = guard.mark_of(request.node)
    if mark is None:
        pytest.fail("dstest_run is for tests with @pytest.mark.dstest(...)", pytrace=False)
    run = guard.earlier(request.node)
    if run is None:
        asked = asked_of(mark.args, mark.kwargs)
        if asked.lab_id is not None:
            from dstest.testing.lab import require_up

            require_up(asked.lab_id, request.config)
        lab_id = asked.lab_id or request.getfixturevalue("dstest_lab")
        run = execute(asked, lab_id, request.config)
        guard.keep(request.node, run)
    request.node.user_properties.append(("dstest_run", str(run.path)))
    request.node.user_properties.append(("dstest_verdict", run.state))
    return run


@pytest.fixture
def dstest_check(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[..., Any]:
    """A function that judges a history: `dstest_check(history, workload=..., models=[...])`."""
    from dstest.testing.checks import Checks

    return Checks(request.config.rootpath, tmp_path)
