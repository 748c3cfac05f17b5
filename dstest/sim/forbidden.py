"""Calls that no simulation can see: they would make one seed differ from run to run.

Clocks, random numbers of the process, sockets, threads, processes, and files that are opened by
name. Found in the text of a module, whatever a name was imported as; what is called by a detour is
found by its digest, which differs.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Forbidden", "forbidden_in"]

_MODULES: Final = {
    "time": "the loop's time(), asyncio.sleep",
    "random": "the numbers that the host was given",
    "secrets": "the numbers that the host was given",
    "uuid": "the numbers that the host was given",
    "socket": "asyncio's connections",
    "threading": "asyncio.create_task, run_in_executor",
    "multiprocessing": "a process of another host",
    "subprocess": "a process of another host",
    "concurrent": "run_in_executor",
}
"""Module -> what stands in its place."""

_CALLS: Final = {
    "os.urandom": "the numbers that the host was given",
    "os.open": "the files that the host was given",
    "os.fsync": "the files that the host was given",
    "os.fdatasync": "the files that the host was given",
    "os._exit": "the way to die that the host was given",
    "datetime.datetime.now": "the loop's time()",
    "datetime.datetime.utcnow": "the loop's time()",
    "datetime.date.today": "the loop's time()",
    "open": "the files that the host was given",
}

_HARMLESS: Final = frozenset({"random.Random", "socket.inet_aton"})
"""Of those modules what decides nothing by itself."""


class Forbidden(msgspec.Struct, frozen=True):
    """A call, where it stands, and what stands in its place."""

    path: str
    line: int
    call: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.call}() cannot be simulated: {self.instead}"


def forbidden_in(path: Path) -> list[Forbidden]:
    """In a file of Python, in the order of its lines."""
    tree = ast.parse(path.read_text())
    names = _imported(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        call = _full(node.func, names)
        if call is None or call in _HARMLESS:
            continue
        instead = _CALLS.get(call) or (_MODULES.get(call.split(".")[0]) if "." in call else None)
        if instead:
            found.append(Forbidden(str(path), node.lineno, call, instead))
    return sorted(found, key=lambda one: one.line)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in the module -> what it is in full."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _full(node: ast.expr, names: dict[str, str]) -> str | None:
    """`datetime.datetime.now` of `dt.now` where `dt` is that."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    first = names.get(node.id)
    if first is None:
        return node.id if node.id == "open" and not parts else None
    return ".".join([first, *reversed(parts)])
