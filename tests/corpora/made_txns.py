"""Transactional histories of a simulated store, with anomalies planted on keys of their own.

The store commits each transaction at one instant. A reader sees the store at that instant
(`serial`), at its invocation (`snapshot`, where the first committer wins) or anew with every read
(`committed`); so each history is right by construction under the models of its level. A plant is a
few transactions by other clients on keys that nobody else uses: it holds one anomaly, and what is
around it changes nothing. The slow oracle confirms every verdict.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import networkx as nx
from tested_oracle import decides_nothing

from checkers.second.elle import check as oracle

__all__ = ["PLANTS", "as_edn", "files", "planted", "simulate"]

Event = dict[str, Any]
Mops = list[list[Any]]

CLIENTS = 5
KEYS = 3
WORKLOADS = ("list-append", "rw-register")
LEVELS = {
    "serial": ("strict-serializable", "serializable", "snapshot-isolation", "read-committed"),
    "snapshot": ("strong-snapshot-isolation", "snapshot-isolation", "read-committed"),
    "committed": ("read-committed", "read-uncommitted"),
}
"""How the store reads -> models that allow all it does."""

PLANTS: dict[str, tuple[str, str, str]] = {
    "G0": ("a: w x 1, w y 1 | b: w x 2, w y 2", "a b A B", "c: r x 1 2, r y 2 1"),
    "G1a": ("a: w x 1 | b: r x 1", "a b !A B", ""),
    "G1b": ("a: w x 1, w x 2 | b: r x 1", "a A b B", "c: r x 1 2"),
    "G1c": ("a: w x 1, r y 1 | b: w y 1, r x 1", "a b A B", ""),
    "G-single-item": ("a: w x 1, w y 1 | b: r x 1, r y", "a b A B", "c: r x 1, r y 1"),
    "G2-item": ("a: r x, w y 1 | b: r y, w x 1", "a b A B", "c: r x 1, r y 1"),
    "lost-update": ("a: r x, w x 1 | b: r x, w x 2", "a b A B", "c: r x 1 2"),
    "internal": ("a: w x 1, r x", "a A", ""),
    "garbage-read": ("a: r x 9 | b: w x 1", "a b A B", ""),
    "duplicate-elements": ("a: w x 1 | b: r x 1 1", "a A b B", ""),
    "incompatible-order": ("a: w x 1 | b: w x 2", "a b A B", "c: r x 1 2 | d: r x 2 1"),
    "stale-realtime": ("a: w x 1 | b: r x", "a A b B", "c: r x 1"),
}
"""Name -> (transactions; their invocations `a` and completions `A`, `!A` for a failure, in order;
transactions that follow one after another). A read is of a list; of a register its last value."""

PROMISED = {"stale-realtime": "G-single-item-realtime"}
"""Where the anomaly has another name than the plant."""

LISTS_ONLY = {"G0", "duplicate-elements", "incompatible-order"}
FORBIDS = {
    "G0": "read-uncommitted", "G1a": "read-committed", "G1b": "read-committed",
    "G1c": "read-committed", "G-single-item": "snapshot-isolation", "G2-item": "serializable",
    "lost-update": "snapshot-isolation", "internal": "read-atomic",
    "garbage-read": "read-uncommitted", "duplicate-elements": "read-uncommitted",
    "incompatible-order": "read-uncommitted", "stale-realtime": "strict-serializable",
}  # fmt: skip
"""Plant -> a model that it breaks."""
ALLOWS = {
    "G2-item": "snapshot-isolation", "stale-realtime": "serializable",
    "G-single-item": "read-committed", "lost-update": "read-committed",
}  # fmt: skip
"""Plant -> a model that it does not break, however strong."""


@dataclass
class Store:
    dice: random.Random
    lists: bool
    level: str
    state: dict[Any, list[int]] = field(default_factory=dict)
    written: dict[Any, int] = field(default_factory=dict)

    def draft(self) -> Mops:
        mops: Mops = []
        for _ in range(self.dice.randint(1, 4)):
            key = self.dice.randrange(KEYS)
            if self.dice.random() < 0.5:
                mops.append(["r", key, None])
                continue
            self.written[key] = self.written.get(key, 0) + 1
            mops.append(["append" if self.lists else "w", key, self.written[key]])
        return mops

    def seen(self, values: list[int]) -> Any:
        return list(values) if self.lists else (values[-1] if values else None)

    def commit(self, mops: Mops, at_begin: dict[Any, list[int]]) -> Mops | None:
        """The results; None where another transaction committed to the same key first."""
        base = at_begin if self.level == "snapshot" else self.state
        own: dict[Any, list[int]] = {}
        done: Mops = []
        for f, key, value in mops:
            if f == "r":
                done.append([f, key, self.seen([*base.get(key, []), *own.get(key, [])])])
            else:
                own.setdefault(key, []).append(value)
                done.append([f, key, value])
        if self.level == "snapshot" and any(
            self.state.get(k, []) != at_begin.get(k, []) for k in own
        ):
            return None
        for key, values in own.items():
            self.state[key] = [*self.state.get(key, []), *values]
        return done

    def peek(self, mops: Mops) -> Mops:
        """What the reads before the first write of their key see now."""
        touched: set[Any] = set()
        looked: Mops = []
        for f, key, _ in mops:
            if f == "r" and key not in touched:
                looked.append([key, self.seen(self.state.get(key, []))])
            touched.add(key)
        return looked


@dataclass
class Pending:
    mops: Mops
    at_begin: dict[Any, list[int]]
    early: Mops
    done: Mops | None = None
    decided: bool = False


def simulate(seed: str, workload: str, level: str, count: int) -> list[Event]:
    """`count` transactions of concurrent clients; some fail, of some nobody learns the outcome."""
    dice = random.Random(seed)
    store = Store(dice, workload == "list-append", level)
    process = list(range(CLIENTS))
    pending: dict[int, Pending] = {}
    events: list[Event] = []

    def emit(kind: str, client: int, value: Mops) -> None:
        events.append({"type": kind, "process": process[client], "f": "txn", "value": value})

    while count or pending:
        client = dice.randrange(CLIENTS)
        txn = pending.get(client)
        if txn is None:
            if count:
                mops = store.draft()
                pending[client] = Pending(mops, dict(store.state), store.peek(mops))
                emit("invoke", client, mops)
                count -= 1
        elif txn.decided:
            emit("fail" if txn.done is None else "ok", client, txn.done or txn.mops)
            del pending[client]
        elif dice.random() < 0.04:
            if dice.random() < 0.5:
                store.commit(txn.mops, txn.at_begin)
            emit("info", client, txn.mops)
            process[client] += CLIENTS
            del pending[client]
        else:
            txn.decided = True
            if dice.random() > 0.05:
                txn.done = store.commit(txn.mops, txn.at_begin)
                if level == "committed" and txn.done is not None:
                    txn.done = _read_early(txn, dice)
    return events


def _read_early(txn: Pending, dice: random.Random) -> Mops:
    """A transaction without writes saw some keys when it began and some when it ended."""
    assert txn.done is not None
    if any(f != "r" for f, _, _ in txn.mops):
        return txn.done
    then = {key: value for key, value in txn.early if dice.random() < 0.5}
    return [[f, key, then.get(key, value)] for f, key, value in txn.done]


def _mops(text: str, lists: bool, tag: str) -> Mops:
    mops: Mops = []
    for part in text.split(","):
        f, key, *values = part.split()
        numbers = [int(v) for v in values]
        if f == "w":
            mops.append(["append" if lists else "w", tag + key, numbers[0]])
        else:
            mops.append(["r", tag + key, numbers if lists else numbers[-1] if numbers else None])
    return mops


def _asked(mops: Mops) -> Mops:
    return [[f, key, None if f == "r" else value] for f, key, value in mops]


def planted(events: list[Event], name: str, workload: str) -> list[Event]:
    """The events with a plant after the first half of them."""
    texts, order, after = PLANTS[name]
    lists = workload == "list-append"
    bodies = {
        part.split(":")[0].strip(): _mops(part.split(":")[1], lists, "p")
        for part in f"{texts} | {after}".split("|")
        if ":" in part
    }
    steps = order.split()
    for label in bodies:
        if label not in steps:
            steps += [label, label.upper()]
    extra: list[Event] = []
    for step in steps:
        label = step.strip("!").lower()
        kind = "invoke" if step == label else "fail" if step[0] == "!" else "ok"
        value = bodies[label] if kind == "ok" else _asked(bodies[label])
        process = 1000 + ord(label)
        extra.append({"type": kind, "process": process, "f": "txn", "value": value})
    half = len(events) // 2
    return [*events[:half], *extra, *events[half:]]


def as_edn(events: list[Event]) -> str:
    def mop(m: list[Any]) -> str:
        f, key, value = m
        told = json.dumps(value).replace(",", "") if value is not None else "nil"
        return f"[:{f} {json.dumps(key)} {told}]"

    return "".join(
        f"{{:index {e['index']}, :type :{e['type']}, :process {e['process']}, :f :txn, "
        f":value [{' '.join(mop(m) for m in e['value'])}]}}\n"
        for e in events
    )


def _numbered(events: list[Event]) -> list[Event]:
    return [{"index": at, **event} for at, event in enumerate(events)]


def _answer(events: list[Event], workload: str, models: list[str]) -> dict[str, Any]:
    found = oracle(events, workload, models, {})
    return {name: found[name] for name in ("valid", "anomaly_types", "not", "also_not")}


def _cases() -> Iterator[dict[str, Any]]:
    """Each plant alone, and among other transactions."""
    for workload, name, count in product(WORKLOADS, PLANTS, (0, 16)):
        if name in LISTS_ONLY and workload == "rw-register":
            continue
        clean = simulate(f"{workload}/{name}", workload, "serial", count)
        events = _numbered(planted(clean, name, workload))
        models = ["strict-serializable"]
        answer = _answer(events, workload, models)
        promised = PROMISED.get(name, name)
        assert answer["valid"] is False and promised in answer["anomaly_types"], (workload, name)
        yield {
            "name": f"{name}-{count}",
            "planted": promised,
            "workload": workload,
            "opts": {},
            "history": events,
            "expected": answer,
        }


def _random() -> Iterator[dict[str, Any]]:
    """Histories of each level, clean, and with a plant that breaks a model and keeps another."""
    for workload, level, number in product(WORKLOADS, LEVELS, range(4)):
        events = _numbered(simulate(f"{workload}/{level}/{number}", workload, level, 24))
        verdicts = {model: _answer(events, workload, [model]) for model in LEVELS[level]}
        for model, answer in verdicts.items():
            assert answer["valid"] is True, (workload, level, number, model, answer)
        assert not decides_nothing(events, workload, ())
        yield {
            "name": f"{level}-{number}",
            "workload": workload,
            "opts": {},
            "history": events,
            "verdicts": verdicts,
        }
    for workload, name in product(WORKLOADS, ALLOWS):
        clean = simulate(f"{workload}/{name}/between", workload, "serial", 20)
        events = _numbered(planted(clean, name, workload))
        wanted = {FORBIDS[name]: False, ALLOWS[name]: True}
        verdicts = {model: _answer(events, workload, [model]) for model in wanted}
        got = {model: answer["valid"] for model, answer in verdicts.items()}
        assert got == wanted, (workload, name, got)
        yield {
            "name": f"between-{name}",
            "workload": workload,
            "opts": {},
            "history": events,
            "verdicts": verdicts,
        }


def _graphs() -> Iterator[dict[str, Any]]:
    """Edges of real time and of processes, from intervals drawn at random."""
    for kind, number in product(("realtime", "process"), range(6)):
        dice = random.Random(f"{kind}/{number}")
        spans: list[tuple[int, int, int]] = []
        for process in range(dice.randint(1, 4)):
            at = dice.random() * 10
            for _ in range(dice.randint(1, 4)):
                begin, end = int(at * 1000), int((at := at + dice.random() * 5) * 1000) + 1
                spans.append((begin, end, process))
                at += 0.01 + dice.random() * 3
        marks = sorted(
            [(b, "invoke", p, n) for n, (b, _, p) in enumerate(spans)]
            + [(e, "ok", p, n) for n, (_, e, p) in enumerate(spans)]
        )
        index = {n: at for at, (_, kind_, _, n) in enumerate(marks) if kind_ == "ok"}
        before = nx.DiGraph()
        before.add_nodes_from(range(len(spans)))
        before.add_edges_from(
            (a, b)
            for a, b in product(range(len(spans)), repeat=2)
            if spans[a][1] < spans[b][0] and (kind == "realtime" or spans[a][2] == spans[b][2])
        )
        edges = sorted([index[a], index[b]] for a, b in nx.transitive_reduction(before).edges)
        history = [
            {"index": at, "type": type_, "process": process}
            for at, (_, type_, process, _) in enumerate(marks)
        ]
        yield {"name": f"{kind}-{number}", "graph": kind, "history": history, "edges": edges}


def _rows(rows: list[dict[str, Any]]) -> str:
    return "[" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "]\n"


def files() -> Iterator[tuple[str, str]]:
    """(path, text) of every transactional history."""
    cases, drawn = list(_cases()), list(_random())
    yield "elle/cases.json", _rows(cases)
    yield "elle/random.json", _rows(drawn)
    yield "elle/graphs.json", _rows(list(_graphs()))
    for row in (*cases[1::8], *drawn[::9]):
        good = "planted" not in row and not row["name"].startswith("between")
        folder = "good" if good else "bad"
        name = f"{row['workload']}-{row['name']}"
        yield f"elle/{folder}/{name}.edn", as_edn(row["history"])
