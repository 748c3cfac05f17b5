"""`dstest list`: what there is, what fits together, and the latest runs in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dstest.cli import completion
from dstest.cli.fit_of_one import GROUPS, lines_of, wrapped
from dstest.cli.output import say

_STORE = Path("store")
_RUNS_SHOWN = 5
_MODELS_SHOWN = 5
_DIED = "died"


def _workloads() -> list[dict[str, Any]]:
    """What clients can do: the capability that it needs, and which checkers judge it."""
    from dstest.core import registry

    workloads = [registry.load("workloads", name) for name in registry.names("workloads")]
    return [
        {
            "workload": w.name,
            "doc": w.doc,
            "capability": w.capability,
            "model": w.model,
            "checkers": list(w.checkers),
        }
        for w in workloads
    ]


def _checkers() -> list[dict[str, Any]]:
    """Every checker with the models that it knows."""
    from dstest.core import registry

    found = [registry.load("checkers", name) for name in registry.names("checkers")]
    return [{"checker": c.name, "kind": c.kind, "models": list(c.models)} for c in found]


def _described(group: str, word: str) -> list[dict[str, Any]]:
    """Each plug-in of a group with the line that it says of itself."""
    from dstest.core import registry

    plugins = [registry.load(group, name) for name in registry.names(group)]
    return [
        {word: name, "doc": getattr(plugin, "doc", "")}
        for name, plugin in zip(registry.names(group), plugins, strict=True)
    ]


def _runs(store: Path) -> list[dict[str, str]]:
    """Every run, the latest last; of one whose process is gone the status is `died`."""
    statuses = sorted(store.glob("*/*/status"), key=lambda path: path.parent.name)
    return [{"run": str(s.parent), "status": _status(s)} for s in statuses]


def _status(path: Path) -> str:
    from dstest.core.errors import DstestError
    from dstest.runner.session import alive
    from dstest.runner.session_file import SessionDir, is_session
    from dstest.store.layout import RunDir

    word = path.read_text().strip()
    if word != "running":
        return word
    try:
        wrote = (
            SessionDir.open(path.parent).read()
            if is_session(path.parent)
            else RunDir(path.parent).read_meta()
        )
    except DstestError:
        return _DIED
    return word if wrote is not None and alive(wrote) else _DIED


def _short(rows: list[dict[str, Any]]) -> list[str]:
    """Each system with the workloads and nemeses that fit it, and what it lacks for the others."""
    lines = []
    for system in dict.fromkeys(row["system"] for row in rows):
        mine = [row for row in rows if row["system"] == system]
        fitting = [row for row in mine if row["fits"]]
        workloads = dict.fromkeys(row["workload"] for row in fitting)
        nemeses = dict.fromkeys(row["nemesis"] for row in fitting)
        others = dict.fromkeys(row["nemesis"] for row in mine if row["nemesis"] not in nemeses)
        lines += ["", f"{system}"]
        lines += wrapped("workloads", workloads)
        lines += wrapped("nemeses", nemeses)
        if others:
            lines += wrapped("not", others)
    return lines


def _note(row: dict[str, Any]) -> str:
    """Why not; or what the nemesis cannot do there, though it fits."""
    said = [row["reason"]] if row["reason"] else []
    if row["fits"]:
        said = [f"not with {lack['when']}: no {lack['capability']}" for lack in row["lacks"]]
    return f"  ({'; '.join(said)})" if said else ""


def _chosen(given: dict[str, str | None]) -> dict[str, str]:
    """The filters that were given. Raises ConfigError where one names nothing."""
    from dstest.core import registry
    from dstest.core.plugin_files import named_in

    found = {word: named_in(GROUPS[word], name) for word, name in given.items() if name}
    for word, name in found.items():
        registry.load(GROUPS[word], name)
    return found


def list_(
    store: Annotated[Path, typer.Option(help="Where run directories are.")] = _STORE,
    system: Annotated[
        str | None,
        typer.Option(help="What fits this one, and why not.", autocompletion=completion.systems),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="What fits this one, and why not.", autocompletion=completion.workloads),
    ] = None,
    nemesis: Annotated[
        str | None,
        typer.Option(
            help="What fits this one, and why not.", autocompletion=completion.one_nemesis
        ),
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="All runs in the store.")] = False,
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="Print the page that is docs/capabilities.md.")
    ] = False,
    matrix_: Annotated[
        bool, typer.Option("--matrix", help="A line per system, workload and nemesis, and why not.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """What can be run, and what was. With a system, workload or nemesis: what fits it; with two of
    them, or --matrix, a line per combination."""
    from dstest.cli.fits import matrix

    chosen = _chosen({"system": system, "workload": workload, "nemesis": nemesis})
    if capabilities:
        say(_capabilities(), end="")
        return
    if runs and not json_:
        _show_runs(_runs(store))
        return
    rows = [row for row in matrix() if all(row[word] == name for word, name in chosen.items())]
    if json_:
        _as_json(rows, store)
    elif len(chosen) == 1 and not matrix_:
        ((word, name),) = chosen.items()
        for line in [*lines_of(word, name, rows), *_options(chosen)]:
            typer.echo(line)
    elif chosen or matrix_:
        for row in rows:
            line = f"{row['system']:14} {row['workload']:14} {row['nemesis']:16}{_note(row)}"
            typer.echo(line.rstrip())
        for line in _options(chosen):
            typer.echo(line)
    else:
        _show_all(rows, store)


def _options(chosen: dict[str, str]) -> list[str]:
    """The `-o` options of each plug-in that was named, with their defaults."""
    from dstest.core import registry
    from dstest.core.option_words import allowed, pair_of

    lines = []
    for word, name in chosen.items():
        options = registry.load(GROUPS[word], name).options
        lines += ["", f"options of {word} {name}:" if options else f"{word} {name} has no options"]
        for key, option in options.items():
            may_be = allowed(option)
            shown = f"-o {pair_of(key, option.default)}"
            lines.append(f"  {shown:32} {option.help}{f' ({may_be})' if may_be else ''}")
    return lines


def _models(names: list[str]) -> str:
    """The first few."""
    more = len(names) - _MODELS_SHOWN
    return ", ".join(names[:_MODELS_SHOWN]) + (f", {more} more (dstest models)" if more > 0 else "")


def _capabilities() -> str:
    from dstest.core import registry
    from workloads.capabilities import markdown

    return markdown([registry.load("workloads", name) for name in registry.names("workloads")])


def _as_json(rows: list[dict[str, Any]], store: Path) -> None:
    import msgspec

    shown: dict[str, Any] = {"matrix": rows, "workloads": _workloads(), "checkers": _checkers()}
    shown |= {"systems": _described("systems", "system"), "labs": _described("labs", "lab")}
    shown |= {"nemeses": _described("nemeses", "nemesis"), "runs": _runs(store)}
    say(msgspec.json.encode(shown).decode())


def _show_all(rows: list[dict[str, Any]], store: Path) -> None:
    for row in _described("systems", "system"):
        typer.echo(f"system   {row['system']:16} {row['doc']}".rstrip())
    for row in _workloads():
        judges = ", ".join(row["checkers"])
        typer.echo(f"workload {row['workload']:16} {row['capability']:13} {judges}: {row['doc']}")
    for row in _described("nemeses", "nemesis"):
        typer.echo(f"nemesis  {row['nemesis']:16} {row['doc']}".rstrip())
    for row in _checkers():
        typer.echo(f"checker  {row['checker']:16} {_models(row['models'])}")
    for row in _described("labs", "lab"):
        typer.echo(f"lab      {row['lab']:16} {row['doc']}".rstrip())
    for line in _short(rows):
        typer.echo(line)
    typer.echo("\ndstest list --system NAME (--workload, --nemesis): what fits one, and why not")
    found = _runs(store)
    if found:
        typer.echo("")
        _show_runs(found[-_RUNS_SHOWN:])
    if len(found) > _RUNS_SHOWN:
        typer.echo(f"{len(found) - _RUNS_SHOWN} runs before these: dstest list --runs")


def _show_runs(found: list[dict[str, str]]) -> None:
    for run in found:
        hint = f"  ({_go_on(Path(run['run']))})" if run["status"] == _DIED else ""
        typer.echo(f"{run['status']:32} {run['run']}{hint}")


def _go_on(run: Path) -> str:
    """What judges a run that died, or goes on with a session."""
    from dstest.runner.session_file import is_session

    return f"dstest {'resume' if is_session(run) else 'recover'} {run}"
