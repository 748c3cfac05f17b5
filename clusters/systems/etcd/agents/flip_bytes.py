"""Runs on a node whose etcd is stopped: flips bytes of its files, shows them, puts them back.

    STATE flip log DATA FRACTION
    STATE flip store DATA OLD NEW
    STATE flip tail DATA SHARE MARKER ID      (see cut_log.py, as for what `show` and `heal` do)
    STATE show
    STATE heal

`log` flips one bit inside the data of one entry of the newest write-ahead log, the one at FRACTION
(0 to 1) of its entries: every entry has a checksum, which covers it. `store` replaces OLD by NEW,
texts of equal length, wherever it stands in the bbolt file, old pages included: values have no
checksum there. STATE is JSON, written and synced before the first byte is flipped:
`{"what", "path", "sha256" (of the file before), "bytes": [{"offset", "old", "new"}]}`.

`show` prints STATE with the bytes as they are now (`"now"`), `heal` puts the old ones back, prints
the same with `"sha256_now"`, and deletes STATE; without one it does nothing. In the store a healed
value may have moved, so there NEW is replaced by OLD wherever it stands.

Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from clusters.systems.etcd.agents import cut_log
from clusters.systems.etcd.agents.wal import ENTRY, newest, records

DATA_BYTES_MIN = 32


def entries(data: bytes) -> list[int]:
    """Offset of a byte inside the data of each entry of a write-ahead log."""
    return [
        row.body_end - 4
        for row in records(data)
        if row.body_end - row.body > DATA_BYTES_MIN and data[row.body : row.body + 2] == ENTRY
    ]


def occurrences(data: bytes, text: bytes) -> list[int]:
    """Where a text stands."""
    found, at = [], data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1)
    return found


def patch(path: Path, rows: list[tuple[int, bytes]]) -> None:
    """Overwrite in place, and sync."""
    with path.open("r+b") as file:
        for offset, data in rows:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())


def flip(state_path: Path, argv: list[str]) -> None:
    """Choose, write it down, do it."""
    what, folder = argv[0], Path(argv[1])
    if what == "log":
        path = newest(folder)
        data = path.read_bytes()
        offsets = entries(data)
        if not offsets:
            sys.exit(f"{path} has no entry yet")
        at = offsets[min(len(offsets) - 1, int(float(argv[2]) * len(offsets)))]
        rows = [(at, data[at : at + 1], bytes([data[at] ^ 0x01]))]
    else:
        path = folder / "member" / "snap" / "db"
        data = path.read_bytes()
        old, new = argv[2].encode(), argv[3].encode()
        if len(old) != len(new):
            sys.exit("texts of different length")
        rows = [(at, old, new) for at in occurrences(data, old)]
        if not rows:
            sys.exit(f"{path} does not hold the value")
    state = {
        "what": what,
        "path": str(path),
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": [{"offset": at, "old": old.hex(), "new": new.hex()} for at, old, new in rows],
    }
    cut_log.write_synced(state_path, json.dumps(state).encode())
    patch(path, [(at, new) for at, _, new in rows])


def with_bytes(state: dict[str, Any]) -> dict[str, Any]:
    """The state with the bytes as they are now."""
    with open(state["path"], "rb") as file:
        for row in state["bytes"]:
            file.seek(row["offset"])
            row["now"] = file.read(len(row["old"]) // 2).hex()
    return state


def heal(state_path: Path) -> dict[str, Any]:
    """Put the old bytes back; the state with what the file is now."""
    state: dict[str, Any] = json.loads(state_path.read_text(encoding="utf-8"))
    path = Path(state["path"])
    rows = [(row["offset"], bytes.fromhex(row["old"])) for row in state["bytes"]]
    if state["what"] == "store":
        old, new = (bytes.fromhex(state["bytes"][0][key]) for key in ("old", "new"))
        rows = [(at, old) for at in occurrences(path.read_bytes(), new)]
    patch(path, rows)
    with_bytes(state)["sha256_now"] = hashlib.sha256(path.read_bytes()).hexdigest()
    state_path.unlink()
    return state


def main(argv: list[str]) -> None:
    state_path, verb = Path(argv[0]), argv[1]
    if verb == "flip":
        (cut_log.cut if argv[2] == "tail" else flip)(state_path, argv[2:])
        return
    state: dict[str, Any] = {}
    if state_path.exists():
        known = json.loads(state_path.read_text(encoding="utf-8"))
        if known["what"] == "tail":
            state = cut_log.heal(state_path) if verb == "heal" else cut_log.with_file(known)
        else:
            state = heal(state_path) if verb == "heal" else with_bytes(known)
    elif cut_log.copy_of(state_path).exists():
        state = {"what": "tail", "left": str(cut_log.copy_of(state_path))}
    sys.stdout.write(json.dumps(state) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
