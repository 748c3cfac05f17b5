"""Commands of `dstest spec` for a model, or a cluster, that does not do what it should: why, knock,
drive, chart, bisect, export; and live, which holds invariants to a cluster that runs, by what its
members say."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dstest.cli.options import Json
from dstest.cli.output import require_writable, say, write_whole
from dstest.cli.report import remove
from dstest.cli.spec_common import Constants, Given, as_json, told
from dstest.core.errors import ConfigError, DstestError, Exit

if TYPE_CHECKING:
    from dstest.spec.live import Broken, Monitor, Sample
    from dstest.spec.model import Model
    from dstest.spec.mutate import Trial
    from dstest.spec.taking import Why


TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A file that `--out` of another command wrote.")
]
After = Annotated[
    Path | None,
    typer.Option(metavar="TRACE", help="In the state at its end; default: the initial ones."),
]
Events = Annotated[int | None, typer.Option(min=0, help="Only so many steps of the trace.")]


def _states(model: Model, after: Path | None, events: int | None) -> tuple[Model, list[Any]]:
    """Where to ask, and the model with the arguments that the trace brings."""
    from dstest.spec.drive import drive_along
    from dstest.spec.recorded import read_for
    from dstest.spec.trace import require_same_states

    if after is None:
        if events is not None:
            raise ConfigError("--events is of a trace", remedy="--after TRACE, or leave it out")
        return model, list(model.initial)
    model, read = read_for(model, after)
    done = drive_along(model, read.steps, events, read.start)
    require_same_states(read, done.trace.states)
    return model, [done.trace.last]


def why(
    spec: Given,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What cannot be done.")],
    after: After = None,
    events: Events = None,
    constants: Constants = None,
    seed: Annotated[int, typer.Option(help="Of the walks where states are many.")] = 0,
    max_states: Annotated[int, typer.Option(min=1, help="States to ask, at most.")] = 20_000,
    json_: Json = False,
) -> None:
    """Why an action cannot be taken: guards that do not hold, with what they compare, and guards
    that contradict one another wherever one looks.

    Exits with 0 where it can be taken, here or on a way that is shown, with 1 where guards
    contradict one another in all states that can be reached from here, and with 3 where no way was
    found and nothing was proved."""
    from dstest.spec.compose import load
    from dstest.spec.taking import why as ask

    model = load(spec, constants or ())
    model, states = _states(model, after, events)
    found = ask(model, action, states, seed=seed, most_states=max_states)
    if json_:
        from dstest.spec.trace import trace_data

        path = None if found.path is None else trace_data(model, found.path)
        as_json(
            {
                "action": found.action,
                "enabled": found.enabled,
                "refused": found.refused,
                "path": path,
                "never": found.never,
                "contradictions": found.contradictions,
                "asked": found.asked,
                "complete": found.complete,
            }
        )
    else:
        _say_why(found)
    reached = bool(found.enabled) or found.path is not None
    raise typer.Exit(Exit.PASS if reached else Exit.FAIL if found.complete else Exit.NOT_PROVEN)


def _say_why(found: Why) -> None:
    if found.enabled:
        say(f"{found.action} can be taken here, {len(found.enabled)} ways")
        return
    for row in found.refused:
        given = ", ".join(f"{name}={value}" for name, value in row.args.items())
        values = ", ".join(f"{name} is {value}" for name, value in row.operands.items())
        said = f": {row.text}" if row.text else ""
        said += f"; {values}" if values else ""
        if row.truth == "undefined":
            said += "; it goes wrong there: a guard above it does not hold either"
        say(f"{found.action}({given}): {row.guard} is {row.truth}{said}")
    if found.path is not None and found.step is not None:
        say(f"reachable: after {len(found.path.steps)} steps {found.step} can be taken")
        told(found.path)
        return
    for one in found.contradictions:
        how = "contradict one another" if one.proved else "were never seen to hold together"
        places = f" (across levels: {', '.join(one.levels)})" if one.across else ""
        say(f"{' and '.join(one.guards)} {how}{places}")
    if found.never:
        say(f"held nowhere: {', '.join(found.never)}")
    seen = "all" if found.complete else "not all"
    say(f"{found.asked} states asked, {seen} that can be reached")


def knock(
    spec: Given,
    trace: TraceFile,
    constants: Constants = None,
    json_: Json = False,
) -> None:
    """Which guards would have to go for a trace to be accepted: a smallest set.

    Exits with 0 where it is accepted as it is, with 1 where guards stand in its way, or where its
    steps lead to other states than those in the file, with 3 where it is refused even without
    guards."""
    from dstest.spec.compose import load
    from dstest.spec.recorded import read_for
    from dstest.spec.taking import knock as ask
    from dstest.spec.taking import replay
    from dstest.spec.trace import difference

    model, read = read_for(load(spec, constants or ()), trace)
    steps = (*read.steps, *read.refused[:1])
    other = difference(read, replay(model, steps, read.start).trace.states)
    if other is not None:
        if json_:
            as_json({"guards": None, "asked": 1, "difference": other})
        else:
            say(f"the trace leads to other states than it did: {other}")
        raise typer.Exit(Exit.FAIL)

    def accepts(changed: Model) -> bool:
        try:
            done = replay(changed, steps, read.start)
            return done.refused is None and difference(read, done.trace.states) is None
        except ConfigError:
            raise
        except Exception:  # an update that relies on a guard which is gone
            return False

    found = ask(model, accepts)
    if json_:
        as_json({"guards": found.guards, "asked": found.asked})
    elif found.guards is None:
        say(f"refused without any guard ({found.asked} models tried)")
    elif found.guards:
        say(f"without {', '.join(found.guards)} it is accepted ({found.asked} models tried)")
    else:
        say("accepted as it is")
    code = Exit.NOT_PROVEN if found.guards is None else Exit.FAIL if found.guards else Exit.PASS
    raise typer.Exit(code)


def drive(
    spec: Given,
    along: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="By the steps of this trace.")
    ] = None,
    events: Events = None,
    where: Annotated[
        str | None, typer.Option(metavar="EXPRESSION", help="To a state `s` of which this is true.")
    ] = None,
    constants: Constants = None,
    max_states: Annotated[int, typer.Option(min=1, help="States to look at, at most.")] = 200_000,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the way there.")] = None,
    json_: Json = False,
) -> None:
    """Bring a specification into a state, and show the way.

    Exits with 0 where it came there, with 3 where no way was found."""
    from dstest.spec.compose import load
    from dstest.spec.drive import drive_along, drive_to
    from dstest.spec.recorded import read_for
    from dstest.spec.trace import require_same_states, to_bytes, trace_data

    if (along is None) == (where is None):
        raise ConfigError("where to?", remedy="--along TRACE or --where EXPRESSION, one of them")
    if along is None and events is not None:
        raise ConfigError("--events is of a trace", remedy="--along TRACE, or leave it out")
    require_writable(out, "--out")
    model = load(spec, constants or ())
    if along is not None:
        model, read = read_for(model, along)
        done = drive_along(model, read.steps, events, read.start)
        require_same_states(read, done.trace.states)
    else:
        done = drive_to(model, _wanted(model, where or ""), most_states=max_states)
    if json_:
        trace = trace_data(model, done.trace)
        as_json({"how": done.how, "asked": done.asked, "complete": done.complete, "trace": trace})
    elif done.how == "not found":
        whole = "all" if done.complete else "the first"
        say(f"not found: {whole} {done.asked} states were looked at")
    else:
        told(done.trace)
        say(f"{done.how}, {len(done.trace.steps)} steps, {done.asked} states looked at")
    if out is not None and done.how != "not found":
        write_whole(out, to_bytes(model, done.trace), "--out")
    raise typer.Exit(Exit.NOT_PROVEN if done.how == "not found" else Exit.PASS)


def _wanted(model: Model, text: str) -> Any:
    import sys

    from dstest.spec.model import show, truth

    names = {**vars(sys.modules[type(model.spec).__module__]), "self": model.spec}

    def refused(where: str, error: Exception) -> ConfigError:
        said = (
            error.message if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        )
        return ConfigError(
            f"--where {text!r}{where}: {said}",
            remedy="an expression of Python that is true or false of each state s, as in "
            "'s.leader is None'",
        )

    try:
        code = compile(text, "--where", "eval")
    except Exception as error:
        raise refused("", error) from None

    def holds(state: Any) -> bool:
        try:
            return truth(eval(code, {**names, "s": state}), "it")
        except Exception as error:
            raise refused(f" in {show(state)}", error) from None

    holds(model.initial[0])
    return holds


def chart(
    spec: Given,
    trace: TraceFile,
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER", help="Another trace, to be held against it.")
    ] = None,
    constants: Constants = None,
    json_: Json = False,
) -> None:
    """A trace as a sequence chart (Mermaid); of two, both, with their first difference marked.

    Exits with 0, and with 1 where two traces differ."""
    from dstest.spec.compose import load
    from dstest.spec.recorded import read_for
    from dstest.spec.taking import replay
    from dstest.spec.trace import (
        arrows_of,
        lanes_of,
        require_same_states,
        side_by_side,
    )
    from dstest.spec.trace import chart as draw

    model = load(spec, constants or ())
    files = [trace] if other is None else [trace, other]
    arrows = []
    for path in files:
        model, read = read_for(model, path)
        require_same_states(read, replay(model, read.steps, read.start).trace.states)
        arrows.append(arrows_of(read.steps, lanes=lanes_of(model)))
    if other is None:
        drawn, differs_at = [draw(arrows[0], trace.name)], None
    else:
        titles = (trace.name, other.name)
        left, right, differs_at = side_by_side(arrows[0], arrows[1], titles)
        drawn = [left, right]
    if json_:
        as_json({"charts": drawn, "differs_at": differs_at})
    else:
        say("\n".join(drawn), end="")
    raise typer.Exit(Exit.PASS if differs_at is None else Exit.FAIL)


def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A commit that passes.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="A later one that fails.")],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND..", help="Run in a tree of each commit.")
    ],
    repository: Annotated[Path, typer.Option(metavar="DIR", help="Whose commits.")] = Path(),
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Longer counts as no answer.")] = 600.0,
    json_: Json = False,
) -> None:
    """The first commit under which a command fails: 0 is good, 125 no answer, up to 127 bad.

    Exits with 0 where it is one commit, with 3 where commits without an answer leave several."""
    from dstest.spec.mutate import first_bad

    def told_of(one: Trial) -> None:
        if not json_:
            say(f"{one.commit[:12]} {one.answer}")

    found = first_bad(repository, good, bad, command, timeout_s=timeout_s, on_tried=told_of)
    if json_:
        as_json(found)
    else:
        word = "first bad" if len(found.suspects) == 1 else "one of these is the first bad"
        say(f"{word}: {', '.join(c[:12] for c in found.suspects)} ({len(found.tried)} runs)")
    raise typer.Exit(Exit.PASS if len(found.suspects) == 1 else Exit.NOT_PROVEN)


def export(
    spec: Given,
    to: Annotated[str, typer.Option(metavar="LANGUAGE", help="quint, tla, or cfg for TLC.")],
    constants: Constants = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Default: stdout.")
    ] = None,
    json_: Json = False,
) -> None:
    """Write a specification as a module of Quint or TLA+.

    What has no counterpart there is refused, by name."""
    from dstest.core.near import meant
    from dstest.spec.compose import load
    from dstest.spec.export.quint import as_quint
    from dstest.spec.export.tla import as_cfg, as_tla

    ways = {"quint": as_quint, "tla": as_tla, "cfg": as_cfg}
    if to not in ways:
        raise ConfigError(f"no language {to!r} to export to", remedy=meant(to, ways))
    model = load(spec, constants or ())
    text = ways[to](model)
    if output is not None:
        write_whole(output, text.encode(), "-o")
    if json_:
        path = None if output is None else str(output)
        as_json({"spec": model.name, "language": to, "path": path, "text": text})
    elif output is None:
        say(text, end="")


EVERY_MOST_S: Final = 86_400.0

Addresses = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="Ask this member: HOST:PORT (a line of JSON over TCP), http://.., https://.., "
        "postgresql://..; may be given again.",
    ),
]


def live(
    spec: Given,
    samples: Annotated[
        Path | None,
        typer.Argument(metavar="SAMPLES", help="Recorded ones, a line of JSON each; - for stdin."),
    ] = None,
    ask: Addresses = None,
    line: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Of --ask: what each is asked, the query of SQL, what is posted over HTTP. "
            """Default: {"op":"status"} over TCP, GET over HTTP.""",
        ),
    ] = None,
    every: Annotated[float, typer.Option(min=0.05, help="Of --ask: seconds between two.")] = 1.0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Of --ask: samples. Default: until Ctrl-C.")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Counters and health for Prometheus, after each sample."),
    ] = None,
    constants: Constants = None,
    json_: Json = False,
) -> None:
    """Invariants of a specification held to what the members of a cluster say of themselves: asked
    now, or recorded. Each violation is told at once.

    Exits with 0 where each sample satisfied all of them, with 1 where one did not, and with 3 where
    none could be judged, as nobody answered or the specification asks nothing of a state, and where
    a member answered never: of it nothing is known."""
    from dstest.core.clock import wall_ns
    from dstest.spec import Spec
    from dstest.spec.compose import load
    from dstest.spec.live import Monitor

    require_writable(metrics, "--metrics")
    remove([] if metrics is None else [metrics], "--metrics", samples)
    if (samples is None) == (not ask):
        raise ConfigError("samples are recorded or asked for", remedy="SAMPLES, or --ask HOST:PORT")
    if not every <= EVERY_MOST_S:
        raise ConfigError(f"--every {every} is too long", remedy=f"{EVERY_MOST_S} s at most")
    model = load(spec, constants or (), actions=False)
    found = list[Any]()

    def tell(broken: Broken) -> None:
        found.append({"sample": watching.samples, "id": broken.id, "state": broken.sample})
        if not json_:
            why = f" ({broken.error})" if broken.error else ""
            say(f"sample {watching.samples}: {broken.id} does not hold: {broken.text}{why}")
            say(f"  {broken.sample}")

    watching = Monitor(model, wall_ns, tell)
    unanswered = 0
    if watching.asks:
        taken = _taken(samples, ask or [], line, every, count)
        unanswered = _watched(model, watching, taken, metrics)
    else:
        if type(model.spec).sampled is Spec.sampled:
            model.spec.sampled(model.initial[0], {})  # which says what is missing
        watching.unanswered()
        _write(watching, metrics)
    (_as_json if json_ else _print)(model, watching, unanswered, found)
    shown = watching.samples and not watching.silent
    raise typer.Exit(Exit.FAIL if found else Exit.PASS if shown else Exit.NOT_PROVEN)


def _taken(
    path: Path | None, ask: list[str], line: str | None, every_s: float, count: int | None
) -> Iterator[Sample]:
    from dstest.spec.ask import sample_servers
    from dstest.spec.live import read_samples

    if path is None:
        yield from sample_servers(ask, line, every_s, count)
    elif str(path) == "-":
        yield from read_samples(sys.stdin.buffer, "stdin")
    else:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", remedy="a file of samples") from None
        yield from read_samples(text.split(b"\n"), str(path))


def _watched(
    model: Model, watching: Monitor, samples: Iterator[Sample], metrics: Path | None
) -> int:
    """All samples, until there are no more or Ctrl-C; how many nobody answered."""
    state, unanswered = model.initial[0], 0
    try:
        for sample in samples:
            watching.heard(sample)
            if all(answer is None for answer in sample.values()):
                unanswered += 1
                watching.unanswered()
            else:
                state = _state(model, state, sample)
                watching.sample(state)
            _write(watching, metrics)
    except DstestError:
        watching.unanswered()
        _write(watching, metrics)
        raise
    except KeyboardInterrupt:
        say("")
    return unanswered


def _state(model: Model, before: Any, sample: Sample) -> Any:
    """What the specification makes of a sample. Raises ConfigError where that is nothing."""
    from dstest.spec.declare import place_of

    try:
        return model.spec.sampled(before, sample)
    except ConfigError:
        raise
    except Exception as error:  # of whoever wrote the specification, or of what was answered
        raise ConfigError(
            f"{model.name}: a sample is no state: {type(error).__name__}: {error}, at"
            f" {place_of(error) or 'no line of its own'}",
            remedy=f"what it wants of each: {inspect.getsourcefile(type(model.spec).sampled)}",
        ) from None


def _write(watching: Monitor, metrics: Path | None) -> None:
    if metrics is not None:
        write_whole(metrics, "\n".join([*watching.metrics(), ""]).encode(), "--metrics")


def _healthy(watching: Monitor) -> bool | None:
    if watching.healthy and watching.silent:
        return None
    return watching.healthy if watching.asks else False


def _as_json(model: Model, watching: Monitor, unanswered: int, found: list[Any]) -> None:
    as_json(
        {
            "spec": model.name,
            "samples": watching.samples,
            "unanswered": unanswered,
            "never_answered": watching.silent,
            "healthy": _healthy(watching),
            "invariants": watching.counts,
            "broken": found,
        }
    )


def _print(model: Model, watching: Monitor, unanswered: int, found: list[Any]) -> None:
    left = f", {unanswered} that nobody answered" if unanswered else ""
    say(f"{watching.samples} samples{left}")
    for one in model.invariants:
        count = watching.counts.get(one.id)
        if count is not None:
            say(f"{one.id:8} {count.passed:>9} held {count.failed:>6} not: {one.text}")
    if not watching.asks:
        say(f"{model.name} has no invariant of states: it asks nothing of a sample")
    if watching.silent:
        say(f"never answered: {', '.join(watching.silent)}: nothing is known of what was not asked")
    said = {True: "healthy", False: "not healthy", None: "nothing was judged"}
    say(said[_healthy(watching)])
