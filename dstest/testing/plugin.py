"""The plugin of pytest: a marker, and fixtures for a lab, a run and a check (docs/pytest.md).

pytest imports this file in every project whose environment has dstest, so it imports nothing of
ours before somebody uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from dstest.testing.run import Run

__all__ = ["dstest_check", "dstest_lab", "dstest_run"]

_MARK: Final = "dstest"
_RUN: Final = "dstest_run"
_KEY: Final[pytest.StashKey[Any]] = pytest.StashKey()
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


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test is one of its run, whether it asks for the fixture or not."""
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker(_MARK) is not None and _RUN not in names:
        item.fixturenames = [*names, _RUN]  # type: ignore[attr-defined]  # shared by parameters


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fails the test, before its body, where the run did not end as expected."""
    problem = item.stash.get(_KEY, None)
    if problem:
        pytest.fail(problem, pytrace=False)


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

    mark = request.node.get_closest_marker(_MARK)
    if mark is None:
        pytest.fail("dstest_run is for tests with @pytest.mark.dstest(...)", pytrace=False)
    asked = asked_of(mark.args, mark.kwargs)
    lab_id = asked.lab_id or request.getfixturevalue("dstest_lab")
    run = execute(asked, lab_id, request.config)
    request.node.stash[_KEY] = run.problem
    request.node.user_properties.append(("dstest_run", str(run.path)))
    request.node.user_properties.append(("dstest_verdict", run.state))
    return run


@pytest.fixture
def dstest_check(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[..., Any]:
    """A function that judges a history: `dstest_check(history, workload=..., models=[...])`."""
    from dstest.testing.checks import Checks

    return Checks(request.config.rootpath, tmp_path)
