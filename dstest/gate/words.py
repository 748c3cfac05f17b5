"""Is a run what its words and its seed give? They are resolved again, as `dstest run` does it.

The command and the seed determine the options, the judges, the model and the whole fault schedule.
So a run whose seed was edited has the faults of another one, and one whose checker was exchanged
was judged by none that its workload has.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dstest.core.errors import DstestError
from dstest.core.spec import RunSpec
from dstest.gate.judged import JudgedRun
from dstest.runner.plugins import resolve, schedule_of
from dstest.runner.schedule_file import SCHEDULE, read_schedule


def differs(run: JudgedRun) -> Iterator[str]:
    """What is otherwise than the words of its command and its seed give, in sentences."""
    meta = run.meta
    if meta.options_given is None:
        yield "run.json does not have the options that were given"
        return
    try:
        spec = msgspec.convert(meta.spec, RunSpec)
        followed = read_schedule(run.path / SCHEDULE) if spec.schedule else None
        made = resolve(spec, meta.options_given, schedule=followed)
    except (msgspec.ValidationError, DstestError) as error:
        yield f"its command cannot be resolved: {str(error).splitlines()[0]}"
        return
    wanted, kept = (msgspec.to_builtins(one) for one in (made.spec, spec))
    for name in sorted(wanted["options"].keys() | kept["options"].keys()):
        given, found = wanted["options"].get(name), kept["options"].get(name)
        if given != found:
            yield f"option {name} is {found} in run.json, its command gives {given}"
    if made.model != meta.model:
        yield f"it was judged by {meta.model}, its command asks for {made.model}"
    judges = [checker.name for checker in made.checkers]
    if judges != meta.checkers:
        yield f"it was judged by {', '.join(meta.checkers)}, its command by {', '.join(judges)}"
    if followed is None:
        planned = msgspec.json.decode(msgspec.json.encode(schedule_of(made)))
        if planned != msgspec.json.decode((run.path / SCHEDULE).read_bytes()):
            yield f"seed {spec.seed} plans other faults than {SCHEDULE} has"
