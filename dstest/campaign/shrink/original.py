"""The failing run that is to become small, and what is made of it: `reproducer.json`, and
`repro.sh`, which a stranger can run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dstest.campaign.shrink.candidate import Candidate
from dstest.campaign.shrink.runs import candidate_of, schedule_of, spec_for
from dstest.core.builds import build_of
from dstest.core.check import CheckResult
from dstest.core.errors import ConfigError
from dstest.core.fingerprint import parts_of
from dstest.core.history import History
from dstest.core.reproducer import Reproducer, Size
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.run_words import run_words, simulates
from dstest.core.verdict import Verdict
from dstest.core.words import printable
from dstest.history.layout import PLUGINS, RunDir, read_records
from dstest.judge.symptom import all_fingerprints, faults_between, first_anomaly, spans_of
from dstest.runner.fault_plans import SCHEDULE, Schedule, read_schedule
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import spec_of

_HEAD: Final = """\
#!/bin/sh
# {violation}, found by dstest {version} in {system}, workload {workload}.
# In the run that it was found in: {explanation}
# {again}
#
# Reduced from {before} fault events (a fault is two: it begins, it is healed) to {after}, over
# {runs} runs. Of runs that were made of just this it came in {rate}.
{faults}{options}#
# It takes dstest {version} {needs}
# In the directory of dstest's sources, after `make setup`:
#     sh PATH/OF/repro.sh [TIMES]
# Five times without TIMES, about {minutes} min. DSTEST=path/to/dstest where that is not
# .venv/bin/dstest or on the PATH.
{builds}# It ends with 0 where the violation came in four of five runs at least, or that share of
# TIMES, else with the exit code of the last run that could not be made, with 1 where all were.
"""

_ON_NODES: Final = {
    "again": "Each run shows it by other operations.",
    "needs": "and root: each run makes its own nodes and takes them away again. The first one\n"
    "# on a host makes an image, of packages of its distribution; `dstest doctor` says what is\n"
    "# lacking there.",
}

_SIMULATED: Final = {
    "again": "Each run is the same simulation, byte for byte, by the same dstest and Python.",
    "needs": "and no root: its nodes are simulated, all in one process.",
}


class Hint(NamedTuple):
    """Ids of the faults that stood by a violation, and when its last operation ended."""

    near: list[str]
    before_ns: int | None


class Original(NamedTuple):
    """`fingerprint` names the violation in question, `start` is what the run was made of, `spec`
    is its own with the files that are in use now."""

    run: RunDir
    meta: RunMeta
    verdict: Verdict
    fingerprint: str
    plugins: Plugins
    spec: RunSpec
    start: Candidate

    @property
    def result(self) -> CheckResult | None:
        """The answer of the checker that found the violation."""
        rows = msgspec.convert(self.verdict.checkers, dict[str, CheckResult])
        return rows.get(parts_of(self.fingerprint).checker)

    @property
    def explanation(self) -> str:
        """The violation in a sentence; empty where the checker gave none."""
        result = self.result
        if result is None:
            return self.verdict.reason
        shown = next(iter(result.anomalies.get(parts_of(self.fingerprint).kind, [])), None)
        return "" if shown is None else shown.explanation

    @property
    def others(self) -> list[str]:
        """Fingerprints of its other violations."""
        return [one for one in all_fingerprints(self.verdict) if one != self.fingerprint]

    def hint(self, history: History) -> Hint:
        """By the first violation of this name in its history."""
        result, kind = self.result, parts_of(self.fingerprint).kind
        if result is None:
            return Hint([], None)
        rows = {kind: result.anomalies.get(kind, [])}
        of_kind = msgspec.structs.replace(result, anomalies=rows)
        first = first_anomaly([of_kind], history)
        if first is None or not first[2]:
            return Hint([], None)
        limit_s = float(self.plugins.spec.options["op_timeout_s"])
        spans = spans_of(first[2], history, limit_s)
        start_ns, end_ns = min(a for a, _ in spans), max(b for _, b in spans)
        near, _ = faults_between(read_records(self.run.path), start_ns, end_ns)
        return Hint([record.fault_id for record in near], end_ns)


def original_of(path: Path, verdict: Verdict, violation: str | None = None) -> Original:
    """The run at `path`, whose evidence gives this verdict, and of its violations that which is
    named, by its fingerprint or its kind; the one that the verdict names without. Raises
    ConfigError where it has none of that name."""
    run = RunDir.open(path)
    meta = run.read_meta()
    fingerprint = verdict.evidence.violation_fingerprint
    if fingerprint is None or meta is None:
        raise ConfigError(f"{path} has no violation", remedy="there is nothing to make smaller")
    if violation is not None:
        fingerprint = _named(path, verdict, violation)
    planned = run.path / SCHEDULE
    schedule = read_schedule(planned) if planned.exists() else None
    spec = spec_of(meta)
    plugins = resolve(spec, list(meta.options_given or []), schedule=schedule)
    return Original(run, meta, verdict, fingerprint, plugins, spec, candidate_of(plugins))


def _named(path: Path, verdict: Verdict, violation: str) -> str:
    every = all_fingerprints(verdict)
    named = [one for one in every if violation in (one, parts_of(one).kind)]
    if not named:
        raise ConfigError(
            f"{path} has no violation {violation}", remedy=f"it has {', '.join(every)}"
        )
    return named[0]


def size_of(candidate: Candidate, op_types: frozenset[str], operations: int | None) -> Size:
    """Of a run of this candidate."""
    return Size(
        events=candidate.events,
        kinds=candidate.kinds,
        time_limit_s=candidate.time_limit_s,
        nodes=candidate.nodes,
        clients=candidate.concurrency,
        rate=candidate.rate,
        op_types=sorted(op_types - {*candidate.without}),
        operations=operations,
    )


def builds_at(spec: RunSpec) -> list[str]:
    """Where the builds are that its nodes had, as a command names them."""
    found = ((name, build_of(name)) for name in spec.builds)
    return [name if build is None else str(build.path) for name, build in found]


_FIRST: Final = (
    *("system", "workload", "schedule", "nemesis", "nodes", "time_limit_s", "concurrency", "seed"),
    *("rate", "model", "lab", "files", "checkers", "options"),
)
"""In this order: a reproducer of an older version is compared with its command."""


def argv_of(
    original: RunSpec,
    candidate: Candidate,
    schedule: str,
    plugins: str,
    builds: Sequence[str] = (),
) -> list[str]:
    """`dstest run` with all that it takes to make this run; `schedule` is the path of the faults'
    file, `plugins` of the directory with the user's own files. `builds` are those that are to be
    named: a script cannot bring them along."""
    spec = spec_for(original, candidate)
    said = {
        **msgspec.to_builtins(spec),
        "schedule": schedule if candidate.plans else None,
        "nemesis": None if candidate.plans else "none",
        "rate": None if spec.rate is None else repr(spec.rate),  # as it has always stood there
        "lab": None if spec.lab == RunSpec().lab else spec.lab,
        "files": [f"{plugins}/{Path(path).name}" for path in spec.files],
        "builds": list(builds),
    }
    return ["dstest", *run_words(said, candidate.pairs, _FIRST)]


_BODY: Final = """\
set -u
{here}times=${{1:-5}}
case $times in
    "" | 0* | *[!0-9]*)
        echo "TIMES is a whole number above 0" >&2
        exit 2
        ;;
