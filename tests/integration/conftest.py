"""One lab of five nodes for all integration tests; skipped, with the reason, where none can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from runs import SHORT, run_here
from selftest_table import Seen, look_at, table
from systems_table import systems_table
from undrawn import pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401

from clusters.labs import image, state
from clusters.labs.image import packages_for, shared_packages
from clusters.labs.lxc import LAB
from dstest.core import registry
from dstest.core.node import LabInfo
from dstest.runner.session import Finished
from nemeses.catalogue import rows

TABLES: dict[str, Callable[[list[Seen], set[str], Path], str]] = {
    "--nemesis-table": lambda seen, tests, page: table(rows(), seen),
    "--systems-table": systems_table,
}
"""Each is given the runs of tests that passed, the node ids of all that were run, and its path."""

FAILED: pytest.StashKey[bool] = pytest.StashKey()
RUNS = "runs"
"""What tests hand over to whoever writes the tables: it may be another process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nemesis-table", help="write what was shown of each fault to this file")
    parser.addoption("--systems-table", help="write what was shown on each system to this file")


def pytest_configure(config: pytest.Config) -> None:
    wanted = {name: path for name in TABLES if (path := config.getoption(name, None))}
    if wanted and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tables({n: Path(p) for n, p in wanted.items()}))


class Tables:
    """Collects what the runs of passed tests recorded, and writes the tables that are wanted."""

    def __init__(self, wanted: dict[str, Path]) -> None:
        self.wanted = wanted
        self.seen: list[Seen] = []
        self.tests: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.skipped:
            self.tests.add(report.nodeid)
        if report.when == "teardown" and report.passed:
            for name, runs in report.user_properties:
                if name == RUNS:
                    self.seen += msgspec.json.decode(str(runs), type=list[Seen])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name, path in self.wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            text = TABLES[name](self.seen, self.tests, path)
            path.write_text(text)
            terminalreporter.write(text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _runs_are_read(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Keeps what the test's runs recorded, where somebody wants the table of faults."""
    yield
    wanted = any(request.config.getoption(name, None) for name in TABLES)
    if wanted and not request.node.stash.get(FAILED, False):
        runs = msgspec.json.encode(look_at(request.node.nodeid, tmp_path)).decode()
        request.node.user_properties.append((RUNS, runs))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Self-tests of single nemeses take an hour together: `make nemesis-selftest` runs them all."""
    for item in items:
        here = item.path.parent == Path(__file__).parent
        single = "test_nemesis_" in item.path.name or item.path.name == "test_systems.py"
        if here and single and not item.get_closest_marker("daily"):
            item.add_marker(pytest.mark.selftest)


@pytest.fixture(scope="session")
def lab_packages() -> tuple[str, ...]:
    """What the nodes have installed; the skip for hosts that cannot make nodes is here."""
    if missing := LAB.missing():
        pytest.skip(f"no lab on this host: it lacks {', '.join(missing)}")
    return shared_packages()


@pytest.fixture(scope="session")
def lab(lab_packages: tuple[str, ...]) -> Iterator[LabInfo]:
    """A running five-node lab, shared by all tests; each test heals what it breaks."""
    lab_id = _free_id()
    LAB.down(lab_id)
    yield LAB.up(lab_id, 5, packages=lab_packages)
    LAB.down(lab_id)


@pytest.fixture(scope="session")
def stale_run(lab: LabInfo, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of etcd that serves stale reads, which a cut follower is bound to show; made once."""
    store = tmp_path_factory.mktemp("stale")
    options = (*SHORT, "reads=serializable", "shape=one")
    return run_here(lab, store, options=options, rate=None, time_limit_s=15.0)


@pytest.fixture(scope="session")
def lab_for(lab_packages: tuple[str, ...]) -> Iterator[Callable[[str], str]]:
    """The id of a five-node lab with the packages of a system; one lab is up at a time."""
    up: dict[tuple[str, ...], str] = {}

    def of(system: str) -> str:
        packages = packages_for([registry.load("systems", system)])
        if packages not in up:
            for lab_id in up.values():
                LAB.down(lab_id)
            up.clear()
            lab_id = f"{_free_id()}-{system}"[:32].rstrip("-")
            LAB.down(lab_id)
            up[packages] = lab_id
            LAB.up(lab_id, 5, packages=packages)
        return up[packages]

    yield of
    for lab_id in up.values():
        LAB.down(lab_id)


def _free_id() -> str:
    """`pytest`, unless another test run that is under way has it or may have it. Tests that run
    side by side have a lab each.

    Bridges of one lab id have one name on the whole host: whoever uses a lab directory of his own
    cannot see the lab of that id in another, and would take it down for a leftover.
    """
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        return f"pytest-{os.getppid()}-{worker}"
    if "DSTEST_LAB_DIR" in os.environ:
        return f"pytest-{os.getpid()}"
    known = state.load("pytest")
    taken = known is not None and any(owner.alive for owner in known.owners)
    return f"pytest-{os.getpid()}" if taken else "pytest"


@pytest.fixture
def own_labs(
    lab_packages: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A lab directory of its own with the shared images: other labs on this host stay unseen."""
    images = image.ensure(lab_packages, lambda _: None).parent
    folder = tmp_path_factory.mktemp("labs")
    (folder / "images").symlink_to(images)
    monkeypatch.setenv("DSTEST_LAB_DIR", str(folder))
    yield
    for lab_id in LAB.list():
        LAB.down(lab_id)
    assert state.lab_ids() == []
