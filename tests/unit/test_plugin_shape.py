"""What is no plug-in is refused where it is loaded, with what to do; names are plain words."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from third_party import BARE, ship

from clusters.supervise import Durable, FullMesh, SupervisedSystem
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.implements import is_protocol, members_of, missing
from dstest.core.plugin_shape import _MOVED, BASES, require_name
from dstest.core.protocols import Deployment, System, Tapped, capabilities
from dstest.core.registry import FILES, use
from dstest.history.layout import new_directory

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES, "")


@pytest.mark.parametrize("name", ["a", "0", "my-db", "my_db.v2", "a" * 64])
def test_plain_words_are_names(name: str) -> None:
    require_name(name, "it")


NO_NAMES = ["", ".", "..", "../../tmp/x", "/x", "a/b", "a b", "a,b", "a+b", "Kill", "-a", "_a",
            "a\n", "é", "a" * 65, "a\0"]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "name"),
    [*(("SYSTEM", name) for name in NO_NAMES)]
    + [(word, "a b") for word in ("NEMESIS", "WORKLOAD", "CHECKER", "LAB")],
)
def test_other_names_are_refused_in_every_group(tmp_path: Path, word: str, name: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        f"from dstest.core.protocols import {word.title()}\n"
        f"class Mine({word.title()}):\n    name = {name!r}\n{word} = Mine()\n"
    )
    with pytest.raises(ConfigError, match=rf"mine\.py: {word} is called .* no name of a plug-in"):
        use([path])
    assert registry.files_in_use() == []


MALFORMED = [
    (BARE.replace("SYSTEM = Toy()", "SYSTEM = Toy"), r"SYSTEM is the class Toy.*\n.*`Toy\(\)`"),
    (BARE.replace('"toy", "a toy"', '5, "a toy"'), "SYSTEM has no name"),
    (BARE.replace("def deploy(", "def deployed("), "SYSTEM lacks deploy\n"),
    (
        BARE.replace("class Toy(System)", "class Toy"),
        r"SYSTEM is a Toy, which is no System\n.*Toy.Sys",
    ),
    (BARE.replace('frozenset({"register"})', "'register'"), "its capabilities is 'register'"),
    (BARE.replace("services, options =", "options, services ="), "its services is {}"),
    (
        BARE.replace("(), {}\n    capa", "(), 5\n    capa"),
        "its options is 5\n.*Mapping.str, Option",
    ),
    (
        BARE.replace('"a toy", ()', '"a toy", (1,)'),
        r"its packages is \(1,\)\n.*packages: tuple.str",
    ),
    (
        BARE.replace("client_port = {}, (), 1", "logs = {}, (), SystemLogs(harmless='x')").replace(
            "import System,", "import System, SystemLogs,"
        ),
        "its logs.harmless is 'x'\n.*harmless: tuple.str",
    ),
    (
        BARE.replace("client_port = {}, (), 1", "log_start = log_alarms = {}, (), 'x'"),
        "has log_alarms, log_start, which nobody reads any more\n.*`logs = SystemLogs.alarms=",
    ),
    (
        BARE.replace("client_port = {}, (), 1", "span_file = {}, (), 'x'"),
        "has span_file, which nobody reads any more\n.*`journals = Journals.spans=",
    ),
    (BARE.replace("client_port = {}, (), 1", "residues = {}, (), 5"), "its residues is 5"),
    (
        BARE.replace("client_port = {}, (), 1", "endpoint_kind = {}, (), 'two'"),
        "endpoint_kind: Literal.'any'",
    ),
    (
        BARE.replace("client_port = {}, (), 1", "conflict_errors = {}, (), 'conflict'"),
        "its conflict_errors is 'conflict'\n.*frozenset.str",
    ),
    (
        BARE.replace("client_port = {}, (), 1", "conflict_errors = {}, (), frozenset({'lost'})"),
        "has lost in conflict_errors alone",
    ),
    (BARE.replace("client_port = {}, (), 1", "members_most = {}, (), 0"), "has members_most 0"),
    (
        BARE.replace("client_port = {}, (), 1", "homes = {}, (), ('/opt/toy', '/etc', '/opt/a/b')"),
        "has homes '/etc', '/opt/a/b'\n.*/opt/NAME",
    ),
    (BARE.replace("client_port = {}, (), 1", "homes = {}, (), ('/opt/..',)"), "has homes"),
    (
        BARE.replace("client_port = {}, (), 1", "members_most = {}, (), '1'"),
        "members_most: int . None",
    ),
    (
        "from dstest.core.protocols import Checker as B\nclass C(B): name = 'c'\nCHECKER = C()",
        "CHECKER lacks kind, models, check",
    ),
    (
        "from nemeses.mix import Nemesis as N\nclass M(N): name = doc = 'n'\nNEMESIS = M()",
        "NEMESIS lacks plan, inject, recheck, heal, audit",
    ),
]


@pytest.mark.parametrize(("text", "said"), MALFORMED)
def test_what_is_malformed_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"(?s){said}"):
        use([path])


@pytest.mark.parametrize(
    "command", [["list", "--system"], ["run", "--system"], ["run", "--plugin"]]
)
def test_no_command_calls_it_a_bug_of_ours(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "mine.py").write_text(MALFORMED[0][0])
    done = subprocess.run(
        [sys.executable, "-m", "dstest", *command, "./mine.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "mine.py: SYSTEM is the class Toy, not an object of it" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("source", "point", "said"),
    [
        (BARE, "../x = toy_plugin:SYSTEM", r"is called '\.\./x'"),
        (BARE, "toy = toy_plugin:Toy", "is the class Toy"),
        (BARE, "other = toy_plugin:SYSTEM", "calls itself 'toy', not 'other'"),
        (BARE.replace('"toy", "a toy"', '"../toy", "a"'), "toy = toy_plugin:SYSTEM", "is called"),
        ("raise SystemExit(0)", "toy = toy_plugin:SYSTEM", "cannot be loaded: .*SystemExit: 0"),
        ("", "toy = toy_plugin:SYSTEM", "cannot be loaded: .*AttributeError"),
        (
            BARE.replace("(), {}\n    capa", "(), {'a': 3}\n    capa"),
            "toy = toy_plugin:SYSTEM",
            "its options is {'a': 3}",
        ),
        (BARE.replace("def deploy(", "def deployed("), "toy = toy_plugin:SYSTEM", "lacks deploy"),
    ],
)
def test_installed_ones_are_held_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, point: str, said: str
) -> None:
    ship(tmp_path, source, systems=point)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "toy_plugin", raising=False)
    with pytest.raises(ConfigError, match=said):
        registry.load("systems", point.split(" ")[0])
    monkeypatch.delitem(sys.modules, "toy_plugin", raising=False)


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x"])
def test_no_run_lies_outside_its_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="would lie outside"):
        new_directory(tmp_path / "store", name, 1)
    assert list(tmp_path.iterdir()) == []


def test_ours_hold_the_rule() -> None:
    from dstest.core.plugin_shape import require_plugin

    for group in registry.GROUPS:
        assert registry.names(group, ours=True), group
        for name in registry.names(group, ours=True):
            plugin = registry.load(group, name)
            require_plugin(group, plugin, name)
            assert plugin.name == name
            assert getattr(plugin, "doc", "x")


def _public(kind: type) -> set[str]:
    return {n for n in (*vars(kind), *inspect.get_annotations(kind)) if not n.startswith("_")}


class WithBases(Durable, FullMesh):
    """What a deployment has whose author writes nothing but what is abstract."""


def test_an_author_of_a_system_meets_few_names() -> None:
    made_by_base = {"members", "deploy", "client", "capabilities"}
    said = (_public(System) | _public(SupervisedSystem)) - made_by_base
    deployed = {*WithBases.__abstractmethods__, "arrange"}
    kinds = [kind for kind in vars(capabilities).values() if is_protocol(kind)]
    opens = {name for kind in kinds for name in missing(WithBases, kind)}
    assert not missing(WithBases, Deployment)
    assert len(said) + len(deployed) + len(opens) + len(members_of(Tapped)) <= 40
    first = {name for name in _public(System) if name not in vars(System)} - made_by_base
    assert first | {"clients"} == {"name", "doc", "services", "deployment", "clients"}
    assert WithBases.__abstractmethods__ == {"services", "healthy", "version"}


def test_the_page_tells_what_takes_the_place_of_what_has_moved() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/system-bases.md").read_text()
    edits = page.partition("needs these edits")[2]
    assert all(f"`{name}`" in edits for name in _MOVED)


SIMULATED = """
class Simulated:
    port = 1
    modules = ("json",)
    async def main(self, world, host, options): ...
    async def serves(self, world): return True
    def client(self, capability, at, every, options, name): ...
