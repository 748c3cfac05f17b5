"""Whose the files of a service are, also where a wipe or a fault has made directories before."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.remote.agent_groups import prepare
from clusters.supervise import SupervisedDeployment
from clusters.supervise.member_set import spec
from dstest.core.node import Completed
from dstest.core.protocols import Probe, Service


def here(argv: Sequence[str]) -> Completed:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return Completed(status=0, stdout=done.stdout, stderr=done.stderr)


class Node:
    """This host."""

    name = "n1"

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return here(argv)


class Deployment(SupervisedDeployment):
    def services(self, node: Any) -> Sequence[Service]:
        home = self.options["home"]
        return [
            Service(
                name="toy",
                argv=("true",),
                probe=Probe(1),
                user="nobody",
                directories=(f"{home}/made",),
                data=(f"{home}/data",),
                log=f"{home}/log/deep/toy.log",
                files={f"{home}/etc/toy/toy.conf": b"as given"},
            )
        ]

    async def healthy(self) -> dict[str, bool]:
        return {}

    async def version(self) -> str:
        return "1"


def test_all_of_a_service_belongs_to_its_user_after_a_wipe(tmp_path: Path) -> None:
    nodes: Any = [Node()]
    deployment = Deployment(nodes, {"home": str(tmp_path)})
    (tmp_path / "made").mkdir()
    (row,) = json.loads(spec(deployment.members["n1"].services))["services"]
    for _ in range(2):
        asyncio.run(deployment.wipe())
        prepare(tmp_path / "services", row)
    for part in ("made", "data", "log", "log/deep", "etc", "etc/toy", "etc/toy/toy.conf"):
        assert (tmp_path / part).owner() == "nobody", part
    assert tmp_path.stat().st_uid == os.getuid()


def test_a_directory_for_logs_that_is_there_already_stays_whose_it_is(tmp_path: Path) -> None:
    """Such as /var/log, which is the whole node's."""
    nodes: Any = [Node()]
    deployment = Deployment(nodes, {"home": str(tmp_path)})
    (row,) = json.loads(spec(deployment.members["n1"].services))["services"]
    (tmp_path / "log" / "deep").mkdir(parents=True)
    prepare(tmp_path / "services", row)
    assert (tmp_path / "log" / "deep").stat().st_uid == os.getuid()


def test_a_program_is_laid_for_its_user_to_execute(tmp_path: Path) -> None:
    nodes: Any = [Node()]
    deployment = Deployment(nodes, {"home": str(tmp_path)})
    (row,) = json.loads(spec(deployment.members["n1"].services))["services"]
    (tmp_path / "waiting").write_bytes(b"\x7fELF")
    program = tmp_path / "bin" / "toy"
    row["given"] = {str(program): [str(tmp_path / "waiting"), 0o755]}
    prepare(tmp_path / "services", row)
    assert (program.read_bytes(), program.stat().st_mode & 0o777) == (b"\x7fELF", 0o755)
    assert program.owner() == "nobody"
    program.write_bytes(b"another build")  # as an upgrade of a running member would lay
    prepare(tmp_path / "services", row)
    assert program.read_bytes() == b"another build"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user": "nosuch"}, "^toy: there is no user nosuch$"),
        (
            {"prepare": (("sh", "-c", "echo no space >&2; exit 3"),)},
            "exit status 3.; printed: no sp",
        ),
        ({"prepare": (("sh", "-c", "exit 3"),)}, "^toy: its prepare: .*printed: nothing"),
        ({"prepare": (("/nosuch/initdb",),)}, "^toy: its prepare: .*/nosuch/initdb"),
    ],
)
def test_why_a_service_cannot_be_prepared(tmp_path: Path, changes: Any, why: str) -> None:
    tmp_path.chmod(0o755)
    nodes: Any = [Node()]
    (service,) = Deployment(nodes, {"home": str(tmp_path)}).members["n1"].services
    (row,) = json.loads(spec([msgspec.structs.replace(service, **changes)]))["services"]
    with pytest.raises(OSError, match=why):
        prepare(tmp_path / "home", row)
