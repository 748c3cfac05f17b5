"""A store: `dstest store` tells what lies in it, how large it is, what may go, and whether it is as
it was; `dstest serve` shows it in a browser, or as pages that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli.options import Json
from dstest.cli.output import Telling, say
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dstest.store.entries import Entry
    from dstest.store.index import Index
    from dstest.store.inventory import Inventory
    from dstest.store.prune import Plan


store_app = typer.Typer(no_args_is_help=True, help="Runs that are kept: look, compare, throw away.")

_STORE = Path("store")

Store = Annotated[Path, typer.Argument(metavar="STORE", help="A store; default ./store.")]
Kept = Annotated[Path, typer.Argument(metavar="DIR", help="A run, session or executed plan.")]


def _size(count: int) -> str:
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if count / scale < 999.5:
            return f"{count / scale:.1f} {unit}"
    return f"{count / 1e9:.2f} GB"


def _as_json(value: Any) -> None:
    import msgspec

    say(msgspec.json.encode(value, enc_hook=str).decode())


def _age(entry: Entry, now_ns: int) -> str:
    days = entry.age_days(now_ns)
    return "?" if days is None else f"{days:.1f} d"


@store_app.command("list")
def list_(store: Store = _STORE, json_: Json = False) -> None:
    """What stands by itself in a store, oldest first: kind, verdict as it says, size, age."""
    from dstest.core import clock
    from dstest.store.entries import entries

    with Telling(f"looking at {store}") as tell:
        found, walked = entries(store, tell)
    total = sum(entry.bytes for entry in found)
    if json_:
        odd = [{"path": str(one.path), "why": one.why} for one in walked.odd]
        _as_json({"entries": found, "bytes": total, "odd": odd})
        return
    now_ns = clock.wall_ns()
    for entry in found:
        more = f", {entry.runs} runs" if entry.kind != "run" else ""
        more += "".join(f", {aside.name}" for aside in entry.asides)
        typer.echo(
            f"{entry.kind:8} {entry.state:30} {_size(entry.bytes):>9} {_age(entry, now_ns):>8}  "
            f"{entry.path}{more}"
        )
    for one in walked.odd:
        typer.echo(f"odd      {one.why:30} {'':9} {'':8}  {one.path}: {one.told}")
    typer.echo(f"{len(found)} kept, {_size(total)}")


@store_app.command()
def show(directory: Kept, json_: Json = False) -> None:
    """What a run, session or plan was, and what it came to as it says. `dstest report` judges."""
    from dstest.store.contents import contents_of
    from dstest.store.entries import size_bytes

    found = contents_of(directory)
    taken = size_bytes(found.path)
    if json_:
        _as_json({"path": str(found.path), "kind": found.kind, "bytes": taken, "rows": found.rows})
        return
    typer.echo(f"{found.kind} {found.path}, {_size(taken)}")
    for name, value in found.rows.items():
        if value not in (None, [], {}, ""):
            typer.echo(f"  {name:24} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


@store_app.command()
def diff(left: Kept, right: Kept, json_: Json = False) -> None:
    """What is different between two runs, sessions or plans. Exit 0 in any case: what a difference
    is worth is said by `dstest compare`."""
    from dstest.store.contents import contents_of, differences_between

    pair = (contents_of(left), contents_of(right))
    found = differences_between(*pair)
    if json_:
        _as_json({"left": str(pair[0].path), "right": str(pair[1].path), "differences": found})
        return
    typer.echo(f"- {pair[0].path}\n+ {pair[1].path}")
    for row in found:
        typer.echo(f"  {row.name}\n    - {_shown(row.left)}\n    + {_shown(row.right)}")
    if not found:
        typer.echo("  no difference")


@store_app.command()
def prune(
    store: Store = _STORE,
    max_gb: Annotated[
        float | None, typer.Option(help="Let the oldest go until it has at most so much.", min=0)
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(help="Let nothing go that is younger.", min=0)
    ] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option(help="Let nothing go that this gate policy asks for; several by repeating."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete. Without it nothing is, it is only said.")
    ] = False,
    json_: Json = False,
) -> None:
    """Say what may go, and with --yes delete it. What found a violation stays with its reproducers;
    so does what is running, was not judged, was touched or is the newest. Exit 3 where the store
    stays larger than asked."""
    from dstest.core import clock
    from dstest.gate.policy import read_policy
    from dstest.gate.retention import directories_needed
    from dstest.store.prune import delete, plan

    asked: dict[Path, str] = {}
    for path in policy or []:
        for kept in directories_needed(store, read_policy(path).policy):
            asked[kept] = str(path)
    with Telling(f"looking at {store}") as tell:
        found = plan(
            store,
            now_ns=clock.wall_ns(),
            max_gb=max_gb,
            keep_days=keep_days,
            needed=asked,
            tell=tell,
        )
        tell("deleting")
        gone = delete(found) if yes else 0
    if json_:
        _as_json({"plan": found, "deleted": yes, "bytes_deleted": gone})
    else:
        _say_plan(found, yes, gone)
    raise typer.Exit(int(Exit.NOT_PROVEN if found.short_bytes else Exit.PASS))


def _say_plan(found: Plan, deleted: bool, gone: int) -> None:
    word = "deleted" if deleted else "would go"
    for entry in found.going:
        typer.echo(f"{word}: {entry.path} ({entry.state}, {_size(entry.bytes)})")
    for kept in found.staying:
        typer.echo(f"stays: {kept.entry.path} ({_size(kept.entry.bytes)}): {kept.why}")
    typer.echo(
        f"{_size(found.bytes_before)} before, {_size(found.bytes_after)} after: "
        + (f"{_size(gone)} deleted" if deleted else "nothing was deleted, --yes does")
    )
    if found.short_bytes:
        typer.echo(f"{_size(found.short_bytes)} more than asked for has to stay")


def _nights(walked: Inventory) -> Iterator[tuple[str, str]]:
    """Nights that are over and say otherwise than what lies in them."""
    from dstest.campaign.nightly.state import NightDir
    from dstest.campaign.nightly.verdict import contradictions
    from dstest.core.errors import ConfigError

    for place in walked.places:
        if place.kind == "night":
            opened = NightDir.open(place.path)
            try:
                night = opened.read()
            except ConfigError as error:
                yield str(place.path), error.message
                continue
            yield from ((str(place.path), what) for what in contradictions(opened, night))


def _judged_again(
    store: Path,
    walked: Inventory,
    running: list[Path],
    wrong_before: list[tuple[str, str]],
    deep: bool,
    tell: Callable[[str], None],
) -> tuple[list[tuple[str, str]], list[tuple[Path, str]]]:
    """What is wrong besides, and what could not be compared."""
    from dstest.gate.gather import gather
    from dstest.store.verify import check_asides, uncomparable_scripts

    known = {where for where, _ in wrong_before}
    judged = gather([store], "all" if deep else "checkers", tell)
    wrong = [(f.where, f"{f.rule}: {f.what}") for f in judged.findings if f.where not in known]
    otherwise = [run for run in judged.runs if run.otherwise]
    wrong += [(str(run.path), run.otherwise) for run in otherwise if run.by_us]
    untold = [(run.path, run.otherwise) for run in otherwise if not run.by_us]
    bad = {Path(where) for where in known} | {Path(where) for where, _ in wrong}
    wrong += [(str(row.path), row.what) for row in check_asides(walked, bad)]
    wrong += _nights(walked)
    bad |= {Path(where) for where, _ in wrong} | {*running}
    return wrong, untold + list(uncomparable_scripts(walked, bad))


@store_app.command()
def verify(
    store: Store = _STORE,
    verdicts: Annotated[
        bool, typer.Option("--verdicts", help="Judge everything again as well.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="And try the checkers on broken copies again.")
    ] = False,
    json_: Json = False,
) -> None:
    """Compare every file with its sum, and with --verdicts judge every run, session and plan again,
    and hold what `dstest shrink` and `dstest blame` found to their runs. Exit 3 where anything is
    not as it was left."""
    from dstest.store.entries import entries
    from dstest.store.inventory import left_out
    from dstest.store.verify import check_sums

    untold: list[tuple[Path, str]] = []
    with Telling(f"looking at {store}") as tell:
        found, walked = entries(store, tell)
        running = [entry.path for entry in found if entry.life == "running"]
        wrong = [(str(row.path), row.what) for row in check_sums(walked, tell)]
        if verdicts or deep:
            again, untold = _judged_again(store, walked, running, wrong, deep, tell)
            wrong += again
    foreign = [one for one in walked.odd if one.why == "foreign"]
    wrong = [row for row in wrong if not any(Path(row[0]).is_relative_to(p) for p in running)]
    count = len(walked.places)
    code = Exit.NOT_PROVEN if wrong or not count else Exit.PASS
    if json_:
        rows = [{"path": where, "what": what} for where, what in wrong]
        at_it = list(map(str, running))
        shown = {"looked_at": count, "verdicts": verdicts or deep, "wrong": rows}
        others = [str(one.path) for one in foreign]
        rows = [{"path": str(where), "what": what} for where, what in untold]
        _as_json({**shown, "running": at_it, "foreign": others, "not_compared": rows})
    else:
        for where, what in wrong:
            typer.echo(f"{where}: {what}")
        for at, what in untold:
            typer.echo(f"{at}: {what}")
        for one in foreign:
            typer.echo(f"{one.path}: {one.told}, not looked at")
        for line in left_out(walked.odd):
            typer.echo(line)
        how = "files and verdicts" if verdicts or deep else "files"
        still = f"; {len(running)} running, not judged" if running else ""
        typer.echo(f"{count} runs, sessions and plans; {how}: {len(wrong)} wrong{still}")
    raise typer.Exit(int(code))


def serve(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A store; default ./store.")
    ] = Path("store"),
    host: Annotated[
        str,
        typer.Option(help="Listen at this address. Whoever reaches it reads the whole store."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Listen at this port, up to 65535; 0 takes a free one.")
    ] = 8080,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the same pages as files into this new directory, and end."
        ),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep what was read below ~/.cache/dstest, so that the next start is quick.",
        ),
    ] = True,
    json_: Json = False,
) -> None:
    """Look at a store in a browser: search, filter, two runs side by side, trends, violations over
    runs, what is running. Nothing is ever written to the store. Ends with Ctrl-C, exit 0."""
    from dstest.core.errors import ConfigError
    from dstest.store.index import Cache, Index, cache_file

    if not host.strip():
        raise ConfigError(
            "--host is empty, which would be every address of this machine",
            remedy="leave it out for this machine alone; 0.0.0.0 for every address",
        )
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port {port}: no port has this number", remedy="0 to 65535")
    kept = Cache(cache_file(store) if cache else None)
    if kept.why_not:
        typer.echo(f"dstest: nothing is kept for the next start: {kept.why_not}", err=True)
    try:
        index = Index(store, kept)
        if export is not None:
            _export(index, export, json_)
        else:
            _serve(index, host, port, json_)
    finally:
        kept.close()


def _export(index: Index, to: Path, json_: bool) -> None:
    import msgspec

    from dstest.serve.export import export

    typer.echo("reading the runs", err=True)
    with Telling(f"reading the runs of {index.store}"):
        index.refresh()
    runs = len(index.shown.rows)
    pages = export(index, to, lambda text: typer.echo(text, err=True))
    first = to / "index.html"
    if json_:
        say(msgspec.json.encode({"pages": pages, "runs": runs, "index": str(first)}).decode())
    else:
        typer.echo(f"{pages:,} pages of {runs:,} runs: {first}")


def _serve(index: Index, host: str, port: int, json_: bool) -> None:
    import msgspec

    from dstest.serve.http import Listening, is_loopback, serve

    if not is_loopback(host):
        typer.echo(
            f"dstest: warning: {host} can be reached from elsewhere: whoever reaches it reads "
            "everything in this store, with the logs of its nodes; nobody is asked for a name",
            err=True,
        )

    def ready(at: Listening) -> None:
        if json_:
            shown = {"url": at.url, "host": at.host, "port": at.port, "store": str(index.store)}
            say(msgspec.json.encode(shown).decode())
        else:
            say(f"{index.store} is at {at.url} (Ctrl-C ends)")

    serve(index, host, port, ready)
