"""What counts as the share of packets that was asked for."""

from __future__ import annotations

import random

import pytest

from dstest.core.errors import ConfigError
from dstest.core.node import LabInfo, NodeInfo
from nemeses.network.loss import NEMESIS, right_share
from nemeses.tools import nft


@pytest.mark.parametrize(
    ("lost", "total", "share", "right"),
    [
        (300, 1000, 0.3, True),
        (355, 1000, 0.3, True),
        (100, 1000, 0.3, False),
        (450, 1000, 0.3, False),
        (0, 1000, 0.3, False),
        (0, 0, 0.3, False),
        (1000, 1000, 0.3, False),
        (30, 200, 0.3, False),
        (0, 200, 0.01, False),
    ],
)
def test_shares(lost: int, total: int, share: float, right: bool) -> None:
    assert right_share(lost, total, share) is right


def test_chance_alone_hardly_ever_fails_it() -> None:
    rng = random.Random(4)
    for total in (200, 1000, 5000):
        for _ in range(200):
            lost = sum(rng.random() < 0.3 for _ in range(total))
            assert right_share(lost, total, 0.3)


def test_the_plan_carries_the_share() -> None:
    options = {key: option.default for key, option in NEMESIS.options.items()}
    nodes = ["n1", "n2", "n3"]
    plans = NEMESIS.plan(random.Random(1), nodes, 60.0, options)
    assert {plan.facts["share"] for plan in plans} == {0.3}
    assert {plan.nemesis for plan in plans} == {"loss"}
    for percent in (0, 100, -5):
        with pytest.raises(ConfigError):
            NEMESIS.plan(random.Random(1), nodes, 60.0, {**options, "loss_percent": percent})


def test_the_rules_spare_ssh_and_count_what_they_see() -> None:
    nodes = [NodeInfo(name="n1", address="10.0.0.1", address6="fd00::1")]
    lab = LabInfo(lab_id="x", kind="lxc", nodes=nodes, control="10.0.0.254")
    text = nft.loss_rules(nodes, lab, 0.25)
    lines = [line.strip() for line in text.splitlines()]
    assert lines.index("ip saddr 10.0.0.254 tcp dport 22 accept") < lines.index(
        "ip saddr 10.0.0.1 counter name seen_n1"
    )
    assert "ip6 saddr fd00::1 numgen random mod 10000 < 2500 counter name cut_n1 drop" in lines
