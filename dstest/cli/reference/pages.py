"""The pages of docs/reference by their file names: what each anomaly means for who has never heard
of it, each command with its arguments and options, the consistency models of transactions, and the
plug-ins of this distribution, with what they take by `-o`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from typer.main import get_command

from checkers.txn import exact
from checkers.txn.models import UNTESTED, lattice
from checkers.txn.plugin import LIST_APPEND
from dstest.campaign.known_bugs.trials import CATALOGUE
from dstest.cli.app import app
from dstest.cli.commands import EXAMPLES
from dstest.core import registry
from dstest.core.protocols import (
    Caution,
    Nemesis,
    Option,
)
from dstest.core.run_words import allowed_values, value_text
from dstest.gate.table import table as gate_rules
from dstest.plans.lint import RULES as PLAN_RULES
from dstest.report.meanings import endings, table_meaning, told_names
from dstest.report.review.rules import RULES as REPORT_RULES
from dstest.runner.plugins import RUN_OPTIONS
from nemeses.mix import Mix

_ANOMALIES_HEAD: Final = """\
# Anomalies

Written by `python -m dstest.cli.reference`; do not edit. A report has the same beside each
anomaly. Which model rules out which: [models.md](models.md).
"""


def anomalies_page() -> str:
    lines = [_ANOMALIES_HEAD]
    for name in told_names():
        meaning = table_meaning(name)
        assert meaning is not None
        lines += [f"## {name}", "", f"The system {meaning.did}. {meaning.means}", ""]
    lines += ["## Endings of names", ""]
    lines += [f"- `-{ending}`: {text}" for ending, text in endings().items()]
    return "\n".join([*lines, ""])


def code(text: str) -> str:
    """In the type of code; empty stays empty."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; bars and line ends in a cell stay in it."""
    rule = "|".join("---" for _ in head)
    return [
        f"| {' | '.join(head)} |",
        f"|{rule}|",
        *(f"| {' | '.join(map(_cell, row))} |" for row in rows),
    ]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


_COMMANDS_HEAD: Final = """\
# Commands

Written by `python -m dstest.cli.reference`; do not edit. Exit codes are in the README.
`dstest COMMAND --help` says the same.
"""

_INSTALLS: Final = frozenset({"--install-completion", "--show-completion", "--help", "-h"})


def every_command() -> Iterator[tuple[str, Any]]:
    """(words as one types them, command) of each that does something, those in groups included."""
    yield from _below("dstest", get_command(app))


