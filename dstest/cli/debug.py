"""`dstest debug`: which patterns of failure a run shows, ranked, with evidence and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.thresholds import Set, Thresholds

if TYPE_CHECKING:
    from dstest.patterns.debug import Debugged


def debug(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a sealed run.")],
    thresholds: Thresholds = None,
    set_: Set = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All of it, and not what is read in a minute.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Also as debug.md and debug.json in RUN.debug.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Look for twenty-seven patterns of failure in a run, and say in four steps what was observed,
    what it may be (ranked, with evidence), how to test that, and how to verify that it is mended;
    with five checklists that are filled in. In short, with --all at length. Exit 0 where nothing of
    high or critical severity is unexplained, 1 where something is, 2 for what cannot be read, 3
    where nothing could be looked for."""
    import msgspec

    from dstest.cli.output import say
    from dstest.core.thresholds import thresholds_of
    from dstest.patterns.brief import as_brief
    from dstest.patterns.debug import debugged
    from dstest.patterns.settings import Settings
    from dstest.patterns.told import as_object, as_text
    from dstest.runner.integrity import finished, intact
    from dstest.store.layout import RunDir

    settings = thresholds_of(Settings(), thresholds, set_ or [])
    opened = RunDir.open(run)
    if finished(opened):
        intact(opened)
    found = debugged(run, settings)
    found.similar = _similar(run)
    if write:
        _written(opened.path, found)
    if json_:
        say(msgspec.json.encode(as_object(found)).decode())
    else:
        for line in as_text(found) if all_ else as_brief(found):
            say(line)
    raise typer.Exit(int(found.code))


def _similar(run: Path) -> list[str]:
    """What the book of findings knows of a run that failed; nothing where there is no book."""
    from dstest.kb.book import Book
    from dstest.kb.recall import recalled, told
    from dstest.kb.runs import failing_runs
    from dstest.kb.where import book_file

    path = book_file()
    if not path.is_file():
        return []
    seen = next((one for one in failing_runs(run) if not isinstance(one, str)), None)
    if seen is None:
        return []
    with Book.opened(path) as book:
        return list(told(recalled(book, seen)))


def _written(run: Path, found: Debugged) -> None:
    """Beside the run, whose own files stay as they were summed up."""
    import msgspec

    from dstest.patterns.told import as_markdown, as_object
    from dstest.store.layout import write_file

    folder = run.with_name(run.name + ".debug")
    write_file(folder, "debug.md", as_markdown(found).encode())
    write_file(folder, "debug.json", msgspec.json.format(msgspec.json.encode(as_object(found))))
