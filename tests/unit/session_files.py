"""Writers of other tools' session files, and random histories for them."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Mop = tuple[str, int, int | None]
"""r or w, key, value; None = what was there at the start."""
Txn = tuple[list[Mop], bool]
"""Operations, and whether it was committed."""
History = list[list[Txn]]

START = 0xBEBEEBEE


def random_history(dice: random.Random, txns: int = 8, *, aborts: bool = True) -> History:
    """Three sessions on three keys: of a store that now and then shows something old."""
    store: dict[int, list[int]] = {}
    last, sessions = 0, [[], [], []]  # type: ignore[var-annotated]
    for _ in range(txns):
        mops: list[Mop] = []
        own: dict[int, int] = {}
        for _ in range(dice.randint(1, 3)):
            key = dice.randrange(3)
            if dice.random() < 0.5:
                last += 1
                own[key] = last
                mops.append(("w", key, last))
            elif key in own:
                mops.append(("r", key, own[key]))
            else:
                seen = store.get(key, [])
                old = dice.randint(1, len(seen)) if seen and dice.random() < 0.3 else len(seen)
                mops.append(("r", key, seen[old - 1] if old else None))
        done = not aborts or dice.random() < 0.85
        for key, value in own.items():
            if done or dice.random() < 0.05:
                store.setdefault(key, []).append(value)
        dice.choice(sessions).append((mops, done))
    return sessions


def op_maps(history: History) -> list[dict[str, Any]]:
    """The same as Jepsen events, one session after the other."""
    events: list[dict[str, Any]] = []
    for process, session in enumerate(history):
        for mops, done in session:
            asked = [[f, key, None if f == "r" else value] for f, key, value in mops]
            base = {"process": process, "f": "txn"}
            events.append({**base, "type": "invoke", "value": asked})
            value = [list(mop) for mop in mops] if done else asked
            events.append({**base, "type": "ok" if done else "fail", "value": value})
    return events


def plume(history: History) -> str:
    lines, number = [], 0
    for at, session in enumerate(history):
        for mops, done in session:
            for f, key, value in mops:
                lines.append(f"{f}({key},{value or 0},{at},{number if done else -1})\n")
            number += 1
    return "".join(lines)


def awdit(history: History) -> str:
    """What was there at the start is 0, which is written by nobody."""
    return "=====\n".join(
        "-----\n".join(
            "".join(f"{f} {key} {value or 0}\n" for f, key, value in mops)
            for mops, done in session
            if done
        )
        for session in history
    )


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def sizes(history: History) -> tuple[int, int, int, int]:
    """Sessions, variables, transactions and events in all, as PolySI tells them."""
    txns = [mops for session in history for mops, _ in session]
    keys = {key for mops in txns for _, key, _ in mops}
    return len(history), len(keys), len(txns), sum(map(len, txns))


def params(history: History) -> dict[str, int]:
    """The same under DBCop's names."""
    names = ("n_node", "n_variable", "n_transaction", "n_event")
    return {"id": 0, **dict(zip(names, sizes(history), strict=True))}


def bincode(history: History) -> bytes:
    made = bytearray(struct.pack("<5Q", 0, *sizes(history)) + _text("made"))
    made += 2 * _text("2026-11-24T10:00:00+00:00") + struct.pack("<Q", len(history))
    for session in history:
        made += struct.pack("<Q", len(session))
        for mops, done in session:
            made += struct.pack("<Q", len(mops))
            for f, key, value in mops:
                made += struct.pack("<BQQB", f == "w", key, value or 0, 1)
            made += bytes([done])
    return bytes(made)


def old_json(history: History) -> str:
    data = [
        [
            {
                "events": [
                    {"write": f == "w", "variable": k, "value": v or 0, "success": True}
                    for f, k, v in mops
                ],
                "success": done,
            }
            for mops, done in session
        ]
        for session in history
    ]
    return json.dumps({"params": params(history), "info": "", "data": data})


def new_json(history: History, compact: bool = False) -> str:
    def event(f: str, key: int, value: int | None) -> Any:
        if compact:
            return [f, key, value]
        return {"Write" if f == "w" else "Read": {"variable": key, "version": value}}

    data = [
        [{"events": [event(*mop) for mop in mops], "committed": done} for mops, done in session]
        for session in history
    ]
    return json.dumps({"params": params(history), "data": data}, indent=1)


def marks(history: History) -> str:
    def event(f: str, key: int, value: int | None) -> str:
        return f"k{key}{':=' if f == 'w' else '=='}{'?' if value is None else value}"

    return "---\n".join(
        "// a session\n"
        + "".join(
            f"[{' '.join(event(*mop) for mop in mops)}]{'' if done else '!'}\n"
            for mops, done in session
        )
        for session in history
    )


def cobra(history: History, stamp: bool = False) -> dict[str, bytes]:
    """Logs by name, without what was aborted."""
    owner, number = {}, 100
    for session in history:
        for mops, _ in session:
            number += 1
            owner.update({value: number for f, _, value in mops if f == "w"})
    logs, number = {}, 100
    time = struct.pack(">q", 1_700_000_000_000) if stamp else b""
    for at, session in enumerate(history):
        log = bytearray()
        for mops, done in session:
            number += 1
            if not done:
                continue
            log += b"S" + struct.pack(">q", number) + time
            for f, key, value in mops:
                if f == "w":
                    log += b"W" + struct.pack(">3q", value, key, 77)
                else:
                    by = (START, START) if value is None else (owner[value], value)
                    log += b"R" + struct.pack(">4q", *by, key, 77)
            log += b"C" + struct.pack(">q", number) + time
        logs[f"T{at}.log"] = bytes(log)
    return logs


def put_logs(folder: Path, logs: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, log in logs.items():
        (folder / name).write_bytes(log)
    return folder


def put(folder: Path, content: Any) -> Path:
    if isinstance(content, dict):
        return put_logs(folder / "logs", content)
    path = folder / "history.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def committed(history: History) -> History:
    return [[txn for txn in session if txn[1]] for session in history]


def empty(history: Iterable[list[Txn]]) -> bool:
    return not any(history)
