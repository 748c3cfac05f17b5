"""What `dstest report` writes for CI servers and monitoring, beside what it shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import Struct

from dstest.cli.output import write_whole
from dstest.cli.report_targets import OF_OUT, clear
from dstest.core import clock
from dstest.core.errors import ConfigError, HarnessError

if TYPE_CHECKING:
    from dstest.results.model import Result
    from dstest.runner.judged_once import Verify


class Wanted(Struct, frozen=True, kw_only=True):
    """The formats that are asked for, and where they go. `summary` is appended to."""

    out: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    prometheus: Path | None = None
    summary: Path | None = None
    otlp: str | None = None
    github: bool = False

    @property
    def any(self) -> bool:
        """Is something asked for?"""
        return self.github or any(
            one is not None
            for one in (self.out, self.junit, self.sarif, self.prometheus, self.summary, self.otlp)
        )


def _files(wanted: Wanted) -> dict[str, Path | None]:
    """The files by flag."""
    otlp = wanted.otlp
    return {
        "--out": wanted.out,
        "--junit": wanted.junit,
        "--sarif": wanted.sarif,
        "--prometheus": wanted.prometheus,
        "--summary": wanted.summary,
        "--otlp": None if otlp is None or "://" in otlp else Path(otlp),
    }


def clear_places(wanted: Wanted, runs: Sequence[Path]) -> None:
    """Remove what an earlier command has left at the places that are to be written. Raises
    ConfigError where one of them cannot be."""
    from dstest.results.otlp import endpoint_of

    clear(_files(wanted), runs)
    if wanted.otlp is not None:
        endpoint_of(wanted.otlp)


def write_formats(wanted: Wanted, runs: Sequence[Path], judged: Verify) -> list[Result]:
    """Judge all runs and sessions below these directories again, each run by `judged`, and write
    what is asked for; its places were cleared before."""
    from dstest.results.gather import gather

    results = gather(runs, judged)
    for flag, path, render in _rendered(wanted, results):
        text = render()
        if flag == "--summary":
            _append(path, text)
        else:
            write_whole(path, text.encode(errors="backslashreplace"), flag)
    if wanted.github:
        from dstest.results.github import annotated

        for line in annotated(results):
            typer.echo(line)
        if wanted.summary is None and (step := os.environ.get("GITHUB_STEP_SUMMARY")):
            from dstest.results.summary import render_summary

            _append(Path(step), render_summary(results))
    _send(wanted, results)
    return results


def _rendered(
    wanted: Wanted, results: Sequence[Result]
) -> list[tuple[str, Path, Callable[[], str]]]:
    """Flag, place and text of each file."""
    from dstest.results.gather import worst
    from dstest.results.junit import render_junit
    from dstest.results.otlp import render_otlp
    from dstest.results.prometheus import render_prometheus
    from dstest.results.sarif import render_sarif
    from dstest.results.summary import render_summary

    now_ns = clock.wall_ns()
    texts: dict[str, Callable[[], str]] = {
        "--junit": lambda: render_junit(results),
        "--sarif": lambda: render_sarif(results, worst(results)),
        "--prometheus": lambda: render_prometheus(results, now_ns),
        "--summary": lambda: render_summary(results),
        "--otlp": lambda: render_otlp(results, now_ns),
    }
    rows = [
        (flag, path, texts[flag])
        for flag, path in _files(wanted).items()
        if path is not None and flag in texts
    ]
    if wanted.out is not None:
        _make(wanted.out)
        rows += [("--out", wanted.out / name, texts[flag]) for flag, name in OF_OUT.items()]
    return rows


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make {folder}: {error.strerror}", remedy="choose another --out"
        ) from None


def _append(path: Path, text: str) -> None:
    """To what other steps have said already."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", remedy="choose another --summary"
        ) from None


def _send(wanted: Wanted, results: Sequence[Result]) -> None:
    from dstest.results.otlp import endpoint_of, send_otlp

    endpoint = None if wanted.otlp is None else endpoint_of(wanted.otlp)
    if endpoint is None:
        return
    try:
        send_otlp(results, endpoint, clock.wall_ns())
    except OSError as error:
        raise HarnessError(
            f"cannot reach the collector at {endpoint}: {error}", remedy="is it up?"
        ) from None
