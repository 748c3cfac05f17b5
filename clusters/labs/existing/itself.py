"""Which machine a machine is: not this one, not one of the others, and the one of its address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

import msgspec

from clusters.labs.existing import agent_look
from clusters.labs.existing.entry import HostEntry
from clusters.labs.existing.facts import HostFacts, same_machine
from dstest.core.errors import NotALabNode


def _here() -> HostFacts:
    empty: dict[str, Any] = {
        "features": {},
        "residues": {},
        "packages": [],
        "names": [],
        "paths": [],
    }
    return msgspec.convert(agent_look.facts(empty), HostFacts)


def refuse_this_machine(entry: HostEntry, facts: HostFacts) -> None:
    """Raises NotALabNode."""
    if same_machine(facts, _here()):
        raise NotALabNode(
            f"{entry.alias} ({entry.ssh.where}) is this machine itself, or shares its network;"
            " faults are never made here",
            remedy="name other machines as nodes",
        )


def refuse_doubles(seen: Sequence[tuple[str, str, HostFacts]]) -> None:
    """Raises NotALabNode where two of them (the user's name, address, facts) are one machine."""
    for i, (alias, address, facts) in enumerate(seen):
        for other, there, known in seen[:i]:
            if same_machine(facts, known) or address == there:
                raise NotALabNode(
                    f"{other} and {alias} are one machine",
                    remedy="a fault on one node must not hit another: name each machine once",
                )


def not_its_own(alias: str, named: Sequence[str | None], facts: HostFacts) -> str | None:
    """What is wrong with the addresses that a list names of a machine; None where it has them. A
    partition drops what comes from an address: one that is translated on the way, or another
    machine's, would prove nothing."""
    strange = [address for address in named if address and address not in facts.addresses]
    if not strange:
        return None
    own = [a for a in facts.addresses if not ipaddress.ip_address(a).is_link_local]
    return (
        f"{alias} does not have {', '.join(strange)} itself, by which other nodes would know it"
        f" (a translated address, or another machine's?); it has {', '.join(own) or 'none'}"
    )