esac
dstest=${{DSTEST:-}}
if [ -z "$dstest" ]; then
    if [ -x .venv/bin/dstest ]; then dstest=.venv/bin/dstest; else dstest=dstest; fi
fi
if ! command -v "$dstest" >/dev/null; then
    echo "no dstest here: see the top of this file" >&2
    exit 2
fi
is=$("$dstest" --version 2>/dev/null)
if [ "$is" != {version} ]; then
    echo "found by dstest {version}; this is ${{is:-none that says its version}}" >&2
fi
work=$(mktemp -d) || exit 2
{schedule}came=0
unmade=0
run=1
echo "$times runs; what they say goes to $work"
while [ "$run" -le "$times" ]; do
    said=$work/run-$run
    "$dstest" {command} {more}--store "$work/store" --json >"$said.json" 2>"$said.log"
    code=$?
    if [ "$code" -eq 1 ] && grep -qF {fingerprint} "$said.json"; then
        came=$((came + 1))
        echo "run $run: it came"
    elif [ "$code" -eq 3 ]; then
        echo "run $run: no verdict, which counts as not come (exit 3); $said.json has why"
    elif [ "$code" -eq 0 ] || [ "$code" -eq 1 ]; then
        echo "run $run: it did not come (exit $code)"
    else
        tail -n 4 "$said.log" >&2
        echo "run $run could not be made (exit $code): $said.log" >&2
        unmade=$((unmade + 1))
        why=$code
        if [ "$code" -ne 4 ]; then break; fi
    fi
    run=$((run + 1))
