#!/usr/bin/env python3
"""House rules that ruff and mypy do not know: a line for each breach, and exit 1 then.

rules.py [DIRECTORY]      the tree to look at; that of this file unless it is said
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

ROOMS = ("dstest", "nemeses", "workloads", "checkers", "clusters")
TOP = {*ROOMS, "vagrant", "tests", "docs"}
TOP |= {"pyproject.toml", "Makefile", "README.md", "ARCHITECTURE.md", "LICENSE"}
"""What lies on top of the repository, besides what begins with a dot."""

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
SYSTEM_LINES_MAX = 280
SYSTEMS_LINES_MAX = {"memcached": 100, "redis_sentinel": 150}
"""Systems of one file are read at one sitting: what many need is in the base."""

_RUN = {"dstest.core", "dstest.history", "dstest.judge", "dstest.debug", "dstest.report"}
_RUNS = _RUN | {"dstest.runner", "dstest"}
ALLOWED: dict[str, set[str]] = {
    "dstest.core": set(),
    "dstest.history": {"dstest.core"},
    "dstest.spec": {"dstest.core"},
    "dstest.sim": {"dstest.core"},
    "dstest.chaos": {"dstest.core", "dstest"},
    "nemeses": {"dstest.core"},
    "workloads": {"dstest.core"},
    "checkers": {"dstest.core"},
    "clusters": {"dstest.core"},
    "dstest.judge": {"dstest.core", "dstest.history", "checkers"},
    "dstest.debug": {"dstest.core", "dstest.history", "dstest.judge", "dstest.spec"},
    "dstest.report": (_RUN - {"dstest.report"}) | {"checkers"},
    "dstest.runner": _RUN
    | {"dstest.sim", "dstest", "nemeses", "workloads", "checkers", "clusters"},
    "dstest.notebook": _RUNS | {"checkers"},
    "dstest.campaign": _RUNS | {"nemeses", "clusters"},
    "dstest.plans": _RUNS | {"dstest.campaign", "dstest.spec", "nemeses", "clusters"},
    "dstest.store": _RUNS | {"dstest.campaign", "dstest.plans", "checkers"},
    "dstest.check": _RUNS | {"dstest.store", "checkers"},
    "dstest.serve": _RUNS | {"dstest.store", "checkers"},
    "dstest.gate": _RUNS | {"dstest.campaign", "dstest.plans", "dstest.store"},
    "dstest.extend": {"dstest.core", "dstest.runner", "nemeses", "clusters"},
    "dstest.testing": {"dstest.core", "dstest.history", "dstest.store"},
}
"""Room -> rooms it may import, besides itself. `dstest.cli` may import all."""

_FAULT = {"nemeses.base", "nemeses.observe", "nemeses.tools"}
FOLDERS: dict[str, set[str]] = {
    "dstest.debug.logs": set(),
    "dstest.debug.monitor": {"dstest.debug.logs"},
    "dstest.debug.traces": {"dstest.debug.logs"},
    "dstest.debug.patterns": {
        *("dstest.debug.logs", "dstest.debug.monitor", "dstest.debug.traces"),
        "dstest.debug.patterns.families",
    },
    "dstest.debug.patterns.families": {"dstest.debug.logs", "dstest.debug.patterns"},
    "dstest.campaign.steps": {"dstest.campaign"},
    "dstest.campaign.workers": {"dstest.campaign.steps"},
    "dstest.campaign.shrink": {"dstest.campaign.steps", "dstest.campaign.workers"},
    "dstest.campaign.nightly": {
        *("dstest.campaign", "dstest.campaign.steps", "dstest.campaign.workers"),
    },
    "dstest.campaign.known_bugs": {"dstest.campaign.known_bugs.entries"},
    "nemeses.tools": set(),
    "nemeses.observe": set(),
    "nemeses.base": {"nemeses.observe", "nemeses.tools"},
    "nemeses.network": _FAULT,
    "nemeses.process": _FAULT,
    "nemeses.clock": _FAULT,
    "nemeses.disk": _FAULT | {"nemeses.process"},
    "nemeses.member": _FAULT | {"nemeses.process"},
    "checkers.ops": {"checkers"},
    "checkers.lin": {"checkers", "checkers.ops"},
    "checkers.txn": {"checkers", "checkers.second"},
    "checkers.predicates": {"checkers", "checkers.txn"},
    "checkers.second": set(),
    "checkers.txn.sessions": {"checkers", "checkers.txn"},
    "clusters.remote": set(),
    "clusters.labs": {"clusters.remote"},
    "clusters.labs.existing": {"clusters.labs", "clusters.remote"},
    "clusters.supervise": {"clusters.remote"},
    "clusters.sql": {"clusters.supervise"},
    "clusters.systems": {"clusters.supervise", "clusters.sql", "clusters.systems.etcd"},
    "clusters.systems.nats": {"clusters.supervise"},
    "clusters.systems.rabbitmq": {"clusters.supervise"},
    "clusters.systems.redis_cluster": {"clusters.supervise"},
    "clusters.systems.tarantool": {"clusters.supervise"},
    "clusters.systems.toykv.agents": set(),
    "clusters.systems.toykv": {"clusters.supervise", "clusters.systems.toykv.agents"},
    "clusters.systems.zookeeper": {"clusters.supervise"},
    "clusters.systems.etcd.agents": set(),
    "clusters.systems.etcd.clients": {"clusters.systems.etcd", "clusters.supervise"},
    "clusters.systems.etcd": {
        *("clusters.supervise", "clusters.systems.etcd.agents", "clusters.systems.etcd.clients"),
    },
}
"""Folder of a room -> folders of the same room that it may import, besides itself."""

CLOCK = "dstest.core.clock"
CLOCKS = {
    "time": {
        *("time", "monotonic", "perf_counter", "clock_gettime"),
        *("time_ns", "monotonic_ns", "perf_counter_ns", "clock_gettime_ns"),
        *("gmtime", "localtime", "ctime", "asctime", "strftime"),
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
"""Module or class -> what reads a clock. CPU time (`process_time`) is none."""

LAB_FACTS = re.compile(r"\b(lab|_lab|info|there|running)\.facts\b")
PRINTED_ONLY = ("clusters", "dstest", "nemeses")
LOOKED_AT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Attribute)


class Source:
    """A file of ours: where it lies below the root, and what it says."""

    def __init__(self, place: Path, text: str) -> None:
        self.place = place
        self.text = text
        self.module = place.with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        self.is_package = place.name == "__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [node for node in ast.walk(self.tree) if isinstance(node, LOOKED_AT)]

    @cached_property
    def imports(self) -> set[str]:
        """Dotted names of all modules that it imports, wherever in it."""
        found = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
        return found

    @property
    def is_sent_to_nodes(self) -> bool:
        """Agents run alone on a node, where nothing of ours can be imported."""
        folder, stem = self.place.parent.as_posix(), self.place.stem
        if folder.startswith("clusters/systems/"):
            return self.place.parent.name == "agents"
        if folder in ("clusters/remote", "nemeses/tools", "clusters/labs/existing"):
            return stem.startswith("agent_") and self.module != "clusters.remote.agent_client"
        return False


def room_of(module: str) -> str | None:
    """The room a dotted module name belongs to, None where it is not ours."""
    parts = module.split(".")
    if parts[0] not in ROOMS:
        return None
    return ".".join(parts[:2]) if parts[0] == "dstest" and len(parts) > 1 else parts[0]


def rooms_point_one_way(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    for source in sources:
        room = room_of(source.module)
        if room in (None, "dstest", "dstest.cli", "dstest.__main__"):
            continue
        others = {room_of(module) for module in source.imports} - {None, room}
        for other in sorted(map(str, others - ALLOWED.get(room, set()))):
            yield source, f"{room} does not import {other}"


def folders_point_one_way(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    packages = {source.module for source in sources if source.is_package}

    def folder_of(module: str) -> str:
        """The folder a module lies in; its room where it lies on top of it."""
        return module if module in packages else module.rpartition(".")[0]

    for source in sources:
        folder = folder_of(source.module)
        room = room_of(folder)
        if folder == room or source.is_package:
            continue
        if folder.startswith("dstest.") and folder not in FOLDERS:
            continue
        ours = {module for module in source.imports if room_of(module) == room}
        others = {folder_of(module) or room for module in ours}
        for other in sorted(map(str, others - FOLDERS.get(folder, set()) - {folder})):
            yield source, f"{folder} does not import {other}"


def agents_travel_alone(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    sent = [source for source in sources if source.is_sent_to_nodes]
    allowed = {"clusters.remote", *(source.module for source in sent)}
    for source in sent:
        for module in sorted({m for m in source.imports if room_of(m)} - allowed):
            yield source, f"runs on a node, where there is no {module}"


def files_are_one_concept(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    for source in sources:
        lines, most = source.text.count("\n"), FILE_LINES_MAX
        if source.place.parent.as_posix() == "clusters/systems" and not source.is_package:
            most = SYSTEMS_LINES_MAX.get(source.place.stem, SYSTEM_LINES_MAX)
            if "fmt: " in source.text:
                yield source, "a system is as the formatter writes it"
        if lines > most:
            yield source, f"{lines} lines, {most} at most: is it one thing?"


def functions_are_short(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield source, f"{node.name}: {lines} lines, {FUNCTION_LINES_MAX} at most"


def clocks_read(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """What reads a clock in it, by whatever name it was imported."""
    names = {name: name for name in CLOCKS}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                if module in CLOCKS and alias.name in CLOCKS[module]:
                    yield f"{module}.{alias.name}"
                elif alias.name in CLOCKS:
                    names[alias.asname or alias.name] = alias.name
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            of = names.get(name, "")
            if node.attr in CLOCKS.get(of, ()):
                yield f"{of}.{node.attr}"


def clocks_are_read_in_one_place(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    for source in sources:
        if source.module != CLOCK and not source.is_sent_to_nodes:
            for name in clocks_read(source.nodes):
                yield source, f"reads {name}; clocks are read in {CLOCK}"


def what_a_lab_shows_decides_nothing(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    """`LabInfo.facts` are for people: what a run goes by has a type (`made`, `adopted`)."""
    for source in sources:
        if source.module.partition(".")[0] in PRINTED_ONLY and LAB_FACTS.search(source.text):
            yield source, "goes by the facts of a lab, which are for people"


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def no_name_hides_what_is_called(sources: Sequence[Source]) -> Iterator[tuple[Source, str]]:
    """A function that binds the name of a function of its module, and calls that name, calls what
    it has bound."""
    for source in sources:
        ours = {node.name for node in source.tree.body if isinstance(node, _FUNCTIONS)}
        for node in source.nodes:
            if not isinstance(node, _FUNCTIONS):
                continue
            bound, called = set[str](), set[str]()
            for one in ast.walk(node):
                match one:
                    case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                        bound.add(name)
                    case ast.Call(func=ast.Name(id=name)):
                        called.add(name)
            for name in sorted(ours & bound & called):
                yield source, f"{node.name}: {name} is a function of this module, and bound there"


RULES: tuple[Callable[[Sequence[Source]], Iterator[tuple[Source, str]]], ...] = (
    rooms_point_one_way,
    folders_point_one_way,
    agents_travel_alone,
    files_are_one_concept,
    functions_are_short,
    no_name_hides_what_is_called,
    clocks_are_read_in_one_place,
    what_a_lab_shows_decides_nothing,
)


def strangers_on_top(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, timeout=30, check=False
    )
    top = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    return sorted(name for name in top - TOP if not name.startswith("."))


def breaches(root: Path) -> list[str]:
    """One line for each breach of a rule in the tree."""
    sources = [
        Source(path.relative_to(root), path.read_text())
        for room in ROOMS
        for path in sorted((root / room).rglob("*.py"))
    ]
    found = [f"{source.place}: {said}" for rule in RULES for source, said in rule(sources)]
    return [*found, *(f"{name}: does not belong on top" for name in strangers_on_top(root))]


def main(words: Sequence[str]) -> int:
    gc.disable()  # trees have no cycles, and looking for some takes as long as all the rest
    root = Path(words[0]) if words else Path(__file__).parents[1]
    found = breaches(root)
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
