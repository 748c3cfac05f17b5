"""Two primaries at a time, by the logs of Redis' servers: a failover of a part that is cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from log_files import ORIGIN
from planted_runs import S, ops_of, partition, planted

from dstest.core.log_lines import wall_time_ns
from dstest.debug.patterns.diagnosis import Diagnosis, diagnose

IDS = {node: digit * 40 for node, digit in (("n1", "a"), ("n2", "b"), ("n3", "c"))}
ODDS = "Partial resynchronization not accepted: Requested offset for second ID was {}, but I can "


def said(second: float, role: str, text: str) -> str:
    """A line of a server in this role."""
    ns = ORIGIN + int(second * S)
    of_day = ns // S % 86_400
    clock = f"{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}.{ns % S // 10**6:03}"
    made = f"217:{role} 28 Nov 2026 {clock} # {text}"
    told_ns = wall_time_ns(made)
    assert told_ns is not None and abs(told_ns - ns) < 2 * 10**6
    return made


def begun(node: str, role: str) -> list[str]:
    return [
        said(-9, "C", "Redis version=7.0.15, bits=64, commit=0, modified=0, pid=217, just started"),
        said(-9, "M", f"No cluster configuration found, I'm {IDS[node]}"),
        *([said(-8, "S", f"Connecting to MASTER {IDS['n1']}")] if role == "S" else []),
    ]


def logs(
    taken_s: float = 30.0, left_s: float = 34.0, beyond: int = 900, of: str = "n2"
) -> dict[str, list[str]]:
    """n1 leads. n2 takes over at `taken_s`; n1 becomes a replica of `of` at `left_s`."""
    return {
        "n1": [
            *begun("n1", "M"),
            said(
                left_s,
                "M",
                f"Configuration change detected. Reconfiguring myself as a replica of {IDS[of]}",
            ),
            said(left_s + 0.01, "S", "MASTER <-> REPLICA sync started"),
        ],
        "n2": [
            *begun("n2", "S"),
            said(taken_s, "S", "Failover election won: I'm the new master."),
            said(taken_s, "S", "configEpoch set to 7 after successful failover"),
            said(taken_s, "M", "Cluster state changed: ok"),
            said(left_s + 0.02, "M", ODDS.format(beyond) + "reply up to 500"),
        ],
        "n3": begun("n3", "S"),
    }


def one_leads(until: float = 1e9) -> list[Any]:
    """n1 answers up to a moment, and n2 then."""
    return ops_of(lambda number, s: {"node_seen": "n1" if s < until else "n2"})


def split(found: Diagnosis) -> list[tuple[str, str, str]]:
    return [
        (d.strength, d.severity, d.said)
        for h in found.hypotheses
        for d in h.detections
        if d.sign == "two-primaries"
    ]


def made(path: Path, **how: Any) -> Diagnosis:
    how.setdefault("logs", logs())
    how.setdefault("records", [partition(25, 33)])
    return diagnose(planted(path / "run", system="redis-cluster", **how))


def test_an_old_primary_that_goes_on_taking_writes_is_a_split_brain(tmp_path: Path) -> None:
    found = made(tmp_path, ops=one_leads())
    ((strength, severity, told),) = split(found)
    assert (strength, severity) == ("strong", "critical")
    assert told.startswith("n1 and n2 were both primary of one group for 4.0 s, from ")
    assert "; n1 acknowledged" in told
    first = found.hypotheses[0]
    assert first.number == 1
    texts = [row.text for d in first.detections for row in d.rows if d.sign == "two-primaries"]
    assert texts[0] == "Failover election won: I'm the new master."
    assert texts[1].startswith("Configuration change detected")
    assert "Requested offset" in texts[2]


def test_so_is_one_that_took_them_before_the_other_took_over(tmp_path: Path) -> None:
    """It notices at 28 s that it is alone; what it took since 25 s is on no other member."""
    ((strength, severity, _),) = split(made(tmp_path, ops=one_leads(until=28)))
    assert (strength, severity) == ("strong", "critical")


def test_one_that_took_no_writes_alone_is_no_alarm(tmp_path: Path) -> None:
    ((_, severity, told),) = split(made(tmp_path, ops=one_leads(until=25)))
    assert severity == "medium"
    assert "acknowledged" not in told
    agree = made(tmp_path / "agree", ops=one_leads(until=28), logs=logs(beyond=400))
    assert [severity for _, severity, _ in split(agree)] == ["medium"], "they hold the same"


@pytest.mark.parametrize(
    "told",
    [
        logs(taken_s=34.5, left_s=34.0),
        logs(of="n3"),
        {"n1": begun("n1", "M"), "n2": begun("n2", "S"), "n3": begun("n3", "S")},
    ],
    ids=["one after the other", "of another group", "no failover"],
)
def test_what_is_none(told: dict[str, list[str]], tmp_path: Path) -> None:
    assert split(made(tmp_path, ops=one_leads(), logs=told)) == []


def test_one_that_had_ended_meanwhile_was_no_primary(tmp_path: Path) -> None:
    """It began anew after the other one had taken over."""
    told = logs()
    told["n1"][2:2] = [
        said(32, "C", "Redis version=7.0.15, bits=64, commit=0, modified=0, pid=9, just started"),
        said(32, "M", f"Node configuration loaded, I'm {IDS['n1']}"),
    ]
    assert split(made(tmp_path, ops=one_leads(), logs=told)) == []


def test_who_says_nothing_of_it_was_not_looked_at(tmp_path: Path) -> None:
    found = diagnose(planted(tmp_path / "run"))
    (answer,) = (one for one in found.answers if one.pattern == "split-brain")
    assert "no line tells what its server is" in answer.missing["two-primaries"]


def test_what_was_not_kept_may_have_ended_it(tmp_path: Path) -> None:
    run = planted(
        tmp_path, system="redis-cluster", logs=logs(), records=[partition(25, 33)], ops=one_leads()
    )
    assert split(diagnose(run))
    meta = json.loads((run / "run.json").read_bytes())
    kept = {"n1/server.log": {"bytes": 9_000_000, "kept": 8_000_000, "hole_at": 4_000_000}}
    (run / "run.json").write_text(json.dumps({**meta, "logs": {"files": kept, "lost": {}}}))
    found = diagnose(run)
    assert split(found) == []
    (answer,) = (one for one in found.answers if one.pattern == "split-brain")
    assert "1,000,000 of 9,000,000 bytes were not kept" in answer.partly["two-primaries"]
