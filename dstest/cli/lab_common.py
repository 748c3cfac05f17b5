"""What the commands of `dstest lab` share: their options, how a lab is found, what a command about
a dead run says of the lab that the run leaves, and how a command whose nodes are within namespaces
is run again, in there."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli import output
from dstest.cli.output import hand_over
from dstest.core.errors import ConfigError, DstestError, LabError
from dstest.core.words import printable

if TYPE_CHECKING:
    from dstest.core.run_record import RunMeta, RunSpec


SystemVersion = Annotated[
    list[str] | None,
    typer.Option(
        metavar="BUILD",
        help="Another build than Debian's: a .deb (more than one is possible), a directory to lie"
        " over each node's root, debian:SUITE, or pypi:NAME==VERSION.",
    ),
]
LabId = Annotated[str, typer.Option("--lab-id", help="Which lab; several may run side by side.")]
Kind = Annotated[
    str | None,
    typer.Option(
        "--lab",
        help="How nodes come to be; default: as those of the lab of this id.",
        show_default=False,
    ),
]


def fetched_for(systems: Any, builds: list[str] | None) -> list[str]:
    """Paths of builds for these systems; what is named by where it comes from is fetched."""
    if not any(":" in build for build in builds or []):
        return list(builds or [])
    from clusters.labs.fetch import fetched
    from dstest.core import registry
    from dstest.core.registry import named_in

    names = [systems] if isinstance(systems, str) else list(systems or [])
    found = [registry.load("systems", named_in("systems", name)) for name in names]
    packages = dict.fromkeys(package for system in found for package in system.packages)
    return fetched(builds or [], list(packages), say)


def lab_of_kind(kind: str) -> Any:
    from dstest.core import registry

    return registry.load("labs", kind)


def kinds(kind: str | None) -> list[str]:
    """This kind of labs, or all that are installed and can be asked."""
    from dstest.core import registry

    if kind is not None:
        return [kind]
    found = []
    for name in registry.names("labs"):
        with contextlib.suppress(DstestError):
            registry.load("labs", name)
            found.append(name)
    return found


def kind_of(lab_id: str, kind: str | None) -> str:
    """The kind that is named; without one, that of the lab of this id, or that of a run."""
    from dstest.core.run_record import RunSpec

    if kind is not None:
        return kind
    there = (name for name in kinds(None) if lab_id in lab_of_kind(name).list())
    return next(there, RunSpec().lab)


def kind_of_run(lab_id: str | None, kind: str | None) -> str:
    """That of the lab which is named. Raises ConfigError where another kind of lab has this id:
    what is tested would not be what is meant."""
    if lab_id is None:
        from dstest.core.run_record import RunSpec

        return kind or RunSpec().lab
    there = [name for name in kinds(None) if lab_id in lab_of_kind(name).list()]
    if kind is not None and there and kind not in there:
        raise ConfigError(
            f"lab {lab_id} is of kind {there[0]}", remedy=f"--lab {there[0]}, or another --lab-id"
        )
    if kind is None and len(there) > 1:
        raise ConfigError(
            f"there are labs {lab_id} of kinds {', '.join(there)}", remedy="name one with --lab"
        )
    return kind or kind_of(lab_id, None)


def every_lab(kind: str | None) -> list[tuple[str, str]]:
    """(kind, lab id) of those that have anything on this host, of this kind or of any."""
    return [(name, lab_id) for name in kinds(kind) for lab_id in lab_of_kind(name).list()]


def say(text: str) -> None:
    """To whoever sits there; part of it may be a node's words."""
    typer.echo(printable(text), err=True)


def show(value: Any) -> None:
    import msgspec

    output.say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def way_out(lab_id: str) -> str:
    """The command that makes an end of this lab, be it whole or half."""
    from clusters.labs.state import adopted_ids

    return f"dstest lab {'release' if lab_id in adopted_ids() else 'down'} --lab-id {lab_id}"


