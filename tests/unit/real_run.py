"""A finished run of five etcd members and one partition, as it was recorded on real nodes.

`unpack(path)` lays it out; `Changed` rewrites its segments with some events changed, left out or
added, and keeps everything that counts them in step, so that exactly one thing is broken.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from raw_segments import encode_line, read_segment

from dstest.history.layout import RunDir

ARCHIVE = Path(__file__).parent.parent / "fixtures" / "partition-run.tar.xz"

Event = list[Any]
Change = Callable[[Event], Event | Iterable[Event] | None]


def unpack(path: Path) -> RunDir:
    """The run in `path`, not judged yet."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path)
    return RunDir(path.resolve())


def change_facts(run: RunDir, **changes: Any) -> None:
    """Other facts in run.json; `...` takes one out."""
    facts = {**run.read_json("run.json"), **changes}
    run.write_json("run.json", {k: v for k, v in facts.items() if v is not ...})


def change_events(run: RunDir, change: Change) -> None:
    """Pass each event of the workers through `change`, and count again what the workers counted."""
    board: dict[str, dict[str, int]] = {
        node: dict.fromkeys(("invoked", "ok", "fail", "unknown"), 0)
        for node in run.read_json("run.json")["traffic"]
    }
    node_of: dict[Any, str] = {}
    kinds = {"o": "ok", "f": "fail", "u": "unknown"}
    for path in sorted(run.segments.glob("worker-*.seg")):
        kept: list[Event] = []
        for event in read_segment(path):
            made = change(event) if event[0] != "e" else None
            if made is None:
                continue
            kept += [made] if made and isinstance(made, list) and isinstance(made[0], str) else made
        for event in kept:
            if event[0] == "i":
                node_of[event[1]] = event[7]
                board[event[7]]["invoked"] += 1
            elif event[0] in kinds:
                board[node_of[event[1]]][kinds[event[0]]] += 1
        _write(path, kept)
    offered = sum(row["invoked"] for row in board.values())
    load = {**run.read_json("run.json")["load"], "offered": offered}
    change_facts(run, traffic=board, load=load)


def change_record(run: RunDir, **changes: Any) -> None:
    """Another landing record of the fault; `facts` are merged."""
    record = record_of(run)
    merged = {**record["facts"], **changes.pop("facts", {})}
    changed = {**record, **changes, "facts": merged}
    path = run.segments / "control.seg"
    kept = [e for e in read_segment(path) if e[0] not in ("e", "fault")]
    _write(path, [*kept, ["fault", changed]])


def _write(path: Path, events: list[Event]) -> None:
    lines = [encode_line(event) for event in events]
    path.write_bytes(b"".join(lines) + encode_line(["e", len(lines)]))


def record_of(run: RunDir) -> dict[str, Any]:
    """The landing record."""
    last = [event[1] for event in read_segment(run.segments / "control.seg") if event[0] == "fault"]
    return dict(last[-1])


def copied(value: Any) -> Any:
    """A deep copy of plain data."""
    return msgspec.json.decode(msgspec.json.encode(value))
