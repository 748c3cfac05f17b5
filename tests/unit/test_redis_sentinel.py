"""When members of Redis with Sentinel are healthy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.redis_sentinel import SENTINEL, RedisDeployment

NAMES = ("n1", "n2", "n3")


def rows(**links: str) -> list[dict[str, str]]:
    """What a sentinel says of replicas, by the last number of their addresses."""
    return [{"ip": f"10.0.0.{n[1:]}", "master-link-status": link} for n, link in links.items()]


def healthy(monkeypatch: pytest.MonkeyPatch, **odd: dict[str, Any]) -> set[str]:
    """Those that are, where n1 leads; `odd` are answers that differ, by command and member."""
    said: dict[str, dict[str, Any]] = {
        "SENTINEL": dict.fromkeys(NAMES, "OK 3 usable Sentinels"),
        "REPLICAS": {name: rows(n2="ok", n3="ok") for name in NAMES},
        "ROLE": {
            "n1": ["master", 0, [["10.0.0.2", "6379", "0"]]],
            **{name: ["slave", "10.0.0.1", 6379, "connected", 0] for name in NAMES[1:]},
        },
    }

    async def ask(self: RedisDeployment, port: int, *words: str) -> dict[str, Any]:
        what = "REPLICAS" if words[0] == "SENTINEL SLAVES" else words[0]
        assert (port == SENTINEL) == (what != "ROLE")
        return {**said[what], **odd.get(what, {})}

    monkeypatch.setattr(RedisDeployment, "ask", ask)
    nodes: list[Any] = [
        SimpleNamespace(name=name, info=SimpleNamespace(address=f"10.0.0.{i + 1}"))
        for i, name in enumerate(NAMES)
    ]
    found = asyncio.run(
        RedisDeployment(nodes, {"appendfsync": "everysec", "min_replicas": 0}).healthy()
    )
    return {name for name, well in found.items() if well}


def test_all_are_where_each_knows_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert healthy(monkeypatch) == {*NAMES}


def test_each_sentinel_must_have_seen_a_replica_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It promotes none that it was only told of."""
    assert healthy(monkeypatch, REPLICAS={"n2": rows(n2="ok")}) == {"n1", "n2"}
    assert healthy(monkeypatch, REPLICAS={"n2": rows(n2="ok", n3="err")}) == {"n1", "n2"}
    assert healthy(monkeypatch, REPLICAS={"n2": []}) == {"n1"}


def test_a_member_that_is_down_is_no_reason_against_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down = {"SENTINEL": {"n3": None}, "ROLE": {"n3": None}}
    views = {"n1": rows(n2="ok", n3="err"), "n2": rows(n2="ok", n3="err"), "n3": None}
    assert healthy(monkeypatch, **down, REPLICAS=views) == {"n1", "n2"}


def test_a_quorum_and_a_link_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert healthy(monkeypatch, SENTINEL={"n3": None}) == {"n1", "n2"}
    assert healthy(monkeypatch, ROLE={"n1": ["master", 0, []]}) == {"n2", "n3"}
    waiting = ["slave", "10.0.0.1", 6379, "connect", 0]
    assert healthy(monkeypatch, ROLE={"n3": waiting}) == {"n1", "n2"}
