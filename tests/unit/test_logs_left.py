"""Logs that a run whose control node died has left on its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_meta import meta as made_meta
from made_plugins import declaring

from clusters.remote import connection
from dstest.core import registry
from dstest.core.node import Completed, LabInfo, NodeInfo
from dstest.core.protocols import LogFiles, System
from dstest.core.residue import RUN_NOTE
from dstest.core.run_record import RunMeta
from dstest.history.layout import RunDir
from dstest.runner import logs

LOG = b"served\n"


class Left:
    """A node with a log, of the run that has noted itself there."""

    def __init__(self, name: str, note: bytes) -> None:
        self.name, self._note = name, note

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        assert RUN_NOTE in argv[-1]
        return Completed(status=0, stdout=self._note.decode(), stderr="")

    async def call(self, verb: str, **_: Any) -> dict[str, int]:
        return {"size": len(LOG)}

    async def get(self, path: str, **_: Any) -> bytes:
        return LOG

    async def close(self) -> None:
        pass


class Deployed(LogFiles):
    members: dict[str, Any] = {}

    def log_files(self) -> dict[str, list[str]]:
        return {"n1": ["/opt/own/log"]}


@pytest.mark.parametrize("mine", [True, False])
def test_they_are_fetched_where_no_other_run_has_begun_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: bool
) -> None:
    run = RunDir.create(tmp_path, "r", 1)
    meta: RunMeta = made_meta()
    meta.started, meta.pid, meta.lab_id = "2026-01-01T00:00:00Z", 7, "left"
    meta.nodes, meta.logs, meta.members = ["n1"], None, None
    node = Left("n1", logs.note_of(meta) if mine else b"another 8\n")
    info = LabInfo(
        lab_id="left", kind="x", nodes=[NodeInfo(name="n1", address="192.0.2.1")], control="-"
    )
    lab = SimpleNamespace(transport="network", status=lambda lab_id: info)
    system = declaring(
        System,
        members=lambda _, nodes, options: list(nodes),
        deploy=lambda _, nodes, options: Deployed(),
    )

    async def connected(_: LabInfo) -> dict[str, Any]:
        return {"n1": node}

    monkeypatch.setattr(connection, "connect_all", connected)
    monkeypatch.setattr(logs, "alone", lambda info: nullcontext())
    plugins = {"labs": lab, "systems": system}
    monkeypatch.setattr(registry, "load", lambda group, name: plugins[group])
    said = logs.fetch_left(run, meta)
    if not mine:
        assert "another run has begun on n1" in said
        assert meta.logs is None
        return
    assert "1 logs of its servers were fetched" in said
    assert (run.nodes / "n1" / "log").read_bytes() == LOG
    told: Any = (meta.members, meta.log_files)
    assert told == (["n1"], {"n1": ["/opt/own/log"]})
    assert logs.fetch_left(run, meta) == ""
