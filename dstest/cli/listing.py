"""What there is: `dstest list`, with what fits together and why not the others, and the latest runs
in a store; `dstest nemeses`, every kind of fault and whether it can be delivered; `dstest options`,
what `-o key=value` of a run takes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dstest.cli import completion
from dstest.cli.options import Json, JsonArray
from dstest.cli.output import say

if TYPE_CHECKING:
    from dstest.core.protocols import Option


GROUPS: Final = {"system": "systems", "workload": "workloads", "nemesis": "nemeses"}
_NAMED: Final = 3


def lines_of(word: str, name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines for one plug-in; `word` is what it is, `rows` are those of the matrix with it.

    Each of the others stands once: among those that fit, with what it does not fit together with,
    or by the reason why it fits nowhere here.
    """
    from dstest.core import registry

    plugin = registry.load(GROUPS[word], name)
    lines = [f"{word} {name}: {getattr(plugin, 'doc', '')}", *_about(word, plugin)]
    first, second = (other for other in GROUPS if other != word)
    for side, across in ((first, second), (second, first)):
        lines += ["", *_side(word, side, across, rows)]
    return lines


def wrapped(label: str, names: Iterable[str], width: int = 10, mark: str = ", ") -> list[str]:
    """Names after a label, on as many lines as they take."""
    head = f"  {label:{width}} "
    text = mark.join(names) or "nothing"
    return textwrap.wrap(
        text, 96, initial_indent=head, subsequent_indent=" " * len(head),
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


def _about(word: str, plugin: Any) -> Iterator[str]:
    """What it says of itself: of a system its capabilities and where it promises less."""

    if word == "workload":
        yield f"  needs a client for {plugin.capability}, judged by {_judges(plugin)}"
    if word != "system":
        return
    yield from wrapped("clients", sorted(plugin.capabilities), 8)
    for row in plugin.relaxations:
        where = f" with -o {row.option}={row.value}" if row.option else ""
        yield f"  promises {row.model} only{where}"


def _judges(workload: Any) -> str:
    return f"{', '.join(workload.checkers)} against {workload.model}"


def _side(chosen: str, word: str, across: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One of the other two kinds: what fits, each with a note, then what does not, by reason."""
    names = list(dict.fromkeys(row[word] for row in rows))
    fitting = {row[word] for row in rows if row["fits"]}
    others = {row[across] for row in rows if row["fits"]}
    yield f"{GROUPS[word]}: {len(fitting)} of {len(names)} fit"
    unfit: dict[str, list[str]] = {}
    for name in names:
        mine = [row for row in rows if row[word] == name]
        if name not in fitting:
            unfit.setdefault(_reason(mine), []).append(name)
            continue
        notes = [*_misses([row for row in mine if row[across] in others], across)]
        notes += [] if "workload" in (chosen, word) else _in_part(mine)
        note = f" ({'; '.join(notes)})" if notes else ""
        yield f"  {name:18} {_said(word, name)}{note}"
    if unfit:
        yield from wrapped(
            "not", [f"{', '.join(those)} ({why})" for why, those in unfit.items()], 3, "; "
        )


def _said(word: str, name: str) -> str:
    from dstest.core import registry

    plugin = registry.load(GROUPS[word], name)
    return (
        f"{plugin.capability:13} {_judges(plugin)}"
        if word == "workload"
        else getattr(plugin, "doc", "")
    )


def _misses(rows: Sequence[Mapping[str, Any]], across: str) -> Iterator[str]:
    misses = [row[across] for row in rows if not row["fits"]]
    if len(misses) > _NAMED:
        yield f"not with {len(misses)} of {len(rows)} {GROUPS[across]}"
    elif misses:
        yield f"not with {', '.join(misses)}"


def _in_part(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which faults of a nemesis a system cannot have, though it can have others."""
    lacks = {(lack["when"], lack["capability"]) for row in rows for lack in row["lacks"]}
    return [f"not with {when}: no {what}" for when, what in sorted(lacks, key=str) if when]


def _reason(rows: Sequence[Mapping[str, Any]]) -> str:
    """What all its rows have in common, of what lacks the names alone."""
    parts = [(row["reason"] or "").split("; ") for row in rows]
    for row, own in zip(rows, parts, strict=True):
        lacks = ", ".join(lack["capability"] for lack in row["lacks"] if not lack["when"])
        own[:] = [part.removeprefix(f"{row['system']} ") for part in own]
        own[:] = [f"lacks {lacks}" if part.startswith("lacks ") else part for part in own]
    common = [part for part in parts[0] if all(part in own for own in parts)]
    return "; ".join(common) or "several reasons"


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
    from dstest.history.layout import RunDir
    from dstest.runner.session import alive
    from dstest.runner.session_file import SessionDir, is_session

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


def _note(row: dict[str, Any]) -> str:
    """Why not; or what the nemesis cannot do there, though it fits."""
    said = [row["reason"]] if row["reason"] else []
    if row["fits"]:
        said = [f"not with {lack['when']}: no {lack['capability']}" for lack in row["lacks"]]
    return f"  ({'; '.join(said)})" if said else ""


def _chosen(given: dict[str, str | None]) -> dict[str, str]:
    """The filters that were given. Raises ConfigError where one names nothing."""
    from dstest.core import registry
    from dstest.core.registry import named_in

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
        bool,
        typer.Option(
            "--capabilities", help="Print the page that is docs/reference/capabilities.md."
        ),
    ] = False,
    matrix_: Annotated[
        bool, typer.Option("--matrix", help="A line per system, workload and nemesis, and why not.")
    ] = False,
    json_: Json = False,
) -> None:
    """What can be run, and what was. With a system, workload or nemesis: what fits it; with two of
    them, or --matrix, a line per combination."""

    chosen = _chosen({"system": system, "workload": workload, "nemesis": nemesis})
    if capabilities:
        say(_capabilities(), end="")
        return
    if runs and not json_:
        found = _runs(store)
        _show_runs(found)
        if not found:
            typer.echo(f"dstest: {_instead_of_runs(store)}", err=True)
        return
    if not (chosen or matrix_ or json_):
        _show_all(store)
        return
    rows = [row for row in matrix() if all(row[word] == name for word, name in chosen.items())]
    if json_:
        _as_json(rows, store)
    elif len(chosen) == 1 and not matrix_:
        ((word, name),) = chosen.items()
        for line in [*lines_of(word, name, rows), *_options(chosen)]:
            typer.echo(line)
    else:
        for row in rows:
            fits = "  fits" if len(rows) == 1 and row["fits"] else ""
            line = f"{row['system']:14} {row['workload']:14} {row['nemesis']:16}{fits}{_note(row)}"
            typer.echo(line.rstrip())
        for line in _options(chosen):
            typer.echo(line)


