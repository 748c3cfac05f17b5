"""Runs on a node whose etcd is stopped: cuts the end of its write-ahead log off, puts it back.

    STATE flip tail DATA SHARE MARKER ID

cuts the newest file of the log at a byte, so that SHARE (0 to 1) of what it holds is gone; the
preallocated zeros behind go as well, and with a share of 0 nothing else. At least one entry stays.
STATE is JSON, written and synced before the cut: `{"what": "tail", "path", "copy", "marker",
"member", "files", "sha256" (of the file before), "size", "end" (of what it holds), "at" (the cut),
"cut_off_sha256" (of what it held behind), "last", "kept" (index of the last entry before and
after)}`. ID goes into the file MARKER.

`show` adds what the file is now: `"sha256_now"`, `"size_now"`, `"end_now"`, `"last_now"`.

`heal` adds `"put_back"`. The end is put back only where the server has written nothing behind what
we left. A server may have answered for whatever it has written since: with its old log it would
forget that, and a member that forgets what it acknowledged or voted for may let the cluster lose
it. There MARKER stays, by which whoever comes next replaces the member by a new and empty one,
which has answered for nothing; where the end is back MARKER is gone. STATE and the copy go.
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from clusters.systems.etcd.agents.wal import entry_index, newest, records


def copy_of(state_path: Path) -> Path:
    """Where the log lies while its end is cut off, without the zeros behind."""
    return state_path.with_name(f"{state_path.name}.wal")


def write_synced(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        sys.exit(f"{text!r} is no number")
    if not 0 <= share <= 1:
        sys.exit(f"a share of {text} cannot be cut off")
    return share


def _looked_at(data: bytes) -> tuple[int, list[tuple[int, int]]]:
    """End of what a log holds; end of record and index of each entry."""
    end, found = 0, []
    for row in records(data):
        end, index = row.end, entry_index(data, row)
        if index is not None:
            found.append((end, index))
    return end, found


def cut(state_path: Path, argv: list[str]) -> None:
    """Choose, copy, write it down, do it."""
    share, marker, member = _share(argv[2]), Path(argv[3]), argv[4]
    if state_path.exists():
        sys.exit(f"{state_path}: something is not healed yet")
    path = newest(Path(argv[1]))
    data = path.read_bytes()
    end, frames = _looked_at(data)
    if len(frames) < 2:
        sys.exit(f"{path} has not two entries yet")
    at = max(int(end * (1 - share)), frames[0][0])
    kept = [index for record_end, index in frames if record_end <= at]
    if share and len(kept) == len(frames):
        sys.exit(f"{path} holds no entry so near its end")
    state = {
        "what": "tail",
        "path": str(path),
        "copy": str(copy_of(state_path)),
        "marker": str(marker),
        "member": member,
        "files": sorted(p.name for p in path.parent.iterdir()),
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "end": end,
        "at": at,
        "cut_off_sha256": hashlib.sha256(data[at:end]).hexdigest(),
        "last": frames[-1][1],
        "kept": kept[-1],
    }
    write_synced(copy_of(state_path), data.rstrip(b"\0"))
    write_synced(state_path, json.dumps(state).encode())
    write_synced(marker, member.encode())
    _write(path, b"", at, at)


def _write(path: Path, data: bytes, offset: int, size: int) -> None:
    """Write in place, give the file this size, and sync."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())


def with_file(state: dict[str, Any]) -> dict[str, Any]:
    """The state with what the file is now."""
    path = Path(state["path"])
    data = path.read_bytes() if path.exists() else b""
    end, frames = _looked_at(data)
    return {
        **state,
        "sha256_now": hashlib.sha256(data).hexdigest(),
        "size_now": len(data),
        "end_now": end,
        "last_now": frames[-1][1] if frames else None,
    }


def _untouched(state: dict[str, Any], whole: bytes) -> bool:
    """Is there still what we left, or its beginning? A server drops a record that is torn."""
    path = Path(state["path"])
    segments = [name for name in state["files"] if name.endswith(".wal")]
    if sorted(p.name for p in path.parent.glob("*.wal")) != segments:
        return False
    now = path.read_bytes().rstrip(b"\0")
    return len(now) <= state["at"] and whole.startswith(now)


def heal(state_path: Path) -> dict[str, Any]:
    """Put the end back where that forgets nothing; the state with what the file is then."""
    state: dict[str, Any] = json.loads(state_path.read_text(encoding="utf-8"))
    path, copy = Path(state["path"]), Path(state["copy"])
    whole = copy.read_bytes() if copy.exists() else b""
    put_back = copy.exists() and _untouched(state, whole)
    if put_back:
        _write(path, whole, 0, state["size"])
        for broken in path.parent.glob("*.broken"):
            if broken.name not in state["files"]:
                broken.unlink()
        Path(state["marker"]).unlink(missing_ok=True)
    state = {**with_file(state), "put_back": put_back}
    copy.unlink(missing_ok=True)
    state_path.unlink()
    return state
