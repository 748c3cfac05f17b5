"""From what the analysis found to something that a newcomer understands.

The C core decides and names transactions; this file tells why. Like Elle we keep the two apart
(Kingsbury and Alvaro, VLDB 2020, section 6): an edge is found a million times and explained a few
times, so its reason is looked up again from the micro-ops of its two transactions.

Each anomaly's witness holds the transactions as records of our twelve keys, with event positions
(`invoke_event`, `complete_event`) instead of times; those of a cycle in its order and with

    "edge": {"to": 7, "reason": "rw", "key": "x", "text": "T3 read x as [1] and ..."}

T3 is the transaction that the history names 3: Jepsen's `:index`, or our `op_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from checkers.txn._native import Analysis, Cycle, Finding
from checkers.txn._values import name_of, read_value, shown
from checkers.txn.columns import FAIL, I64, INFO, OK, READ, WRITE, TxnColumns
from checkers.txn.reasons import Reasons
from checkers.txn.version_cycles import Step, circle
from checkers.txn.workloads import KINDS
from dstest.core.check import Anomaly

EXPLAINED_MAX: Final = 200
"""Anomalies of one type that are written out; the rest is counted. Nobody reads more."""

_CYCLES: Final = {
    "G0": "writes overwrite one another in a circle",
    "G1c": "information flows in a circle: each transaction depends on what the next one wrote",
    "G-single": "one transaction missed what it should have seen (read skew)",
    "G-nonadjacent": "transactions missed writes of one another, never two in a row",
    "G2": "transactions missed one another's writes (write skew)",
}


_OF_TWO: Final = frozenset({"incompatible-order", "lost-update"})
"""Kinds in which neither of two transactions is wrong by itself."""


def _micro_ops(c: TxnColumns, workload: str, t: int, *, results: bool) -> list[list[Any]]:
    write = KINDS[workload].write
    return [
        ["r", c.key_names[c.mop_key[i]], read_value(c, workload, i) if results else None]
        if c.mop_kind[i] == READ
        else [write, c.key_names[c.mop_key[i]], name_of(c, int(c.mop_value[i]))]
        for i in range(int(c.mop_start[t]), int(c.mop_start[t + 1]))
    ]


def record_of(c: TxnColumns, workload: str, t: int) -> dict[str, Any]:
    """A transaction as a witness holds it."""
    outcome = int(c.outcome[t])
    process = int(c.process[t])
    return {
        "op_id": int(c.op_index[t]),
        "process_id": None if process < 0 else process,
        "invoke_ts": None,
        "complete_ts": None,
        "invoke_event": None if c.invoke_pos[t] < 0 else int(c.invoke_pos[t]),
        "complete_event": None if c.complete_pos[t] < 0 else int(c.complete_pos[t]),
        "op_type": "txn",
        "key": None,
        "input": _micro_ops(c, workload, t, results=False),
        "output": _micro_ops(c, workload, t, results=True) if outcome == OK else None,
        "error": "fail" if outcome == FAIL else None,
        "timeout_marker": outcome == INFO,
        "node_seen": None,
        "fault_epoch": None,
    }


def records_of(
    c: TxnColumns, workload: str, txns: Iterable[int], edges: Mapping[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Transactions as a witness holds them; `edges` by their place among these."""
    records = [record_of(c, workload, t) for t in txns]
    return [{**r, "edge": edges[n]} if n in edges else r for n, r in enumerate(records)]


