"""Read a policy. Whatever is wrong in it is refused with its place in the file and a remedy."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dstest.core.errors import ConfigError
from dstest.core.settings import Shape, line_of, read_settings
from dstest.gate.policy import (
    OPERATIONS_MIN,
    Baseline,
    Claim,
    Control,
    EvidenceRules,
    HostFacts,
    PlanAsked,
    Policy,
    Risk,
)

_BYTES_MAX: Final = 1_000_000
_SHAPE: Final = Shape(
    {
        "": Policy,
        "evidence": EvidenceRules,
        "evidence.host": HostFacts,
        "claim": Claim,
        "control": Control,
        "plan": PlanAsked,
        "risk": Risk,
        "baseline": Baseline,
    },
    "docs/gate.md",
)


class ReadPolicy(NamedTuple):
    """A policy, the file that it stands in, its digest, the line of each id, and what it does not
    say and is taken as usual."""

    policy: Policy
    path: Path
    sha256: str
    lines: dict[str, int]
    unsaid: tuple[str, ...] = ()

    def line_of(self, id_: str) -> int:
        """Where the table with this id begins; 1 for what has no table."""
        return self.lines.get(id_, 1)


def read_policy(path: Path) -> ReadPolicy:
    """The policy in a file. Raises ConfigError for anything that is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", remedy="give a policy, see docs/gate.md"
        ) from None
    if len(data) > _BYTES_MAX:
        raise ConfigError(f"{path} has {len(data):,} bytes", remedy="a policy is a page or two")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}", remedy=f"see {_SHAPE.page}") from None
    policy = read_settings(str(path), text, Policy, _SHAPE)
    digest = hashlib.sha256(data).hexdigest()
    plain = tomllib.loads(text)
    return ReadPolicy(policy, path, digest, _lines(text, plain), tuple(_unsaid(policy, plain)))


def _unsaid(policy: Policy, plain: Mapping[str, Any]) -> Iterator[str]:
    """What a policy leaves to us, and what nobody asks for then."""
    if policy.evidence.verdicts == "believed":
        yield 'verdicts = "believed": runs are not judged again, their sums are believed'
    elif "canaries" not in plain.get("evidence", {}):
        yield "evidence.canaries is not said: checkers are tried again on broken copies"
    rows = [row for row in plain.get("claim", ()) if "operations" not in row]
    if rows:
        named = ", ".join(str(row.get("id")) for row in rows)
        yield (
            f"operations is not said of {named}: {OPERATIONS_MIN} judged ones are enough, over all "
            "its runs"
        )
    rows = [row for row in plain.get("claim", ()) if not row.get("faults")]
    if rows:
        named = ", ".join(str(row.get("id")) for row in rows)
        yield f"faults are not said of {named}: no fault of any kind has to have landed"
    if not policy.control:
        yield "no control is asked for: nothing shows that these tests find a known bug"


def _lines(text: str, plain: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for kind in ("claim", "control", "plan", "risk"):
        for number, row in enumerate(plain.get(kind, ())):
            found[str(row.get("id"))] = line_of(text, f"{kind}[{number}]")
    if "baseline" in plain:
        found["baseline"] = line_of(text, "baseline")
    return found
