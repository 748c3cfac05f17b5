"""A run begins on clean nodes, or says so; its own leases take everything away when it dies."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest

from clusters.remote import agent_lease
from dstest.core import registry
from dstest.core.errors import LabError
from dstest.core.node import Completed
from dstest.core.residue import Leftover, Residue, leftovers_of
from dstest.runner import adoption
from dstest.runner.adoption import RUN, SERVE, Guard
from nemeses.base.process_fault import ProcessFault

TABLE = Residue(name="table", mark="its name", look="look table", remove="remove table", rank=20)
FILES = Residue(
    name="files", mark="its place", look="look files", remove="remove files", rank=90, routine=True
)
SERVER = Residue(
    name="server", mark="its pid", look="look server", remove="remove server", janitor=False,
    kept=True,
)  # fmt: skip


class Planted:
    """A node on which things lie; `stuck` ones do not go."""

    def __init__(self, *stuck: str, mute: bool = False, **lie: list[str]) -> None:
        self.name = "n1"
        self.lie = lie
        self.stuck = stuck
        self.mute = mute
        self.removed: list[str] = []

    async def run(self, argv: list[str], **_: Any) -> Completed:
        if argv[2].startswith("remove"):
            name = argv[2].split()[1]
            self.removed.append(name)
            if name not in self.stuck:
                self.lie.pop(name, None)
            return Completed(status=0, stdout="", stderr="")
        if self.mute:
            return Completed(status=0, stdout="== status 1\n", stderr="nft: not found")
        names = re.findall(r"look (\w+)", argv[2])
        said = "".join("\n".join([*self.lie.get(n, []), "== status 0\n"]) for n in names)
        return Completed(status=0, stdout=said, stderr="")


def begin(node: Planted, *kinds: Residue) -> dict[str, list[str]]:
    return asyncio.run(adoption.begin_clean({"n1": node}, kinds or (TABLE, FILES)))  # type: ignore[dict-item]


def test_a_clean_node_is_let_alone() -> None:
    node = Planted()
    assert begin(node) == {}
    assert node.removed == []


def test_what_is_ours_goes_and_is_recorded() -> None:
    node = Planted(table=["ours table inet dstest"])
    assert begin(node) == {"n1": ["table inet dstest"]}
    assert node.removed == ["table"]


@pytest.mark.parametrize("line", ["foreign table inet firewall", "what is this"])
def test_what_is_not_ours_refuses_the_run_and_is_not_touched(line: str) -> None:
    node = Planted(table=[line], files=["ours files in /opt/dstest"])
    with pytest.raises(LabError, match=r"n1: (table inet firewall|what is this).*not ours") as told:
        begin(node)
    assert node.removed == []
    assert "dstest lab" in str(told.value.remedy)


def test_what_does_not_go_refuses_the_run() -> None:
    with pytest.raises(LabError, match=r"n1: table inet dstest .still there"):
        begin(Planted("table", table=["ours table inet dstest"]))


def test_a_node_that_cannot_be_looked_at_refuses_the_run() -> None:
    with pytest.raises(LabError, match=r"n1: nobody can tell .*table.*nft: not found"):
        begin(Planted(mute=True))


def test_kept_and_routine_things() -> None:
    assert leftovers_of(SERVER, ["ours server 7", ""]) == [
        Leftover(residue="server", what="server 7", ours=True, kept=True)
    ]
    node = Planted(files=["ours files in /opt/dstest"], server=["ours server 7"])
    left = asyncio.run(adoption.leaks({"n1": node}, (SERVER, FILES)))  # type: ignore[dict-item]
    assert left == {"n1": ["server 7"]}, "a server is a leak, tools go as a matter of course"
    assert node.removed == [], "but not while what is left may need them to go"
    node = Planted(files=["ours files in /opt/dstest"])
    assert asyncio.run(adoption.leaks({"n1": node}, (SERVER, FILES))) == {"n1": []}  # type: ignore[dict-item]
    assert node.removed == ["files"]


def test_every_script_is_one_and_every_kind_has_a_mark() -> None:
    kinds = adoption.residues()
    assert [kind.rank for kind in kinds] == sorted(kind.rank for kind in kinds)
    assert len({kind.name for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind.mark
        for script in (kind.look, kind.remove):
            done = subprocess.run(
                ["sh", "-n"], input=script, text=True, capture_output=True, timeout=10, check=False
            )
            assert done.returncode == 0, (kind.name, done.stderr)


def test_a_nemesis_that_has_something_to_take_away_says_what_it_is() -> None:
    for name in registry.names("nemeses"):
        nemesis = registry.load("nemeses", name)
        cleans = type(nemesis).teardown is not ProcessFault.teardown or hasattr(nemesis, "prepare")
        if cleans and name not in ("none", "mixed-versions", "upgrade"):
            assert nemesis.residues, name
    assert registry.load("systems", "etcd").residues


class Leased:
    """A node that takes leases."""

    def __init__(self) -> None:
        self.away = False
        self.cut: bool | None = None
        self.lost_leases: set[str] = set()
        self.held: dict[str, list[list[str]]] = {}

    def holds_lease(self, lease_id: str) -> bool:
        return lease_id in self.held

    async def arm_lease(self, lease_id: str, heal: Any, *, ttl_s: float) -> None:
        if self.cut is not None:
            self.away = self.cut
            raise LabError("connection lost")
        self.held[lease_id] = heal

    async def release_lease(self, lease_id: str) -> None:
        self.held.pop(lease_id, None)


class Serving:
    members = ("n1", "n2")

    def restart_command(self, name: str) -> list[str]:
        return ["start", name]


def test_the_leases_of_a_run() -> None:
    async def main() -> None:
        nodes = {"n1": Leased(), "n2": Leased()}
        guard, serving = Guard(nodes, [TABLE, SERVER, FILES]), cast(Any, Serving())
        nodes["n2"].away = True
        await guard.arm()
        scripts = [argv[2] for argv in nodes["n1"].held[RUN]]
        assert scripts[1:] == ["remove table", "remove files"], "no server is stopped by a janitor"
        assert not nodes["n2"].held
        nodes["n2"].away = False
        await guard.serve(serving)
        assert nodes["n2"].held[SERVE][-1] == ["start", "n2"]
        nodes["n1"].held.clear()  # it was restarted
        await guard.check()
        assert set(nodes["n1"].held) == {RUN, SERVE}
        await guard.release(SERVE)
        await guard.check()
        assert set(nodes["n1"].held) == {RUN}
        nodes["n1"].lost_leases.add(RUN)
        with pytest.raises(LabError, match="n1 heard nothing of us"):
            await guard.check()
        await guard.release()
        assert not nodes["n2"].held
        assert guard.lost == {"n1"}

    asyncio.run(main())


@pytest.mark.parametrize("on_purpose", [True, False])
def test_a_node_that_goes_down_while_it_is_tended(on_purpose: bool) -> None:
    node = Leased()
    guard = Guard({"n1": node}, [TABLE])
    node.cut = on_purpose
    if on_purpose:
        asyncio.run(guard.check())
        assert not node.held
        return
    with pytest.raises(LabError, match="connection lost"):
        asyncio.run(guard.check())


def test_a_lease_whose_connection_ends_runs_out_soon(tmp_path: Path) -> None:
    now_ns = time.monotonic_ns()
    for name, ttl_s in (("long", 10.0), ("short", 0.5)):
        folder = tmp_path / "leases" / name
        folder.mkdir(parents=True)
        (folder / "lease.json").write_text(json.dumps({"heal": [["true"]], "ttl_s": ttl_s}))
        (folder / "beat").write_text(str(now_ns))
    agent_lease.hasten(tmp_path, ["long", "short", "gone"])
    left_s = {
        name: ttl_s
        - (time.monotonic_ns() - int((tmp_path / "leases" / name / "beat").read_text())) / 1e9
        for name, ttl_s in (("long", 10.0), ("short", 0.5))
    }
    assert 1.0 < left_s["long"] <= agent_lease.ORPHAN_S
    assert 0.0 < left_s["short"] <= 0.5, "it is never longer than it was"
