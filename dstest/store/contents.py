"""What a run, session, plan or night holds, as rows of a name and a value that two of them can be
compared by."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.check import kinds_of
from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.run_record import Host, RunMeta
from dstest.core.run_words import command_of
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.layout import RunDir
from dstest.plans.execution.state import ExecutionDir
from dstest.runner.session_file import SessionDir
from dstest.store.inventory import Kind, walk


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`rows` in the order in which they are shown."""

    path: Path
    kind: Kind
    rows: dict[str, Any]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A row that two of them do not share; None where one has no such row."""

    name: str
    left: Any
    right: Any


def contents_of(path: Path) -> Contents:
    """Raises ConfigError where it is no run, session, plan or night."""
    places = walk(path).places
    place = next((one for one in places if one.path == path.resolve()), None)
    if place is None:
        raise ConfigError(
            f"{path} is no run, session, executed plan or night",
            remedy="`dstest store list` has those of a store",
        )
    of_kind = {"run": _run, "session": _session, "plan": _plan, "night": _night}
    rows = of_kind[place.kind](place.path)
    rows["asides"] = [aside.name for one in places for aside in one.asides]
    return Contents(path=place.path, kind=place.kind, rows=rows)


def _run(path: Path) -> dict[str, Any]:
    run = RunDir.open(path)
    meta = run.read_meta()
    rows: dict[str, Any] = {"status": run.status()}
    if meta is None:
        return rows
    plain = run.read_json("verdict.json")
    if plain is not None:
        try:
            rows |= _verdict(msgspec.convert(plain, Verdict))
        except msgspec.ValidationError as error:
            raise EvidenceError(
                f"{path / 'verdict.json'} cannot be read: {error}",
                remedy=f"`dstest report {shell_word(path)}` says what is wrong with it",
            ) from None
    return {**rows, **_meta(meta)}


_ANSWERS: Final = {"True": "valid", "False": "violation", "unknown": "unknown"}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    e = verdict.evidence
    landed = Counter(fault.nemesis for fault in e.faults if fault.landed == "yes")
    rows: dict[str, Any] = {
        "verdict": verdict.verdict.value,
        "rule": verdict.rule,
        "reason": verdict.reason,
        "operations": e.checker.ops_judged,
        "budget": e.budget.met,
        "faults planned": e.faults_planned,
        "faults landed": dict(sorted(landed.items())),
    }
    for name, found in verdict.checkers.items():
        kinds = ", ".join(sorted(kinds_of(found)))
        answer = _ANSWERS.get(str(found.get("valid")), "no answer")
        rows[f"checker {name}"] = answer + (f" ({kinds})" if kinds else "")
    short = [n for n, row in {**e.redflags, **e.weak_audit}.items() if row.status == "short"]
    rows["audit short"] = short
    return rows


def _meta(meta: RunMeta) -> dict[str, Any]:
    host = meta.host or Host()
    spec = meta.spec
    rows: dict[str, Any] = {
        "command": command_of(spec, meta.options_given),
        "started": meta.started,
        "load s": meta.load_s,
        "lab": meta.lab,
        "members": len(meta.members or meta.nodes),
        "system": spec.get("system"),
        "system version": meta.system_version,
        "builds": list(spec.get("builds") or ()),
        "workload": spec.get("workload"),
        "model": meta.model,
        "nemesis": spec.get("nemesis"),
        "schedule": spec.get("schedule"),
        "seed": spec.get("seed"),
        "nodes": spec.get("nodes"),
        "concurrency": spec.get("concurrency"),
        "rate": spec.get("rate"),
        "time limit s": spec.get("time_limit_s"),
        "dstest": host.dstest,
        "python": host.python,
        "kernel": host.kernel,
        "cpus": host.cpus,
        "plug-in files": sorted((meta.plugin_files or {}).values()),
        "ended by": meta.ended_by if isinstance(meta.ended_by, str) else None,
    }
    return rows | {f"option {k}": v for k, v in sorted((spec.get("options") or {}).items())}


def _session(path: Path) -> dict[str, Any]:
    directory = SessionDir.open(path)
    file = directory.read()
    told = file.verdict or {}
    rows: dict[str, Any] = {
        "state": told.get("state"),
        "outcome": told.get("outcome"),
        "reason": told.get("reason"),
        "tier": file.tier,
        "tier met": told.get("tier_met"),
        "seeds that agree": told.get("seeds_agreeing"),
        "started": file.started,
        "system": file.spec.system,
        "workload": file.spec.workload,
        "nemesis": file.spec.nemesis,
        "model": file.spec.model,
        "options": list(file.options_given),
        "time limit s": file.spec.time_limit_s,
    }
    states = {arm["id"]: arm["state"] for arm in told.get("arms", ())}
    for arm in file.arms:
        tries = f" ({len(arm.attempts)} attempts)" if len(arm.attempts) > 1 else ""
        rows[f"arm {arm.id}"] = f"{states.get(arm.id, 'not judged')}{tries}"
    return rows


def _plan(path: Path) -> dict[str, Any]:
    execution = ExecutionDir.open(path).read()
    rows: dict[str, Any] = {
        "slug": execution.slug,
        "plan sha256": execution.plan_sha256,
        "budget": execution.budget,
        "outcome": execution.outcome or "not over",
        "started": execution.started,
        "system": execution.system,
        "commit": execution.commit,
    }
    return rows | {f"step {s.id}": s.state or s.status for s in execution.steps}


def _night(path: Path) -> dict[str, Any]:
    night = RunDir(path).read_json("night.json") or {}
    rows = {name: night.get(name) for name in ("number", "started", "ended", "exit", "dstest")}
    for item in night.get("items") or ():
        rows[f"cell {item['id']}"] = [one["standing"] for one in item["tries"]]
    return rows


def differences_between(left: Contents, right: Contents) -> list[Difference]:
    """The rows that are not the same. Raises ConfigError where they are of two kinds."""
    if left.kind != right.kind:
        raise ConfigError(
            f"{left.path} is a {left.kind}, {right.path} a {right.kind}",
            remedy="give two of one kind",
        )
    return [
        Difference(name=name, left=left.rows.get(name), right=right.rows.get(name))
        for name in dict.fromkeys([*left.rows, *right.rows])
        if left.rows.get(name) != right.rows.get(name)
    ]
