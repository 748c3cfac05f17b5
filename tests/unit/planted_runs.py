"""Finished run directories with one pattern planted in each, and near misses of it.

What is in them is written by those who write it in production: histories and landing records by the
store, journals by toykv's own `Journal`, effects as its servers write them. Logs are JSON lines as
any system may write them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from log_files import ORIGIN, at

from clusters.systems.toykv.agents.storage import Journal
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.history import ClockSource, Header
from dstest.core.op import Op
from dstest.core.run_record import RunSpec
from dstest.history.jsonl import write_ops
from dstest.history.layout import RunDir

__all__ = ["Cluster", "S", "line", "message", "ops_of", "partition", "planted"]

S: Final = 1_000_000_000
NODES: Final = ("n1", "n2", "n3")
LOAD_S: Final = 80
CLIENTS: Final = 6
CLOCK: Final = ClockSource(name="CLOCK_MONOTONIC", resolution_ns=1, boot_id="b", host="control")


def op(number: int, second: float, took_ms: float | None = 5.0, **fields: Any) -> Op:
    """One operation; `took_ms` None: it was never answered."""
    begin = int(second * S)
    done = None if took_ms is None else begin + int(took_ms * 1e6)
    rest: dict[str, Any] = {"process_id": number % CLIENTS, "node_seen": NODES[number % 3]}
    rest |= {"op_type": "write", "key": f"k{number % 5}", "timeout_marker": took_ms is None}
    if took_ms is None:
        rest["error"] = "Indefinite: timeout"
    return Op(op_id=number, invoke_ts=begin, complete_ts=done, **(rest | fields))


def ops_of(
    change: Callable[[int, float], dict[str, Any] | None] = lambda number, second: {},
    *,
    rate: int = 20,
    load_s: int = LOAD_S,
) -> list[Op]:
    """Writes and reads of registers one after the other, each value written once. `change` gives
    what is otherwise of one operation, None to leave it out."""
    found, values = [], dict[str, int]()
    for number in range(rate * load_s):
        second = number / rate
        key = f"k{number % 5}"
        fields: dict[str, Any] = {"key": key}
        if (number // 5) % 2:
            fields |= {"op_type": "read", "output": values.get(key)}
        else:
            values[key] = number
            fields |= {"input": number}
        changed = change(number, second)
        if changed is not None:
            found.append(op(number, second, **(fields | changed)))
    return found


def partition(
    begin: float, end: float, cut: Sequence[str] = ("n1",), id_: str = "f1", landed: str = "yes"
) -> LandingRecord:
    """A partition that cuts these nodes off from the others, with proof."""
    others = [node for node in NODES if node not in cut]
    pairs = [f"{a}->{b}" for a in cut for b in others] + [f"{b}->{a}" for a in cut for b in others]
    dropped = dict.fromkeys(pairs, 40)
    return LandingRecord(
        fault_id=id_,
        nemesis="partition",
        targets=list(cut),
        scheduled_at=int(begin * S),
        injected_at=int(begin * S),
        injector=Signal(signal="packets dropped", during=dropped, moved=True),
        victim=Signal(
            signal="datagrams that arrived",
            before={pair: [3, 3] for pair in pairs},
            during={pair: [0, 0] for pair in pairs},
            moved=True,
        ),
        landed=landed,  # type: ignore[arg-type]
        landed_at=int((begin + 0.1) * S),
        epoch=id_,
        heal_start=int((end - 0.1) * S),
        healed_at=int(end * S),
        heal_verified=True,
        facts={"cuts": pairs, "action": "drop", "direction": "both"},
    )


class Cluster:
    """Journals of three servers of toykv, 1 to 3, each written by its own `Journal`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: dict[str, list[str]] = {node: [] for node in NODES}
        self.of: dict[int, Journal] = {}
        for number, node in enumerate(NODES, 1):
            write = self.lines[node].append
            self.of[number] = Journal(node, number, 1, self._wall, write)
            self.note(0.0, number, "start", term=0, vote=None, first=1, rows=[[0, "m", [1, 2, 3]]])

    def _wall(self) -> int:
        return ORIGIN + int(self.now * S)

    def note(self, second: float, server: int, kind: str, **fields: Any) -> None:
        """A line, of which all others have heard when they write next."""
        self.now = second
        self.of[server].note(kind, **fields)
        for other, journal in self.of.items():
            if other != server:
                journal.heard(self.of[server].stamp)

    def elect(
        self, second: float, leader: int, term: int, voters: Sequence[int] = (1, 2, 3)
    ) -> None:
        """Who campaigns, who votes, who leads."""
        self.note(second, leader, "campaign", term=term, last=[0, 1])
        for voter in voters:
            if voter != leader:
                self.note(second, voter, "term", term=term)
                self.note(second, voter, "vote", term=term, candidate=leader, last=[0, 1])
        self.note(second, leader, "lead", term=term, votes=sorted(voters))

    def entry(
        self,
        second: float,
        index: int,
        *,
        leader: int = 1,
        term: int = 1,
        by: Sequence[int] = (1, 2, 3),
        late_s: float = 0.002,
        sums: Mapping[int, int] | None = None,
    ) -> None:
        """An entry that these acknowledge, that is committed and applied."""
        row = [term, f"e{term}-{index}"]
        self.note(second, leader, "append", term=term, index=index, row=row)
        for server in by:
            if server != leader:
                self.note(second, server, "accept", term=term, leader=leader, first=index,
                          rows=[row])  # fmt: skip
            self.note(second, server, "ack", term=term, index=index)
        self.note(second + late_s, leader, "commit", term=term, index=index)
        for server in by:
            if server != leader:
                self.note(second + late_s, server, "learn", term=term, index=index)
            total = (sums or {}).get(server, 1000 + index)
            self.note(second + late_s, server, "apply", first=index, sums=[total])

    def steady(
        self, begin: float, end: float, first: int = 2, step: float = 0.2, **how: Any
    ) -> int:
        """Entries from `begin` to `end`; the next index."""
        index = first
        while begin < end:
            self.entry(begin, index, **how)
            begin, index = begin + step, index + 1
        return index


