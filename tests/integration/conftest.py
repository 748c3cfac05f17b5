"""One lab of five nodes for all integration tests; skipped, with the reason, where none can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from selftest_table import Seen, look_at, table
from systems_table import systems_table

from clusters.labs import image, state
from clusters.labs.lxc import LAB
from clusters.labs.packages import packages_of_all_systems
from dstest.core.node import LabInfo
from nemeses.catalogue import rows

TABLES: dict[str, Callable[[list[Seen]], str]] = {
    "--nemesis-table": lambda seen: table(rows(), seen),
    "--systems-table": systems_table,
}

SEEN: pytest.StashKey[list[Seen]] = pytest.StashKey()
FAILED: pytest.StashKey[set[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nemesis-table", help="write what was shown of each fault to this file")
    parser.addoption("--systems-table", help="write what was shown on each system to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SEEN] = []
    config.stash[FAILED] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        item.config.stash[FAILED].add(item.nodeid)
    return report


@pytest.fixture(autouse=True)
def _runs_are_read(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Keeps what the test's runs recorded, where somebody wants the table of faults."""
    yield
    if any(request.config.getoption(name, None) for name in TABLES):
        request.config.stash[SEEN] += look_at(request.node.nodeid, tmp_path)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    failed = config.stash[FAILED]
    seen = [s for s in config.stash[SEEN] if s.test not in failed]
    for name, made in TABLES.items():
        path = config.getoption(name, None)
        if path:
            text = made(seen)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
            terminalreporter.write(text)


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
    return packages_of_all_systems()


@pytest.fixture(scope="session")
def lab(lab_packages: tuple[str, ...]) -> Iterator[LabInfo]:
    """A running five-node lab, shared by all tests; each test heals what it breaks."""
    lab_id = _free_id()
    LAB.down(lab_id)
    yield LAB.up(lab_id, 5, packages=lab_packages)
    LAB.down(lab_id)


def _free_id() -> str:
    """`pytest`, unless another test run that is under way has it or may have it.

    Bridges of one lab id have one name on the whole host: whoever uses a lab directory of his own
    cannot see the lab of that id in another, and would take it down for a leftover.
    """
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
