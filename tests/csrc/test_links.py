"""The C core links one way: no two files need one another, and folders keep their direction."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import networkx
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "checkers" / "csrc"
EXTENSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
    "ext-modules"
][0]
ALLOWED = {
    "common": set(),
    "lin": {"common"},
    "aut": {"common", "lin"},
    "mon": {"common", "lin"},
    "txn": {"common"},
    "ingest": {"common"},
    "ops": {"common", "ingest"},
    "sess": {"common", "ingest"},
    "stream": {"common", "ingest"},
    "iso": {"common", "txn"},
    "ord": {"common", "txn", "iso"},
    "csrc": {"common", "lin", "aut", "mon", "txn", "iso", "ord", "ingest", "ops", "sess", "stream"},
}
"""Folder -> folders it may need, besides itself."""

FOLDERS = {path.stem: path.parent.name for path in CSRC.rglob("*.c")}


def folder_of(made: str) -> str:
    """The folder of the source of an object."""
    return FOLDERS[made.removesuffix(".o")]


def compiled(source: Path, folder: Path) -> Path:
    made = folder / f"{source.stem}.o"
    defines = [f"-D{name}={value}" for name, value in EXTENSION["define-macros"]]
    include = [f"-I{CSRC}", f"-I{sysconfig.get_path('include')}"]
    command = ["gcc", "-std=c11", "-O0", *defines, *include, "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made


def symbols(made: Path) -> tuple[set[str], set[str]]:
    """Names that an object defines for others, and names that it needs."""
    out = subprocess.run(["nm", str(made)], check=True, capture_output=True, text=True, timeout=20)
    rows = [line.split()[-2:] for line in out.stdout.splitlines()]
    return {n for kind, n in rows if kind in "TDRBC"}, {n for kind, n in rows if kind == "U"}


def links(objects: Mapping[str, tuple[set[str], set[str]]]) -> networkx.DiGraph:
    """An edge from each file to each file that defines what it needs."""
    home = {name: file for file, (defined, _) in objects.items() for name in defined}
    graph = networkx.DiGraph()
    graph.add_nodes_from(objects)
    for file, (_, needed) in objects.items():
        graph.add_edges_from((file, home[name], {"name": name}) for name in needed & home.keys())
    return graph


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    return [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> networkx.DiGraph:
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("no gcc or no nm")
    folder = tmp_path_factory.mktemp("objects")
    sources = [ROOT / name for name in EXTENSION["sources"]]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: compiled(source, folder), sources))
    return links({made.name: symbols(made) for made in objects})


def test_every_file_is_built_and_watched() -> None:
    there = {str(p.relative_to(ROOT)) for p in CSRC.rglob("*.[ch]")}
    assert set(EXTENSION["sources"]) | set(EXTENSION["depends"]) == there


@pytest.mark.long
def test_no_two_files_need_one_another(graph: networkx.DiGraph) -> None:
    assert graph.number_of_edges() > 100
    assert circles(graph) == []


@pytest.mark.long  # who calls without a declaration does not compile: includes tell as much
def test_folders_keep_their_direction(graph: networkx.DiGraph) -> None:
    wrong = [
        f"{a} needs {data['name']} of {b}"
        for a, b, data in graph.edges(data=True)
        if folder_of(b) not in {folder_of(a), *ALLOWED[folder_of(a)]}
    ]
    assert wrong == []


def test_includes_keep_the_direction_of_folders() -> None:
    wrong = []
    for path in CSRC.rglob("*.[ch]"):
        for line in path.read_text().splitlines():
            if line.startswith('#include "'):
                name = line.split('"')[1]
                folder = name.split("/")[0] if "/" in name else path.parent.name
                assert (CSRC / name if "/" in name else path.parent / name).is_file()
                if folder not in {path.parent.name, *ALLOWED[path.parent.name]}:
                    wrong.append(f"{path.name}: {line}")
    assert wrong == []


def test_file_names_tell_the_folder() -> None:
    for path in CSRC.rglob("*.[ch]"):
        prefix = {"common": ("core", "buffers"), "csrc": ("module",)}
        begins = prefix.get(path.parent.name, (path.parent.name,))
        assert path.stem.split("_")[0] in begins, path
    assert len(FOLDERS) == len(list(CSRC.rglob("*.c"))), "two files of one name"


def test_a_circle_is_noticed() -> None:
    check = ({"lin_check"}, {"lin_decide"})
    search = ({"lin_decide", "lin_search"}, {"lin_check"})
    assert circles(links({"a.o": check, "b.o": search})) == [["a.o", "b.o"]]
    assert circles(links({"a.o": check, "b.o": ({"lin_decide"}, {"malloc"})})) == []