def line(second: float, text: str, level: str = "info", **fields: Any) -> str:
    """A line of a log as JSON."""
    return json.dumps({"timestamp": at(second), "level": level, "message": text, **fields})


def message(second: float, side: str, id_: str, peer: str, **fields: Any) -> str:
    """A line about a message to or from a peer."""
    return line(second, f"{side} append", messageId=id_, peer=peer, **fields)


def planted(
    path: Path,
    ops: Sequence[Op] | None = None,
    *,
    records: Sequence[LandingRecord] = (),
    recoveries: Sequence[tuple[float, float | None]] | None = None,
    logs: Mapping[str, Sequence[str]] | None = None,
    files: Mapping[str, Sequence[str]] | None = None,
    metrics: Sequence[tuple[float, str, str, float]] = (),
    system: str = "toykv",
    **facts: Any,
) -> Path:
    """A sealed run that was not judged. `recoveries` are (healed, settled) in seconds, by default
    two seconds after each fault; `files` are of nodes by `NODE/NAME`; `metrics` are (second, node,
    name, value)."""
    ops = ops_of() if ops is None else ops
    (path / "segments").mkdir(parents=True)
    run = RunDir(path.resolve())
    spec = RunSpec(workload="register", system=system, nodes=3, time_limit_s=float(LOAD_S), seed=7)
    header = Header(
        workload="register", system=system, nodes=list(NODES), concurrency=CLIENTS, seed=7,
        clock=CLOCK,
    )  # fmt: skip
    write_ops(run.history, header, ops)
    encode = msgspec.json.encode
    run.write("faults.jsonl", b"".join(encode(one) + b"\n" for one in records))
    if recoveries is None:
        recoveries = [((r.healed_at or 0) / S, (r.healed_at or 0) / S + 2) for r in records]
    told = [
        {"healed_ns": int(a * S), "settled_ns": None if b is None else int(b * S)}
        for a, b in recoveries
    ]
    run.write_json(
        "run.json",
        {
            "spec": msgspec.to_builtins(spec), "options_given": [], "model": "linearizable",
            "checkers": ["linearizable"], "nodes": list(NODES), "faults_planned": len(records),
            "clock": msgspec.to_builtins(CLOCK), "members": list(NODES), "clock_start_ns": ORIGIN,
            "origin_ns": 0, "recoveries": told, "load_end_ns": LOAD_S * S, **facts,
        },
    )  # fmt: skip
    for node in NODES:
        told_ = [*(logs or {}).get(node, ()), line(1.0, "serving")]
        run.write(f"nodes/{node}/server.log", "".join(f"{row}\n" for row in told_))
    for name, rows in (files or {}).items():
        run.write(f"nodes/{name}", "".join(f"{row}\n" for row in rows))
    if metrics:
        samples = [
            {"time_ns": int(s * S), "node": node, "name": name, "value": float(v), "unit": "1"}
            for s, node, name, v in metrics
        ]
        run.write("metrics/nodes.jsonl", b"".join(encode(one) + b"\n" for one in samples))
    return run.path


def journal_files(cluster: Cluster) -> dict[str, list[str]]:
    """As files of the nodes."""
    return {f"{node}/protocol.jsonl": rows for node, rows in cluster.lines.items()}
