"""Calls that no simulation can see: they would make one seed differ from run to run.

Clocks, random numbers of the process, sockets, threads, processes, hashes, and files that are
opened by name. Found in the text of a module, whatever a name was imported as; what is called by a
detour is found by the digest of a seed, which differs when it is repeated.
"""

from __future__ import annotations

import ast
import builtins
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_NUMBERS: Final = "the numbers that the host was given"
_FILES: Final = "the files that the host was given"
_CLOCK: Final = "the loop's time()"
_DEATH: Final = "the way to die that the host was given"
_HOST: Final = "a process of another host"

_PREFIXES: Final = {
    "time": f"{_CLOCK}, asyncio.sleep",
    "random": _NUMBERS,
    "secrets": _NUMBERS,
    "uuid": _NUMBERS,
    "numpy.random": _NUMBERS,
    "socket": "asyncio's connections",
    "select": "asyncio's connections",
    "selectors": "asyncio's connections",
    "threading": "asyncio.create_task, run_in_executor",
    "multiprocessing": _HOST,
    "subprocess": _HOST,
    "concurrent": "run_in_executor",
    "os": "what the host was given: files, numbers, a way to die",
    "tempfile": _FILES,
    "shutil": _FILES,
}
"""Module -> what stands in place of all that it does, but for what is harmless."""

_CALLS: Final = {
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.date.today": _CLOCK,
    "asyncio.create_subprocess_exec": _HOST,
    "asyncio.create_subprocess_shell": _HOST,
    "io.open": _FILES,
    "io.FileIO": _FILES,
    "codecs.open": _FILES,
    "sys.exit": _DEATH,
    "open": _FILES,
    "exit": _DEATH,
    "quit": _DEATH,
    "hash": "a checksum, such as zlib.crc32: hashes of texts differ from process to process",
    "id": "a number that is counted: where an object lies differs from process to process",
}

_HARMLESS: Final = {
    "random.Random": 1,
    "numpy.random.default_rng": 1,
    "numpy.random.Generator": 1,
    "numpy.random.RandomState": 1,
    "time.strftime": 2,
    "time.asctime": 1,
    "time.gmtime": 1,
    "time.strptime": 1,
    "uuid.UUID": 0,
    "uuid.uuid3": 0,
    "uuid.uuid5": 0,
    **dict.fromkeys((f"socket.{w}" for w in ("ntohs", "ntohl", "htons", "htonl")), 0),
    **dict.fromkeys((f"socket.inet_{w}" for w in ("aton", "ntoa", "pton", "ntop")), 0),
    **dict.fromkeys((f"os.{w}" for w in ("fspath", "fsencode", "fsdecode", "strerror")), 0),
    **dict.fromkeys(
        (f"os.path.{w}" for w in ("join", "basename", "dirname", "split", "splitext", "normpath")),
        0,
    ),
}
"""Of those modules what decides nothing by itself, with at least so many arguments."""

_OF_PATHS: Final = frozenset(
    {"exists", "is_dir", "is_file", "stat", "iterdir", "glob", "rglob"}
    | {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
    | {"mkdir", "rename", "replace", "rmdir", "touch", "unlink"}
)


class Forbidden(msgspec.Struct, frozen=True):
    """A call, where it stands, and what stands in its place."""

    path: str
    line: int
    call: str
    instead: str

    def __str__(self) -> str:
        call = self.call if " " in self.call else f"{self.call}()"
        return f"{self.path}, line {self.line}: {call} cannot be simulated: {self.instead}"


def forbidden_in(path: Path) -> tuple[Forbidden, ...]:
    """In a file of Python, in the order of its lines."""
    return _forbidden_in(str(path), path.read_text())


@cache
def _forbidden_in(path: str, text: str) -> tuple[Forbidden, ...]:
    tree = ast.parse(text)
    names = _imported(tree)
    paths = _paths(tree, names)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call, instead = _forbidden_call(node, names, paths)
            if call is not None and instead:
                found.append(Forbidden(path, node.lineno, call, instead))
        elif isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*":
            instead = next((why for name, why in _rules() if _under(name, node.module)), None)
            if instead:
                found.append(Forbidden(path, node.lineno, f"from {node.module} import *", instead))
    return tuple(sorted(found, key=lambda one: one.line))


def _rules() -> list[tuple[str, str]]:
    return [*_PREFIXES.items(), *((name, why) for name, why in _CALLS.items() if "." in name)]


def _under(name: str, module: str) -> bool:
    """Is the one in the other, either way?"""
    return f"{name}.".startswith(f"{module}.") or f"{module}.".startswith(f"{name}.")


def _forbidden_call(
    node: ast.Call, names: dict[str, str], paths: frozenset[str]
) -> tuple[str | None, str | None]:
    """The call in full, and what stands in its place; None where it may be called."""
    func = node.func
    if (
        isinstance(func, ast.Attribute)
        and func.attr in _OF_PATHS
        and _is_path(func.value, names, paths)
    ):
        return f"pathlib.Path.{func.attr}", _FILES
    call = _full(func, names)
    if call is None:
        return None, None
    least = _HARMLESS.get(call)
    if least is not None and len(node.args) + len(node.keywords) >= least:
        return call, None
    by_prefix = (why for name, why in _PREFIXES.items() if call.startswith(f"{name}."))
    return call, _CALLS.get(call) or next(by_prefix, None)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Name in the module -> what it is in full."""
    stored = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    own = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    names = {name: name for name in _CALLS if hasattr(builtins, name) and name not in own}
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
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def _paths(tree: ast.Module, names: dict[str, str]) -> frozenset[str]:
    """What is a path by its annotation, or because one was assigned to it."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            if _full(node.annotation, names) == "pathlib.Path":
                found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _full(node.annotation, names) == "pathlib.Path":
            found.add(ast.unparse(node.target))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_path(node.value, names, frozenset(found)):
            found |= {ast.unparse(target) for target in node.targets}
    return frozenset(found)


def _is_path(node: ast.expr, names: dict[str, str], paths: frozenset[str]) -> bool:
    """`Path(...)`, what is made of one by `/`, an attribute or a method, or what is called so."""
    if isinstance(node, ast.Call):
        return _full(node.func, names) == "pathlib.Path" or (
            isinstance(node.func, ast.Attribute) and _is_path(node.func.value, names, paths)
        )
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) and (
            _is_path(node.left, names, paths) or _is_path(node.right, names, paths)
        )
    if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in paths:
        return True
    if isinstance(node, ast.Attribute):
        return _is_path(node.value, names, paths)
    return _full(node, names) == "pathlib.Path"