def _options(chosen: dict[str, str]) -> list[str]:
    """The `-o` options of each plug-in that was named, with their defaults."""
    from dstest.core import registry
    from dstest.core.run_words import allowed_values, pair_of

    lines = []
    for word, name in chosen.items():
        options = registry.load(GROUPS[word], name).options
        lines += ["", f"options of {word} {name}:" if options else f"{word} {name} has no options"]
        for key, option in options.items():
            may_be = allowed_values(option)
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


def _show_all(store: Path) -> None:
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


def _instead_of_runs(store: Path) -> str:
    """What a store without runs that stand by themselves has."""
    from dstest.store.inventory import walk

    if not store.is_dir():
        return f"no runs: there is no {store}"
    places = [place for place in walk(store).places if place.within is None]
    nights = [place.path for place in places if place.kind == "night"]
    if nights:
        told = f"{len(nights)} night{'s' * (len(nights) > 1)}, such as {nights[-1]}"
        return f"no runs by themselves in {store}, but {told}: `dstest nightly report` tells of it"
    if places:
        return f"no runs by themselves in {store}: `dstest store list` shows what lies there"
    return f"no runs in {store}"


def _go_on(run: Path) -> str:
    """What judges a run that died, or goes on with a session."""
    from dstest.runner.session_file import is_session

    return f"dstest {'resume' if is_session(run) else 'recover'} {run}"


def matrix() -> list[dict[str, Any]]:
    """Every system x workload x nemesis with the reason where it does not fit.

    `lacks` are the capabilities, and of each the methods, that the nemesis asks of the system in
    vain: always, or for faults of the kind `when` only, where it fits all the same.
    """
    from dstest.core import registry

    rows = []
    workloads = {name: registry.load("workloads", name) for name in registry.names("workloads")}
    nemeses = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    unjudged = {name: no_judge(workload) for name, workload in workloads.items()}
    for system_name in registry.names("systems"):
        system = registry.load("systems", system_name)
        asked = {name: asked_of(system, nemesis) for name, nemesis in nemeses.items()}
        for workload_name, workload in workloads.items():
            refused = no_client(system, workload)
            for nemesis_name, (why, lacks) in asked.items():
                shared = shared_option(system, workload, nemeses[nemesis_name])
                given = (refused, unjudged[workload_name], why, shared)
                reasons = [reason for reason in given if reason]
                rows.append(
                    {
                        "system": system_name,
                        "workload": workload_name,
                        "nemesis": nemesis_name,
                        "fits": not reasons,
                        "reason": "; ".join(reasons) or None,
                        "lacks": lacks,
                    }
                )
    return rows


