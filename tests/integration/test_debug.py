"""`dstest debug` on real nodes: causes that somebody imposes on them, and of which dstest is told
nothing, are named."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import from_outside, run_here, wait_for

from clusters.supervise.on_node import PROGRAM
from clusters.systems.toykv.deployment import CLIENT_PORT, DATA, SERVICE
from dstest.core import registry
from dstest.core.node import LabInfo
from dstest.patterns.debug import debugged

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]

OLD = "/root/old"


def attach(lab: LabInfo, node: str, script: str) -> None:
    """Run a script in a node, from outside."""
    from_outside(lab, node, "lxc-attach", "--", "sh", "-c", script)


def status(lab: LabInfo, node: str) -> dict[str, Any]:
    """What a member says of itself; nothing where it does not answer."""
    (address,) = [one.address for one in lab.nodes if one.name == node]
    try:
        with socket.create_connection((address, CLIENT_PORT), 1) as link:
            link.settimeout(1)
            link.sendall(b'{"op":"status"}\n')
            found: dict[str, Any] = json.loads(link.makefile().readline())["ok"]
            return found
    except (OSError, ValueError, KeyError):
        return {}


def leader(lab: LabInfo, *but: str) -> str:
    """Who leads, of the others."""
    found: list[str] = []

    def leads() -> bool:
        names = [one.name for one in lab.nodes if one.name not in but]
        found[:] = [name for name in names if status(lab, name).get("leads")]
        return bool(found)

    wait_for("a leader", leads, 20)
    return found[0]


def stand_still(lab: LabInfo, node: str) -> None:
    attach(lab, node, "kill -STOP $(pgrep -f 'agents.mai[n]')")


def go_on(lab: LabInfo, node: str) -> None:
    attach(lab, node, "kill -CONT $(pgrep -f 'agents.mai[n]')")


def member_stands_still(lab: LabInfo) -> None:
    """A follower is stopped for most of the load."""
    first = leader(lab)
    (node, *_) = [one.name for one in lab.nodes if one.name != first]
    stand_still(lab, node)
    time.sleep(38)
    go_on(lab, node)


def old_data_come_back(lab: LabInfo) -> None:
    """A member votes in an election, forgets it by an older copy of its data, and is cut off from
    who was elected: so it votes once more in that term, for itself."""
    first = leader(lab)
    others = [one.name for one in lab.nodes if one.name != first]
    for name in others:
        attach(lab, name, f"rm -rf {OLD} && cp -a {DATA} {OLD}")
    stand_still(lab, first)
    elected = leader(lab, first)
    (node, *_) = [name for name in others if name != elected]
    (address,) = [one.address for one in lab.nodes if one.name == elected]
    rules = "".join(
        f"chain {hook} {{ type filter hook {hook} priority -6; ip {side} {address} drop; }}\n"
        for hook, side in (("input", "saddr"), ("output", "daddr"))
    )
    attach(lab, node, f"nft 'table ip byhand {{ {rules} }}'")
    attach(lab, node, f"{PROGRAM} stop {SERVICE}; rm -rf {DATA}; cp -a {OLD} {DATA}")
    attach(lab, node, f"{PROGRAM} start {SERVICE}")
    time.sleep(8)
    attach(lab, node, "nft delete table ip byhand")
    go_on(lab, first)


@pytest.mark.parametrize(
    ("impose", "named", "most", "limit_s"),
    [
        (member_stands_still, "silent-node", 1, 60.0),
        # Old data lack what was acknowledged as well: that may be first
        (old_data_come_back, "double-voting", 2, 40.0),
    ],
)
def test_what_nobody_told_of_is_named(
    lab: LabInfo,
    tmp_path: Path,
    impose: Callable[[LabInfo], None],
    named: str,
    most: int,
    limit_s: float,
) -> None:
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            wait_for("the load", lambda: bool(list(tmp_path.glob("*/2*/workers/*"))), 60)
            time.sleep(8)
            impose(lab)
        except BaseException as error:
            failed.append(error)

    hand = threading.Thread(target=beside)
    hand.start()
    done = run_here(
        lab,
        tmp_path,
        nemesis=registry.load("nemeses", "none"),
        options=(),
        system="toykv",
        rate=150.0,
        time_limit_s=limit_s,
    )
    hand.join()
    assert not failed, failed
    every = debugged(done.path).hypotheses
    found = next((one for one in every if one.pattern == named), None)
    assert found is not None and found.alarm and found.rank <= most, every
