"""`dstest spec live`: invariants held to a cluster that runs, by what its members say."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dstest.cli.output import require_writable, say, write_whole
from dstest.cli.report_targets import remove
from dstest.cli.spec_common import Constants, Given, Json, as_json
from dstest.core.errors import ConfigError, DstestError, Exit

if TYPE_CHECKING:
    from dstest.spec.live import Broken, Monitor
    from dstest.spec.model import Model
    from dstest.spec.status import Sample

EVERY_MOST_S: Final = 86_400.0


def live(
    spec: Given,
    samples: Annotated[
        Path | None,
        typer.Argument(metavar="SAMPLES", help="Recorded ones, a line of JSON each; - for stdin."),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Ask this member; may be given again."),
    ] = None,
    line: Annotated[
        str, typer.Option(metavar="TEXT", help="Of --ask: what each is asked.")
    ] = '{"op":"status"}',
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
    none could be judged, as nobody answered or the specification asks nothing of a state."""
    from dstest.core.clock import wall_ns
    from dstest.spec import Spec
    from dstest.spec.live import Monitor
    from dstest.spec.load import load

    require_writable(metrics, "--metrics")
    remove([] if metrics is None else [metrics], "--metrics", samples)
    if (samples is None) == (not ask):
        raise ConfigError("samples are recorded or asked for", remedy="SAMPLES, or --ask HOST:PORT")
    if not every <= EVERY_MOST_S:
        raise ConfigError(f"--every {every} is too long", remedy=f"{EVERY_MOST_S} s at most")
    model = load(spec, constants or ())
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
    code = Exit.FAIL if found else Exit.PASS if watching.samples else Exit.NOT_PROVEN
    raise typer.Exit(code)


def _taken(
    path: Path | None, ask: list[str], line: str, every_s: float, count: int | None
) -> Iterator[Sample]:
    from dstest.spec.status import asked, recorded

    if path is None:
        yield from asked(ask, line, every_s, count)
    elif str(path) == "-":
        yield from recorded(sys.stdin.buffer, "stdin")
    else:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", remedy="a file of samples") from None
        yield from recorded(text.split(b"\n"), str(path))


def _watched(
    model: Model, watching: Monitor, samples: Iterator[Sample], metrics: Path | None
) -> int:
    """All samples, until there are no more or Ctrl-C; how many nobody answered."""
    state, unanswered = model.initial[0], 0
    try:
        for sample in samples:
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
    from dstest.spec.wrong import place_of

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
    return watching.healthy if watching.asks else False


def _as_json(model: Model, watching: Monitor, unanswered: int, found: list[Any]) -> None:
    as_json(
        {
            "spec": model.name,
            "samples": watching.samples,
            "unanswered": unanswered,
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
    said = {True: "healthy", False: "not healthy", None: "nothing was judged"}
    say(said[_healthy(watching)])