def no_client(system: Any, workload: Any) -> str | None:
    """Why no client of the system can do the workload, None where one can."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import check_client

    if workload.capability not in system.capabilities:
        return f"{system.name} offers no {workload.capability} client"
    try:
        check_client(system, workload)
    except ConfigError as error:
        return error.message
    return None


def shared_option(*parts: Any) -> str | None:
    """An option that two of them declare: nobody could say whose value is meant."""
    from dstest.runner.plugins import RUN_OPTIONS

    owner = dict.fromkeys(RUN_OPTIONS, "every run")
    for part in parts:
        for option in part.options:
            if option in owner:
                return f"{owner[option]} and {part.name} both have an option {option}"
            owner[option] = part.name
    return None


def no_judge(workload: Any) -> str | None:
    """Why nobody can judge the workload, None where its checkers can."""
    from dstest.core.errors import ConfigError
    from dstest.runner.plugins import checkers_of

    try:
        checkers_of(workload)
    except ConfigError as error:
        return error.message
    return None


def asked_of(system: Any, nemesis: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Why no fault of the nemesis is possible on the system, None where one is; what it lacks."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import lacking

    try:
        lacks = lacking(system, nemesis)
    except ConfigError as error:
        return error.message, []
    always = [lack.text for lack in lacks if not lack.when]
    rows = [
        {"capability": lack.capability, "missing": list(lack.missing), "when": lack.when or None}
        for lack in lacks
    ]
    return f"{system.name} lacks {', '.join(always)}" if always else None, rows


def nemeses(
    as_json: JsonArray = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page that is docs/nemeses.md.")
    ] = False,
) -> None:
    """All kinds of faults: what each needs, which nemesis delivers it, or why none does."""
    from nemeses.catalogue import markdown, rows

    if as_markdown:
        say(markdown(), end="")
        return
    catalogue = rows()
    if as_json:
        import msgspec

        say(msgspec.json.format(msgspec.json.encode(catalogue), indent=2).decode())
        return
    for row in catalogue:
        by = ", ".join(row.nemeses) if row.delivered else "-"
        typer.echo(f"{row.number}  {row.name:31} {by:12} needs {row.needs}")
        typer.echo(
            f"     {'proof: ' + row.proof if row.delivered else 'why not: ' + str(row.reason)}"
        )
    count = sum(row.delivered for row in catalogue)
    typer.echo(f"{count} of {len(catalogue)} can be delivered")


def options(
    system: Annotated[
        str | None,
        typer.Option(
            help="Those of this system: a name, or a file of your own.",
            autocompletion=completion.systems,
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="Those of this workload.", autocompletion=completion.workloads),
    ] = None,
    nemesis: Annotated[
        str | None,
        typer.Option(
            help="Those of this nemesis, or of several: partition,kill.",
            autocompletion=completion.nemeses,
        ),
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="A file of your own with one.")
    ] = None,
    json_: Json = False,
) -> None:
    """List every `-o` that a run takes: type, default, what it may be, what it does. Without a name
    those of the main job, etcd with register and partition.

    `dstest options --system etcd --nemesis kill`"""
    import msgspec

    from dstest.core.registry import named_in, use
    from dstest.core.run_record import RunSpec
    from dstest.core.run_words import allowed_values, value_text
    from dstest.runner.plugins import options_of

    use(plugin or [])
    if system is None and workload is None and nemesis is None:
        usual = RunSpec()
        system, workload, nemesis = usual.system, usual.workload, usual.nemesis
    rows = list(
        options_of(
            None if system is None else named_in("systems", system),
            None if workload is None else named_in("workloads", workload),
            None if nemesis is None else named_in("nemeses", nemesis),
        )
    )
    if json_:
        shown = [{"of": whose, "name": name, **_plain(option)} for whose, name, option in rows]
        say(msgspec.json.encode({"options": shown}).decode())
        return
    for whose, of_it in groupby(rows, key=lambda row: row[0]):
        typer.echo(f"{whose}:")
        for _, name, option in of_it:
            may_be = allowed_values(option)
            typer.echo(f"  -o {name}={value_text(option.default)}")
            typer.echo(f"      {option.help}{f' ({may_be})' if may_be else ''}")


def _plain(option: Option) -> dict[str, Any]:
    return {
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices),
        "least": option.least,
        "most": option.most,
        "help": option.help,
    }
