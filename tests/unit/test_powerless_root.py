"""Root in a container that is not privileged: what is said is what helps, and not which kernel to
build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.labs import host
from dstest.core.errors import LabError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="of root alone"),
]
FULL = "000001ffffffffff"
DOCKER = "00000000a80425fb"


@pytest.mark.parametrize(
    ("held", "lacks"),
    [
        (FULL, []),
        (DOCKER, ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
        ("00000000a82425fb", ["CAP_NET_ADMIN"]),
        ("00000000a80435fb", ["CAP_SYS_ADMIN"]),
        ("x", []),
        (None, []),
    ],
)
def test_what_root_lacks(tmp_path: Path, held: str | None, lacks: list[str]) -> None:
    status = tmp_path / "status"
    if held is not None:
        status.write_text(f"Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t{held}\n")
    assert host.powerless(status) == lacks


def test_a_program_that_may_not_says_so_and_any_other_what_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_not = ["sh", "-c", "echo unshare failed: Operation not permitted >&2; exit 1"]
    for lacks, argv, helped in [
        (["CAP_SYS_ADMIN"], may_not, True),
        ([], may_not, False),
        (["CAP_SYS_ADMIN"], ["sh", "-c", "echo no such device >&2; exit 1"], False),
    ]:
        monkeypatch.setattr(host, "powerless", lambda lacks=lacks: lacks)
        with pytest.raises(LabError) as no:
            host.run(argv)
        assert ("--privileged" in str(no.value.remedy)) is helped


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv here")
@pytest.mark.parametrize("words", [["doctor"], ["run", "--time-limit", "30"]])
def test_without_rights(tmp_path: Path, words: list[str]) -> None:
    drop = ["setpriv", "--bounding-set", "-sys_admin,-net_admin", "--inh-caps", "-all"]
    done = subprocess.run(
        [*drop, sys.executable, "-m", "dstest", *words], cwd=tmp_path,
        env={**os.environ, "DSTEST_LAB_DIR": str(tmp_path / "labs")},
        text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 4, said
    assert "run it with --privileged" in said and "--lab sim" in said
    assert "CONFIG_NF_TABLES_INET" not in said and "CONFIG_VETH" not in said
    assert "point DSTEST_LAB_DIR" not in said
