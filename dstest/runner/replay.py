"""Run a run again: same spec, same seed, same fault schedule; does it come to the same violation?

What is not the same is the interleaving. That is why a violation is called reproducible only after
a re-run has shown it again, and why the count of re-runs is part of the evidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import ConfigError, Exit
from dstest.core.spec import RunSpec
from dstest.core.verdict import exit_code
from dstest.runner.judgement import judge
from dstest.runner.plugins import resolve
from dstest.runner.progress import Progress
from dstest.runner.schedule_file import SCHEDULE, read_schedule
from dstest.runner.session import Finished, run_session
from dstest.store.layout import RunDir

__all__ = ["replay"]


def _spec(facts: dict[str, Any]) -> RunSpec:
    return msgspec.structs.replace(msgspec.convert(facts["spec"], RunSpec), options={})


def replay(
    path: Path, times: int, *, store: Path, lab_id: str | None = None, ui: Progress | None = None
) -> list[Finished]:
    """Run it `times` times; the last element is the original, judged again with the outcome.

    Without a violation in the original there is nothing to reproduce, and its verdict stays.
    """
    if times < 1:
        raise ConfigError(f"--times {times}: at least 1")
    run = RunDir.open(path)
    facts: dict[str, Any] | None = run.read_json("run.json")
    evidence = run.read_json("evidence.json")
    if facts is None or evidence is None:
        raise ConfigError(f"{path} was never judged", remedy=f"`dstest recover {path}` first")
    wanted = evidence["violation_fingerprint"]
    planned = run.path / SCHEDULE
    schedule = read_schedule(planned) if planned.exists() else None
    runs, reproduced = [], 0
    for _ in range(times):
        given = list(facts.get("options_given", []))
        plugins = resolve(_spec(facts), given, schedule=schedule)
        done = run_session(plugins, store=store, lab_id=lab_id, ui=ui)
        runs.append(done)
        if done.exit_code == Exit.INTERRUPTED:
            break
        found = None if done.verdict is None else done.verdict.evidence.violation_fingerprint
        reproduced += wanted is not None and found == wanted
    earlier = facts.get("rerun", {"same_seed_runs": 0, "reproduced": 0})
    if wanted is not None:
        facts["rerun"] = {
            "same_seed_runs": earlier["same_seed_runs"] + len(runs),
            "reproduced": earlier["reproduced"] + reproduced,
        }
        run.write_json("run.json", facts)
    verdict, failure = judge(run)
    run.write_status(f"verdict: {verdict.verdict.value}")
    run.write_sums()
    code = Exit.FAIL if verdict.verdict.failed else exit_code(verdict.verdict)
    if facts.get("ended_by") and code == Exit.PASS:
        code = Exit.NOT_PROVEN
    if any(done.exit_code == Exit.INTERRUPTED for done in runs):
        code = Exit.INTERRUPTED
    if any(done.exit_code == Exit.FAIL for done in runs):
        # A violation that only the re-run showed is one all the same.
        code = Exit.FAIL
    return [*runs, Finished(path=run.path, exit_code=code, verdict=verdict, failure=failure)]
