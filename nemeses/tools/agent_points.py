"""Runs on a node: the functions of a program, and whether its code is as its file has it.

    agent_points.py find EXE PATTERN...     addresses of functions
    agent_points.py list EXE PATTERN LIMIT  their names
    agent_points.py near EXE NAME LIMIT     those that stand nearest to a function, by their names
    agent_points.py names EXE ADDRESS...    which function each address is in
    agent_points.py bias PID...             what the kernel has added to the addresses of a file
    agent_points.py touched PID ADDRESS...  which bytes of a process are not those of its file
    agent_points.py asleep SECONDS PID...   samples in which a traced thread stands, others not

Prints JSON; addresses are those of the file, in hexadecimal. Names come from `.gopclntab`, which a
stripped program of Go keeps, from the symbol tables, and from debug files below /usr/lib/debug. A
pattern is a whole name, its end after a `/`, or a glob. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import bisect
import fnmatch
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

GO_118, GO_120, GO_116 = 0xFFFFFFF0, 0xFFFFFFF1, 0xFFFFFFFA
FUNCTION = 2
NAME_MAX = 4096
DEBUG = "/usr/lib/debug/.build-id"
EM_X86_64 = 62
DYN = 3


class Section(NamedTuple):
    """Of an ELF file."""

    kind: int
    address: int
    offset: int
    size: int
    link: int


class Elf:
    """A program's file. ValueError where it is none of 64 bits for x86."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        head = self.data[:64]
        if head[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", head, 18)[0] != EM_X86_64:
            raise ValueError(f"{path} is no program for x86-64")
        self.type = struct.unpack_from("<H", head, 16)[0]
        programs, self._sections_at = struct.unpack_from("<QQ", head, 32)
        _, size, count, each, number, names = struct.unpack_from("<6H", head, 52)
        self.loads = []
        for i in range(count):
            kind, _, offset, address, _, in_file, _, align = struct.unpack_from(
                "<IIQQQQQQ", self.data, programs + i * size
            )
            if kind == 1:
                self.loads.append((address, offset, in_file, align))
        rows = []
        for i in range(number):
            name, kind, _, address, offset, length, link = struct.unpack_from(
                "<IIQQQQI", self.data, self._sections_at + i * each
            )
            rows.append((name, Section(kind, address, offset, length, link)))
        strings = rows[names][1].offset if rows else 0
        self.sections = {self.text_at(strings + name): section for name, section in rows}
        self.rows = [section for _, section in rows]

    def text_at(self, offset: int) -> str:
        """The string that begins there."""
        end = self.data.find(b"\0", offset, offset + NAME_MAX)
        return self.data[offset : max(end, offset)].decode("utf-8", "replace")

    def bytes_at(self, address: int, count: int) -> bytes:
        """What the file has at an address."""
        for start, offset, size, _ in self.loads:
            if start <= address < start + size:
                at = offset + address - start
                return self.data[at : at + count]
        return b""

    def go_functions(self) -> Iterator[tuple[str, int]]:
        """(Name, address) of a program of Go; nothing of others."""
        found = [s for name, s in self.sections.items() if name.endswith("gopclntab")]
        if not found:
            return
        at = found[0].offset
        magic, _, _, _, pointer = struct.unpack_from("<IBBBB", self.data, at)
        if pointer != 8:
            return
        if magic in (GO_118, GO_120):
            count, _, text, names, _, _, _, table = struct.unpack_from("<8Q", self.data, at + 8)
            text = text or self.sections[".text"].address
            for i in range(count):
                entry, where = struct.unpack_from("<II", self.data, at + table + 8 * i)
                (name,) = struct.unpack_from("<i", self.data, at + table + where + 4)
                yield self.text_at(at + names + name), text + entry
        elif magic == GO_116:
            count, _, names, _, _, _, table = struct.unpack_from("<7Q", self.data, at + 8)
            for i in range(count):
                entry, where = struct.unpack_from("<QQ", self.data, at + table + 16 * i)
                (name,) = struct.unpack_from("<i", self.data, at + table + where + 8)
                yield self.text_at(at + names + name), entry

    def symbols(self) -> Iterator[tuple[str, int]]:
        """(Name, address) of the functions in its symbol tables."""
        for section in self.rows:
            if section.kind not in (2, 11):
                continue
            strings = self.rows[section.link].offset
            for at in range(section.offset, section.offset + section.size, 24):
                name, info, _, _, value = struct.unpack_from("<IBBHQ", self.data, at)
                if info & 15 == FUNCTION and value and name:
                    yield self.text_at(strings + name), value

    def debug_file(self) -> str:
        """Where its debug data lies, empty where it is not installed."""
        note = self.sections.get(".note.gnu.build-id")
        if note is None:
            return ""
        mark = self.data[note.offset + 16 : note.offset + note.size].hex()
        path = f"{DEBUG}/{mark[:2]}/{mark[2:]}.debug"
        return path if os.path.exists(path) else ""


def functions(path: str) -> tuple[list[tuple[str, int]], bool]:
    """(Names with addresses, is it a program of Go?) ValueError where its tables are none."""
    try:
        elf = Elf(path)
        go = list(elf.go_functions())
        found = go or list(elf.symbols())
        debug = elf.debug_file()
        if not go and debug:
            found += Elf(debug).symbols()
    except (struct.error, LookupError, OverflowError) as error:
        raise ValueError(f"the tables of {path} cannot be read: {error}") from None
    return sorted({*found}, key=lambda row: row[1]), bool(go)


def matching(rows: list[tuple[str, int]], pattern: str) -> list[tuple[str, int]]:
    """Those of this name, whole or behind a `/`; where there is none, those that the glob fits. A
    star in a name of Go, `(*store)`, is itself first of all."""
    exact = [row for row in rows if row[0] == pattern or row[0].endswith("/" + pattern)]
    if exact or not any(mark in pattern for mark in "*?["):
        return exact
    globs = (pattern, "*/" + pattern)
    return [row for row in rows if any(fnmatch.fnmatchcase(row[0], glob) for glob in globs)]


def bias_of(pid: int) -> int:
    """What the kernel has added to the addresses of a process' file."""
    exe = f"/proc/{pid}/exe"
    elf, target = Elf(exe), os.readlink(exe)
    if elf.type != DYN:
        return 0
    first, offset, _, _ = min(elf.loads)
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            words = line.split(None, 5)
            named = len(words) == 6 and words[5].strip() == target
            if named and int(words[2], 16) == offset & ~4095:
                start = int(words[0].partition("-")[0], 16)
                return start - int(first & ~4095)
    raise ValueError(f"process {pid} has not mapped its program")


def find(path: str, patterns: list[str]) -> dict[str, Any]:
    """Addresses of functions by pattern; what the program has in all, and what it is written in."""
    rows, go = functions(path)
    found = {p: {name: f"{at:x}" for name, at in matching(rows, p)} for p in patterns}
    like = {p: _like(rows, p) for p, names in found.items() if not names}
    return {"go": go, "functions": len({at for _, at in rows}), "found": found, "like": like}


def _like(rows: list[tuple[str, int]], pattern: str) -> list[str]:
    """Names that have the last word of it."""
    word = pattern.rpartition(".")[2].strip("*").lower()
    return [name for name, _ in rows if word and word in name.lower()][:5]


def in_common(one: str, other: str) -> int:
    """How many letters two names share from the left."""
    pairs = enumerate(zip(one, other))  # noqa: B905 - nodes have Python 3.9
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def near(path: str, name: str, limit: int) -> dict[str, str]:
    """Addresses by name of all functions that fit, and of those whose names have the most in common
    with the first of them from the left: of Go those of its type, then of its package. Nothing that
    shares no letter."""
    rows, _ = functions(path)
    named_so = matching(rows, name)
    if not named_so:
        return {}
    whole, fit = named_so[0][0], dict(named_so)
    shared = [(in_common(whole, other), other, at) for other, at in rows if other not in fit]
    shared.sort(key=lambda row: -row[0])
    nearest = [*named_so, *((other, at) for length, other, at in shared if length)]
    return {other: f"{at:x}" for other, at in nearest[:limit]}


def named(path: str, addresses: list[int]) -> list[str]:
    """The function that each address is in; empty where nobody knows."""
    rows, _ = functions(path)
    starts = [at for _, at in rows]
    places = [bisect.bisect_right(starts, at) - 1 for at in addresses]
    return [rows[place][0] if place >= 0 else "" for place in places]


def touched(pid: int, addresses: list[int]) -> list[str]:
    """Addresses at which a process has another byte than its file."""
    elf, bias = Elf(f"/proc/{pid}/exe"), bias_of(pid)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        found = []
        for at in addresses:
            memory.seek(at + bias)
            if memory.read(1) != elf.bytes_at(at, 1):
                found.append(f"{at:x}")
    return found


def asleep(seconds: float, pids: list[str]) -> int:
    """In how many samples, 20 a second, a thread that a tracer has stopped has stood since the one
    before, without having run in between, while another one had not."""
    until, count = time.monotonic() + seconds, 0
    before: dict[str, str] = {}
    while time.monotonic() < until:
        now = {task: state for pid in pids for task, state in _stopped(pid).items()}
        stood = [task for task, state in now.items() if state and before.get(task) == state]
        count += bool(stood) and len(stood) < len(now)
        before = now
        time.sleep(0.05)
    return count


def _stopped(pid: str) -> dict[str, str]:
    """Of each thread how often it has been switched away, where a tracer has stopped it; empty
    where it runs or waits by itself."""
    found = {}
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/status") as file:
                rows = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue  # it has ended
        switches = rows["voluntary_ctxt_switches"] + rows["nonvoluntary_ctxt_switches"]
        found[task] = switches if rows["State"].split()[0] == "t" else ""
    return found


def main(argv: list[str]) -> None:
    """Answer one question."""
    what, rest = argv[0], argv[1:]
    answer: Any
    if what == "find":
        answer = find(rest[0], rest[1:])
    elif what == "list":
        rows = matching(functions(rest[0])[0], rest[1])
        answer = {"found": len(rows), "names": [name for name, _ in rows[: int(rest[2])]]}
    elif what == "near":
        answer = near(rest[0], rest[1], int(rest[2]))
    elif what == "names":
        answer = named(rest[0], [int(word, 16) for word in rest[1:]])
    elif what == "bias":
        answer = {pid: f"{bias_of(int(pid)):x}" for pid in rest}
    elif what == "asleep":
        answer = asleep(float(rest[0]), rest[1:])
    else:
        answer = touched(int(rest[0]), [int(word, 16) for word in rest[1:]])
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
