"""A policy to begin with, made of what lies in stores: what passed becomes claims that ask for no
more than is there, what a night had to find becomes red controls, and of everything else a comment
says why it is neither. A person decides what is to be asked for; this spares them the typing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.campaign.nightly.controls import found_known_bug
from dstest.core.errors import ConfigError
from dstest.core.evidence import LEVELS, TIERS
from dstest.core.words import printable_line
from dstest.gate.claims import landed_by_kind, operations_judged, seeds_of, sizes_of
from dstest.gate.gather import JudgedRun, Unit, anomalies_in, gather
from dstest.gate.policy import OPERATIONS_MIN
from dstest.gate.provenance import doubles, left_out, once
from dstest.store.inventory import walk

_AGE_DAYS: Final = 14
_SIMULATED_AGE_DAYS: Final = 2

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHARE_LEAST: Final = 0.05
"""The least `found-share` of a policy."""

_Test = tuple[Any, ...]


def draft(stores: Sequence[Path]) -> str:
    """The policy as TOML. Raises ConfigError where the stores hold no run of which it could say
    anything."""
    gathered = gather(stores, "no")
    same = doubles([run for run in gathered.runs if run.over])
    again = left_out(gathered.runs, same.same)
    groups: dict[_Test, list[Unit]] = {}
    for unit in once(gathered.units, again):
        if unit.runs and unit.begun:
            groups.setdefault(_test_of(unit.runs[0]), []).append(unit)
    if not groups:
        raise ConfigError(
            "there is no run in it that asked its system for anything",
            remedy="make some: `dstest nightly run`, or `dstest run`",
        )
    known = {path for store in stores for path in _found_as_they_must(store)}
    claims: list[list[str]] = []
    controls: list[list[str]] = []
    notes: list[list[str]] = []
    for units in groups.values():
        runs = [run for unit in units for run in unit.runs]
        if why := _undecided(units):
            notes.append(_note(runs[0], why))
        elif all(unit.passes for unit in units):
            rows = _claim(f"C{len(claims) + 1}", units, runs)
            (claims if "[[claim]]" in rows else notes).append(rows)
        elif all(run.path in known for run in runs if run.verdict.verdict.failed):
            controls.append(_control(f"K{len(controls) + 1}", runs))
        else:
            found = sorted({kind for run in runs for kind in anomalies_in(run.verdict)})
            notes.append(_note(runs[0], f"it FAILED by {', '.join(found) or 'a violation'}"))
    simulated = all(run.meta.transport != "network" for run in gathered.runs)
    age = _SIMULATED_AGE_DAYS if simulated else _AGE_DAYS
    head = [
        'schema = "dstest.gate/1"',
        f"name = {_text(_name_of(stores[0].resolve()))}",
        "",
        "[evidence]",
        f"age-days-max = {age}",
    ]
    wrong = [*gathered.findings, *same.findings]
    broken = [f"# {f.rule}: {printable_line(f.what)} ({printable_line(f.where)})" for f in wrong]
    if not controls:
        said = '# A policy needs a [[control]] with expect = "red": a known bug that is found.'
        notes.append(["", said])
    if broken:
        head += ["", "# Cannot be believed, and keeps any release back:", *broken]
    return "\n".join([*head, *(line for part in (*claims, *controls, *notes) for line in part), ""])


def _name_of(store: Path) -> str:
    """Of its nights, where all have one name, else of its directory."""
    nights = [place.path.parent.name for place in walk(store).places if place.kind == "night"]
    return nights[0] if len({*nights}) == 1 else store.name


def _found_as_they_must(store: Path) -> Iterator[Path]:
    """Runs by which nights found what they had to find."""
    for place in walk(store).places:
        if place.kind == "night":
            yield from found_known_bug(place.path)


def _test_of(run: JudgedRun) -> _Test:
    meta, spec = run.meta, run.meta.spec
    return (
        *(spec.get(name) for name in ("system", "workload", "nemesis", "lab")),
        meta.system_version,
        meta.model,
        tuple(sorted(meta.options_given or ())),
        tuple(sorted(spec.get("builds") or ())),
    )


def _undecided(units: Iterable[Unit]) -> str:
    """Why nothing can be asked for by these, as the end of a sentence; empty where it can."""
    for unit in units:
        if not unit.passes and not unit.failed:
            return f"a run of it came to {unit.state.value} ({unit.reason})"
        if unit.runs[0].meta.system_version is None:
            return "its system never said which version it is"
    return ""


def _text(value: str) -> str:
    """As TOML has it, which JSON's strings are."""
    return json.dumps(printable_line(value), ensure_ascii=False)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _texts(values: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _words(id_: str, text: str, run: JudgedRun) -> list[str]:
    meta, spec = run.meta, run.meta.spec
    lines = [
        f"id = {_text(id_)}",
        f"text = {_text(text)}",
        f"system = {_text(spec['system'])}",
        f"system-version = {_text(str(meta.system_version))}",
        f"workload = {_text(spec['workload'])}",
        f"nemesis = {_text(spec['nemesis'])}",
    ]
    if meta.options_given:
        lines.append(f"options = {_texts(meta.options_given)}")
    if spec.get("builds"):
        lines.append(f"builds = {_texts(sorted(spec['builds']))}")
    if meta.transport != "network":
        lines.append(f"lab = {_text(spec['lab'])}")
    return lines


def _claim(id_: str, units: Sequence[Unit], runs: Sequence[JudgedRun]) -> list[str]:
    """It asks for what is there: the best tier, and what reaches it."""
    best = max((unit.met for unit in units), key=TIERS.index)
    counted = [run for unit in units if unit.met == best for run in unit.runs]
    spec, checkers = runs[0].meta.spec, runs[0].meta.checkers
    judged = operations_judged(checkers, counted)
    if best not in LEVELS or judged < OPERATIONS_MIN:
        return _note(runs[0], f"it passed, but for no tier, with {judged:,} operations judged")
    text = f"{spec['workload']} holds under {spec['nemesis']}"
    sizes = ", ".join(map(str, sorted(sizes_of(counted), reverse=True)))
    lines = [
        "",
        "[[claim]]",
        *_words(id_, text, runs[0]),
        f"model = {_text(str(runs[0].meta.model))}",
        f"checkers = {_texts(checkers)}",
        f"tier = {_text(best)}",
        f"seeds = {len(seeds_of(counted))}",
        f"sizes = [{sizes}]",
        f"operations = {max(OPERATIONS_MIN, judged // 2)}  # half of what there is",
    ]
    landed = landed_by_kind(counted)
    if landed:
        lines += ["", "[claim.faults]"]
        lines += [f"{_key(kind)} = {n}" for kind, n in sorted(landed.items())]
    return lines


def _control(id_: str, runs: Sequence[JudgedRun]) -> list[str]:
    failed = [run for run in runs if run.verdict.verdict.failed]
    kinds = sorted({kind for run in failed for kind in anomalies_in(run.verdict)})
    lines = [
        "",
        "[[control]]",
        *_words(id_, "a known bug, which has to be found", runs[0]),
        'expect = "red"',
        f"anomalies = {_texts(kinds)}",
    ]
    if len(failed) < len(runs):
        lines.append(
            f"found-share = {max(_SHARE_LEAST, round(len(failed) / len(runs) - 0.005, 2))}"
        )
    if runs[0].meta.model:
        lines.append(f"model = {_text(runs[0].meta.model)}")
    return lines


def _note(run: JudgedRun, why: str) -> list[str]:
    spec = msgspec.to_builtins(run.meta.spec)
    parts = [str(spec.get(name)) for name in ("system", "workload", "nemesis")]
    words = " ".join([*parts, *(run.meta.options_given or ())])
    said = printable_line(f"{words}: {why}. Neither a claim nor a control: {run.path}")
    return ["", f"# {said}"]
