"""`dstest debug` on real nodes: causes that somebody imposes on them, and of which dstest is told
nothing, are named."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from runs import from_outside, run_here, wait_for

from clusters.systems.toykv.deployment import CLIENT_PORT
from dstest.core import registry
from dstest.core.node import LabInfo
from dstest.debug.patterns.diagnosis import diagnose

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(300)]


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


def leader(lab: LabInfo) -> str:
    """Who leads."""
    found: list[str] = []

    def leads() -> bool:
        names = [one.name for one in lab.nodes]
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


def test_a_member_that_stands_still_is_named_first(lab: LabInfo, tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            wait_for("the load", lambda: bool(list(tmp_path.glob("*/2*/workers/*"))), 60)
            time.sleep(8)
            member_stands_still(lab)
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
        time_limit_s=60.0,
    )
    hand.join()
    assert not failed, failed
    first = diagnose(done.path).hypotheses[0]
    assert first.pattern == "silent-node" and first.alarm, first