def _below(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    found: Mapping[str, Any] = group.commands
    for name, command in found.items():
        if hasattr(command, "commands"):
            yield from _below(f"{words} {name}", command)
        else:
            yield f"{words} {name}", command


def commands_page() -> str:
    lines = [_COMMANDS_HEAD]
    for words, command in every_command():
        lines += [f"## {words}", "", *_said(command.help or ""), ""]
        examples = EXAMPLES.get(words.removeprefix("dstest "), ())
        lines += ["Examples:", "", "```", *examples, "```", ""] if examples else []
        given = [p for p in command.params if not _INSTALLS & set(p.opts)]
        if given:
            lines += [*table(("", "takes", "default", ""), map(_row, given)), ""]
    return "\n".join(lines)


def _said(text: str) -> list[str]:
    """A help text; angle brackets and stars in it are no markup."""
    return re.sub(r"(?<!\w)([<>*])", r"\\\1", text.strip()).split("\n")


def _row(param: Any) -> tuple[str, str, str, str]:
    is_argument = param.param_type_name == "argument"
    names = [param.name.upper()] if is_argument else [*param.opts, *param.secondary_opts]
    return ", ".join(map(code, names)), _takes(param), _default(param), param.help or ""


def _takes(param: Any) -> str:
    if getattr(param, "is_flag", False):
        return ""
    many = " ..." if param.multiple or param.nargs == -1 else ""
    kind = param.type.name.removesuffix(" range")
    return code(f"{param.metavar or _KINDS.get(kind, kind)}{many}")


_KINDS: Final = {
    "integer": "int",
    "text": "str",
    "path": "Path",
    "directory": "Path",
    "boolean": "bool",
}
"""What the library of commands calls them -> what Python does."""


def _default(param: Any) -> str:
    if param.required:
        return "must be given"
    if param.default in (None, False, (), []) or callable(param.default):
        return ""
    return code(str(param.default))


_MODELS_HEAD: Final = """\
# Models of transactions

Written by `python -m dstest.cli.reference`; do not edit. A model allows whatever the models that
imply it allow, and more. *Decided*: an order that explains the history is found, or there is
none (of registers, and of lists that agree on their order); else a clean history is one in
which none of the anomalies stands. Models of objects: [checkers.md](checkers.md).
"""


def models_page() -> str:
    graph = lattice()
    rows = (
        (
            code(model),
            ", ".join(map(code, facts["aliases"])),
            ", ".join(map(code, sorted(graph.successors(model)))),
            ", ".join(map(code, facts["proscribes"])),
            _judged(model),
        )
        for model, facts in graph.nodes(data=True)
    )
    head = ("model", "also called", "implies", "rules out by itself", "judged")
    return "\n".join([_MODELS_HEAD, *table(head, rows), ""])


def _judged(model: str) -> str:
    if model not in LIST_APPEND.models:
        return "no: asking for it is refused"
    if exact.SAME.get(model, model) in exact.MODELS:
        return "decided"
    if model in UNTESTED:
        return f"by anomalies; clean histories stay unknown: {UNTESTED[model]} are not looked for"
    return "by anomalies"


_MADE: Final = "Written by `python -m dstest.cli.reference`; do not edit.\n"


def _all(group: str) -> Iterator[tuple[str, Any]]:
    for name in registry.names(group):
        yield name, registry.load(group, name)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, sorted(names))) or "none"


def _options(options: Mapping[str, Option]) -> list[str]:
    rows = (
        (code(name), code(value_text(option.default)), allowed_values(option), option.help)
        for name, option in options.items()
    )
    return [*table(("`-o`", "default", "may be", ""), rows), ""] if options else []


def _when(row: Caution) -> str:
    said = [
        f"`-o {name}={' or '.join(map(value_text, values))}`" for name, values in row.when.items()
    ]
    said += [
        f"`-o {name}` other than {' or '.join(map(value_text, values))}"
        for name, values in row.unless.items()
    ]
    return f"With {' and '.join(said)} " if said else ""


def systems_page() -> str:
    lines = ["# Systems", "", _MADE]
    lines += ["What fits which says `dstest list --system NAME`; faults that landed on each are in"]
    lines += ["[systems.md](../systems.md).", ""]
    for name, system in _all("systems"):
        lines += [f"## {name}", "", f"{system.doc}.", ""]
        lines += [f"Clients: {_names(system.capabilities)}.", ""]
        if relaxed := system.relaxations:
            lines += ["What it promises less by an option:", ""]
            lines += table(
                ("with", "model", "source"),
                ((code(f"-o {r.option}={r.value}"), r.model, r.source) for r in relaxed),
            )
            lines += [""]
        if warned := system.cautions:
            lines += ["What it warns of:", ""]
            lines += [
                f"- {_when(row)}it documents that {row.says} ({row.source})." for row in warned
            ]
            lines += [""]
        lines += _options(system.options)
    return "\n".join(lines)


def workloads_page() -> str:
    lines = ["# Workloads", "", _MADE]
    for name, workload in _all("workloads"):
        lines += [f"## {name}", "", f"{workload.doc}.", ""]
        said = (
            f"needs clients of {code(workload.capability)}",
            f"operations: {_names(workload.op_types)}",
            f"judged by {_names(workload.checkers)}, by itself as {code(workload.model)}",
            f"claims: {_names(workload.claims)}",
        )
        lines += [*(f"- {line}" for line in said), ""]
        lines += _options(workload.options)
    return "\n".join([*lines, "## Every run", "", *_options(RUN_OPTIONS)])