def names_of(info: Any) -> str:
    """All nodes of a lab, each by its own name and by the user's."""
    return ", ".join(info.shown(node.name) for node in info.nodes)


def running_lab(kind: str | None, lab_id: str) -> Any:
    lab = lab_of_kind(kind_of(lab_id, kind))
    info = lab.status(lab_id)
    if info is None:
        raise _not_running(lab, lab_id)
    return info


def known_lab(kind: str | None, lab_id: str) -> Any:
    """The lab; one of whose nodes some do not run, too: the others can be asked."""
    from dstest.core.node import Inspects

    lab = lab_of_kind(kind_of(lab_id, kind))
    info = lab.status(lab_id)
    if info is None and isinstance(lab, Inspects):
        info = lab.known(lab_id)
    if info is None:
        raise _not_running(lab, lab_id)
    return info


def _not_running(lab: Any, lab_id: str) -> LabError:
    from dstest.core.node import Inspects

    lacks: list[str] = []
    if lab_id in lab.list() and isinstance(lab, Inspects):
        lacks = lab.examine(lab_id)
    return LabError(
        "; ".join([f"lab {lab_id} is not running", *lacks]),
        remedy=way_out(lab_id) if lacks else f"dstest lab up --lab-id {lab_id}",
    )


def lab_left(meta: RunMeta) -> str | None:
    """How to look at the lab of the run with this run.json; None where there is none any more."""
    from clusters.labs.state import adopted_ids
    from dstest.core import registry
    from dstest.core.errors import DstestError
    from dstest.runner.adoption import lab_of_run, users_of

    kind = meta.lab or meta.spec.get("lab")
    try:
        lab = registry.load("labs", str(kind))
        lab_id = lab_of_run(lab, meta)
    except DstestError:
        return None  # a lab that is not installed here
    if lab_id is None:
        return None
    if users := users_of(lab, lab_id):
        return f"its lab {lab_id} is still there, and in use: {users[0].describe()}"
    ends = f"`dstest lab down --lab-id {lab_id}` removes it"
    if lab_id in adopted_ids():
        ends = f"`dstest lab release --lab-id {lab_id}` gives its machines back"
    elif meta.spec.get("attach"):
        ends = "where servers of yours run"
    return (
        f"its lab is still there: `dstest lab status --lab-id {lab_id}` shows what the run left on "
        f"it, {ends}"
    )


def enter(spec: RunSpec, lab_id: str | None, *, keep_lab: bool) -> None:
    """Return where the nodes of such a lab can be reached; elsewhere do all of it there and end."""
    from clusters.labs.image import packages_for
    from dstest.core import registry
    from dstest.core.node import Secluded

    lab = registry.load("labs", spec.lab)
    if not isinstance(lab, Secluded) or lab.inside():
        return
    if keep_lab:
        raise ConfigError(
            f"a {spec.lab} lab cannot be kept: it ends with the command",
            remedy="leave --keep-lab out",
        )
    named = lab_id or f"run-{os.getpid()}"
    words = sys.argv[1:] if lab_id else [*sys.argv[1:], "--lab-id", named]
    packages = packages_for([registry.load("systems", spec.system)], spec.builds)
    hand_over()
    raise typer.Exit(lab.within(named, packages, words))


def collected(images: bool, json: bool) -> int | None:
    """What an ordinary user's dead labs left, collected where that can be done: the exit code.
    None where the labs of this user are not within anything."""
    from dstest.core import registry
    from dstest.core.node import Secluded

    if os.geteuid() == 0:
        return None
    for kind in registry.names("labs", ours=True):
        lab = registry.load("labs", kind)
        if isinstance(lab, Secluded):
            words = ["lab", "gc", *(["--images"] if images else []), *(["--json"] if json else [])]
            hand_over()
            return lab.within(f"gc-{os.getpid()}", None, words)
    return None
