"""The house rules that a machine can check: import direction, file sizes, public names, clocks."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.remote import bundle

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("dstest", "nemeses", "workloads", "checkers", "clusters")
FILES = sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))

ALLOWED = {
    "dstest.core": set(),
    "dstest.chaos": {"dstest.core", "dstest"},
    "dstest.ci": {"dstest.core"},
    "dstest.generator": {"dstest.core"},
    "dstest.store": {"dstest.core"},
    "dstest.judge": {"dstest.core", "dstest.store"},
    "dstest.monitor": {"dstest.core", "dstest.logs"},
    "dstest.runner": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.report", "dstest.generator"),
        *("dstest.effects", "dstest.monitor", "dstest.sim"),
        *("nemeses", "workloads", "checkers", "clusters", "dstest"),
    },
    "dstest.effects": {"dstest.core", "checkers"},
    "dstest.compare": {"dstest.core", "dstest.store", "dstest.runner", "checkers"},
    "dstest.retention": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.runner", "dstest.plans"),
        *("dstest.report", "dstest.shrink"),
    },
    "dstest.gate": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.report", "dstest.runner"),
        *("dstest.plans", "dstest.compare", "dstest.retention", "dstest.ci", "dstest"),
    },
    "dstest.results": {
        *("dstest.core", "dstest.ci", "dstest.store", "dstest.judge", "dstest.report"),
        *("dstest.runner", "dstest.retention", "dstest"),
    },
    "dstest.logs": {"dstest.core", "dstest.store", "dstest.judge"},
    "dstest.traces": {"dstest.core", "dstest.store", "dstest.logs", "dstest.report"},
    "dstest.patterns": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.report", "dstest.logs"),
        *("dstest.traces", "dstest.spec", "dstest.monitor"),
    },
    "dstest.notebook": {
        *("dstest.core", "dstest.store", "dstest.report", "dstest.runner", "checkers"),
    },
    "dstest.testing": {"dstest.core", "dstest.store", "dstest.results"},
    "dstest.spec": {"dstest.core", "dstest.store"},
    "dstest.sim": {"dstest.core"},
    "dstest.serve": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.report", "dstest.runner"),
        *("dstest.compare", "dstest.retention", "checkers", "dstest"),
    },
    "dstest.kb": {"dstest.core", "dstest.store", "dstest.retention", "dstest.serve"},
    "dstest.findings": {"dstest.core", "dstest.findings.entries"},
    "dstest.findings.entries": set(),
    "dstest.extend": {"dstest.core", "nemeses"},
    "dstest.plans": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.report", "dstest.runner"),
        *("dstest.shrink", "dstest.spec", "dstest.steps", "nemeses", "clusters", "dstest"),
    },
    "dstest.shrink": {
        *("dstest.core", "dstest.store", "dstest.judge", "dstest.runner", "dstest.report"),
        *("dstest.steps", "dstest.fan", "nemeses", "dstest"),
    },
    "dstest.steps": {"dstest.core", "dstest.store", "dstest.judge", "dstest.runner"},
    "dstest.fan": {"dstest.core", "dstest.steps", "dstest"},
    "dstest.nightly": {
        *("dstest.core", "dstest.store", "dstest.runner", "dstest.report", "dstest.steps"),
        *("dstest.plans", "dstest.fan", "dstest.ci", "dstest"),
    },
    "dstest.scaffold": {"dstest.core", "dstest.extend", "dstest.runner", "clusters"},
    "dstest.report": {
        *("dstest.core", "dstest.ci", "dstest.store", "dstest.judge", "dstest.monitor"),
    },
    "dstest.reference": {
        *("dstest.core", "dstest.runner", "dstest.report", "dstest.cli", "checkers", "nemeses"),
    },
    "nemeses": {"dstest.core"},
    "workloads": {"dstest.core"},
    "checkers": {"dstest.core"},
    "clusters": {"dstest.core"},
}
"""Room -> rooms it may import, besides itself. `dstest.cli` may import all."""

_FAULT = {"nemeses.base", "nemeses.observe", "nemeses.tools"}
FOLDERS = {
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


def room_of(module: str) -> str | None:
    """The room a dotted module name belongs to, None where it is not ours."""
    parts = module.split(".")
    if parts[0] not in ROOMS:
        return None
    return ".".join(parts[:2]) if parts[0] == "dstest" and len(parts) > 1 else parts[0]


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def module_of(path: Path) -> str:
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def test_imports_point_one_way() -> None:
    strays = []
    for path in FILES:
        room = room_of(module_of(path))
        if room in (None, "dstest", "dstest.cli", "dstest.__main__"):
            continue
        others = {room_of(m) for m in imports_of(path)} - {None, room}
        if others - ALLOWED[room]:
            strays.append(f"{path} imports {others - ALLOWED[room]}")
    assert strays == []


def folder_of(module: str) -> str | None:
    """The folder a module lies in, None for what lies on top of its room."""
    is_folder = (ROOT / module.replace(".", "/")).is_dir()
    folder = module if is_folder else module.rpartition(".")[0]
    return folder if "." in folder and not folder.startswith("dstest") else None


def test_folders_of_a_room_point_one_way() -> None:
    strays = []
    for path in FILES:
        folder = folder_of(module_of(path))
        if folder is None or path.name == "__init__.py":
            continue
        room = folder.split(".")[0]
        others = {folder_of(m) or room for m in imports_of(path) if m.split(".")[0] == room}
        if others - FOLDERS[folder] - {folder}:
            strays.append(f"{path} imports {others - FOLDERS[folder] - {folder}}")
    assert strays == []


def test_a_file_is_one_concept() -> None:
    long = [path for path in FILES if path.read_text().count("\n") > 1000]
    assert long == [], "more than 1,000 lines: is it one thing?"


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


CHORES = ("agent_chore", "agent_send")


def is_sent_to_nodes(path: Path) -> bool:
    """Agents run alone on a node, where nothing of ours can be imported."""
    place = path.relative_to(ROOT)
    folder = place.parent.as_posix()
    return (
        (folder == "clusters/remote" and place.stem in (*bundle.FILES, *CHORES))
        or (
            folder in ("nemeses/tools", "clusters/labs/existing")
            and place.stem.startswith("agent_")
        )
        or (folder.startswith("clusters/systems/") and place.parent.name == "agents")
    )


def clocks_read(text: str) -> list[str]:
    tree = ast.parse(text)
    names = {name: name for name in CLOCKS}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for alias in node.names:
                if module in CLOCKS and alias.name in CLOCKS[module]:
                    found.append(f"{module}.{alias.name}")
                elif alias.name in CLOCKS:
                    names[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            of = names.get(name, "")
            if node.attr in CLOCKS.get(of, ()):
                found.append(f"{of}.{node.attr}")
    return found


def test_clocks_are_read_in_one_place() -> None:
    strays = [
        f"{path} reads {found}"
        for path in FILES
        if path != ROOT / "dstest/core/clock.py" and not is_sent_to_nodes(path)
        if (found := clocks_read(path.read_text()))
    ]
    assert strays == [], "clocks are read in dstest/core/clock.py"


@pytest.mark.parametrize(
    "text",
    [
        "import time\nt = time.time()",
        "import time as t\nt.monotonic_ns()",
        "from time import monotonic",
        "from time import perf_counter as p",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime as d\nx = d.now",
        "import datetime as dt\ndt.date.today()",
        "clock = time.monotonic",
    ],
)
def test_a_clock_is_seen_by_any_name(text: str) -> None:
    assert clocks_read(text)


def test_agents_use_nothing_of_ours_but_agents() -> None:
    sent = [path for path in FILES if is_sent_to_nodes(path)]
    assert len(sent) > len(bundle.FILES)
    allowed = {"clusters.remote", *map(module_of, sent)}
    for path in sent:
        assert {m for m in imports_of(path) if room_of(m)} <= allowed, path


def test_functions_are_short() -> None:
    long = [
        f"{path}: {node.name} has {length} lines"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > 70
    ]
    assert long == []


def test_public_names_exist() -> None:
    for path in FILES:
        if is_sent_to_nodes(path) or path.name == "__main__.py":
            continue
        if path.parent.name == "templates":
            continue  # files of users
        module = importlib.import_module(module_of(path))
        missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
        assert missing == [], module.__name__


def test_checkers_need_no_cluster() -> None:
    code = (
        "import sys, checkers.linearizable\n"
        "heavy = {'asyncssh', 'paramiko', 'fabric', 'grpc', 'matplotlib', 'typer', 'clusters'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout.strip() == "[]"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, dstest.cli.app\n"
        "heavy = {'asyncssh', 'paramiko', 'fabric', 'grpc', 'numpy', 'networkx', 'matplotlib',"
        " 'jinja2', 'google.protobuf'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert out.stdout.strip() == "[]"


def test_top_level_is_the_agreed_one() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    allowed = {*ROOMS, "vagrant", "tests", "pyproject.toml", "Makefile"}
    allowed |= {"README.md", "ARCHITECTURE.md", "LICENSE", "docs"}
    assert {name for name in top if not name.startswith(".")} <= allowed


def test_every_plugin_loads() -> None:
    from dstest.core import registry

    for group in registry.GROUPS:
        names = registry.names(group)
        assert names, f"no {group}"
        for name in names:
            plugin = registry.load(group, name)
            assert plugin.name == name
            assert getattr(plugin, "doc", "x")


def test_what_a_lab_shows_decides_nothing() -> None:
    """`LabInfo.facts` are for people: what a run goes by has a type (`made`, `adopted`)."""
    read = re.compile(r"\b(lab|_lab|info|there|running)\.facts\b")
    places = [p for room in ("clusters", "dstest", "nemeses") for p in (ROOT / room).rglob("*.py")]
    assert len(places) > 300
    assert [str(p) for p in places if read.search(p.read_text())] == []


def test_the_marks_of_a_node_are_the_same_wherever_they_are_written() -> None:
    """Programs that travel to nodes import nothing of ours."""
    from clusters.labs import recipe
    from clusters.labs.existing import agent_look, agent_mark
    from clusters.remote import agent_services, bundle, tasks
    from clusters.supervise import on_node
    from dstest.core.residue import HOME_MARK
    from dstest.runner.homes import COMMON_HOMES

    places = {agent_look.MARKER, agent_mark.MARKER, bundle.MARKER_PATH, recipe.MARKER_PATH}
    assert len(places) == 1
    assert agent_mark.HOME_MARK == HOME_MARK
    assert {on_node.HOME, str(agent_services.HOME), COMMON_HOMES[1]} == {on_node.HOME}
    assert on_node.MEMBER == tasks.MEMBER
