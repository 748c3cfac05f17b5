"""`dstest kb`: findings remembered over stores; and what the book of findings knows of a run that
has just failed, which is told beside its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli.options import Json
from dstest.cli.output import Telling, say

if TYPE_CHECKING:
    from dstest.store.known_issues.book import Finding
    from dstest.store.known_issues.notes import Notes


At = Annotated[
    Path | None,
    typer.Option(
        "--kb", metavar="FILE", help="The book; default $DSTEST_KB, or one of the user's own."
    ),
]
Id = Annotated[str, typer.Argument(metavar="FINDING", help="As `dstest kb show` lists it: K1.")]

kb_app = typer.Typer(
    no_args_is_help=True,
    help="Findings remembered over stores, and notes by hand: seen before, mended by what.",
)


@kb_app.command()
def learn(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE", help="Stores, or runs.")],
    kb: At = None,
    json_: Json = False,
) -> None:
    """Remember the failing runs of stores. The book is begun where there is none; from then on each
    run that fails is looked up and remembered by itself."""
    from dstest.core.errors import ConfigError
    from dstest.store.known_issues.book import Book, book_file, failing_runs, runs_below

    path = book_file(kb)
    with Telling("looking for runs") as tell:
        found = [one for store in stores for one in failing_runs(store, tell=tell)]
    runs = [one for one in found if not isinstance(one, str)]
    left = [one for one in found if isinstance(one, str)]
    if empty := next((store for store in stores if not any(runs_below(store))), None):
        raise ConfigError(f"{empty} holds no run", remedy="a store, or a run of one")
    for why in left:
        typer.echo(f"dstest: left out: {why}", err=True)
    with Book.opened(path, make=True) as book:
        new = book.learn(runs)
    if json_:
        _json({"kb": str(path), "failed": len(runs), "left_out": left, **new._asdict()})
        return
    say(
        f"{len(runs)} failing runs: {new.findings} new findings, {new.sightings} new sightings; "
        f"{len(left)} left out; {path}"
    )


@kb_app.command()
def show(
    finding: Annotated[
        str | None, typer.Argument(metavar="[FINDING]", help="K1; all where it is left out.")
    ] = None,
    kb: At = None,
    json_: Json = False,
) -> None:
    """List the findings, or one with all runs that showed it and all that was done against it."""
    from dstest.store.known_issues.book import Book, book_file

    with Book.opened(book_file(kb)) as book:
        found = book.findings() if finding is None else [book.finding(finding)]
    if json_:
        _json({"findings": found})
        return
    for one in found:
        say(_head(one))
        if finding is not None:
            _whole(one)


@kb_app.command()
def similar(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run that failed.")],
    top: Annotated[int, typer.Option(min=1, max=100, help="So many at most.")] = 5,
    kb: At = None,
    json_: Json = False,
) -> None:
    """What is known of a run that failed, and what resembles it. Nothing is remembered."""
    from dstest.core.errors import ConfigError
    from dstest.store.known_issues.book import Book, book_file, failing_runs, recall, render

    found = list(failing_runs(run))
    seen = next((one for one in found if not isinstance(one, str)), None)
    if seen is None:
        why = found[0] if found else f"{run} holds no run that failed"
        raise ConfigError(str(why), remedy="a run whose verdict is a FAIL")
    with Book.opened(book_file(kb)) as book:
        known = recall(book, seen, top)
    if json_:
        _json(known)
        return
    for line in list(render(known)) or ["nothing like it"]:
        say(line)


@kb_app.command()
def fix(
    finding: Id,
    commit: Annotated[str, typer.Option(help="Of the system, or any name for the change.")],
    note: Annotated[str, typer.Option(help="What was changed.")] = "",
    held: Annotated[
        bool, typer.Option("--held", help="This fix, which stands there, was shown to hold.")
    ] = False,
    kb: At = None,
    json_: Json = False,
) -> None:
    """Write down what was done against a finding. A run that starts later and shows it again is
    told that it has come back; three such fixes are told to go in circles."""
    from dstest.core.errors import ConfigError
    from dstest.store.known_issues.book import Book, book_file

    if not commit.strip():
        raise ConfigError("--commit is empty", remedy="the commit, or any name for the change")
    with Book.opened(book_file(kb)) as book:
        found = book.held(finding, commit) if held else book.fix(finding, commit, note)
    if json_:
        _json(found)
        return
    say(_head(found))
    _whole(found)


@kb_app.command()
def note(
    what: Annotated[
        str, typer.Argument(metavar="SEEN|NOTE", help="What was seen; or N1, to add to a note.")
    ],
    hypothesis: Annotated[str, typer.Option(help="What it may come of.")] = "",
    tried: Annotated[
        list[str] | None, typer.Option(help="What did not help. May be repeated.")
    ] = None,
    mended: Annotated[str, typer.Option(help="What did help.")] = "",
    module: Annotated[str, typer.Option(help="The part of the system that it is in.")] = "",
    health: Annotated[str, typer.Option(help="Of the module since: good, watch or bad.")] = "",
    system: Annotated[str, typer.Option(help="Of which system.")] = "",
    pattern: Annotated[
        str, typer.Option(help="A pattern of failure, as `dstest debug --json` names it.")
    ] = "",
    kb: At = None,
    json_: Json = False,
) -> None:
    """Write down a failure by hand, of any system: what was seen, taken for the cause, tried and
    mended. The book is begun where there is none."""
    import msgspec

    from dstest.store.known_issues.book import Book, book_file
    from dstest.store.known_issues.notes import Note, Notes, health_named, is_note, lines_of

    texts = {"hypothesis": hypothesis, "mended": mended, "module": module, "system": system}
    told = {name: text for name, text in {**texts, "pattern": pattern}.items() if text}
    given: dict[str, Any] = {**told, "tried": tuple(tried or ())}
    if health:
        given["health"] = health_named(health)
    what, given = _utf8(what), {name: _utf8(value) for name, value in given.items()}
    with Book.opened(book_file(kb), make=True) as book:
        notes = Notes(book)
        found = notes.change(what, given) if is_note(what) else notes.add(Note(seen=what, **given))
    if json_:
        _json(msgspec.to_builtins(found))
        return
    say(f"{found.id}  {found.seen}")
    for line in lines_of(found):
        say(f"    {line}")


def _utf8(value: Any) -> Any:
    """Of words of a command line; bytes that are no UTF-8 become a mark."""
    if isinstance(value, tuple):
        return tuple(map(_utf8, value))
    return value.encode(errors="surrogateescape").decode(errors="replace")


def _damaged(notes: Notes) -> None:
    """Says on stderr which cannot be read."""
    if lost := notes.damaged():
        typer.echo(f"damaged in the book, and left out: {', '.join(lost)}", err=True)


@kb_app.command()
def notes(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS...]", help="What is seen now; all where it is left out."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=100, help="So many at most.")] = 5,
    kb: At = None,
    json_: Json = False,
) -> None:
    """Notes by hand, the most like what is seen now first, with the words that they share."""
    import msgspec

    from dstest.core.words import one_line
    from dstest.store.known_issues.book import Book, book_file
    from dstest.store.known_issues.notes import Like, Notes, lines_of, render

    with Book.opened(book_file(kb)) as book:
        every = Notes(book)
        _damaged(every)
        if words:
            found = every.like(_utf8(" ".join(words)), top)
        else:
            found = [Like(one, 1.0, []) for one in every.all()]
    if json_:
        _json({"notes": [msgspec.to_builtins(one._asdict()) for one in found]})
        return
    if words:
        lines = list(render(found)) or ["nothing like it"]
    else:
        lines = [
            line
            for one in found
            for line in (
                f"{one.note.id}  {one.note.seen}",
                *map("    {}".format, lines_of(one.note)),
            )
        ]
    for line in lines:
        say(one_line(line))


def notes_like(text: str) -> list[str]:
    """Of the user's own book; nothing where there is none, or it cannot be asked."""
    from dstest.core.errors import DstestError
    from dstest.store.known_issues.book import Book, book_file
    from dstest.store.known_issues.notes import Notes, render

    path = book_file()
    if not path.is_file():
        return []
    try:
        with Book.opened(path) as book:
            notes = Notes(book)
            lost = notes.damaged()
            left = [f"damaged in {path}, and left out: {', '.join(lost)}"] if lost else []
            return [*render(notes.like(text)), *left]
    except DstestError as error:
        return [error.message]


