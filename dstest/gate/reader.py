"""Read a policy. Whatever is wrong in it is refused with its place in the file and a remedy."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dstest.core.errors import ConfigError
from dstest.core.settings import Shape, line_of, read_settings
from dstest.gate.policy import (
    Baseline,
    Claim,
    Control,
    EvidenceRules,
    HostFacts,
    PlanAsked,
    Policy,
    Risk,
)

__all__ = ["ReadPolicy", "read_policy"]

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
    """A policy, the file that it stands in, its digest, and the line of each id."""

    policy: Policy
    path: Path
    sha256: str
    lines: dict[str, int]

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
    return ReadPolicy(policy, path, digest, _lines(text, tomllib.loads(text)))


def _lines(text: str, plain: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for kind in ("claim", "control", "plan", "risk"):
        for number, row in enumerate(plain.get(kind, ())):
            found[str(row.get("id"))] = line_of(text, f"{kind}[{number}]")
    if "baseline" in plain:
        found["baseline"] = line_of(text, "baseline")
    return found
