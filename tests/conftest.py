"""What all tests share: corpora of histories, that a busy host fails no test, what is made
once for all of them, keys to sign with."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from made_once import Once
from places import OUTER, OUTER_ASKED
from side_by_side import LABS, InLabs

# How fast examples come says something of the host, nothing of the code.
settings.register_profile("any-host", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-host")

# Twelve thousand tests are a large heap: looking through it took a fifth of the time.
gc.set_threshold(100_000, 50, 100)

# `CliRunner().invoke(app, ..)` makes all commands anew: 0.07 s, longer than most of them take.
typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-corpora",
        action="store_true",
        help="fail where the histories of other projects are absent (DSTEST_CORPORA)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--require-corpora") and OUTER is None:
        raise pytest.UsageError(
            f"--require-corpora: no corpora of other projects at {OUTER_ASKED}; set DSTEST_CORPORA"
        )


def pytest_report_header() -> str:
    if OUTER is None:
        return f"corpora: our own; those of other projects are absent ({OUTER_ASKED})"
    return f"corpora: our own, and those of other projects at {OUTER}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if OUTER is None:
        items[:] = [item for item in items if item.get_closest_marker("outer_corpora") is None]
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("sampled")) is not None:
            groups.setdefault((item.nodeid.partition("[")[0], mark.args[0]), []).append(item)
    for (_, wanted), cases in groups.items():
        kept = {i * len(cases) // wanted for i in range(wanted)}
        for i, case in enumerate(cases):
            if i not in kept:
                case.add_marker(pytest.mark.long)
    items.sort(key=lambda item: not item.nodeid.startswith(LABS))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> InLabs | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return InLabs(config, log)


@pytest.fixture(scope="module", autouse=True)
def own_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs that fail are remembered in a book of their module, and not in that of whoever tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSTEST_KB", str(tmp_path_factory.getbasetemp() / f"{uuid.uuid4()}.sqlite"))
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    shared.mkdir(exist_ok=True)
    return Once(shared)


@pytest.fixture(scope="session")
def honest_store(once: Once) -> Path:
    """What a gate has to let through, to be read: `gate_store.honest`."""
    from gate_store import honest

    return once("honest", lambda folder: honest(folder / "store")) / "store"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two keys of ssh-keygen, and the allowed signers with the first of them."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here")
    home = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(home / name)]
        subprocess.run(words, check=True)
    kind, public, _ = (home / "ours.pub").read_text().split()
    (home / "allowed").write_text(f"lab@example {kind} {public}\n")
    return home