@kb_app.command()
def stats(kb: At = None, json_: Json = False) -> None:
    """How many findings there are, of which systems and kinds, and what became of fixes."""
    from dstest.core.fingerprint import parts_of
    from dstest.store.known_issues.book import Book, book_file
    from dstest.store.known_issues.notes import Notes, modules

    with Book.opened(book_file(kb)) as book:
        found = book.findings()
        written = Notes(book).all()
        _damaged(Notes(book))
    fixes = Counter(fix.outcome for one in found for fix in one.fixes)
    told: dict[str, Any] = {
        "findings": len(found),
        "sightings": sum(len(one.sightings) for one in found),
        "systems": dict(Counter(one.system for one in found).most_common()),
        "anomalies": dict(Counter(parts_of(one.fingerprint).kind for one in found).most_common()),
        "fixes": dict(fixes),
        "came_back": [one.id for one in found if one.came_back],
        "in_circles": [one.id for one in found if one.in_circles],
        "notes": len(written),
        "modules": modules(written),
    }
    if json_:
        _json(told)
        return
    for name, value in told.items():
        if name == "modules":
            value = ", ".join(
                f"{module}: {count} notes, health {health or 'not said'}"
                for module, (count, health) in value.items()
            )
            value = value or "nothing"
        elif isinstance(value, dict):
            value = ", ".join(f"{count} {word}" for word, count in value.items()) or "nothing"
        elif isinstance(value, list):
            value = ", ".join(value) or "nothing"
        say(f"{name.replace('_', ' '):<12}{value}")


