"""The picture of a run that goes on: lines of styled text, made of a snapshot alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from dstest.core.live import FaultNow, Live, NodeNow
from dstest.core.printable import printable

PHASES: Final = ("lab", "connect", "deploy", "load", "settle", "final", "judge")
"""Of a run that nothing stops, in their order."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.-=+*#@"
_LABEL: Final = 7
_WIDE: Final = 70
_STYLES: Final = {
    "answering": "green",
    "refusing": "yellow",
    "silent": "red",
    "landed": "magenta",
    "in doubt": "yellow",
    "not landed": "yellow",
}


def picture(now: Live, *, width: int = 80, ascii_only: bool = False) -> list[Text]:
    """Lines from the most important to those that can be cut off; `width` is how many characters
    of a line are seen."""
    lines = [_phases(now, ascii_only) if width >= _WIDE else _phase(now)]
    if now.ops.invoked:
        lines += [_time(now), _rate(now, width, ascii_only), _outcomes(now)]
    for fault in now.faults:
        lines += _fault(fault)
    for name in now.unhealed:
        lines.append(_line("fault", (f"{name}: its heal is not proven", "yellow")))
    if not now.faults and not now.unhealed and now.left_s is not None:
        lines.append(_line("fault", ("none stands", "dim")))
    if (due := now.next_fault) is not None:
        when = f"in {due.in_s:.0f} s" if due.in_s else "when the cluster has recovered"
        lines.append(_line("next", f"{due.id} {due.nemesis} {when}, {now.faults_left} to come"))
    lines += [_node(node) for node in now.nodes]
    return [Text(_rule(ascii_only) + _one_line(now.title), "dim"), *lines]


def _rule(ascii_only: bool) -> str:
    return ("--" if ascii_only else "──") + " "


def _one_line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _line(label: str, *parts: str | tuple[str, str]) -> Text:
    """Text as it is: nothing in it is markup."""
    line = Text(f"{label:{_LABEL}}", "dim")
    line.no_wrap = True
    for part in parts:
        text, style = (part, "not dim") if isinstance(part, str) else part
        line.append(_one_line(text), style if "dim" in style else f"not dim {style}")
    return line


def _phases(now: Live, ascii_only: bool) -> Text:
    done, current, coming = ("+", ">", " ") if ascii_only else ("✓", "▶", "·")
    parts: list[tuple[str, str]] = [(f"{done} {name}  ", "green") for name in now.phases[:-1]]
    if now.phases:
        parts.append((f"{current} {now.phases[-1]}  ", "bold"))
    if set(now.phases) <= set(PHASES):  # else something has ended the run early
        after = max((PHASES.index(name) for name in now.phases if name in PHASES), default=-1)
        parts += [(f"{coming} {name}  ", "dim") for name in PHASES[after + 1 :]]
    return _line("phase", *parts)


def _phase(now: Live) -> Text:
    at = now.phases[-1] if now.phases else ""
    of = f", {PHASES.index(at) + 1} of {len(PHASES)}" if at in PHASES else ""
    return _line("phase", (at, "bold"), of)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours = f"{minutes // 60}:{minutes % 60:02}" if minutes >= 60 else f"{minutes}"
    return f"{hours}:{rest:02}"


def _time(now: Live) -> Text:
    if now.left_s is None:
        return _line("time", _span(now.elapsed_s))
    left = f"{_span(now.left_s)} left" if now.left_s else "over; until the recovery is measured"
    return _line("time", f"{_span(now.elapsed_s)}, {left}")


def _rate(now: Live, width: int, ascii_only: bool) -> Text:
    rate = f"{now.rate_per_s:,.0f}  "
    room = max(1, width - _LABEL - len(rate))
    return _line("ok/s", rate, (_spark(now.rates[-room:], ascii_only), "cyan"))


def _spark(shown: Sequence[float], ascii_only: bool) -> str:
    """A character per look."""
    bars = _ASCII_BARS if ascii_only else _BARS
    most = max(shown, default=0.0)
    if not most:
        return bars[0] * len(shown)
    return "".join(bars[min(len(bars) - 1, int(rate / most * len(bars)))] for rate in shown)


def _outcomes(now: Live) -> Text:
    ops = now.ops
    under_way = max(0, ops.invoked - ops.ok - ops.fail - ops.unknown)
    return _line(
        "ops",
        f"ok {ops.ok:,}  fail {ops.fail:,}  ",
        (f"unknown {ops.unknown:,}", "yellow" if ops.unknown else ""),
        (f"  under way {under_way:,}", "dim"),
    )


def _node(node: NodeNow) -> Text:
    counts = f"  ok {node.ok:,}  fail {node.fail:,}  unknown {node.unknown:,} in 5 s"
    return _line(
        "node",
        f"{node.name:4} ",
        (f"{node.state:9}", _STYLES.get(node.state, "dim")),
        ("" if node.state == "idle" else counts, "dim"),
    )


def _fault(fault: FaultNow) -> list[Text]:
    where = f" on {', '.join(fault.on)}" if fault.on else ""
    head = _line(
        "fault",
        (f"{fault.id} {fault.nemesis}", "bold"),
        " ",
        (fault.state, _STYLES.get(fault.state, "bold")),
        f" {_span(fault.since_s)}{where}",
    )
    if (counter := fault.counter) is None:
        return [head, _line("", (fault.detail, "dim"))] if fault.detail else [head]
    age = f", {counter.age_s:.0f} s ago" if counter.age_s >= 3 else ""
    return [head, _line("", f"{counter.name}: {counter.before:,} -> {counter.now:,}{age}")]
