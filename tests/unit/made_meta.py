"""run.json of runs that were never made."""

from __future__ import annotations

from typing import Any

from dstest.core.run_record import RunMeta

PLANNED: dict[str, Any] = {
    "spec": {},
    "model": "register",
    "checkers": ["linearizable"],
    "nodes": ["n1", "n2"],
    "faults_planned": 1,
    "clock": {},
}
"""What no run.json lacks: it is written before anything else is done."""

WHOLE: dict[str, Any] = PLANNED | {
    "options_given": [],
    "claims": ["safety"],
    "started": "20261121T215100Z",
    "pid": 7,
    "host": {"dstest": "1"},
    "lab": "lxc",
    "tier_wanted": "smoke",
    "system_version": "3.4",
    "workers": 2,
    "worker_exits": [0, 0],
    "clock_start_ns": 1,
    "clock_end_ns": 1,
    "origin_ns": 1,
    "node_clocks_start_ns": {},
    "node_clocks_end_ns": {},
    "recoveries": [],
    "settled_ns": None,
    "load_s": 9.0,
    "load_end_ns": 60_000_000_000,
    "healthy": {},
    "residue": {},
    "load": {},
    "traffic": {},
    "cpu_s": {},
    "processes": {},
    "logs": {},
    "cleaned": {},
    "ended_by": None,
}
"""What a run writes that ends by itself."""


def meta(**known: Any) -> RunMeta:
    """run.json with this besides what none lacks."""
    return RunMeta.of(PLANNED | known)
