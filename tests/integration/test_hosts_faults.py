"""Every fault that fits etcd, on machines that exist already: it lands there, through a jump host
and sudo, and is healed; and after all of them the release finds the machines as they were.

`DSTEST_OTHER_ETCD` names a second build, for mixtures and upgrades.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from existing_machines import Machines
from runs import RATE, dstest, faults_of
from systems_table import elsewhere, lacks

from clusters.labs.existing import book
from dstest.core import registry
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import run_session

pytestmark = [
    pytest.mark.lab,
    pytest.mark.selftest,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.timeout(600),
]

LAB_ID = f"hosted-faults-{os.getpid()}"
OTHER = os.environ.get("DSTEST_OTHER_ETCD", "")

MORE = {
    "credentials": ["auth=true"],
    "mixed-versions": [f"other_build={OTHER}"],
    "upgrade": [f"other_build={OTHER}"],
}
"""Options without which a fault is refused."""

WAYS = [
    ("partition", "direction=in"),
    ("partition", "shape=leader"),
    ("pause", "way=freezer"),
    ("clock", "rate=1.5"),
]
"""Other forms of faults, which have other proofs."""

WINDOW_S = {"rate=1.5": 34}
"""A slope shows in half a minute."""

FIT = [
    name
    for name in registry.names("nemeses")
    if name != "none" and not lacks("etcd", name) and not elsewhere(name, lab="hosts")
]
FITS_AT_LEAST = 30
"""None may drop out unseen."""

TRIED = [(name, "") for name in FIT] + WAYS


def test_none_has_dropped_out() -> None:
    assert len(FIT) >= FITS_AT_LEAST


@pytest.fixture(scope="module")
def adopted(
    tmp_path_factory: pytest.TempPathFactory, lab_packages: tuple[str, ...]
) -> Iterator[str]:
    machines = Machines(tmp_path_factory.mktemp("machines"), lab_packages, f"faults-{os.getpid()}")
    try:
        words = ("--lab-id", LAB_ID, "--yes")
        done = dstest("lab", "adopt", machines.list(), *words, timeout_s=120)
        assert done.returncode == 0, done.stderr
        yield LAB_ID
        released = dstest("lab", "release", "--lab-id", LAB_ID, "--strict", timeout_s=120)
        assert released.returncode == 0, released.stderr
        assert released.stderr.strip() == f"lab {LAB_ID} is released"
    finally:
        book.forget(LAB_ID)
        machines.down()


@pytest.mark.parametrize(("nemesis", "option"), TRIED, ids=["-".join(t).rstrip("-") for t in TRIED])
def test_a_fault_lands_and_heals(adopted: str, tmp_path: Path, nemesis: str, option: str) -> None:
    if nemesis in ("mixed-versions", "upgrade") and not OTHER:
        pytest.skip("DSTEST_OTHER_ETCD names no second build")
    fault_s = WINDOW_S.get(option, 4)
    limit_s = 12.0 + fault_s
    wanted = RunSpec(lab="hosts", nemesis=nemesis, time_limit_s=limit_s, seed=11, rate=RATE)
    more = [*MORE.get(nemesis, []), *([option] if option else [])]
    options = [f"fault_s={fault_s}", "quiet_s=8", *more]
    done = run_session(resolve(wanted, options), store=tmp_path, lab_id=adopted, ui=Quiet())
    assert done.path is not None, done.failure
    (fault,) = faults_of(done.path)
    told = (fault["notes"], fault["injector"], fault["victim"], fault["control"])
    assert fault["landed"] == "yes", told
    assert fault["heal_verified"], fault["notes"]
    assert not fault["residue"]
    left = json.loads((done.path / "run.json").read_text())["residue"]
    assert sorted(left) == [f"n{i + 1}" for i in range(5)]
    assert not any(left.values()), left
