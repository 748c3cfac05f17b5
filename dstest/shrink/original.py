"""The failing run that is to become small, as it lies in its directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from dstest.core.check import CheckResult
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.fingerprint import parts_of
from dstest.core.history import History
from dstest.core.run_meta import RunMeta
from dstest.core.spec import RunSpec
from dstest.core.verdict import Verdict
from dstest.judge.fingerprint import all_fingerprints
from dstest.judge.symptom import first_anomaly, spans_of, stood_by
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import spec_of
from dstest.runner.schedule_file import SCHEDULE, read_schedule
from dstest.shrink.candidate import Candidate
from dstest.shrink.runs import candidate_of
from dstest.store.layout import RunDir


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
        records = msgspec.convert(self.meta.records, list[LandingRecord])
        near, _ = stood_by(records, start_ns, end_ns)
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
