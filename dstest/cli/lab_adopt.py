"""`dstest lab adopt` and `release`: machines that exist already, taken into use and given back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from dstest.cli.lab_common import LabId, say, show
from dstest.cli.options import Json
from dstest.core.errors import ConfigError, Exit, LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.labs.existing.book import Adopted
    from clusters.labs.existing.entry import Accept, HostEntry
    from dstest.runner.adoption import Adoption, Released

CLOCK_AHEAD_S: Final = 5.0
"""More than looking takes: no run minds it, but logs of the nodes will not fit together."""


def adopt(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A TOML file, an Ansible inventory, an ssh_config."),
    ],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Only these, in this order; a role or a group."),
    ] = None,
    lab_id: LabId = "default",
    form: Annotated[
        str | None,
        typer.Option(
            help="toml, ansible or ssh; default: by the file's name (.toml; config, ssh_config,"
            " .conf, .ssh; all others are Ansible's)."
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(help="What is to run there: a name, or a file of yours; exit 4 if it cannot."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    accept_host_keys: Annotated[
        bool,
        typer.Option(
            "--accept-host-keys", help="Trust host keys that no known_hosts has; said, and pinned."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Look at machines of yours, say what will be touched, ask, and mark them as nodes.

    Nothing is changed there before the answer. The nodes are called n1, n2, ... in the order of the
    list. Afterwards: dstest run --lab hosts --lab-id ID.
    """
    from clusters.labs.existing import book
    from clusters.labs.existing.inventory import read_inventory
    from dstest.core.registry import named_in

    said: set[str] = set()

    def accept(where: str, fingerprint: str, listed: bool) -> bool:
        if (accept_host_keys or listed) and where not in said:
            said.add(where)
            say(f"{where}: host key {fingerprint} is in no known_hosts; adopting pins it")
        return accept_host_keys or listed

    entries = read_inventory(source, hosts or [], form)
    systems = [name for given in system or [] for name in named_in("systems", given).split(",")]
    with book.lock(lab_id):
        adopted = _adopted(lab_id, entries, accept, yes, systems)
    say(f"lab {lab_id} is adopted: dstest run --lab hosts --lab-id {lab_id}")
    if as_json:
        from clusters.labs.existing.adopt import LAB

        show(LAB.known(adopted.lab_id))


def _adopted(
    lab_id: str,
    entries: Sequence[HostEntry],
    accept: Accept,
    yes: bool,
    systems: Sequence[str],
) -> Adopted:
    """The machines, marked; until then nothing is changed there, and nothing stays here."""
    from clusters.labs.existing import book
    from dstest.runner.adoption import prepare

    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    asked = _asked if terminal else None
    plan = prepare(lab_id, entries, accept=accept, password=asked, systems=systems)
    try:
        _tell(plan)
        if plan.problems:
            raise LabError(
                "these machines cannot be nodes: " + "; ".join(plan.problems),
                remedy="nothing was changed on them",
            )
        plan.refuse_lost()
        _ = plan.adopted  # refuses what cannot be written down
        if not yes:
            if not terminal:
                raise ConfigError("nobody is there to be asked", remedy="--yes")
            if not typer.confirm("Adopt these machines?", err=True):
                raise ConfigError(
                    "not adopted; nothing was changed", remedy="answer y, or give --yes"
                )
    except BaseException:
        book.forget(lab_id)
        raise
    return plan.carry_out()


def _asked(question: str) -> str:
    import getpass

    return getpass.getpass(question, stream=sys.stderr)


