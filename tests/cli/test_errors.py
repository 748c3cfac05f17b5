"""Errors say what, why and what helps; names that are nearly right are recognised; nothing of what
somebody typed or called something is taken for markup."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer
import typer.main
from forked import dstests
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.cli.commands import COMMANDS, SAYS, outline
from dstest.core.near import meant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("dstest", "nemeses", "workloads", "checkers", "clusters")
MARKUP = "[red]x[/red]"


Said = tuple[int, str]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], Said]:
    """(exit code, what is said on standard error), on a wide terminal."""
    lines = [row[0] for row in (*NEAR, *WRONG)] + LITERAL
    ended = dstests(lines, tmp_path_factory.mktemp("nothing"))

    def of(words: Sequence[str]) -> Said:
        done = ended[tuple(words)]
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, " ".join(done.stderr.split())

    return of


NEAR = [
    (["rnu"], "No such command 'rnu'. Did you mean 'run'?"),
    (["lab", "staus"], "Did you mean 'status'?"),
    (["nightly", "statsu"], "did you mean status?"),
    (["run", "--sytem", "etcd"], "--system"),
    (["run", "--system", "etdc"], "did you mean etcd?"),
    (["run", "--workload", "regster"], "did you mean register"),
    (["run", "--nemesis", "kill,puase"], "no nemesis called 'puase' remedy: did you mean pause?"),
    (["run", "--checker", "linearisable"], "did you mean linearizable?"),
    (["run", "--model", "cas-registr"], "remedy: did you mean cas-register"),
    (["run", "--lab", "lcx"], "did you mean lxc?"),
    (["run", "--tier", "smok"], "remedy: did you mean smoke?"),
    (["run", "-o", "fault_sec=3"], "did you mean fault_s?"),
    (["run", "-o", "shape=halvs"], "did you mean shape=halves?"),
    (["check", "x", "--format", "ednn"], "did you mean edn?"),
    (["generate", "--level", "serialisable"], "did you mean serializable"),
    (["generate", "--workload", "list-apend"], "did you mean list-append?"),
    (["generate", "--inject", "G1A:1"], "one of"),
    (["new", "sytem", "x"], "did you mean system?"),
    (["findings", "P1-contrl"], "did you mean P1-control"),
]


@pytest.mark.parametrize(("words", "hint"), NEAR, ids=[" ".join(words) for words, _ in NEAR])
def test_did_you_mean(said: Callable[[Sequence[str]], Said], words: list[str], hint: str) -> None:
    code, text = said(words)
    assert code == 2
    assert hint in text


WRONG = [
    (["run", "--seed", "abc"], "--seed 'abc': not a whole number", "for example --seed 3,5"),
    (["run", "--seed", "-1"], "--seed -1: 0 or more", "leave --seed out"),
    (["run", "--nodes", "x"], "--nodes 'x': not a whole number", "for example --nodes 3,5"),
    (["run", "--rate", "-3"], "--rate -3: above 0", "leave --rate out"),
    (["run", "--concurrency", "0"], "--concurrency 0: from 1", "--concurrency 20"),
    (["run", "-o", "fault_s=abc"], "-o fault_s=abc: not a float", "fault_s: how long"),
    (["run", "-o", "fault_s"], "-o fault_s: not of the form key=value", "-o keys=5"),
    (["check", "nowhere"], "cannot read nowhere: No such file", "check the path"),
    (["report", "nowhere"], "nowhere is not a run directory", "store/latest"),
]


@pytest.mark.parametrize(
    ("words", "what", "remedy"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG]
)
def test_what_and_what_helps(
    said: Callable[[Sequence[str]], Said], words: list[str], what: str, remedy: str
) -> None:
    code, text = said(words)
    assert code == 2
    assert what in text
    assert remedy in text.partition("remedy: ")[2]


LITERAL = [
    ["run", MARKUP],
    [MARKUP],
    ["[/]"],
    ["run", f"--{MARKUP}"],
    ["run", "--system", MARKUP],
    ["run", "--seed", MARKUP],
    ["run", "-o", f"{MARKUP}=[/]"],
    ["check", f"[/] {MARKUP}"],
    ["report", MARKUP],
    ["store", "show", MARKUP],
    ["lab", "exec", "--lab-id", MARKUP, "true"],
]


@pytest.mark.parametrize("words", LITERAL, ids=" ".join)
def test_nothing_is_eaten_by_markup(
    said: Callable[[Sequence[str]], Said], words: list[str]
) -> None:
    code, text = said(words)
    assert code in (2, 4)
    typed = next(word for word in words if "[" in word)
    # An option is told by its name, without its value.
    assert typed.partition("=[")[0].lstrip("-") in text


def test_nothing_of_a_help_text_is_eaten() -> None:
    made = typer.Typer(rich_markup_mode="markdown")

    @made.command(help=f"One {MARKUP} [/] text.")
    def one(given: str = typer.Option("", help=f"Given {MARKUP} [key value].")) -> None:
        pass

    done = CliRunner().invoke(made, ["--help"], terminal_width=200)
    assert f"One {MARKUP} [/] text." in done.output
    assert f"Given {MARKUP} [key value]." in done.output
    assert made.rich_markup_mode == app.rich_markup_mode


def test_meant() -> None:
    assert meant("etdc", ["etcd", "nats"]) == "did you mean etcd? one of etcd, nats"
    assert meant("[x]", ["etcd"]) == "one of etcd"


def test_each_refusal_of_a_request_has_a_remedy() -> None:
    """Where the request is wrong there is something right to ask for."""
    lacking = []
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            given = {word.arg for word in node.keywords}
            if node.func.id in ("ConfigError", "FaultRefused") and not given & {"remedy", None}:
                lacking.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert lacking == []


def test_the_outline_is_what_the_commands_say() -> None:
    """The list in the help is written where it costs no import; each command begins like that."""
    whole = typer.main.get_command(app)
    assert list(SAYS) == list(COMMANDS)
    for name, text in SAYS.items():
        own = " ".join((whole.commands[name].help or "").split())  # type: ignore[attr-defined]
        assert own.startswith(text), name
    short = typer.main.get_command(outline())
    assert {*short.commands} == {*whole.commands}  # type: ignore[attr-defined]


def test_the_help_of_all_imports_no_command() -> None:
    code = (
        "import sys, json\n"
        "sys.argv = ['dstest', '--help']\n"
        "from dstest.cli.entry import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "own = [m for m in sys.modules if m.startswith('dstest.cli.')]\n"
        "print(json.dumps(own), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True, text=True, timeout=60, check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "After a failure" in done.stdout
    assert set(json.loads(done.stderr)) == {
        "dstest.cli.entry", "dstest.cli.commands", "dstest.cli.output",
    }  # fmt: skip
