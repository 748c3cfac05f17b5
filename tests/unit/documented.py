"""The commands that README and docs show, and which test executes those that need a lab."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dstest.cli.reference.pages import PAGES as MADE

__all__ = ["ELSEWHERE", "OWN_TESTS", "ROOT", "Executed", "Shown", "elsewhere", "shown"]

ROOT: Final = Path(__file__).resolve().parents[2]


def _made(path: Path) -> bool:
    """Is it one of the pages that the code writes of itself?"""
    return path.parent.name == "reference" and path.name in MADE


PAGES: Final = (
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not _made(path)),
)
_COMMAND: Final = re.compile(r"^(?:\$ )?((?:[A-Z_]+=\S+ )?dstest(?: .*)?)$")

_LAB: Final = "makes nodes, or takes them away"
_NODES: Final = "acts on nodes"
_RUNS: Final = "runs on nodes"


class Executed(NamedTuple):
    """Which test executes a command, and why it is not executed with the others. `calls`: a test on
    nodes that would take another process of its own calls this function, which is all that the
    command is beside its words."""

    test: str
    why: str
    calls: str = ""


ELSEWHERE: Final = {
    "lab (exec|put|get|logs)": Executed("integration/test_chores.py", _NODES),
    "lab shell": Executed("cli/test_lab_commands.py", "becomes ssh"),
    "lab (adopt|release)": Executed(
        "integration/test_hosts.py", "takes machines, or gives them back"
    ),
    "lab (up|image|down|gc|status|ssh)": Executed("integration/test_lab.py", _LAB),
    "lab up --lab vagrant": Executed("integration/test_vagrant.py", _LAB),
    "lab gc --images": Executed("cli/test_lab_commands.py", "takes images away"),
    "run .*--lab hosts": Executed("integration/test_hosts.py", _RUNS),
    "run .*--lab hosts .*--attach": Executed("integration/test_attach.py", _RUNS),
    "run .*--lab rootless": Executed("integration/test_rootless.py", _RUNS),
    "run .*(./mydb.py|./myfault.py)": Executed("cli/test_own_files.py", "files of the user's"),
    "run --sign-key": Executed("cli/test_signatures.py", "wants a key"),
    "replay .*--lab": Executed(
        "unit/sim/test_carry.py", f"{_RUNS}, which tests/integration/test_carry.py makes"
    ),
    "replay": Executed(
        "cli/test_integrity.py",
        f"{_RUNS}: what it refuses is tested, no run that it makes",
    ),
    "explain": Executed("unit/sim/test_confirm.py", "wants a run that failed"),
    "confirm": Executed("unit/sim/test_confirm.py", "makes runs"),
    "blame": Executed("integration/test_blame.py", _RUNS, "blame_run"),
    "shrink": Executed("integration/test_shrink.py", _RUNS, "shrink_run"),
    "kb (learn|show|fix|similar|stats)": Executed(
        "cli/test_kb.py", "wants runs that failed, and a book"
    ),
    "chaos (run|report|diff)": Executed("cli/test_chaos.py", "runs a service of its own"),
    "resume": Executed("integration/test_sessions.py", _RUNS),
    "plan run": Executed("unit/test_plan_driver.py", _RUNS, "begin"),
    "nightly (?!show)": Executed("unit/test_night_files.py", f"a night {_RUNS}"),
    "nightly report": Executed("unit/test_night_evidence.py", "wants a night that is over"),
    "nightly index": Executed("unit/test_night_rates.py", "wants nights"),
    "gate --policy simulated": Executed("unit/test_gate_simulated.py", "wants a simulated night"),
    "findings [A-Z]": Executed(
        "unit/test_findings.py", f"{_RUNS}; docs/findings.md says what came of it"
    ),
    "serve .*--export": Executed("cli/test_serve.py", "writes a place that is not there yet"),
    "serve .": Executed("cli/test_serve.py", "goes on until it is ended"),
    "workers": Executed("unit/test_pool_put.py", "lays dstest on other machines"),
    "compare .": Executed("unit/test_compare.py", "wants six runs"),
    "check --batch": Executed("cli/test_check_workers.py", "starts workers"),
    "check (history.txt|logs|c10-ok.txt|awdit.txt)": Executed(
        "cli/test_check_sessions.py", "files of other tools"
    ),
    "check .*--checker ./mychecker.py": Executed(
        "cli/test_own_files.py", "a checker of the user's"
    ),
    "generate --txns 100000000": Executed("cli/test_check_pipes.py", "20 GB; smaller ones there"),
    "points .*--count": Executed("integration/test_nemesis_aimed.py", _RUNS),
    "trace RUN": Executed("cli/test_logs_and_traces.py", "wants a run whose servers wrote spans"),
    "monitor scale RUN": Executed("cli/test_monitor.py", "wants runs"),
    "report --verify-key": Executed("cli/test_signatures.py", "wants keys"),
    "spec conform raft": Executed("cli/test_how_to_pages.py", "wants a run of toykv"),
}
"""Beginning of a command -> the test that executes it, and why it is not executed here."""

OWN_TESTS: Final = {
    "docs/explain.md": "cli/test_how_to_pages.py",
    "docs/new-": "cli/test_how_to_pages.py",
    "docs/plans.md": "cli/test_plan_page.py",
    "docs/properties.md": "cli/test_how_to_pages.py",
    "docs/simulation.md": "cli/test_how_to_pages.py",
    "docs/specs.md": "cli/test_how_to_pages.py",
    "docs/tutorial.md": "cli/test_how_to_pages.py",
    "docs/for-jepsen-users.md": "cli/test_how_to_pages.py",
}
"""Pages whose commands a test executes as they stand there, with what they print."""


class Shown(NamedTuple):
    """A command as a page shows it, without `dstest`."""

    page: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def shown() -> list[Shown]:
    """Each once; lines that go on with a backslash are one."""
    found: dict[tuple[str, ...], Shown] = {}
    for page in PAGES:
        for text in _texts(MarkdownIt().enable("table").parse(page.read_text())):
            if (words := _words(text)) is not None:
                found.setdefault(words, Shown(page.relative_to(ROOT).as_posix(), words))
    return list(found.values())


def _texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield from token.content.replace("\\\n", " ").splitlines()
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def _words(text: str) -> tuple[str, ...] | None:
    match = _COMMAND.match(text.strip())
    if match is None:
        return None
    command = re.split(r"\s[|>]|;|\s2>|\s&&", match[1])[0]
    words = shlex.split(command, comments=True)
    while words[0] != "dstest":
        del words[0]
    return None if words[1:2] == ["..."] else tuple(words[1:])


def elsewhere(command: Shown) -> Executed | None:
    """Where it is executed, and why there."""
    for page, test in OWN_TESTS.items():
        if command.page.startswith(page):
            return Executed(test, "with what it prints")
    fits = {begin: re.match(begin, command.text) for begin in ELSEWHERE}
    lengths = {begin: match.end() for begin, match in fits.items() if match}
    return ELSEWHERE[max(lengths, key=lengths.__getitem__)] if lengths else None
