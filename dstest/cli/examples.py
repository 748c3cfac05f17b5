"""Examples of each command, for its help: one to three lines that can be typed as they are, with
other names of files and runs. `tests/unit/test_examples.py` reads each as the command would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        "dstest run",
        "dstest run --system etcd --workload register --nemesis partition --time-limit 60 --seed 7",
        "dstest run --system redis-sentinel --nemesis kill -o fault_s=5 --tier hardening",
    ),
    "sim": (
        "dstest sim --system toykv --workload register --seeds 100",
        "dstest sim --seeds 1 --seed 7 --log sim.log",
    ),
    "resume": ("dstest resume store/latest",),
    "report": (
        "dstest report store/latest",
        "dstest report store --out ci --github",
    ),
    "options": ("dstest options --system etcd --workload register --nemesis kill",),
    "list": (
        "dstest list",
        "dstest list --system etcd --nemesis kill",
        "dstest list --runs --store store",
    ),
    "nemeses": ("dstest nemeses",),
    "findings": (
        "dstest findings",
        "dstest findings F01 --seeds 3",
    ),
    "replay": (
        "dstest replay store/latest --times 3",
        "dstest replay store/latest --lab lxc",
    ),
    "blame": ("dstest blame store/latest",),
    "shrink": ("dstest shrink store/latest --within 30",),
    "recover": ("dstest recover store/latest",),
    "debug": (
        "dstest debug store/latest",
        "dstest debug store/latest --all --set recovery_s=60",
        "dstest debug store/latest --write --thresholds mine.toml",
    ),
    "logs": (
        "dstest logs store/latest",
        "dstest logs logs --nodes n1,n2,n3 --system etcd --check network-partition",
    ),
    "trace": (
        "dstest trace store/latest --html trace.html",
        "dstest trace spans.json --trace 4bf92f3577b34da6a3ce929d0e0e4736",
    ),
    "monitor show": (
        "dstest monitor show store/latest",
        "dstest monitor show store/latest --thresholds mine.toml --set p99_ms=2000 --json",
    ),
    "monitor scale": (
        "dstest monitor scale store/latest --metric net_sent/op --expect n",
        "dstest monitor scale run3 run5 run9 --metric p95",
    ),
    "check": (
        "dstest check store/latest",
        "dstest check history.edn --model strict-serializable",
        "dstest check history.jsonl --json",
    ),
    "proof": ("dstest proof history.jsonl order.json",),
    "models": (
        "dstest models",
        "dstest models --objects --json",
    ),
    "generate": (
        (
            "dstest generate --workload list-append --txns 1000 --level serializabl"
            "e --output history.jsonl"
        ),
    ),
    "export": ("dstest export store/latest --to edn --output history.edn",),
    "kb learn": ("dstest kb learn store",),
    "kb show": ("dstest kb show", "dstest kb show K1"),
    "kb similar": ("dstest kb similar store/latest",),
    "kb fix": ("dstest kb fix K1 --commit 4f2a1c --note 'reads go through the leader'",),
    "kb stats": ("dstest kb stats",),
    "chaos run": ("dstest chaos run chaos.toml --out before",),
    "chaos report": ("dstest chaos report before",),
    "chaos diff": ("dstest chaos diff before after",),
    "gate": ("dstest gate store --policy gate.toml",),
    "compare": (
        "dstest compare --baseline RUN_A --candidate RUN_B",
        (
            "dstest compare --baseline A1 --baseline A2 --baseline A3 --candidate B"
            "1 --candidate B2 --candidate B3"
        ),
    ),
    "serve": (
        "dstest serve store",
        "dstest serve store --export pages",
    ),
    "doctor": ("dstest doctor",),
    "new": ("dstest new system mydb",),
    "spec conform": ("dstest spec conform lock.py run.log --log",),
    "spec ledger": (
        "dstest spec ledger mismatches.jsonl",
        "dstest spec ledger mismatches.jsonl --fix 1f2e3d4c5b6a --what 'terms are synced first'",
    ),
    "spec live": ("dstest spec live raft-status --ask 10.0.0.1:7700 --ask 10.0.0.2:7700",),
    "spec against": ("dstest spec against lock.py server.py:Server --seed 7",),
    "spec why": ("dstest spec why lock.py release --after trace.json --events 2",),
    "spec knock": ("dstest spec knock lock.py trace.json",),
    "spec drive": ("dstest spec drive lock.py --where 's.holder is not None' --out schedule.json",),
    "spec chart": ("dstest spec chart lock.py trace.json",),
    "spec weaker": ("dstest spec weaker lock.py --since main",),
    "spec bisect": ("dstest spec bisect v1.0 main -- make check",),
    "spec export": ("dstest spec export lock.py --to quint --output lock.qnt",),
    "spec list": ("dstest spec list",),
    "spec explore": ("dstest spec explore lock.py --max-states 100000",),
    "spec simulate": ("dstest spec simulate lock.py --walks 1000 --seed 7",),
    "spec mutate": ("dstest spec mutate lock.py",),
    "plan new": ("dstest plan new --system etcd --output plan.md",),
    "plan lint": ("dstest plan lint plan.md --strict",),
    "plan show": ("dstest plan show plan.md",),
    "plan trace": ("dstest plan trace plan.md --json",),
    "plan toolbox": ("dstest plan toolbox --system etcd",),
    "plan run": ("dstest plan run plan.md",),
    "plan resume": ("dstest plan resume store/plans/etcd",),
    "plan status": ("dstest plan status store/plans/etcd",),
    "plan report": ("dstest plan report store/plans/etcd",),
    "plan author": ("dstest plan author plan.md",),
    "nightly run": ("dstest nightly run nightly.toml --workers 2",),
    "nightly show": ("dstest nightly show nightly.toml",),
    "nightly resume": ("dstest nightly resume store/all-systems/20261127T220000Z",),
    "nightly status": ("dstest nightly status store/all-systems/20261127T220000Z",),
    "nightly report": ("dstest nightly report store/all-systems/20261127T220000Z",),
    "nightly index": ("dstest nightly index store/all-systems",),
    "store list": ("dstest store list store",),
    "store show": ("dstest store show store/latest",),
    "store diff": ("dstest store diff RUN_A RUN_B",),
    "store prune": ("dstest store prune store --keep-days 30",),
    "store verify": ("dstest store verify store --verdicts",),
    "lab up": (
        "dstest lab up --nodes 3",
        "dstest lab up --lab-id mine --system etcd",
    ),
    "lab image": ("dstest lab image --system etcd",),
    "lab down": (
        "dstest lab down",
        "dstest lab down --all",
    ),
    "lab gc": ("dstest lab gc --images",),
    "lab adopt": ("dstest lab adopt nodes.toml --lab-id mine",),
    "lab release": ("dstest lab release --lab-id mine",),
    "lab exec": ("dstest lab exec --node n1 -- uname -a",),
    "lab put": ("dstest lab put app.conf /tmp/app.conf --node n1",),
    "lab get": ("dstest lab get /var/log/syslog logs",),
    "lab logs": ("dstest lab logs --node n1",),
    "lab shell": ("dstest lab shell n1",),
    "lab status": ("dstest lab status",),
    "lab list": ("dstest lab list",),
    "lab ssh": ("dstest lab ssh n1",),
    "workers pack": ("dstest workers pack workers.tar",),
    "workers put": ("dstest workers put host1,host2",),
}
"""By the words after `dstest`."""


def epilog_of(name: str) -> str | None:
    """What stands below the help of a command; None where it has none."""
    lines = EXAMPLES.get(name)
    return None if lines is None else "\n\n".join(["Examples:", *(f"- `{line}`" for line in lines)])