class _Writer:
    """Writes the anomalies of one history."""

    def __init__(self, c: TxnColumns, workload: str, sources: int, order: I64) -> None:
        self.c = c
        self.workload = workload
        self.order = order
        self.reasons = Reasons(c, workload, sources)

    def _t(self, t: int) -> str:
        return f"T{int(self.c.op_index[t])}"

    def _anomaly(
        self, kind: str, key: Any, txns: Iterable[int], records: list[dict[str, Any]], text: str,
        *, minimal: bool,
    ) -> Anomaly:  # fmt: skip
        return Anomaly(
            type=kind,
            key=key,
            ops=[int(self.c.op_index[t]) for t in sorted(set(txns))],
            witness=records,
            minimal=minimal,
            explanation=text,
        )

    def cycle(self, cycle: Cycle) -> Anomaly:
        """A cycle, each edge with its reason."""
        records = []
        sentences = []
        keys = set()
        for at, (a, label) in enumerate(zip(cycle.txns, cycle.labels, strict=True)):
            b = cycle.txns[(at + 1) % len(cycle.txns)]
            reason = self.reasons.of(a, b, label)
            keys.add(reason.key)
            sentences.append(reason.text)
            edge = {
                "to": int(self.c.op_index[b]),
                "reason": label,
                "key": reason.key,
                "text": reason.text,
            }
            records.append({**record_of(self.c, self.workload, a), "edge": edge})
        base = cycle.type.removesuffix("-process").removesuffix("-realtime").removesuffix("-item")
        first = self._t(cycle.txns[0])
        text = f"{_CYCLES[base][0].upper()}{_CYCLES[base][1:]}. " + "; ".join(sentences)
        text += f". So {first} would have to come before itself."
        key = keys.pop() if len(keys) == 1 else None
        return self._anomaly(cycle.type, key, cycle.txns, records, text, minimal=cycle.minimal)

    def finding(self, f: Finding) -> Anomaly:
        """An anomaly that needs no cycle."""
        c = self.c
        key = None if f.key < 0 else c.key_names[f.key]
        first, second = f.txn, f.txn2
        if f.type != "cyclic-versions":
            first = first if first >= 0 else self.reasons.txn_of(f.mop)
            second = self.reasons.txn_of(f.mop2) if second < 0 <= f.mop2 else second
        txns = [t for t in (first, second) if t >= 0]
        text = self._sentence(f, shown(key), first, second)
        if f.type == "cyclic-versions":
            steps = circle(c, f.key, f.value, f.value2, self.reasons.sources, self.order)
            txns = [t for step in steps for t in (step.first, step.second)]
            text = " ".join([text, *(self._step(step) for step in steps)])
        records = [record_of(c, self.workload, t) for t in sorted(set(txns))]
        made = self._anomaly(f.type, key, txns, records, text, minimal=f.type != "cyclic-versions")
        by = self._by(f.type, first, second)
        if f.type == "cyclic-versions" or by < 0:
            return made
        value = name_of(c, f.value) if f.value >= 0 else UNSET
        return replace(made, culprit=int(c.op_index[by]), element=value)

    def _step(self, step: Step) -> str:
        """Why one version comes before another."""
        one, two = self._t(step.first), self._t(step.second)
        before, after = (shown(name_of(self.c, v)) for v in (step.before, step.after))
        if step.first == step.second:
            return f"{one} read {before} and wrote {after}."
        why = {
            "sequential-keys?": f"in its process after {one}",
            "linearizable-keys?": f"which began after {one} had ended",
            "transaction-order": f"which the given order has after {one}",
        }[step.source]
        wrote = any(
            self.c.mop_kind[i] == WRITE and self.c.mop_value[i] == step.after
            for i in range(
                int(self.c.mop_start[step.second]), int(self.c.mop_start[step.second + 1])
            )
        )
        return f"{one} left {before}, and {two}, {why}, {'wrote' if wrote else 'read'} {after}."

    def _by(self, kind: str, first: int, second: int) -> int:
        """The transaction that gave it away: of two that exclude each other the later answer."""
        if kind == "dirty-update":
            return second
        if kind in _OF_TWO and second >= 0:
            return max(first, second, key=lambda t: (int(self.c.complete_pos[t]), t))
        return first

    def _sentence(self, f: Finding, key: str, first: int, second: int) -> str:
        c, v = self.c, shown(name_of(self.c, f.value) if f.value >= 0 else None)
        one = self._t(first) if first >= 0 else ""
        two = self._t(second) if second >= 0 else ""
        plain = f.type != "cyclic-versions"
        is_read = plain and f.mop >= 0 and c.mop_kind[f.mop] == READ
        read = shown(read_value(c, self.workload, f.mop)) if is_read else ""
        if f.type == "internal":
            return (
                f"{one} read key {key} as {read}, which does not fit what {one} itself had read "
                "or written there before."
            )
        if f.type == "lost-update":
            return (
                f"{one} and {two} both read key {key} as {read} and both wrote it: one of the two "
                "updates was made without knowing of the other and is lost."
            )
        if f.type == "incompatible-order" and c.mop_kind[f.mop] != READ:
            other = shown(read_value(c, self.workload, f.mop2))
            later = shown(name_of(c, int(c.mop_value[f.mop])))
            return (
                f"{one} appended {v} to key {key} before {later}, and {two} read {other}: no "
                "version of the list can hold the later element of a transaction without the "
                "earlier one before it."
            )
        if f.type == "incompatible-order":
            other = shown(read_value(c, self.workload, f.mop2))
            return (
                f"{one} read key {key} as {read} and {two} read it as {other}: neither is a prefix "
                "of the other, so elements were lost or reordered."
            )
        if f.type == "cyclic-versions":
            return (
                f"Of key {key}, version {v} comes before {shown(name_of(c, f.value2))} and after "
                f"it, by {self.reasons.source(f.mop)}; that source of version orders was dropped."
            )
        wrote = "appended" if KINDS[self.workload].lists else "wrote"
        return {
            "future-read": f"{one} read {v} in key {key}, which it {wrote} only later.",
            "garbage-read": f"{one} read {v} in key {key}, and nobody ever wrote that.",
            "G1a": f"{one} read {v} in key {key}, which {two} wrote; but {two} failed.",
            "G1b": f"{one} read {v} in key {key}, which was not the last that {two} wrote there.",
            "duplicate-elements": f"{one} read key {key} as {read}, where {v} occurs twice.",
            "dirty-update": (
                f"{two} appended to key {key} on top of an element of {one}; but {one} failed."
            ),
        }[f.type]


def anomalies_of(
    c: TxnColumns, workload: str, analysis: Analysis, types: Iterable[str], sources: int, order: I64
) -> dict[str, list[Anomaly]]:
    """The anomalies of the given types, at most EXPLAINED_MAX of each; first what makes the order
    of versions doubtful. One that a transaction shows twice is told once."""
    writer = _Writer(c, workload, sources, order)
    first = sorted(types, key=lambda kind: kind != "incompatible-order")
    anomalies: dict[str, list[Anomaly]] = {t: [] for t in first}
    for f in analysis.findings:
        if f.type in anomalies and len(anomalies[f.type]) < EXPLAINED_MAX:
            made = writer.finding(f)
            if not anomalies[f.type] or anomalies[f.type][-1] != made:
                anomalies[f.type].append(made)
    for cycle in analysis.cycles:
        if cycle.type in anomalies and len(anomalies[cycle.type]) < EXPLAINED_MAX:
            anomalies[cycle.type].append(writer.cycle(cycle))
    return anomalies