def _needs_of(nemesis: Nemesis) -> str:
    """What it asks of a system, in a sentence."""
    asked = [capability.__name__ for capability in nemesis.requires]
    text = f"Asks of the system: {', '.join(asked) or 'nothing'}"
    for when in nemesis.requires_when:
        if when.among(nemesis.options):
            text += f"; with {when} also {', '.join(c.__name__ for c in when.requires)}"
    return f"{text}."


def nemeses_page() -> str:
    lines = ["# Options of the nemeses", "", _MADE]
    lines += ["What each breaks, and how it is proven: [nemeses.md](../nemeses.md).", ""]
    found = dict(_all("nemeses"))
    for name, nemesis in found.items():
        lines += [f"## {name}", "", f"{nemesis.doc}.", ""]
        if nemesis.faults:
            lines += [f"Faults: {', '.join(nemesis.faults)}.", ""]
        lines += [_needs_of(nemesis), ""]
        lines += _options(nemesis.options)
    mixed = Mix(list(found.values())[:2]).options
    alone = {name for nemesis in found.values() for name in nemesis.options}
    only = {name: option for name, option in mixed.items() if name.split(".")[-1] not in alone}
    return "\n".join([*lines, "## Several in one run", "", *_options(only)])


def checkers_page() -> str:
    lines = ["# Checkers", "", _MADE]
    lines += ["Models and what they rule out: [models.md](models.md).", ""]
    for name, checker in _all("checkers"):
        lines += [f"## {name}", "", f"Models: {_names(checker.models)}.", ""]
        rows = (
            (code(model), _names(checker.op_types.get(model, ())), checker.initial.get(model) or "")
            for model in checker.models
        )
        if checker.op_types:
            lines += [*table(("model", "operations", "`--initial`"), rows), ""]
        lines += _options(checker.options)
    return "\n".join(lines)


def findings_page() -> str:
    """The commands of the catalogue of known bugs."""
    lines = ["# Commands of the known bugs", "", _MADE]
    lines += [
        "What came of them: [findings.md](../findings.md). `dstest findings ID` runs one.",
        "",
    ]
    rows = ((row.id, code(f"dstest {shlex.join(row.command)}"), row.source) for row in CATALOGUE)
    return "\n".join([*lines, *table(("", "command", "source"), rows), ""])


def rules_page() -> str:
    """What plans, findings reports and releases are checked by."""
    lines = ["# Rules", "", _MADE, "What `dstest` names where a rule is broken.", ""]
    lines += ["## Test plans", "", "Checked by `dstest plan lint` ([plans.md](../plans.md)).", ""]
    lines += table(("rule", "severity", ""), ((r.id, r.severity, r.title) for r in PLAN_RULES))
    lines += ["", "## Findings reports", "", "Checked by `dstest plan report`.", ""]
    lines += table(("rule", "a report is right when"), ((r.id, r.title) for r in REPORT_RULES))
    lines += ["", "## Release gate", "", "Checked by `dstest gate` ([gate.md](../gate.md)).", ""]
    return "\n".join(lines) + "\n" + gate_rules()


def labs_page() -> str:
    lines = ["# Labs", "", _MADE, "How to use each: [labs.md](../labs.md).", ""]
    rows = ((code(name), lab.doc) for name, lab in _all("labs"))
    return "\n".join([*lines, *table(("`--lab`", "is"), rows), ""])


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "commands.md": commands_page,
        "systems.md": systems_page,
        "workloads.md": workloads_page,
        "nemeses.md": nemeses_page,
        "checkers.md": checkers_page,
        "models.md": models_page,
        "anomalies.md": anomalies_page,
        "labs.md": labs_page,
        "findings.md": findings_page,
        "rules.md": rules_page,
    }
)
