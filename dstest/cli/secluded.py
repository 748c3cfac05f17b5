"""Commands on labs whose nodes are within namespaces: they are run again, in there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from dstest.cli.streams import hand_over
from dstest.core.errors import ConfigError

if TYPE_CHECKING:
    from dstest.core.spec import RunSpec


def enter(spec: RunSpec, lab_id: str | None, *, keep_lab: bool) -> None:
    """Return where the nodes of such a lab can be reached; elsewhere do all of it there and end."""
    from clusters.labs.packages import packages_for
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
