"""`dstest points`: functions of a program at which `--nemesis aimed` can meet it, and how often a
load comes to each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusters.labs import state
from dstest.cli.lab_common import SystemVersion, fetched_for
from dstest.cli.options import Json, LabId
from dstest.cli.output import say
from dstest.core.errors import ConfigError
from dstest.core.words import printable_line
from nemeses.tools.agent_points import functions, matching

if TYPE_CHECKING:
    from dstest.core.evidence import LandingRecord

RATE = 100.0
"""Operations a second while points are counted."""


def points(
    program: Annotated[
        str,
        typer.Argument(
            help="A system, or a program's file: here, in the image of --system, or in the newest"
            " image that has it."
        ),
    ],
    search: Annotated[
        str, typer.Option(help="A word of the name, or a glob such as 'mvcc.*'.")
    ] = "",
    system: Annotated[str, typer.Option(help="Whose image the program's file lies in.")] = "",
    system_version: SystemVersion = None,
    count: Annotated[
        float,
        typer.Option(
            min=0,
            max=60,
            metavar="SECONDS",
            help="Count on nodes, under load, how often each is reached; without --search, of"
            " system calls.",
        ),
    ] = 0,
    workload: Annotated[str, typer.Option(help="The load under which they are counted.")] = "",
    lab_id: LabId = None,
    limit: Annotated[int, typer.Option(min=1, help="How many are listed.")] = 50,
    json_: Json = False,
) -> None:
    """Functions of a program, by its own tables: what `-o at=function:NAME` of aimed may say. With
    --count, how often a load comes to each function, or to each system call."""
    if count:
        record = _counted(program, workload, search, count, system_version, lab_id)
        _print_counts(record, limit, as_json=json_)
        return
    path = _where(program, system, system_version)
    try:
        rows, go = functions(str(path))
    except (OSError, ValueError) as error:
        remedy = "the program itself, not a script that starts it"
        raise ConfigError(str(error), remedy=remedy) from None
    globs = any(mark in search for mark in "*?[")
    found = matching(rows, search) if globs else [r for r in rows if search.lower() in r[0].lower()]
    if json_:
        names = [name for name, _ in found[:limit]]
        told = {"program": str(path), "go": go, "functions": len(rows), "fit": len(found)}
        say(json.dumps({**told, "names": names}))
        return
    for name, _ in found[:limit]:
        say(printable_line(name))
    more = f", {limit} of them listed" if len(found) > limit else ""
    kind = "of Go" if go else "with symbols" if rows else "without symbols"
    typer.echo(
        f"{path}: {len(rows):,} functions, a program {kind}; {len(found):,} fit{more}", err=True
    )


def _where(program: str, system: str, builds: Sequence[str] | None) -> Path:
    """Raises ConfigError where there is no such file."""
    from dstest.core import registry

    path = Path(program)
    if not system and path.is_file():
        return path
    if not system and "/" not in program and program in registry.names("systems"):
        return _only_program(program, _image(program, builds))
    if system:
        roots = [_image(system, builds)]
    elif builds:
        raise ConfigError("--system-version of no system", remedy="--system NAME, or its name")
    else:
        roots = [*(state.root_dir() / "images").glob("*/rootfs")]
    found = [p for root in roots if (p := root / program.lstrip("/")).is_file()]
    if not found:
        raise ConfigError(
            f"{program}: no such program here, nor in any image of nodes",
            remedy="its path, such as /usr/bin/etcd; `dstest lab up --system NAME` makes an image",
        )
    return max(found, key=lambda p: p.stat().st_mtime)


def _image(system: str, builds: Sequence[str] | None) -> Path:
    """The root of the image that a run of this system would have."""
    from clusters.labs.image import image_path, packages_for
    from dstest.core import registry
    from dstest.core.builds import builds_of

    names = builds_of(fetched_for(system, [*builds] if builds else None))
    root = image_path(packages_for([registry.load("systems", system)], names)) / "rootfs"
    if not root.is_dir():
        version = "".join(f" --system-version {build}" for build in builds or ())
        raise ConfigError(
            f"there is no image of {system} yet",
            remedy=f"`dstest lab image --system {system}{version}` makes it",
        )
    return root


def _only_program(system: str, root: Path) -> Path:
    """The program that its packages bring; ConfigError where that is none, or one of several."""
    from dstest.core import registry

    found = set()
    for package in registry.load("systems", system).packages:
        for listed in (root / "var/lib/dpkg/info").glob(f"{package}*.list"):
            if listed.name.removesuffix(".list").partition(":")[0] == package:
                found |= {*listed.read_text().splitlines()}
    programs = sorted(name for name in found if _is_program(root / name.lstrip("/"), name))
    served = {system, *registry.load("systems", system).services}
    programs = [name for name in programs if Path(name).name in served] or programs
    if len(programs) == 1:
        return root / programs[0].lstrip("/")
    told = ", ".join(programs) or "none"
    raise ConfigError(
        f"{system} has {'several programs' if programs else 'no program of its own'}: {told}",
        remedy=f"the path of one, with --system {system}",
    )


def _is_program(path: Path, name: str) -> bool:
    if "bin" not in name.split("/") or not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _counted(
    system: str,
    workload: str,
    search: str,
    seconds: float,
    builds: Sequence[str] | None,
    lab_id: str | None,
) -> LandingRecord:
    """What was counted in a run that is kept nowhere. ConfigError where nothing could be."""
    from dstest.core import registry
    from dstest.core.builds import builds_of
    from dstest.core.run_record import RunSpec
    from dstest.history.layout import read_records
    from dstest.runner.plugins import resolve
    from dstest.runner.screen import Quiet
    from dstest.runner.session import run_session
    from nemeses.process.aimed_survey import BEGINS_S, Survey

    globs = any(mark in search for mark in "*?[(")
    survey: Any = Survey(search if globs or not search else f"*{search}*", seconds)
    asked = workload or _first_workload(registry.load("systems", system).capabilities)
    spec = RunSpec(
        system=system,
        workload=asked,
        nemesis="none",
        time_limit_s=BEGINS_S + 2 * seconds + 5.0,
        seed=1,
        rate=RATE,
        builds=builds_of(fetched_for(system, [*builds] if builds else None)),
    )
    with tempfile.TemporaryDirectory() as folder:
        plugins = resolve(spec, [], nemesis=survey)
        typer.echo(f"counting for {seconds:g} s on nodes of {system}, under {asked}", err=True)
        done = run_session(plugins, store=Path(folder), lab_id=lab_id, ui=Quiet())
        records = read_records(done.path)
    if not records or not records[0].facts.get("counts"):
        why = "; ".join(records[0].notes) if records else "the run ended before"
        raise ConfigError(f"nothing was counted: {why}", remedy="another --search, or --workload")
    return records[0]


def _first_workload(offered: Any) -> str:
    from dstest.core import registry

    every = dict.fromkeys(["register", *registry.names("workloads")])
    fitting = (n for n in every if registry.load("workloads", n).capability in offered)
    return next(fitting, "register")


def _print_counts(record: LandingRecord, limit: int, *, as_json: bool) -> None:
    """The most frequent first, by all members; then what was never reached."""
    from dstest.core.evidence import point_counts

    counts = point_counts(record)
    names: list[str] = record.facts["points"]
    rows = {n: [c.reached.get(n, 0) for c in counts.values()] for n in names}
    met = sorted((n for n in rows if any(rows[n])), key=lambda n: (-sum(rows[n]), n))
    never = [n for n in names if not any(rows[n])]
    stops, stop_ns = (sum(getattr(c, f) for c in counts.values()) for f in ("stops", "stop_ns"))
    stop_us = round(stop_ns / stops / 1e3, 1) if stops else 0.0
    seconds = max(c.seconds for c in counts.values())
    if as_json:
        table = {n: dict(zip(counts, rows[n], strict=True)) for n in met}
        facts = {"seconds": seconds, "stop_us": stop_us, "reached": table, "never": never}
        say(json.dumps({**facts, "notes": record.notes}))
        return
    for name in met[:limit]:
        each = " ".join(f"{count:>8,}" for count in rows[name])
        say(f"{sum(rows[name]):>9,}  {each}  {printable_line(name)}")
    for note in record.notes:
        typer.echo(note, err=True)
    typer.echo(
        f"{len(met)} of {len(names)} points were reached in {seconds:g} s; columns: all,"
        f" {', '.join(counts)}; a stop took {stop_us:g} us on average",
        err=True,
    )
    if never:
        more = f" and {len(never) - limit} more" if len(never) > limit else ""
        typer.echo(
            f"never reached: {', '.join(map(printable_line, never[:limit]))}{more}", err=True
        )