"""


def _simulated(changed: str, simulable: str = "Simulated()") -> str:
    toy = BARE.replace("client_port = {}, (), 1", f"simulable = {{}}, (), {simulable}")
    return toy.replace("class Toy", f"{changed}\n\nclass Toy", 1)


def test_how_a_system_is_simulated_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "whole.py"
    path.write_text(_simulated(SIMULATED))
    use([path])
    for number, source in enumerate(
        [
            _simulated(SIMULATED, "Simulated"),
            _simulated(SIMULATED, "object()"),
            _simulated(SIMULATED.replace("async def serves", "async def served")),
        ]
    ):
        path = tmp_path / f"half{number}.py"
        path.write_text(source)
        with pytest.raises(ConfigError, match=r"its simulable is .*\n.*simulable: Simulable"):
            use([path])


def test_a_file_finds_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shared_words.py").write_text("WORDS = 'a toy of two files'\n")
    path = tmp_path / "mine.py"
    path.write_text("from shared_words import WORDS\n" + BARE.replace('"a toy"', "WORDS"))
    use([path])
    assert registry.offered(path)["systems"].doc == "a toy of two files"


@pytest.mark.parametrize("name", ["nonesuch", "", None, 5])
def test_of_a_plug_in_that_is_gone_what_holds_for_all_is_known(name: object) -> None:
    for group, base in BASES.items():
        assert type(registry.known(group, name)) is base
    assert registry.known("systems", "etcd") is registry.load("systems", "etcd")
