"""Run a run again: same spec, same seed, same fault schedule; does it come to the same violation?

What is not the same is the interleaving. That is why a violation is called reproducible only after
a re-run has shown it again, and why the count of re-runs is part of the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dstest.core.errors import ConfigError, Exit, Interrupted
from dstest.core.evidence import Rerun
from dstest.core.plugin_files import unchanged
from dstest.core.run_meta import RunMeta
from dstest.core.spec import RunSpec
from dstest.core.words import shell_word
from dstest.runner.integrity import code_of, verified
from dstest.runner.judgement import judge
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.progress import Progress
from dstest.runner.schedule_file import SCHEDULE, read_schedule
from dstest.runner.session import Finished, run_session
from dstest.store.layout import RunDir
from dstest.store.signing import require_key
from dstest.store.sums import SIGNATURE, SUMS


def spec_of(meta: RunMeta) -> RunSpec:
    """With the files that are in use now: those of the run, or the copies that it kept."""
    spec = msgspec.convert(meta.spec, RunSpec)
    files = unchanged(meta.plugin_files or {}) if spec.files else ()
    return msgspec.structs.replace(spec, options={}, files=files)


def still_there(plugins: Plugins, lab_id: str | None) -> str | None:
    """The run's own lab, where it stands."""
    return lab_id if lab_id and plugins.lab.status(lab_id) is not None else None


def check_times(times: int) -> None:
    """Raises ConfigError where that is not once."""
    if times < 1:
        raise ConfigError(f"--times {times}: at least 1", remedy="--times 1 is the default")


def replay(
    path: Path,
    times: int,
    *,
    store: Path,
    lab_id: str | None = None,
    ui: Progress | None = None,
    sign_key: Path | None = None,
) -> list[Finished]:
    """Run it `times` times; the last element is the original, with the outcome.

    Without a violation in the original there is nothing to reproduce, and its verdict stays: but
    the exit code is a pass only if all runs passed. Raises EvidenceError where the original's files
    are not what it left behind.
    """
    require_key(sign_key)
    check_times(times)
    run = RunDir.open(path)
    meta = run.read_meta()
    if meta is None or not (run.path / "evidence.json").exists():
        raise ConfigError(
            f"{path} was never judged", remedy=f"`dstest recover {shell_word(path)}` first"
        )
    original = verified(run)
    wanted = original.verdict.evidence.violation_fingerprint
    if wanted is not None and (run.path / SIGNATURE).exists() and sign_key is None:
        raise ConfigError(
            f"{path} is signed, and a replay adds to it", remedy="give --sign-key to sign it again"
        )
    planned = run.path / SCHEDULE
    schedule = read_schedule(planned) if planned.exists() else None
    runs, reproduced = [], 0
    for _ in range(times):
        given = list(meta.options_given or [])
        plugins = resolve(spec_of(meta), given, schedule=schedule)
        there = lab_id or still_there(plugins, meta.lab_id)
        done = run_session(plugins, store=store, lab_id=there, ui=ui, sign_key=sign_key)
        runs.append(msgspec.structs.replace(done, report=None))  # not all histories at once
        if isinstance(done.failure, Interrupted):
            break
        fingerprint = None if done.verdict is None else done.verdict.evidence.violation_fingerprint
        reproduced += wanted is not None and fingerprint == wanted
    if wanted is None:
        code = together(original.exit_code, [done.exit_code for done in runs])
        return [*runs, Finished(path=run.path, exit_code=code, verdict=original.verdict)]
    earlier = meta.rerun or Rerun()
    meta.rerun = Rerun(
        same_seed_runs=earlier.same_seed_runs + len(runs),
        reproduced=earlier.reproduced + reproduced,
        identical=_identical(meta, earlier, runs),
    )
    # Without its sums it counts as not judged yet: whatever stops us here, `recover` goes on.
    (run.path / SUMS).unlink(missing_ok=True)
    run.write_status("replayed, and not judged again yet: `dstest recover` does it")
    run.write_meta(meta)
    verdict, failure = judge(run)
    run.write_sums(sign_key)
    run.write_status(f"verdict: {verdict.verdict.value}")
    code = together(code_of(verdict, meta), [done.exit_code for done in runs])
    return [*runs, Finished(path=run.path, exit_code=code, verdict=verdict, failure=failure)]


def _identical(meta: RunMeta, earlier: Rerun, runs: Sequence[Finished]) -> int | msgspec.UnsetType:
    """How many of all re-runs are this simulation, byte for byte; unset where it is none."""
    unknown = earlier.same_seed_runs and earlier.identical is msgspec.UNSET
    if meta.transport == "network" or unknown:
        return msgspec.UNSET
    found = [RunDir.open(done.path).read_meta() for done in runs]
    same = sum(again is not None and again.digest == meta.digest for again in found)
    return same + (0 if earlier.identical is msgspec.UNSET else earlier.identical)


def together(original: int, again: Sequence[int]) -> int:
    """The exit code of a replay: a violation that only a re-run showed is one all the same, and
    runs that proved nothing make no pass."""
    codes = [original, *again]
    for code in (Exit.FAIL, Exit.INTERRUPTED, Exit.HARNESS, Exit.NOT_PROVEN):
        if code in codes:
            return code
    return max(codes)