done
echo "reproduced in $came of $times runs; $work/store has them, each with a report.html"
if [ "$came" -gt 0 ] && [ $((came * 5)) -ge $((times * 4)) ]; then exit 0; fi
if [ "$unmade" -gt 0 ]; then exit "$why"; fi
if [ "$came" -gt 0 ]; then
    echo "before it came in {rate}: with more runs (sh repro.sh 20) the share is less by chance"
fi
exit 1
"""


def script_of(found: Reproducer, original: RunSpec, candidate: Candidate, run_s: float) -> str:
    """The whole of it: faults and command stand in the file itself. `run_s` is what a run takes."""
    builds = "".join(
        f"# MORE='--system-version PATH' with the build that it was found in: {_one_line(name)}\n"
        for name in found.builds
    )
    fixed = {"version": found.dstest, "rate": found.rate_after.said}
    head = _HEAD.format(
        **fixed,
        faults="".join(f"# Its fault {_one_line(said)}\n" for said in _faults(candidate)),
        explanation=_one_line(found.explanation or found.fingerprint),
        violation=_one_line(found.fingerprint),
        options=f"# With {_one_line(', '.join(candidate.pairs))}\n" if candidate.pairs else "",
        system=_one_line(f"{found.system} {found.system_version or ''}"),
        workload=_one_line(found.workload),
        before=found.before.events,
        after=found.after.events,
        runs=found.runs,
        minutes=max(1, round(5 * run_s / 60)),
        builds=builds,
        **(_SIMULATED if simulates(original.lab) else _ON_NODES),
    )
    argv = argv_of(original, candidate, "$work/schedule.json", f"$here/{PLUGINS}")
    return head + _BODY.format(
        **fixed,
        here='here=$(cd "$(dirname "$0")" && pwd)\n' if original.files else "",
        schedule=_here(schedule_of(candidate)) if candidate.plans else "",
        command=" ".join(map(_quoted, argv[1:])),
        more="${MORE:-} " if found.builds else "",
        # As `fingerprints` of the object on standard output has it, quotes and all.
        fingerprint=shlex.quote(_json(found.fingerprint)),
    )


_MINUTES: Final = re.compile(r"^(# Five times without TIMES, about )\d+(?= min\.)", re.MULTILINE)


def same_script(one: str, other: str) -> bool:
    """Are they the same, but for how long they say that it takes?"""
    return _MINUTES.sub(r"\1N", one, count=1) == _MINUTES.sub(r"\1N", other, count=1)


_TOLD_MAX: Final = 10


def _faults(candidate: Candidate) -> Iterator[str]:
    """Each in a few words, and no more than a reader takes in; the schedule has them all."""
    for plan in candidate.plans[:_TOLD_MAX]:
        facts = {**plan.facts}
        facts.pop("seed", None)
        told = " ".join(f"{key}={value}" for key, value in facts.items() if value not in ("", []))
        when = f"planned at {plan.start_ns / 1e9:g} s for {plan.duration_ns / 1e9:g} s"
        yield f"{plan.fault_id}: {plan.nemesis}, {when}; {told}"
    if len(candidate.plans) > _TOLD_MAX:
        yield f"is one of {len(candidate.plans)} in all"


def _quoted(word: str) -> str:
    """Paths that the script knows are filled in there."""
    place, slash, rest = word.partition("/")
    if place in ("$work", "$here") and slash:
        return f'"{place}"/{shlex.quote(rest)}'
    return shlex.quote(word)


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _here(schedule: Schedule) -> str:
    text = msgspec.json.format(msgspec.json.encode(schedule), indent=1).decode()
    return f"cat >\"$work/schedule.json\" <<'SCHEDULE'\n{text}\nSCHEDULE\n"


def _one_line(text: str) -> str:
    """Whatever it holds, it stays a comment."""
    return printable(" ".join(text.split()))[:300]
