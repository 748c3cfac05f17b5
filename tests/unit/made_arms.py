"""Sessions without a lab: runs that come out as told, and what begins a session of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from made_audit import but, good
from made_meta import meta

from dstest.campaign import session as arms
from dstest.campaign import session_check
from dstest.campaign.session import ArmsPlan, begin
from dstest.campaign.session_check import SessionFinished
from dstest.core import registry
from dstest.core.errors import (
    Exit,
    Interrupted,
)
from dstest.core.evidence import Evidence
from dstest.core.node import Lab as Base
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished

SYSTEM = SimpleNamespace(name="etcd", packages=("etcd-server",))
HOST = {"dstest": "1", "python": "3", "kernel": "6", "cpus": 2}


def evidence(**changes: Any) -> Evidence:
    alone = but(seeds_agreeing=1, node_counts_run=[5], **changes)
    return build_evidence(alone, op_types=frozenset({"read", "write"}))


CLEAN = evidence()
UNPROVEN = evidence(
    records=[msgspec.structs.replace(good().records[0], landed="no"), *good().records[1:]]
)
VIOLATED = evidence(
    results={"linearizable": msgspec.structs.replace(good().results["linearizable"], valid=False)}
)


class Runs:
    """Stands in for `run_session`: what it is told to end with, run after run."""

    def __init__(self, *script: Evidence | Exception) -> None:
        self.script = list(script)
        self.made: list[tuple[str, int, int]] = []

    def __call__(self, plugins: Any, *, store: Path, name: str, **_: Any) -> Finished:
        self.made.append((name, plugins.spec.nodes, plugins.spec.seed))
        step = self.script.pop(0) if self.script else CLEAN
        if isinstance(step, Exception) and not isinstance(step, Interrupted):
            raise step
        run = RunDir.create(store, name, plugins.spec.seed)
        spec = msgspec.to_builtins(plugins.spec)
        known = {"options_given": plugins.given, "host": HOST, "system_version": "3.4"}
        run.write_meta(meta(spec=spec, **known))
        run.give_up_ballast()
        if isinstance(step, Interrupted):
            return Finished(path=run.path, exit_code=Exit.INTERRUPTED, failure=step)
        verdict = decide(step)
        run.write_json("verdict.json", verdict)
        run.write_sums()
        return Finished(path=run.path, exit_code=0, verdict=verdict)


class Lab(Base):
    """Always up, and of the right size."""

    def status(self, lab_id: str) -> Any:
        size = int(lab_id.rsplit("-", 1)[1]) if "-" in lab_id else 5
        return SimpleNamespace(adopted=None, nodes=[0] * size, lab_id=lab_id, made=None)

    def down(self, lab_id: str) -> list[str]:
        return []

    def up(self, *_: Any, **__: Any) -> Any:
        return


def plugins_of(spec: RunSpec, given: list[str]) -> Any:
    return SimpleNamespace(spec=spec, system=SYSTEM, lab=Lab(), given=given, plans=[0] * 12)


PLAN = ArmsPlan(
    arms=[(5, 1), (5, 2), (5, 3), (3, 1)], tier="hardening", time_limit_s=305.0, attempts_max=2
)


def without_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda _group, _name: Lab())
    monkeypatch.setattr(arms, "packages_for", lambda systems, builds: tuple(systems))
    # Run directories of these tests hold no more than their evidence.
    monkeypatch.setattr(session_check, "verify_run", lambda run: run)


def start(
    store: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, plan: ArmsPlan = PLAN
) -> SessionFinished:
    monkeypatch.setattr(arms, "run_session", runs)
    return begin(RunSpec(), [], plan, store=store, ui=Quiet(), plugins_of=plugins_of)