def _tell(plan: Adoption) -> None:
    """What was found and what will be touched, on standard error."""
    from clusters.labs.existing.adopt import about
    from dstest.runner.adoption import lost_nemeses, other_ways

    for one in plan.seen:
        way = f", through {', '.join(j.host for j in one.info.jumps)}" if one.info.jumps else ""
        sudo = "" if one.info.user == "root" else ", sudo"
        asks = " with a password" if one.info.sudo_password_path else ""
        six = f" {one.info.address6}" if one.info.address6 else ""
        who = f"({one.info.user}{sudo}{asks}{way})"
        say(f"{one.info.name}  {one.alias}  {one.info.address}{six}  {who}")
        say(f"    {about(one)}")
        for what in plan.foreign[one.info.name]:
            say(f"    there already, left alone: {what}")
        if abs(one.clock_ahead_s) > CLOCK_AHEAD_S:
            say(f"    its clock is {one.clock_ahead_s:+,.0f} s from ours")
        if one.control is None:
            say("    clients from here do not reach it at the probe's port: a firewall?")
    lacks = {o.info.name: {k: w for k, w in o.facts.features.items() if w} for o in plan.seen}
    for name, row in lost_nemeses(lacks).items():
        say(f"nemesis {name} is lost: it needs {'; '.join(row)}")
    for line in other_ways(lacks):
        say(line)
    lost = plan.lost_systems()
    for system, why in lost.items():
        if plan.places and system not in plan.places:
            continue  # nobody means to run it there
        say(f"system {system} is lost: {why}")
    for system in sorted({*plan.places} - {*lost}):
        unsure = any(one.facts.packages is None for one in plan.seen)
        say(f"system {system} can run there{', if its packages are there' if unsure else ''}")
    say("on these machines dstest will:")
    for line in plan.touched:
        say(f"  - {line}")


def release(
    lab_id: LabId = "default",
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Forget them even where nothing could be taken away."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit 3 also for what others have changed meanwhile."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Give adopted machines back: take away what is ours, and say what is not as it was.

    Exit 3 where something of ours is left, 4 where a machine was not released: then it can be
    repeated. What others have changed meanwhile is said.
    """
    from clusters.labs.existing import book

    with book.lock(lab_id):
        done = _released(lab_id, forget, strict)
    if as_json:
        show(done)
    _tell_released(done)
    if done.problems:
        for name in done.problems if forget else ():
            say(f"{done.shown(name)} is forgotten, and may still carry what dstest has laid there,")
            say("  /etc/dstest-lab among it")
        if not forget:
            say(f"lab {lab_id} is half released, and no run uses it until it is adopted anew")
            say("remedy: put right what is said above (where /etc/dstest-lab is gone, write the")
            say(f"  lab's id into it there again); then dstest lab release --lab-id {lab_id} goes")
            say("  on; --forget gives up on them")
        raise typer.Exit(int(Exit.HARNESS))
    if done.same or (done.clean and not strict):
        others = "" if done.same else "; what others have changed is listed above"
        say(f"lab {lab_id} is released{others}")
        return
    say(f"lab {lab_id} is not as it was, see above: no run uses it until it is adopted anew")
    say(f"remedy: put that right, then dstest lab release --lab-id {lab_id} looks again;")
    say("  with --forget it gives up on what is left")
    raise typer.Exit(int(Exit.NOT_PROVEN))


def _released(lab_id: str, forget: bool, strict: bool) -> Released:
    """What became of the machines; with `forget` no record of them stays."""
    from clusters.labs.existing import book
    from dstest.core.errors import DstestError
    from dstest.runner.adoption import refuse_in_use, release_lab

    if forget:
        refuse_in_use(lab_id)
    try:
        done = release_lab(lab_id, strict=strict)
    except DstestError as error:
        if not forget:
            raise
        refuse_in_use(lab_id)  # a run may have begun meanwhile
        say(error.message)
        book.forget(lab_id)
        say(f"lab {lab_id} is forgotten, not released: its machines, whichever these were, may")
        say("still carry /etc/dstest-lab, lines in /etc/hosts and servers of a run")
        raise typer.Exit(int(Exit.HARNESS)) from None
    if forget:
        book.forget(lab_id)
    return done


def _tell_released(done: Released) -> None:
    for name, row in done.ours.items():
        for what in row:
            say(f"{done.shown(name)}: left by dstest: {what}")
    for name, row in done.others.items():
        for what in row:
            say(f"{done.shown(name)}: changed by somebody else: {what}")
    for name, row in done.said.items():
        for what in row:
            say(f"{done.shown(name)}: {what}")
    for name, why in done.problems.items():
        say(f"{done.shown(name)}: not released: {why}")
