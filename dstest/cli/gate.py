"""`dstest gate`: is there evidence enough for a release, and does nothing speak against it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dstest.cli.options import Json
from dstest.cli.output import ON_GITHUB, Github, Telling, require_folder, say, write_whole
from dstest.cli.report import clear, remove

if TYPE_CHECKING:
    from dstest.gate.decision import Decision
    from dstest.gate.policy import ReadPolicy

_DRAFT: Final = "draft"
_FILES: Final = ("decision.md", "decision.html", "decision.json", "junit.xml", "results.sarif")
"""What --out holds."""


def gate(
    stores: Annotated[
        list[Path],
        typer.Argument(
            metavar="[draft] STORE...",
            help="Stores, or runs, sessions and plans of them. With the word `draft` before them:"
            " print a policy that asks for what lies there.",
        ),
    ],
    policy: Annotated[
        Path | None, typer.Option(help="What is asked for: a TOML file (docs/gate.md).")
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="A store of before, where the policy asks for a baseline."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write decision.md, decision.html, decision.json, junit.xml, results.sarif there."
        ),
    ] = None,
    github: Github = ON_GITHUB,
    json_: Json = False,
) -> None:
    """Judge all runs again, unless the policy believes them, and decide by it whether a release is
    let through. Exit 0 where it is, 1 where a violation stands, 3 where evidence is missing, old,
    edited or too little, 2 where the policy asks for nothing or cannot be read. `dstest gate draft
    STORE > release.toml` writes a policy to begin with."""
    import msgspec

    from checkers.slo import METRICS
    from dstest.core import clock
    from dstest.gate.decision import decide
    from dstest.gate.page import annotation_lines, why
    from dstest.gate.policy import read_policy
    from dstest.gate.soundness import require_sound
    from dstest.store.compare.measured import FACTORS

    if policy is None:
        _draft(stores, others=bool(baseline) or out is not None or json_)
        return
    clear({"--out": out}, [*stores, *(baseline or [])], _FILES)
    require_folder(out, "--out")
    read = read_policy(policy)
    require_sound(read, METRICS, FACTORS)
    began_ns = clock.monotonic_ns()
    with Telling("reading the stores") as tell:
        decision = decide(read, stores, baseline or [], clock.wall_ns(), tell)
    if not decision.believed:
        took_s = (clock.monotonic_ns() - began_ns) / 1e9
        typer.echo(f"dstest: all evidence was judged again, in {took_s:.1f} s", err=True)
    if out is not None:
        _write(out, decision, read)
    if json_:
        say(msgspec.json.encode(decision).decode())
        raise typer.Exit(decision.exit)
    typer.echo(_flat(f"gate: {decision.policy}: {decision.outcome}"))
    for line in why(decision):
        typer.echo(_flat(f"- {line}"))
    for row in decision.rows:
        if row.command and not row.kept:
            how = "; or ".join(filter(None, (row.command, row.in_night)))
            typer.echo(_flat(f"missing for {row.id}: {how}"))
    for note in decision.notes:
        typer.echo(_flat(f"note: {note}"))
    if github:
        for line in annotation_lines(decision, read):
            typer.echo(line)
    raise typer.Exit(decision.exit)


def _draft(stores: list[Path], *, others: bool) -> None:
    from dstest.core.errors import ConfigError
    from dstest.gate.draft import draft
    from dstest.gate.gather import stores_of

    remedy = "`dstest gate draft STORE > release.toml` writes one to begin with"
    if str(stores[0]) != _DRAFT:
        raise ConfigError("--policy is missing: what is to be asked of these runs?", remedy=remedy)
    if Path(_DRAFT).exists():  # a gate that lost its policy must not end with 0
        raise ConfigError(
            "`draft` is a word of this command, and something here is called so",
            remedy=f"give a store of that name as ./{_DRAFT}, with --policy; else draft elsewhere",
        )
    if others:
        raise ConfigError("gate draft takes no options", remedy=remedy)
    if not stores[1:]:
        raise ConfigError("gate draft: of which store?", remedy=remedy)
    with Telling("reading the stores"):
        text = draft(stores_of(stores[1:]))
    typer.echo(text, nl=False)


def _flat(text: str) -> str:
    """In one line, since a CI server obeys lines that begin as its commands do."""
    from dstest.core.words import printable

    return printable(" ".join(text.split()))


def _write(out: Path, decision: Decision, read: ReadPolicy) -> None:
    import msgspec

    from dstest.core.errors import ConfigError
    from dstest.gate.page import render_html, render_junit, render_page, render_sarif

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make {out}: {error.strerror}", remedy="choose another --out"
        ) from None
    plain = msgspec.json.format(msgspec.json.encode(decision), indent=2).decode() + "\n"
    texts = (
        render_page(decision),
        render_html(decision),
        plain,
        render_junit(decision),
        render_sarif(decision, read),
    )
    try:
        for name, text in zip(_FILES, texts, strict=True):
            write_whole(out / name, text.encode(errors="backslashreplace"), "--out")
    except ConfigError:  # a part of a decision is none
        remove((out / name for name in _FILES), "--out")
        raise