def _json(told: Any) -> None:
    import msgspec

    say(msgspec.json.encode(told).decode())


def _head(one: Finding) -> str:
    count = len(one.sightings)
    said = next((s.headline for s in reversed(one.sightings) if s.headline), "")
    back = "; came back" if one.came_back else ""
    circles = "; going in circles" if one.in_circles else ""
    text = f"{one.id}  {one.system}  {one.fingerprint}  {count} runs{back}{circles}"
    return f"{text}\n    {said}" if said else text


def _whole(one: Finding) -> None:
    for s in one.sightings:
        say(
            f"    {s.started}  {s.version}  {s.workload} under {s.nemesis}, seed {s.seed}: {s.path}"
        )
    for fix_ in one.fixes:
        say(f"    fix {fix_.commit} ({fix_.at}): {fix_.note or 'no note'}: {fix_.outcome}")


def _recalled(run: Path) -> Any:
    """None where there is no book, or it cannot be asked: a verdict does not depend on it."""
    from dstest.core.errors import DstestError
    from dstest.store.known_issues.book import Book, book_file, failing_runs, recall

    path = book_file()
    if not path.is_file():
        return None
    try:
        seen = next((one for one in failing_runs(run, own=True) if not isinstance(one, str)), None)
        if seen is None:
            return None
        with Book.opened(path) as book:
            found = recall(book, seen)
            book.learn([seen])
    except DstestError as error:
        return str(error.message)
    return found


def known_lines(run: Path) -> Iterator[str]:
    """For a terminal, each with its head. The run is remembered."""
    from dstest.store.known_issues.book import render

    found = _recalled(run)
    if found is None:
        return
    lines = [found] if isinstance(found, str) else list(render(found)) or ["nothing like it"]
    for n, line in enumerate(lines):
        yield f"{'known' if n == 0 else '':<12}{line}"


def known_plain(run: Path) -> dict[str, Any]:
    """For --json: ids, and what was done against each; nothing where there is no book."""
    found = _recalled(run)
    if found is None or isinstance(found, str):
        return {}
    return {
        "known": [
            {
                "id": one.id,
                "fingerprint": one.fingerprint,
                "seen": len(one.sightings),
                "fixes": {fix.commit: fix.outcome for fix in one.fixes},
            }
            for one in found.known
        ],
        "alike": [{"id": one.finding.id, "score": round(one.score, 3)} for one in found.alike],
    }
